/* SPDX-License-Identifier: MIT
 *
 * Starts the command of `gpuleak run`, forwards signals to it, and reaps it and its orphaned
 * descendants. Must not depend on ledgers. Not thread-safe.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child_end { /* one process that was reaped */
	pid_t pid;
	int status; /* as wait() returns it */
	unsigned long long start_ticks;
};

struct child {
	pid_t pid;
	bool ended;
	int status;             /* as wait() returns it; valid if `ended` is set */
	bool stopped;            /* a signal requested the end while only orphans were running */
	struct child_end *ends; /* all reaped processes */
	size_t end_count;
	/* Called with DATA after each signal and at least every 100 ms, before ended children are
	 * reaped; NULL: not. ENDED is true if a child has ended. */
	void (*look)(void *data, bool ended);
	void *look_data;
	sigset_t signals; /* those that are received, and forwarded except for SIGCHLD */
	sigset_t mask_before;
	struct sigaction chld_before;
};

/* Starts ARGV[0]. The child calls PREPARE(DATA) before exec. Blocks signals from now on. Returns 0.
 * On error, also of exec, returns -errno, and no child runs. */
int child_start(struct child *child, char **argv, void (*prepare)(void *data), void *data);

/* Waits until the command has ended, and forwards signals to it. */
void child_wait(struct child *child);

/* Does the same for at most MS milliseconds. Returns true if the command has ended. */
bool child_wait_for(struct child *child, long long ms);

/* Reaps ended descendants for up to TIMEOUT_MS milliseconds. Returns 0 if no descendant is left. */
int child_reap(struct child *child, int timeout_ms);

/* Finds the reaped process PID with this start. Returns true with its wait status in *RET_STATUS,
 * or false if this command did not reap it. */
bool child_end_of(const struct child *child, pid_t pid, unsigned long long start_ticks,
		  int *ret_status);

/* Returns the command's exit status as a shell would. */
int child_exit_status(const struct child *child);

/* Restores the signal actions. Signals that arrived meanwhile were for the command. If it has
 * ended, they are discarded. */
void child_release_signals(struct child *child);

void child_finish(struct child *child);
