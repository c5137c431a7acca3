/* SPDX-License-Identifier: MIT
 *
 * Looks at everything that a library inside it could disturb: children and their signal,
 * errno, the signal mask, descriptors, closed standard streams. Prints what it sees, which
 * must be the same with and without the library.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

enum { BLOCKS = 50000 };

static volatile sig_atomic_t children_seen;

static void on_child(int number)
{
	(void)number;
	children_seen++;
}

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @leak */
}

/* Through exit, while destructors and reports run, in a thread that no exit() stops. */
static void *reaper(void *pipe_end)
{
	const char found[] = "found a child\n";

	for (;;) {
		if (waitpid(-1, NULL, 0) > 0 &&
		    write((int)(size_t)pipe_end, found, sizeof(found) - 1) < 0)
			break;
		usleep(200);
	}
	return NULL;
}

static void watch_children(void)
{
	struct sigaction action = { .sa_handler = on_child };
	pthread_t thread;

	sigaction(SIGCHLD, &action, NULL);
	pthread_create(&thread, NULL, reaper, (void *)1);
	begin();
	leak(100); /* @children */
	printf("SIGCHLD so far: %d\n", (int)children_seen);
}

__attribute__((destructor)) static void count_signals(void)
{
	if (children_seen)
		printf("SIGCHLD: %d\n", (int)children_seen);
}

static void look_at_state(void)
{
	CUdeviceptr address;
	sigset_t before, after;
	int kept = 0, changed = 0;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = 77;
	begin();
	kept += errno == 77;
	for (int i = 0; i < 1000; i++) {
		errno = i;
		cuMemAlloc_v2(&address, 100);
		kept += errno == i;
		cuMemFree_v2(address);
		kept += errno == i;
	}
	errno = 5;
	cuMemFree_v2(0x1234000); /* @foreign */
	kept += errno == 5;
	sigemptyset(&after);
	sigprocmask(SIG_SETMASK, NULL, &after);
	for (int i = 1; i < NSIG; i++)
		changed += sigismember(&before, i) != sigismember(&after, i);
	printf("errno kept %d times, mask %s\n", kept, changed ? "changed" : "kept");
}

/* What a daemon does: all descriptors closed, and its own file at the number that a
 * library may have thought was its own. */
static void close_all(const char *path)
{
	static char expected[65536], got[65536];
	int files[8], same = 0;

	begin();
	leak(100); /* @one */
	closefrom(3);
	memset(expected, 'x', sizeof(expected));
	for (int i = 0; i < 8; i++) {
		files[i] = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
		unlink(path);
		if (write(files[i], expected, sizeof(expected)) != sizeof(expected))
			perror(path);
	}
	for (int i = 0; i < BLOCKS; i++)
		leak(10); /* @many */
	for (int i = 0; i < 8; i++)
		same += lseek(files[i], 0, SEEK_END) == sizeof(expected) &&
			pread(files[i], got, sizeof(got), 0) == sizeof(got) &&
			memcmp(expected, got, sizeof(got)) == 0;
	printf("%d files unharmed\n", same);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "children") == 0) {
		watch_children(); /* @main_children */
	} else if (strcmp(what, "state") == 0) {
		look_at_state(); /* @main_state */
	} else if (strcmp(what, "closed") == 0) {
		close(0);
		close(1);
		close(2);
		begin();
		leak(100); /* @closed */
		return 3;
	} else if (strcmp(what, "unprivileged") == 0) {
		begin();
		leak(100); /* @privileged */
		if (setgid(65534) < 0 || setuid(65534) < 0)
			perror("setuid");
		leak(10); /* @unprivileged */
	} else if (strcmp(what, "elsewhere") == 0) {
		begin();
		leak(100); /* @elsewhere */
		if (chdir("/"))
			perror("/");
		clearenv();
	} else if (argc > 2) {
		close_all(argv[2]); /* @main_files */
	}
	fflush(stdout);
	return 0;
}
