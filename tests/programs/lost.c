/* SPDX-License-Identifier: MIT
 *
 * Gives up what its ledger needs, as the words say, and then loses one block: `nobody`,
 * `chroot DIR`, `tmpfs DIR` (mounts an empty one there, for itself alone), `fill FILE` (until
 * the file system is full), `space KIB` (so much address space is left), `end KIB` (the same when
 * the block is lost), `files BYTES`
 * (RLIMIT_FSIZE), `open N` (RLIMIT_NOFILE), `take KIB` (maps and keeps so much memory),
 * `close` (every descriptor but stdout and stderr), `scribble SEED` (over all shared memory of
 * this process), `interrupt` (fallocate() fails as if a signal came), `exec` (starts itself anew
 * with the words that follow), `begin` (the first GPU call, now), `idle` (ends without one).
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cu.h"

static void check(int r, const char *what)
{
	if (r == 0)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void limit(int which, rlim_t value)
{
	const struct rlimit both = { value, value };

	check(setrlimit(which, &both), "setrlimit");
}

static void leave_space(long kib)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	check(!file || fscanf(file, "%ld", &pages) != 1, "statm");
	fclose(file);
	limit(RLIMIT_AS, (rlim_t)(pages * sysconf(_SC_PAGESIZE) + kib * 1024));
}

static void fill(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	char page[4096] = { 1 };

	check(fd < 0, path);
	while (write(fd, page, sizeof(page)) > 0)
		;
	close(fd);
}

static void scribble(unsigned int seed)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned char *start, *end;
	char line[512];

	check(!maps, "maps");
	srand(seed);
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/SYSV") ||
		    sscanf(line, "%p-%p", (void **)&start, (void **)&end) != 2)
			continue;
		/* Zeros, ones, anything; over everything, or one byte in a hundred. */
		for (; start < end; start++)
			if (seed % 2 == 0 || rand() % 100 == 0)
				*start = seed % 4 == 0 ? (unsigned char)(seed / 4 * 255)
						       : (unsigned char)rand();
		puts("scribbled");
	}
	fclose(maps);
}

/* Lets the kernel return EINTR for each fallocate(), as on tmpfs when signals never stop. */
static void interrupt_fallocate(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINTR),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "PR_SET_SECCOMP");
}

static void give_up(const char *word, const char *value)
{
	if (strcmp(word, "nobody") == 0) {
		check(setgroups(0, NULL) || setgid(65534) || setuid(65534), "setuid");
	} else if (strcmp(word, "close") == 0) {
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	} else if (strcmp(word, "interrupt") == 0) {
		interrupt_fallocate();
	} else if (strcmp(word, "chroot") == 0) {
		check(chroot(value) || chdir("/"), value);
	} else if (strcmp(word, "tmpfs") == 0) {
		check(unshare(CLONE_NEWNS) ||
		      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		      mount("none", value, "tmpfs", 0, NULL), value);
	} else if (strcmp(word, "fill") == 0) {
		fill(value);
	} else if (strcmp(word, "space") == 0) {
		leave_space(atol(value));
	} else if (strcmp(word, "take") == 0) {
		check(mmap(NULL, (size_t)atol(value) * 1024, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED, "take");
	} else if (strcmp(word, "files") == 0) {
		limit(RLIMIT_FSIZE, (rlim_t)atol(value));
	} else if (strcmp(word, "open") == 0) {
		limit(RLIMIT_NOFILE, (rlim_t)atol(value));
	} else if (strcmp(word, "scribble") == 0) {
		scribble((unsigned int)atol(value));
	} else {
		errno = EINVAL;
		check(-1, word);
	}
}

static int is_alone(const char *word)
{
	return strcmp(word, "nobody") == 0 || strcmp(word, "close") == 0 ||
	       strcmp(word, "interrupt") == 0;
}

int main(int argc, char **argv)
{
	CUdeviceptr address;
	long at_end = -1;
	int begun = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "exec") == 0) {
			argv[i] = argv[0];
			execv(argv[0], argv + i);
			check(-1, argv[0]);
		} else if (strcmp(argv[i], "idle") == 0) {
			puts("idle");
			return 0;
		} else if (strcmp(argv[i], "begin") == 0) {
			begin();
			begun = 1;
		} else if (strcmp(argv[i], "end") == 0) {
			at_end = atol(argv[++i]);
		} else {
			give_up(argv[i], argv[i + 1]);
			i += !is_alone(argv[i]);
		}
	}
	if (!begun)
		begin();
	must(cuMemAlloc_v2(&address, 100), "cuMemAlloc"); /* @leak */
	puts("lost");
	fflush(stdout);
	if (at_end >= 0)
		leave_space(at_end);
	return 0;
}
