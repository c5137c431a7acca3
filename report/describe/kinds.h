/* SPDX-License-Identifier: MIT
 *
 * Words for the kinds of memory and of objects. kinds.def lists all kinds.
 */
#ifndef GPULEAK_REPORT_KINDS_H
#define GPULEAK_REPORT_KINDS_H

#include "report/util/lines.h"

/* Returns the words for KIND ("pinned host memory" for "pinned"), or KIND itself if it is unknown.
 * */
const char *kind_words(const char *kind);

/* Checks that NAME is a kind of memory. No block has another name, so a rule with another name
 * would have no effect. Returns 0, or -EINVAL with a message that lists the kinds. */
int kind_check(const struct lines *file, struct line_part name);

#endif
