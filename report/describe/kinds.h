/* SPDX-License-Identifier: MIT
 *
 * The kinds of memory and of objects, and their words. The rows of each API and its hand-written
 * wrappers give each block its kind; all are listed here.
 */
#ifndef GPULEAK_REPORT_KINDS_H
#define GPULEAK_REPORT_KINDS_H

#include "report/util/lines.h"

/* Returns the words for KIND: "pinned host memory" for "pinned". KIND itself if it is unknown. */
const char *kind_words(const char *kind);

/* Checks that NAME is a kind of memory: no block of another name is ever there, so a rule about
 * it would allow or forbid nothing. 0, or -EINVAL with an error that lists the kinds. */
int kind_check(const struct lines *file, struct line_part name);

#endif
