/* SPDX-License-Identifier: MIT
 *
 * The text of gpuleak.rules, put into the command when it is built (see embed_rules.py), so that
 * there is no file to be found or to be of another version.
 */
#ifndef GPULEAK_REPORT_RULES_TEXT_H
#define GPULEAK_REPORT_RULES_TEXT_H

#include <stddef.h>

extern const char rules_text[];
extern const size_t rules_text_length;

#endif
