/* SPDX-License-Identifier: MIT
 *
 * The suspects of one process that `gpuleak run --every` has printed, so that each is printed once,
 * and then only what changed. Not thread-safe.
 */
#ifndef GPULEAK_TOOLS_TOLD_SUSPECTS_H
#define GPULEAK_TOOLS_TOLD_SUSPECTS_H

#include <stdio.h>

struct live;
struct told_suspect;

struct told_suspects { /* starts as { 0 } */
	struct told_suspect *first;
};

/* Prints to OUT what changed since the last call: new suspects, suspects that grow at least twice
 * as fast as printed or at most half as fast, and those that do not grow any more. */
void told_suspects_update(struct told_suspects *told, const struct live *live, FILE *out);
void told_suspects_finish(struct told_suspects *told);

#endif
