/* SPDX-License-Identifier: MIT
 *
 * Stores what the stand-in driver reports in the ledger's header. The driver may report before the
 * ledger exists, and while it is created: so each side first stores its own value, and then reads
 * the other side's.
 */
#include "interpose/recorder/write_observations.h"

#include <stdatomic.h>

#include "interpose/base/export.h"
#include "interpose/recorder/recorder.h"
#include "ledger/no_gpu.h"
#include "ledger/shared.h"

static _Atomic uint32_t known;

EXPORT ledger_no_gpu_fn gpuleak_no_gpu;

void no_gpu_write(struct recorder *recorder)
{
	atomic_fetch_or(&SHARED(recorder->header->no_gpu), atomic_load(&known));
}

EXPORT void gpuleak_no_gpu(unsigned int flags)
{
	struct recorder *recorder;

	atomic_fetch_or(&known, flags);
	recorder = recorder_now();
	if (recorder)
		no_gpu_write(recorder);
}
