/* SPDX-License-Identifier: MIT
 *
 * Decides whether a free is an error, and records it. Takes locks of shards, so the caller holds
 * none. The caller has entered the recorder, except for free_error_after_release().
 */
#pragma once

#include "interpose/block/block_types.h"

/* Records the error of a free that the driver refused, and whose address or handle has no live
 * block in the table. */
void free_error_judge(struct recorder *recorder, const struct call *call,
		      const struct freeing *freeing, int result);
/* The same for a call that the driver refused because the current context is destroyed. The driver
 * did not look at the block, so an error is recorded only if the block ended with its context. */
void free_error_judge_late(struct recorder *recorder, const struct call *call,
			   const struct freeing *freeing, int result);
/* The driver refused CALL for BLOCK, a copy of the block that was put back. Records an error
 * if the call was for another kind. Returns true if the reason is unknown. */
bool free_error_refused(struct recorder *recorder, const struct call *call,
			const struct freeing *freeing, const struct ledger_block *block,
			enum outcome outcome, int result);
/* Records the error of HOOK's call, which the driver refused because of a live block that MISUSE
 * names. */
void free_error_misused(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, const struct misuse *misuse, int result);
/* Call these before and after the driver's call that releases a handle. An error that does not
 * depend on the driver's answer is recorded before the call and kept in FREEING->error, because the
 * driver may crash. The second function completes or retracts the record, by the driver's
 * answer. */
void free_error_before_release(struct recorder *recorder, const struct call *call,
			       struct freeing *freeing);
void free_error_after_release(const struct hook *hook, struct freeing *freeing,
			      enum outcome outcome, int result);
