/* SPDX-License-Identifier: MIT
 *
 * One child process, one pipe, one deadline. The child is a process group of its own, so that a
 * child of the child is killed, too.
 */
#include "tools/doctor/probe.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "tools/launch/system.h"

#define BYTES_MAX (256u << 10)
#define LOOK_MS 1

struct probe_work {
	void (*function)(FILE *out, void *data);
	void *data;
	char *const *argv;
	const char *preload;
};

/* Prepares the child: no core file, no input, default signals, and OUT as its standard output. */
static void become_child(int out)
{
	static const int numbers[] = { SIGBUS, SIGXFSZ, SIGPIPE };
	const struct rlimit none = { 0, 0 };
	int null = open("/dev/null", O_RDWR);

	setpgid(0, 0);
	setrlimit(RLIMIT_CORE, &none);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], SIG_DFL);
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
}

static _Noreturn void run_child(const struct probe_work *work, int out)
{
	FILE *to;

	become_child(out);
	if (work->argv) {
		dup2(STDOUT_FILENO, STDERR_FILENO);
		if (work->preload)
			setenv("LD_PRELOAD", work->preload, 1);
		else
			unsetenv("LD_PRELOAD");
		execvp(work->argv[0], work->argv);
		_exit(127);
	}
	/* A library may print to standard output when it is loaded. The pipe is for FUNCTION. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	to = fdopen(out, "w");
	if (!to)
		_exit(1);
	work->function(to, work->data);
	_exit(fflush(to) == 0 ? 0 : 1);
}

/* Reads until the end of the pipe or the deadline. Returns false at the deadline. */
static bool read_until(int fd, long long deadline, struct probe *ret)
{
	char waste[4096];

	for (;;) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		long long left = deadline - clock_ms();
		size_t room = BYTES_MAX - ret->length;
		ssize_t n;

		if (left <= 0)
			return false;
		n = poll(&wait, 1, (int)left);
		if (n == 0 || (n < 0 && errno == EINTR))
			continue;
		n = room ? read(fd, ret->text + ret->length, room)
			 : read(fd, waste, sizeof(waste));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return true;
		if (room)
			ret->length += (size_t)n;
	}
}

/* Waits for the end of PID, and does not reap it. Returns false at the deadline. */
static bool wait_until(pid_t pid, long long deadline)
{
	const struct timespec pause = { 0, LOOK_MS * 1000000L };

	for (;;) {
		siginfo_t info = { 0 };

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    info.si_pid == pid)
			return true;
		if (clock_ms() >= deadline)
			return false;
		nanosleep(&pause, NULL);
	}
}

static int run(const struct probe_work *work, int seconds, struct probe *ret)
{
	long long deadline = clock_ms() + seconds * 1000LL;
	int pipe_ends[2], r;
	pid_t pid;

	*ret = (struct probe){ .text = calloc(1, BYTES_MAX + 1) };
	fflush(NULL); /* the child must not print what is buffered here */
	pid = pipe2(pipe_ends, O_CLOEXEC) < 0 ? -1 : fork();
	if (pid == 0)
		run_child(work, pipe_ends[1]);
	if (pid < 0)
		return -errno;
	close(pipe_ends[1]);
	r = read_until(pipe_ends[0], deadline, ret) && wait_until(pid, deadline) ? 0 : -ETIMEDOUT;
	/* Kill before the child is reaped, because its pid may be reused afterwards. Kill the child
	 * itself, too: it may not have its process group yet. */
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while (waitpid(pid, &ret->status, 0) < 0 && errno == EINTR)
		;
	close(pipe_ends[0]);
	if (r < 0)
		ret->length = 0;
	ret->text[ret->length] = '\0';
	return r;
}

int probe_call(void (*function)(FILE *out, void *data), void *data, int seconds,
	       struct probe *ret)
{
	const struct probe_work work = { .function = function, .data = data };

	return run(&work, seconds, ret);
}

int probe_command(char *const argv[], const char *preload, int seconds, struct probe *ret)
{
	const struct probe_work work = { .argv = argv, .preload = preload };

	return run(&work, seconds, ret);
}

static void load_library(FILE *out, void *name)
{
	if (!dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
		const char *error = dlerror();

		fputs(error ? error : "it cannot be loaded", out);
	}
}

int probe_library(const char *name, int seconds, struct probe *ret)
{
	return probe_call(load_library, (void *)name, seconds, ret);
}

int probe_succeeded(const struct probe *probe)
{
	return WIFEXITED(probe->status) && WEXITSTATUS(probe->status) == 0;
}

void probe_finish(struct probe *probe)
{
	free(probe->text);
}

const char *probe_load_advice(const char *usual)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return usual;
	return "raise the limit on address space first (ulimit -v): it may be the reason";
}
