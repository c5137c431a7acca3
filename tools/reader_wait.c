/* SPDX-License-Identifier: MIT
 *
 * Limits how long an application that ends waits for the reader of its report. Owns the stream
 * stderr of `gpuleak report --at-exit` and the timer of the process. Must not set O_NONBLOCK: the
 * application and other processes share that flag.
 */
#include "tools/reader_wait.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "ledger/clock.h"
#include "report/util/output.h"
#include "tools/launch/system.h"

#define WAIT_S 2
#define TICK_US 50000

static struct {
	FILE *held; /* lines for stderr, until the verdict is known */
	char *lines;
	size_t length;
	int status;
	uint64_t due_ns; /* 0: nothing was written yet */
} reader_wait;

static ssize_t write_line(void *cookie, const char *text, size_t length)
{
	char error[256];

	(void)cookie;
	if (reader_wait.held)
		fwrite(text, 1, length, reader_wait.held);
	else
		output_write_fd(STDERR_FILENO, "stderr", text, length, error, sizeof(error));
	return (ssize_t)length;
}

void reader_wait_hold_lines(void)
{
	const cookie_io_functions_t functions = { .write = write_line };
	FILE *lines = fopencookie(NULL, "w", functions);

	reader_wait.held = open_memstream(&reader_wait.lines, &reader_wait.length);
	if (!lines)
		return;
	setvbuf(lines, NULL, _IOLBF, BUFSIZ);
	stderr = lines;
}

/* Closes all descriptors except FD. A reader of another pipe of the application must see that the
 * application has ended. */
static void close_all_but(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; standard++)
		if (standard != fd)
			dup2(null, standard);
	close_others(fd);
}

/* A regular file needs no reader. */
static bool has_reader(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Has no work: each signal ends a write() or poll() that waits. */
static void tick(int number)
{
	(void)number;
}

static void start_timer(void)
{
	const struct sigaction action = { .sa_handler = tick };
	const struct itimerval timer = { .it_value = { .tv_sec = WAIT_S },
					 .it_interval = { .tv_usec = TICK_US } };

	reader_wait.due_ns = clock_ns(CLOCK_MONOTONIC) + WAIT_S * 1000000000ull;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Lets a child continue if the time is over. It begins with the first output, because no reader
 * delays the work before. The user may interrupt another program of the terminal, such as the pager
 * that reads the report, so the child ignores that. */
static void continue_alone(int fd)
{
	if (!has_reader(fd))
		return;
	if (!reader_wait.due_ns)
		start_timer();
	if (clock_ns(CLOCK_MONOTONIC) < reader_wait.due_ns)
		return;
	if (fork() != 0)
		_exit(reader_wait.status);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	close_all_but(fd);
	output_waits = NULL;
}

void reader_wait_release_lines(void)
{
	FILE *held = reader_wait.held;

	reader_wait.held = NULL;
	if (!held)
		return;
	fclose(held);
	write_line(NULL, reader_wait.lines, reader_wait.length);
	free(reader_wait.lines);
}

void reader_wait_limit(int status)
{
	reader_wait.status = status;
	output_waits = continue_alone;
	output_stall_ms = -1;
	reader_wait_release_lines();
}
