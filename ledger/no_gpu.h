/* SPDX-License-Identifier: MIT
 *
 * What a process without a GPU did. The stand-in driver reports it to the library, and the library
 * writes it into the ledger's header. Must not include anything: standin/ includes it, too.
 */
#pragma once

enum ledger_no_gpu {
	LEDGER_NO_GPU = 1,                /* the stand-in driver was initialized: no GPU */
	LEDGER_NO_GPU_FAKE_KERNELS = 2,   /* --fake-kernels: what the program computes is invalid */
	LEDGER_NO_GPU_LAUNCH_REFUSED = 4, /* a kernel launch failed */
	LEDGER_NO_GPU_LAUNCH_SKIPPED = 8, /* a kernel launch succeeded and did nothing */
	LEDGER_NO_GPU_REAL_RUNTIME = 16,  /* NVIDIA's runtime called the driver; it cannot work */
};

/* The library's function for the driver. It may be called at any time, also before there is a
 * ledger. Not for applications. */
#define LEDGER_NO_GPU_CALLBACK "gpuleak_no_gpu"
typedef void ledger_no_gpu_fn(unsigned int flags);
