/* SPDX-License-Identifier: MIT
 *
 * Starts the library, and intercepts every end at which code can still run: exit, _exit,
 * quick_exit, exec. Owns the moment of the report and what the ledger records of the end. Must
 * not change how the process ends unless GPULEAK_EXITCODE requests it.
 */
#include <alloca.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/base/library_directory.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/config.h"
#include "interpose/dispatch/api.h"
#include "interpose/process/reporter.h"
#include "interpose/process/service_thread.h"
#include "interpose/dispatch/loader.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/write_observations.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/export.h"
#include "interpose/process/follow.h"
#include "interpose/process/start.h"
#include "ledger/clock.h"
#include "ledger/shared.h"

static _Atomic int quick_status = -1;
static _Atomic bool reported;

static void note_end(struct recorder *recorder, enum ledger_ended how, int status)
{
	if (recorder_now()) { /* not if recording stopped: a thread left its work half done */
		if (recorder_ending(recorder) == ENDING_NOT)
			reporter_settle(recorder);
		apis_publish_pool();
		observations_write(recorder);
	}
	recorder->header->end_mono_ns = clock_ns(CLOCK_MONOTONIC);
	recorder->header->status = status & 0xff;
	shared_publish(recorder->header->ended, how);
}

struct process_end {
	struct recorder *recorder;
	enum ledger_ended how;
	int status;
	bool failed;
};

static void note_bypass(void *unused)
{
	(void)unused;
	process_note_bypass();
}

static void note_and_report(void *data)
{
	struct process_end *ending = data;

	if (ending->recorder)
		note_end(ending->recorder, ending->how, ending->status);
	ending->failed = ending->recorder ? reporter_at_exit(ending->recorder)
					  : reporter_unrecorded();
}

/* Call at the last moment of the process. Returns the status to end with. */
static int end(enum ledger_ended how, int status)
{
	struct process_end ending = { recorder_of_process(), how, status, false };

	if (!ending.recorder && !recorder_failure()) {
		if (process_is_of_run())
			aside(note_bypass, NULL);
		return status;
	}
	if (atomic_exchange(&reported, true))
		return status;
	aside(note_and_report, &ending);
	if (ending.failed && config.exitcode && (status & 0xff) == 0)
		return (int)config.exitcode;
	return status;
}

/* Found by the constructor. A forked child that only calls _exit or exec must not call the
 * loader: another thread of its parent may have held the loader's lock. */
static void (*real__exit)(int);
static void (*real_quick_exit)(int);

static void __attribute__((noreturn)) leave(int status)
{
	if (real__exit)
		real__exit(status);
	for (;;)
		syscall(SYS_exit_group, status);
}

/* Runs after every destructor of every library, see ends_finish(). */
static void at_very_end(int status, void *unused)
{
	int wanted = end(LEDGER_EXIT, status);

	(void)unused;
	if (wanted == status)
		return;
	fflush(NULL); /* what libc would still have done */
	leave(wanted);
}

/* Registers at_very_end() with the libc whose exit() ends the process. In a namespace of its own
 * (dlmopen, OPENCL_LAYERS) gpuleak has another libc, whose handlers never run. */
static int at_exit_of_process(void)
{
	int (*real)(void (*)(int, void *), void *) =
		(int (*)(void (*)(int, void *), void *))resolve_of_program("on_exit");

	return (real ? real : on_exit)(at_very_end, NULL);
}

/* Takes the verdict, and registers at_very_end() to run after all destructors. Other libraries'
 * destructors run after this one, and may free memory. All destructors run inside one handler of
 * exit(), and exit() calls a handler that was registered meanwhile when that handler has returned.
 * It also passes the exit status. */
__attribute__((destructor)) static void ends_finish(void)
{
	int status = atomic_load(&quick_status);

	verdict_take(ENDING_DESTRUCTORS);
	if ((recorder_of_process() || recorder_failure() || process_is_of_run()) &&
	    at_exit_of_process() != 0)
		at_very_end(status < 0 ? 0 : status, NULL);
}

static void at_quick_exit_end(void)
{
	int status = atomic_load(&quick_status);
	int wanted = end(LEDGER_EXIT, status < 0 ? 0 : status);

	if (status >= 0 && wanted != status)
		leave(wanted);
}

/* ---- the exported ends ---- */

EXPORT void quick_exit(int status)
{
	atomic_store(&quick_status, status & 0xff);
	if (real_quick_exit)
		real_quick_exit(status);
	leave(status);
}

EXPORT void _exit(int status)
{
	leave(end(LEDGER__EXIT, status));
}

EXPORT void _Exit(int status)
{
	leave(end(LEDGER__EXIT, status));
}

struct replacing {
	const char *file;
	enum program_search search;
	bool noted;
};

static void note_exec(void *data)
{
	struct replacing *replacing = data;

	if (!program_file_runs(replacing->file, replacing->search))
		return;
	if (!recorder_of_process()) {
		reporter_unrecorded();
		return;
	}
	replacing->noted = true;
	note_end(recorder_last(), LEDGER_EXEC, 0);
	if (strcmp(config.report, "none") != 0)
		reporter_at_exit(recorder_last());
}

/* exec replaces the process: blocks that are live then are lost, so exec counts as the end of the
 * process. The file is checked first, so that an exec that must fail is not recorded as an end. If
 * exec fails nevertheless, the process continues and reports again at its real end. */
static bool before_exec(const char *file, enum program_search search)
{
	struct replacing replacing = { file, search, false };

	if ((recorder_of_process() || recorder_failure()) && !atomic_load(&reported))
		aside(note_exec, &replacing);
	return replacing.noted;
}

static void exec_failed(bool noted)
{
	struct recorder *recorder = recorder_last();

	if (!noted || !recorder)
		return;
	shared_publish(recorder->header->ended, LEDGER_RUNNING);
	/* The report removed the file: what follows is recorded in memory. */
	if (strcmp(config.report, "none") != 0 && !config.ledger[0])
		recorder->writer.memory_only = true;
}

static int exec_is_missing(void)
{
	errno = ENOSYS;
	return -1;
}

static int exec_returned(bool noted, int r)
{
	exec_failed(noted);
	return r;
}

/* Defines NAME. It calls FOLLOWED, with the environment that `gpuleak run` wants instead of
 * ENVIRONMENT. It calls the real NAME if both are the same, or if the kernel allows no larger
 * environment. */
#define EXEC(name, parameters, arguments, environment, followed_call, file, search) \
	static int(*real_##name) parameters;                                        \
	EXPORT int name parameters                                                  \
	{                                                                           \
		char **followed;                                                    \
		bool noted;                                                         \
		int r = -1;                                                         \
		if (!real_##name)                                                   \
			return exec_is_missing();                                   \
		followed = FOLLOW(environment, file, search);                       \
		noted = before_exec(file, search);                                  \
		process_count_started(1);                                           \
		if (followed)                                                       \
			r = real_##followed_call;                                   \
		if (!followed || errno == E2BIG)                                    \
			r = real_##name arguments;                                  \
		process_count_started(-1);                                          \
		return exec_returned(noted, r);                                     \
	}

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), envp,
     execve(path, argv, followed), path, PROGRAM_AT_PATH)
EXEC(execv, (const char *path, char *const argv[]), (path, argv), environ,
     execve(path, argv, followed), path, PROGRAM_AT_PATH)
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp), envp,
     execvpe(file, argv, followed), file, PROGRAM_IN_PATH)
EXEC(execvp, (const char *file, char *const argv[]), (file, argv), environ,
     execvpe(file, argv, followed), file, PROGRAM_IN_PATH)
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp), envp,
     fexecve(fd, argv, followed), NULL, PROGRAM_UNKNOWN)
EXEC(execveat, (int directory, const char *path, char *const argv[], char *const envp[], int flags),
     (directory, path, argv, envp, flags), envp,
     execveat(directory, path, argv, followed, flags), NULL, PROGRAM_UNKNOWN)

/* For the variadic functions: makes an array of their arguments. */
static size_t count_arguments(va_list *list)
{
	size_t count = 1;

	while (va_arg(*list, char *))
		count++;
	return count;
}

static void fill_arguments(char **argv, const char *first, size_t count, va_list *list)
{
	argv[0] = (char *)(uintptr_t)first;
	for (size_t i = 1; i <= count; i++)
		argv[i] = va_arg(*list, char *);
}

/* The NULL is the last that is read of `list`. A macro, since alloca() takes the caller's frame. */
#define GATHER(argv, first)                                                         \
	va_list list, again;                                                        \
	size_t count;                                                               \
	va_start(list, first);                                                      \
	va_start(again, first);                                                     \
	count = count_arguments(&list);                                             \
	argv = alloca((count + 1) * sizeof(*argv));                                 \
	fill_arguments(argv, first, count, &again);                                 \
	va_end(again)

EXPORT int execl(const char *path, const char *arg, ...)
{
	char **argv;

	GATHER(argv, arg);
	va_end(list);
	return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	char **argv;

	GATHER(argv, arg);
	va_end(list);
	return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	char **argv, **envp;

	GATHER(argv, arg);
	envp = va_arg(list, char **);
	va_end(list);
	return execve(path, argv, envp);
}

/* ---- start ---- */

__attribute__((constructor)) static void ends_begin(void)
{
	lookup_start();
	library_directory();
	process_start();
	follow_start();
	apis_libraries_changed();
#define FIND(name) *(void **)&real_##name = resolve_next(#name)
	FIND(_exit);
	FIND(quick_exit);
	FIND(execve);
	FIND(execv);
	FIND(execvp);
	FIND(execvpe);
	FIND(fexecve);
	FIND(execveat);
#undef FIND
	at_quick_exit(at_quick_exit_end); /* registered first, so it is called last */
	process_has_recorder = service_thread_start;
	if (recorder_now()) /* by a constructor that ran before this one */
		service_thread_start(recorder_now());
}
