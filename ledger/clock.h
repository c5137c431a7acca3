/* SPDX-License-Identifier: MIT
 *
 * Reads a clock as a number of nanoseconds. Any thread and signal handlers may call it.
 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Returns the time of CLOCK in nanoseconds. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
