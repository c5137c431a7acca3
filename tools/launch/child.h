/* SPDX-License-Identifier: MIT
 *
 * Starts the command of `gpuleak run`, forwards signals to it, and reaps it and its orphaned
 * descendants. Must not know ledgers.
 */
#ifndef GPULEAK_TOOLS_CHILD_H
#define GPULEAK_TOOLS_CHILD_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct child_end { /* one process that was reaped */
	pid_t pid;
	int status; /* as wait gives it */
	unsigned long long start_ticks;
};

struct child {
	pid_t pid;
	int ended;
	int status;             /* as wait gives it; valid once ended */
	int stopped;            /* a signal requested the end while only orphans were left */
	struct child_end *ends; /* everything that was reaped */
	size_t end_count, end_room;
	sigset_t mask_before;
	struct sigaction chld_before;
};

/* Starts ARGV[0]. In the child PREPARE(DATA) is called before exec. 0, or -errno: nothing
 * runs then (the errno of exec included). From here on signals are blocked. */
int child_start(struct child *child, char **argv, void (*prepare)(void *data), void *data);

/* Waits until the command has ended, handing signals on. */
void child_wait(struct child *child);

/* The same for at most MS. 1 once the command has ended. */
int child_wait_for(struct child *child, long long ms);

/* Reaps what there is to reap for up to TIMEOUT_MS. 0 when no descendant is left. */
int child_reap(struct child *child, int timeout_ms);

/* How process PID of that start ended: 1 and its wait status, or 0 if it was not ours. */
int child_end_of(const struct child *child, pid_t pid, unsigned long long start_ticks,
		 int *ret_status);

/* The command's exit status as a shell would give it. */
int child_exit_status(const struct child *child);

/* Restores the actions of signals. Signals that came meanwhile were for the command, and are
 * dropped if it has ended. */
void child_release_signals(struct child *child);

void child_finish(struct child *child);

#endif
