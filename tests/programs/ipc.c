/* SPDX-License-Identifier: MIT
 *
 * Two processes that share memory by handles of cuIpcGetMemHandle: the owner, and the worker that
 * it forks before its first GPU call. Pipes order their steps. What each mode does stands in
 * cases_ipc.py.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

#define MIB (1024 * 1024)

struct ipc {
	char bytes[64];
};
CUresult cuIpcGetMemHandle(struct ipc *handle, CUdeviceptr address);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, struct ipc handle, unsigned int flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr address);

static int to_worker[2], to_owner[2];
static const char *mode;

static int is(const char *name)
{
	return strcmp(mode, name) == 0;
}

static void send_bytes(int fd, const void *bytes, size_t size)
{
	if (write(fd, bytes, size) != (ssize_t)size)
		exit(9);
}

static void receive_bytes(int fd, void *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = read(fd, (char *)bytes + done, size - done);

		if (n <= 0)
			exit(8);
		done += (size_t)n;
	}
}

static void step_done(int fd)
{
	send_bytes(fd, "", 1);
}

static void wait_for_step(int fd)
{
	char byte;

	receive_bytes(fd, &byte, 1);
}

/* ---- the owner ---- */

static CUdeviceptr make(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "make"); /* @make */
	return address;
}

static void export_block(CUdeviceptr address)
{
	struct ipc handle;

	must(cuIpcGetMemHandle(&handle, address), "export"); /* @export */
	send_bytes(to_worker[1], &handle, sizeof(handle));
}

static void drop(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "drop"); /* @drop */
}

/* Far more exports of freed blocks than the ledger keeps. */
static void export_many(void)
{
	struct ipc handle;

	for (int i = 0; i < 5000; i++) {
		CUdeviceptr address = make(4096);

		must(cuIpcGetMemHandle(&handle, address), "export");
		drop(address);
	}
}

static void own(CUcontext context)
{
	CUdeviceptr block = make(4 * MIB); /* @block */

	if (is("many"))
		export_many();
	export_block(is("inside") ? block + 4096 : block); /* @exported */
	wait_for_step(to_owner[0]); /* it is open */
	if (is("freed") || is("killed") || is("inside") || is("running") || is("suppressed"))
		drop(block); /* @freed */
	if (is("context"))
		must(cuCtxDestroy_v2(context), "destroy"); /* @destroyed */
	if (is("reused")) {
		drop(block); /* @freed_first */
		block = make(4 * MIB); /* @block_again */
		export_block(block); /* @exported_again */
		wait_for_step(to_owner[0]);
	}
	step_done(to_worker[1]);
	if (!is("running"))
		wait(NULL);
	if (is("closed") || is("unclosed") || is("unopened") || is("many") || is("twice") ||
	    is("again") || is("reused") || is("cu_free"))
		drop(block); /* @freed_last */
	if (is("running")) {
		puts("freed");
		fflush(stdout);
		pause();
	}
}

/* ---- the worker ---- */

static CUdeviceptr open_block(void)
{
	struct ipc handle;
	CUdeviceptr address = 0;

	receive_bytes(to_worker[0], &handle, sizeof(handle));
	if (is("unopened"))
		return 0;
	must(cuIpcOpenMemHandle_v2(&address, handle, 1), "open"); /* @open */
	if (is("twice") || is("again") || is("cu_free")) {
		CUdeviceptr same;

		must(cuIpcOpenMemHandle_v2(&same, handle, 1), "open again"); /* @open_again */
		printf("the same address: %d\n", same == address);
	}
	return address;
}

static void work(void)
{
	CUdeviceptr address = open_block(); /* @opened */

	step_done(to_owner[1]);
	if (is("reused")) {
		open_block(); /* @opened_again */
		step_done(to_owner[1]);
	}
	wait_for_step(to_worker[0]);
	if (is("cu_free"))
		printf("freed: %d\n", cuMemFree_v2(address)); /* @wrong_free */
	if (is("closed") || is("again") || is("twice") || is("cu_free") || is("many"))
		must(cuIpcCloseMemHandle(address), "close"); /* @close */
	if (is("again") || is("cu_free"))
		must(cuIpcCloseMemHandle(address), "close again");
	if (is("again"))
		printf("once more: %d\n", cuIpcCloseMemHandle(address)); /* @close_wrong */
	fflush(stdout);
	if (is("killed"))
		kill(getpid(), SIGKILL);
	if (is("running"))
		pause();
}

static CUcontext begin_in_context(void)
{
	CUcontext context;

	must(cuInit(0), "init");
	must(cuCtxCreate_v2(&context, 0, 0), "context");
	return context;
}

int main(int argc, char **argv)
{
	mode = argc > 1 ? argv[1] : "closed";
	if (argc > 2) { /* the worker, after exec */
		to_worker[0] = 10;
		to_owner[1] = 11;
		begin_in_context();
		work();
		return 0;
	}
	if (pipe(to_worker) || pipe(to_owner))
		return 7;
	if (!fork()) {
		if (is("without")) { /* gpuleak */
			dup2(to_worker[0], 10);
			dup2(to_owner[1], 11);
			unsetenv("LD_PRELOAD");
			execl("/proc/self/exe", argv[0], mode, "worker", NULL);
			return 6;
		}
		begin_in_context();
		work(); /* @worker */
		return 0;
	}
	own(begin_in_context()); /* @owner */
	return 0;
}
