/* SPDX-License-Identifier: MIT
 *
 * Checks in /proc if the process of a ledger still runs.
 */
#ifndef GPULEAK_REPORT_ALIVE_H
#define GPULEAK_REPORT_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

/* 1 if the process PID that started at START_TICKS on HOST (NULL: this one) still runs:
 * not one that took over its number, not a zombie. */
bool process_alive(int pid, uint64_t start_ticks, const char *host);

#endif
