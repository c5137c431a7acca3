/* SPDX-License-Identifier: MIT
 *
 * Records live bytes over time by kind of memory and device. Allocations and frees count nothing
 * for it. Instead, all call sites in the ledger are added up from time to time.
 */
#ifndef GPULEAK_TIMELINE_H
#define GPULEAK_TIMELINE_H

#include <stdint.h>

struct recorder;

/* Records a moment if one is due; the calling thread does the work. Never waits. */
void timeline_look(struct recorder *recorder, uint64_t now_ns);

#endif
