/* SPDX-License-Identifier: MIT
 *
 * Checks in /proc if the process of a ledger still runs. Any thread may call it.
 */
#ifndef GPULEAK_REPORT_ALIVE_H
#define GPULEAK_REPORT_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if the process PID that started at START_TICKS still runs on this host. Returns
 * false for a zombie, for another process that reused the pid, and if HOST is another host (NULL:
 * this host). */
bool process_alive(int pid, uint64_t start_ticks, const char *host);

#endif
