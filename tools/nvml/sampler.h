/* SPDX-License-Identifier: MIT
 *
 * Samples the device memory of running processes in a separate process: if the driver never
 * answers, only the sampler hangs. The results are in shared memory.
 */
#ifndef GPULEAK_TOOLS_SAMPLER_H
#define GPULEAK_TOOLS_SAMPLER_H

#include <stddef.h>
#include <sys/types.h>

struct report_process;
struct sampler_shared;

struct sampler { /* starts as { 0 }: nothing was sampled */
	pid_t pid;   /* 0: there is none */
	int link;    /* to it: its end is seen here, ours there */
	int forever; /* it runs until sampler_finish() */
	struct sampler_shared *shared;
};

/* Samples every process with a ledger in DIRECTORY repeatedly until sampler_finish(). Costs the
 * caller only a fork. 0 or -errno. */
int sampler_start(struct sampler *sampler, const char *directory);

/* Samples the running processes of the COUNT ledgers at PATHS once. */
int sampler_start_once(struct sampler *sampler, const char *const *paths, size_t count);

/* Ends repeated sampling, or waits for one sample, for at most WAIT_MS. May be called again. */
void sampler_finish(struct sampler *sampler, int wait_ms);

/* Hands over what was sampled of PROCESS; after sampler_finish(). 0 or -ENOMEM. */
int sampler_attach(const struct sampler *sampler, struct report_process *process);

#endif
