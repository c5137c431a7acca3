/* SPDX-License-Identifier: MIT
 *
 * Process and signal handling of `gpuleak run`. It blocks all signals that it handles before the
 * fork, and receives them with sigtimedwait(). So no signal is lost between fork and wait, and
 * there is no signal handler. Must not touch stdin, stdout or stderr.
 */
#include "tools/launch/child.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "tools/launch/system.h"

/* Fills in the set of the signals that this file receives. All except SIGCHLD are forwarded. */
static void choose_signals(sigset_t *ret)
{
	static const int numbers[] = { SIGCHLD, SIGINT, SIGQUIT, SIGTERM,
				       SIGHUP, SIGUSR1, SIGUSR2 };

	sigemptyset(ret);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaddset(ret, numbers[i]);
}

/* Runs in the child: restores signals and limits, then calls exec. If exec fails, sends its errno
 * through the pipe. */
__attribute__((noreturn))
static void become(const struct child *child, char **argv, int pipe_fd,
		   void (*prepare)(void *data), void *data)
{
	int e;

	prepare(data);
	sigaction(SIGCHLD, &child->chld_before, NULL);
	sigprocmask(SIG_SETMASK, &child->mask_before, NULL);
	execvp(argv[0], argv);
	e = errno;
	while (write(pipe_fd, &e, sizeof(e)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* Returns 0 if exec succeeded, which closes the pipe, or -errno. */
static int exec_result(int pipe_fd)
{
	int e = 0;
	ssize_t n;

	do
		n = read(pipe_fd, &e, sizeof(e));
	while (n < 0 && errno == EINTR);
	close(pipe_fd);
	return n == (ssize_t)sizeof(e) ? -e : 0;
}

static int start_failed(struct child *child, int r)
{
	child_release_signals(child);
	child_finish(child);
	return r;
}

int child_start(struct child *child, char **argv, void (*prepare)(void *data), void *data)
{
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	int pipe_fds[2], r;

	memset(child, 0, sizeof(*child));
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	/* If a process ignores SIGCHLD, the kernel does not store the exit status of its children.
	 * */
	sigaction(SIGCHLD, &usual, &child->chld_before);
	choose_signals(&child->signals);
	sigprocmask(SIG_BLOCK, &child->signals, &child->mask_before);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	child->pid = fork();
	if (child->pid < 0) {
		r = -errno;
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		return start_failed(child, r);
	}
	if (child->pid == 0)
		become(child, argv, pipe_fds[1], prepare, data);
	close(pipe_fds[1]);
	r = exec_result(pipe_fds[0]);
	if (r == 0)
		return 0;
	waitpid(child->pid, NULL, 0);
	return start_failed(child, r);
}

static void note_end(struct child *child, const struct child_end *end)
{
	if (end->pid == child->pid && !child->ended) {
		child->ended = true;
		child->status = end->status;
	}
	*LIST_ADD(child->ends, child->end_count) = *end;
}

/* Reaps all ended children. Inspects each child before it reaps it, because the kernel may reuse
 * the pid afterwards. Returns 0 if no child is left. */
static int reap_dead(struct child *child)
{
	for (;;) {
		struct child_end end = { 0 };
		siginfo_t info = { .si_pid = 0 };

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
			return errno != ECHILD;
		if (info.si_pid == 0)
			return 1;
		end.pid = info.si_pid;
		end.start_ticks = process_start_ticks(end.pid);
		if (waitpid(end.pid, &end.status, WNOHANG) == end.pid)
			note_end(child, &end);
	}
}

/* Forwards a signal to the command. The terminal has already sent its signals to the whole process
 * group, so the command needs them only if it left the group. */
static void hand_on(struct child *child, const siginfo_t *info)
{
	if (child->ended) {
		child->stopped = true;
		return;
	}
	if (info->si_code == SI_KERNEL && getpgid(child->pid) == getpgrp())
		return;
	kill(child->pid, info->si_signo);
}

/* Handles a signal, or waits for MS milliseconds. Then looks at the processes that run. */
static void take_signal(struct child *child, long long ms)
{
	const struct timespec timeout = { .tv_sec = (time_t)(ms / 1000),
					  .tv_nsec = (long)(ms % 1000) * 1000000L };
	siginfo_t info;
	int number = sigtimedwait(&child->signals, &info, &timeout);

	if (number > 0 && number != SIGCHLD)
		hand_on(child, &info);
	if (child->look)
		child->look(child->look_data, number == SIGCHLD);
}

/* The longest time between two calls of take_signal(). Without a function that looks, it only
 * matters if another program (a debugger, a sandbox) consumes SIGCHLD. */
static long long longest_wait_ms(const struct child *child)
{
	return child->look ? 100 : 1000;
}

void child_wait(struct child *child)
{
	while (reap_dead(child) && !child->ended)
		take_signal(child, longest_wait_ms(child));
}

bool child_wait_for(struct child *child, long long ms)
{
	long long due = clock_ms() + ms, left;

	while (reap_dead(child) && !child->ended && (left = due - clock_ms()) > 0) {
		const long long longest = longest_wait_ms(child);

		take_signal(child, left < longest ? left : longest);
	}
	return child->ended;
}

int child_reap(struct child *child, int timeout_ms)
{
	reap_dead(child);
	if (timeout_ms > 0)
		take_signal(child, timeout_ms);
	return reap_dead(child);
}

bool child_end_of(const struct child *child, pid_t pid, unsigned long long start_ticks,
		  int *ret_status)
{
	for (size_t i = child->end_count; i-- > 0;) {
		const struct child_end *end = &child->ends[i];

		if (end->pid != pid || (end->start_ticks && end->start_ticks != start_ticks))
			continue;
		*ret_status = end->status;
		return true;
	}
	return false;
}

int child_exit_status(const struct child *child)
{
	if (WIFSIGNALED(child->status))
		return 128 + WTERMSIG(child->status);
	return WEXITSTATUS(child->status);
}

void child_release_signals(struct child *child)
{
	const struct timespec now = { 0 };

	while (child->ended && sigtimedwait(&child->signals, NULL, &now) > 0)
		;
	sigaction(SIGCHLD, &child->chld_before, NULL);
	sigprocmask(SIG_SETMASK, &child->mask_before, NULL);
}

void child_finish(struct child *child)
{
	free(child->ends);
	child->ends = NULL;
	child->end_count = 0;
}
