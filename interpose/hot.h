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

#endif
