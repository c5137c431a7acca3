/* SPDX-License-Identifier: MIT
 *
 * Attributes for the functions that each pair of calls, an allocation and its free, executes for
 * linear memory: some thirty functions in a dozen files. Calling them would cost about twenty
 * instructions for each. HOT functions are inlined wherever they are called, so they have few
 * callers, and move rare work to COLD functions.
 */
#pragma once

#define HOT inline __attribute__((always_inline))
#define COLD __attribute__((noinline, cold))

/* For functions that such a pair of calls executes, but that are not inlined. The linker puts them
 * side by side. They begin at a cache line, so that their speed does not depend on the size of the
 * code before them: two threads needed 131 ns for a pair at one place, 105 ns at another. */
#define HOT_CALL __attribute__((hot, aligned(64)))

/* A variable that nearly every call reads and that is rarely written. All of them share one or
 * two cache lines. Scattered, they would touch a dozen lines on a dozen pages. */
#define READ_BY_ALL __attribute__((section("gpuleak_read_by_all")))

/* Prefetches the line at AT, which will be written soon. AT may be any address. */
#define SOON_WRITTEN(at) __builtin_prefetch((at), 1)
