/* SPDX-License-Identifier: MIT
 *
 * With BENCH_RANGE in the environment, the calling thread enters a range of gpuleak, if it is
 * loaded. Without it, a bench makes no range.
 */
#ifndef GPULEAK_BENCH_RANGE_H
#define GPULEAK_BENCH_RANGE_H

#include <dlfcn.h>
#include <stdlib.h>

static inline void bench_range(void)
{
	void (*begin)(const char *) = NULL;

	if (!getenv("BENCH_RANGE"))
		return;
	*(void **)&begin = dlsym(RTLD_DEFAULT, "gpuleak_range_begin");
	if (begin)
		begin("serve");
}

#endif
