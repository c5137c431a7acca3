/* SPDX-License-Identifier: MIT
 *
 * What the stand-in driver of `gpuleak run --fake-gpu` reports of itself. Kept for a ledger that is
 * created later. Thread-safe, and without locks.
 */
#ifndef GPULEAK_NO_GPU_REPORT_H
#define GPULEAK_NO_GPU_REPORT_H

struct recorder;

/* Writes what is known into the ledger of RECORDER, which was just published. */
void no_gpu_write(struct recorder *recorder);

#endif
