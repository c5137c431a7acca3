/* SPDX-License-Identifier: MIT
 *
 * Two processes, one exporting memory by IPC round after round, out of blocks that a pool may have
 * handed out before; the other maps each and looks at every word, then writes its answer there.
 * Also whether the export of a block at an address used before has a handle of its own.
 * Prints "rounds N, same handles N, wrong words N"; status 1 if any is wrong. Links libcuda alone.
 *
 * pool_ipc [ROUNDS]        pool_ipc import: the other one, on pipes 0 and 1
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 1000003, BYTES = WORDS * 4, BEFORE = 6, ROUNDS_MAX = 1000 };
extern char **environ;

struct message {
	CUipcMemHandle handle;
	uint32_t value, answer;
	uint32_t over;
};

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%d: %s answered %d\n", (int)getpid(), what, result);
	exit(1);
}

static void must_have(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%d: %s failed\n", (int)getpid(), what);
	exit(1);
}

static void begin(void)
{
	CUcontext context;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static unsigned long wrong_words(CUdeviceptr p, uint32_t value)
{
	static uint32_t words[WORDS];
	unsigned long ret = 0;

	must(cuMemcpyDtoH(words, p, BYTES), "cuMemcpyDtoH");
	for (int i = 0; i < WORDS; i++)
		ret += words[i] != value;
	return ret;
}

/* Its own blocks of the same size come and go meanwhile: none may be what it maps. */
static int import(int in, int out)
{
	struct message message;

	begin();
	while (read(in, &message, sizeof(message)) == sizeof(message) && !message.over) {
		CUdeviceptr p, own;
		unsigned long wrong;

		must(cuIpcOpenMemHandle(&p, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		     "cuIpcOpenMemHandle");
		must(cuMemAlloc(&own, BYTES), "cuMemAlloc");
		must(cuMemsetD32(own, 0xdead, WORDS), "cuMemsetD32");
		wrong = wrong_words(p, message.value);
		must(cuMemsetD32(p, message.answer, WORDS), "cuMemsetD32");
		must(cuCtxSynchronize(), "cuCtxSynchronize");
		must(cuMemFree(own), "cuMemFree");
		must(cuIpcCloseMemHandle(p), "cuIpcCloseMemHandle");
		must_have(write(out, &wrong, sizeof(wrong)) == sizeof(wrong), "write");
	}
	return 0;
}

static pid_t start(const char *self, int *to, int *from)
{
	posix_spawn_file_actions_t actions;
	char name[] = "import", *const args[] = { (char *)(uintptr_t)self, name, NULL };
	int down[2], up[2];
	pid_t child;

	must_have(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0, "pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, down[0], 0);
	posix_spawn_file_actions_adddup2(&actions, up[1], 1);
	must_have(posix_spawn(&child, "/proc/self/exe", &actions, NULL, args, environ) == 0,
		  "posix_spawn");
	close(down[0]);
	close(up[1]);
	*to = down[1];
	*from = up[0];
	return child;
}

/* Blocks were used and freed before, so that a pool has some; the export is of one of them. */
static unsigned long round_of(int to, int from, uint32_t value, CUipcMemHandle *ret_handle)
{
	struct message message = { .value = value, .answer = ~value };
	CUdeviceptr before[BEFORE], p, after;
	unsigned long wrong;

	for (int i = 0; i < BEFORE; i++) {
		must(cuMemAlloc(&before[i], BYTES), "cuMemAlloc");
		must(cuMemsetD32(before[i], 0xbad, WORDS), "cuMemsetD32");
	}
	for (int i = 0; i < BEFORE; i++)
		must(cuMemFree(before[i]), "cuMemFree");
	must(cuMemAlloc(&p, BYTES), "cuMemAlloc");
	must(cuMemsetD32(p, value, WORDS), "cuMemsetD32");
	must(cuCtxSynchronize(), "cuCtxSynchronize");
	must(cuIpcGetMemHandle(&message.handle, p), "cuIpcGetMemHandle");
	*ret_handle = message.handle;
	must_have(write(to, &message, sizeof(message)) == sizeof(message), "write");
	must_have(read(from, &wrong, sizeof(wrong)) == sizeof(wrong), "the other process");
	wrong += wrong_words(p, ~value);
	must(cuMemFree(p), "cuMemFree");
	must(cuMemAlloc(&after, BYTES), "cuMemAlloc");
	must(cuMemsetD32(after, 0xbad, WORDS), "cuMemsetD32");
	must(cuMemFree(after), "cuMemFree");
	return wrong;
}

int main(int argc, char **argv)
{
	static CUipcMemHandle handles[ROUNDS_MAX];
	int rounds = argc > 1 ? atoi(argv[1]) : 20, to, from, status, same = 0;
	struct message last = { .over = 1 };
	unsigned long wrong = 0;
	pid_t child;

	if (argc > 1 && strcmp(argv[1], "import") == 0)
		return import(0, 1);
	if (rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	child = start(argv[0], &to, &from);
	begin();
	for (int i = 0; i < rounds; i++) {
		wrong += round_of(to, from, 0x1000000u + (uint32_t)i, &handles[i]);
		for (int j = 0; j < i; j++)
			same += memcmp(&handles[i], &handles[j], sizeof(handles[i])) == 0;
	}
	must_have(write(to, &last, sizeof(last)) == sizeof(last), "write");
	must_have(waitpid(child, &status, 0) == child && status == 0, "the other process");
	printf("rounds %d, same handles %d, wrong words %lu\n", rounds, same, wrong);
	return same || wrong;
}
