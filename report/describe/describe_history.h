/* SPDX-License-Identifier: MIT
 *
 * The references of a leaked handle in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_HISTORY_H
#define GPULEAK_REPORT_TEXT_HISTORY_H

#include <stdint.h>
#include <stdio.h>

struct report_history;

/* Of one of BLOCKS blocks that were allocated at the stack just printed; nothing for NULL. */
void text_history(FILE *out, const struct report_history *history, uint64_t blocks);

#endif
