/* SPDX-License-Identifier: MIT
 *
 * Two processes over IPC, one program: it starts itself as the exporter, opens what that
 * gives, closes one and loses one. The bytes are the exporter's, counted once: here they are
 * mappings of none. Each process says what the report on it must say.
 *
 * ipc                 ipc export: the exporter, on pipes 0 and 1
 */
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { HANDLES = 3 };
static const size_t sizes[HANDLES] = { 3000001, 3000002, 3000003 };

static NOINLINE void *make_exported(size_t bytes)
{
	void *address;

	MUST(cudaMalloc(&address, bytes));
	expect_made(bytes);
	return address;
}

/* Two are freed when the other process is done, one is lost. */
static int exporter(int in, int out)
{
	void *address[HANDLES];
	char done;

	for (int i = 0; i < HANDLES; i++) {
		cudaIpcMemHandle_t handle;

		address[i] = make_exported(sizes[i]);
		MUST(cudaIpcGetMemHandle(&handle, address[i]));
		if (write(out, &handle, sizeof(handle)) != sizeof(handle))
			return 1;
	}
	if (read(in, &done, 1) != 1)
		return 1;
	for (int i = 1; i < HANDLES; i++) {
		MUST(cudaFree(address[i]));
		expect_freed();
	}
	expect_leak("make_exported", "device", "cuMemAlloc_v2", sizes[0]);
	expect_print();
	return 0;
}

static NOINLINE void *open_handle(const cudaIpcMemHandle_t *handle)
{
	void *address;

	MUST(cudaIpcOpenMemHandle(&address, *handle, cudaIpcMemLazyEnablePeerAccess));
	expect_made(0);
	return address;
}

static NOINLINE void close_again(void *address)
{
	if (cudaIpcCloseMemHandle(address) == cudaSuccess)
		fprintf(stderr, "closed twice, and no error\n");
	cudaGetLastError();
	expect_error("close_again", "double-free", "cuIpcCloseMemHandle", 0);
}

static NOINLINE int importer(int in, int out)
{
	cudaIpcMemHandle_t handles[HANDLES];
	void *address[HANDLES];

	for (int i = 0; i < HANDLES; i++) {
		if (read(in, &handles[i], sizeof(handles[i])) != sizeof(handles[i]))
			return 1;
		address[i] = open_handle(&handles[i]);
	}
	for (int i = 1; i < HANDLES; i++) {
		MUST(cudaIpcCloseMemHandle(address[i]));
		expect_freed();
	}
	close_again(address[1]);
	expect_leak("open_handle", "ipc", "cuIpcOpenMemHandle cuIpcOpenMemHandle_v2", 0);
	expect_print();
	return write(out, "", 1) != 1;
}

/* The same, but for the role, which names the report. */
static char **exporter_environment()
{
	static char role[] = "IPC_ROLE=exporter", *ret[4096];
	int n = 0;

	for (char **at = environ; *at && n < 4094; at++)
		if (strncmp(*at, "IPC_ROLE=", 9))
			ret[n++] = *at;
	ret[n] = role;
	return ret;
}

/* The exporter's words go to its own descriptor 2, so that each has a file of its own. */
int main(int argc, char **argv)
{
	posix_spawn_file_actions_t actions;
	char name[] = "export", *const args[] = { argv[0], name, nullptr };
	int to[2], from[2], status = 1;
	pid_t child;

	if (argc > 2)
		return 2;
	if (argc == 2) {
		int in = dup(0), out = dup(1);

		dup2(2, 1);
		return exporter(in, out);
	}
	if (pipe(to) || pipe(from))
		return 1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to[0], 0);
	posix_spawn_file_actions_adddup2(&actions, from[1], 1);
	if (posix_spawn(&child, "/proc/self/exe", &actions, nullptr, args, exporter_environment()))
		return 1;
	close(from[1]);
	close(to[0]);
	if (importer(from[0], to[1]))
		return 1;
	waitpid(child, &status, 0);
	return status != 0;
}
