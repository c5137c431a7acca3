/* SPDX-License-Identifier: MIT
 *
 * Looks at the processes below this command while they run: which of them run without gpuleak, and
 * which of those have loaded a GPU driver. Reads only /proc. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DESCENDANT_NAME_MAX 64

struct descendant {
	int pid;
	uint64_t start_ticks;
	char name[DESCENDANT_NAME_MAX];   /* file name of the program */
	char driver[DESCENDANT_NAME_MAX]; /* file name of the driver that it has loaded; "": none */
};

struct descendants { /* starts as { 0 } */
	/* Pid of the command if gpuleak cannot be loaded into it, which was reported before. */
	int deaf_pid;
	struct process_seen *seen; /* all processes of the last look, by pid */
	size_t seen_count;
	struct descendant *found; /* those that have a driver and not gpuleak, in their order */
	size_t found_count;
	/* Number of programs without gpuleak that were looked at, and that a program with gpuleak
	 * started. */
	long looked;
	long long next_ms; /* when the next look is due */
};

/* Looks at all processes below this one. If NOW is not set, does so only if the last look was 100
 * ms ago, or longer if a look takes much time. */
void descendants_look(struct descendants *descendants, bool now);

/* Stores an array of the processes below this one that run, as of the last look, in *RET. Returns
 * their number. The caller frees the array. */
size_t descendants_running(const struct descendants *descendants, struct descendant **ret);

void descendants_finish(struct descendants *descendants);
