/* SPDX-License-Identifier: MIT
 *
 * Growth from step to step in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_GROWTH_H
#define GPULEAK_REPORT_TEXT_GROWTH_H

#include <stdio.h>

struct report_process;
struct report_suspect;

/* Prints one line per suspect. If there are none, or if there are too few steps to find any, prints
 * one line about that. Prints nothing if no step was marked. */
void text_growth(FILE *out, const struct report_process *process);

/* Prints "1.0 MiB per step (60.0 MiB per hour)". */
void text_suspect_rate(FILE *out, const struct report_suspect *suspect);

#endif
