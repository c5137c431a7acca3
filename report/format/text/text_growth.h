/* SPDX-License-Identifier: MIT
 *
 * What keeps growing, in words.
 */
#ifndef GPULEAK_REPORT_TEXT_GROWTH_H
#define GPULEAK_REPORT_TEXT_GROWTH_H

#include <stdio.h>

struct report_process;
struct report_suspect;

/* One line a suspect, or one that there is none, or too few steps; nothing without steps. */
void text_growth(FILE *out, const struct report_process *process);

/* "1.0 MiB per step (60.0 MiB per hour)" */
void text_suspect_rate(FILE *out, const struct report_suspect *suspect);

#endif
