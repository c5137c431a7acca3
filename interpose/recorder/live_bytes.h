/* SPDX-License-Identifier: MIT
 *
 * Returns the live bytes of all threads and their peaks, for reports and for steps. Each recorded
 * allocation and free changes them, with functions of thread_state_hot.h.
 */
#ifndef GPULEAK_LIVE_BYTES_H
#define GPULEAK_LIVE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

struct ledger_site;
struct recorder;

/* Returns the live bytes of all threads together. */
int64_t live_bytes_total(struct recorder *recorder);
/* Returns the largest number of bytes that were live at one moment since the last call with
 * RESTART, or since the start. RESTART: starts a new measurement. */
uint64_t live_bytes_peak(struct recorder *recorder, bool restart);
/* From now on stores in *AT the largest number of bytes that are live at one moment, unless *AT is
 * larger. AT is a field of the ledger. Ends the measurement that the previous call began. AT NULL:
 * only ends it. */
void live_bytes_watch_peak(struct recorder *recorder, uint64_t *at);
/* Updates the peaks before a report. */
void live_bytes_settle_peak(struct recorder *recorder);
/* Moves BYTES from what the call site FROM has live to the call site TO: another block owns the
 * memory now. */
void live_bytes_move(struct ledger_site *from, struct ledger_site *to, uint64_t bytes);

#endif
