/* SPDX-License-Identifier: MIT
 *
 * Live bytes over time by kind of memory and device. Nothing is counted for it where blocks
 * are made and freed: at some moments all blocks of the ledger are looked at.
 */
#ifndef GPULEAK_TIMELINE_H
#define GPULEAK_TIMELINE_H

#include <stdint.h>

struct recorder;

/* Looks if it is time to, by the thread that is at it anyway; never waits. */
void timeline_look(struct recorder *recorder, uint64_t now_ns);

#endif
