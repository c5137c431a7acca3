/* SPDX-License-Identifier: MIT
 *
 * Samples how much device memory processes hold while they live, in a process of its own:
 * the driver is asked from outside the program, and if it never answers only the sampler
 * hangs. What it finds lies in memory that both share.
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
	int forever; /* it goes on until told */
	struct sampler_shared *shared;
};

/* Samples every process with a ledger in DIRECTORY, over and over until sampler_finish().
 * Costs the caller nothing but a fork. 0 or -errno. */
int sampler_start(struct sampler *sampler, const char *directory);

/* Samples the living processes whose ledgers are the COUNT at PATHS, once. */
int sampler_start_once(struct sampler *sampler, const char *const *paths, size_t count);

/* Ends the sampling, or waits until it was done once: at most WAIT_MS, then it is left
 * behind. May be called again. */
void sampler_finish(struct sampler *sampler, int wait_ms);

/* Hands over what was sampled of PROCESS; after sampler_finish(). 0 or -ENOMEM. */
int sampler_attach(const struct sampler *sampler, struct report_process *process);

#endif
