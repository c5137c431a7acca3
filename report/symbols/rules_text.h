/* SPDX-License-Identifier: MIT
 *
 * The text of gpuleak.rules. The build compiles it into the command (see embed_rules.py), so the
 * command cannot find a wrong version of the file.
 */
#ifndef GPULEAK_REPORT_RULES_TEXT_H
#define GPULEAK_REPORT_RULES_TEXT_H

#include <stddef.h>

extern const char rules_text[];
extern const size_t rules_text_length;

#endif
