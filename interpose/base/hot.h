/* SPDX-License-Identifier: MIT
 *
 * For the functions that a pair of calls on linear memory passes through: some thirty, in a dozen
 * files, of which each costs twenty instructions by being called. HOT ones are inlined wherever
 * they are called, so they have few callers and leave what is rare to COLD ones.
 */
#ifndef GPULEAK_HOT_H
#define GPULEAK_HOT_H

#define HOT inline __attribute__((always_inline))
#define COLD __attribute__((noinline, cold))

/* What such a pair calls nevertheless: the linker puts these side by side. */
#define HOT_CALL __attribute__((hot))

/* A variable that nearly every call reads and hardly any writes: all of them in one or two cache
 * lines of their own. Strewn about they are a dozen, in as many pages. */
#define READ_BY_ALL __attribute__((section("gpuleak_read_by_all")))

/* The line at AT will be written soon: it is fetched meanwhile. Any address will do. */
#define SOON_WRITTEN(at) __builtin_prefetch((at), 1)

#endif
