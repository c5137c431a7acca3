/* SPDX-License-Identifier: MIT
 *
 * Decides for which call sites the number of live blocks is counted, so that the report can find
 * those whose blocks accumulate. Call sites of suballocations are not decided here.
 */
#ifndef GPULEAK_LIVE_SITES_H
#define GPULEAK_LIVE_SITES_H

#include <stdbool.h>
#include <stdint.h>

struct hook;
struct recorder;

/* Returns true if the live blocks of a new call site of HOOK are counted. STACK is the ref of its
 * stack. Then the counting of live blocks is on from now on. */
bool site_counts_live(struct recorder *recorder, const struct hook *hook, uint32_t stack);

#endif
