/* SPDX-License-Identifier: MIT
 *
 * Compiles a function at run time that calls leak(), as a JIT compiler does: its code has no unwind
 * table, but a frame pointer. The argument says which map of its names it writes: "none", "map",
 * "reused": another function had the address before, or "old": one that is older than the process.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cu.h"

/* Calls its argument. */
#if defined(__x86_64__)
static const unsigned char code[] = {
	0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
	0xff, 0xd7,             /* call *%rdi */
	0x5d, 0xc3,             /* pop %rbp; ret */
};
#elif defined(__aarch64__)
static const unsigned int code[] = {
	0xa9bf7bfd, 0x910003fd, /* stp x29, x30, [sp, #-16]!; mov x29, sp */
	0xd63f0000,             /* blr x0 */
	0xa8c17bfd, 0xd65f03c0, /* ldp x29, x30, [sp], #16; ret */
};
#endif

static void leak(void)
{
	CUdeviceptr block;

	must(cuMemAlloc_v2(&block, 5000), "cuMemAlloc_v2");
}

static void write_map(const char *mode, const void *at)
{
	const struct timespec old[2] = { { 0, UTIME_OMIT }, { 1, 0 } };
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path); /* an earlier process had the same pid */
	if (strcmp(mode, "none") == 0)
		return;
	file = fopen(path, "w");
	if (!file)
		exit(1);
	if (strcmp(mode, "reused") == 0)
		fprintf(file, "%lx 100 JS:~before /app/a.js:1:1\n", (unsigned long)at);
	fprintf(file, "%lx %zx JS:*step /app/a.js:30:7\n", (unsigned long)at, sizeof(code));
	fclose(file);
	if (strcmp(mode, "old") == 0 && utimensat(AT_FDCWD, path, old, 0) < 0)
		exit(1);
}

int main(int argc, char **argv)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (argc < 2 || at == MAP_FAILED)
		return 1;
	memcpy(at, code, sizeof(code));
	__builtin___clear_cache(at, (char *)at + sizeof(code));
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC) < 0)
		return 1;
	begin();
	write_map(argv[1], at);
	((void (*)(void (*)(void)))at)(leak);
	puts("worked");
	return 0;
}
