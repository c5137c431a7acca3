/* SPDX-License-Identifier: MIT
 *
 * Virtual memory: what is left behind, and which call's line must have the bytes. One story
 * a run; each leaves what its name says and no more.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm.h"

static int child_asks; /* the writing end */
static const struct location device = { ON_DEVICE, 0 };

static vmm_handle create(size_t bytes)
{
	return create_on(device, 0, bytes); /* @on_device */
}

static void all_left(void)
{
	CUdeviceptr address = reserve(2 * GRAIN); /* @left */

	map(address, 2 * GRAIN, create(2 * GRAIN)); /* @left_map */
}

static void all_freed(void)
{
	vmm_handle handle = create(2 * GRAIN);
	CUdeviceptr address = reserve(2 * GRAIN);

	map(address, 2 * GRAIN, handle);
	must(cuMemUnmap(address, 2 * GRAIN), "unmap");
	must(cuMemRelease(handle), "release");
	must(cuMemAddressFree(address, 2 * GRAIN), "free");
}

static void reservation_left(void)
{
	vmm_handle handle = create(2 * GRAIN);

	reserve(8 * GRAIN); /* @only */
	must(cuMemRelease(handle), "release");
}

/* As NCCL does: released as soon as it is mapped. */
static void outlives_handle(void)
{
	vmm_handle handle = create(2 * GRAIN);
	CUdeviceptr address = reserve(2 * GRAIN); /* @outliving_range */

	map(address, 2 * GRAIN, handle); /* @outliving */
	must(cuMemRelease(handle), "release");
	must(cuMemFree_v2(0), "nothing");
}

static void passed_on(void)
{
	vmm_handle handle = create(2 * GRAIN);
	CUdeviceptr address = reserve(6 * GRAIN); /* @thrice_range */

	for (int i = 0; i < 3; i++)
		map(address + 2 * i * GRAIN, 2 * GRAIN, handle); /* @thrice */
	must(cuMemRelease(handle), "release");
	must(cuMemUnmap(address, 2 * GRAIN), "unmap");
	must(cuMemUnmap(address + 4 * GRAIN, 2 * GRAIN), "unmap");
}

static void came_back(void)
{
	vmm_handle handle = create(2 * GRAIN);
	CUdeviceptr address = reserve(2 * GRAIN);

	map(address, 2 * GRAIN, handle);
	must(cuMemRelease(handle), "release");
	retain(address + 4096); /* @back */
	must(cuMemUnmap(address, 2 * GRAIN), "unmap");
	must(cuMemAddressFree(address, 2 * GRAIN), "free");
}

static void came_and_went(void)
{
	vmm_handle handle = create(2 * GRAIN);
	CUdeviceptr address = reserve(2 * GRAIN);

	map(address, 2 * GRAIN, handle);
	must(cuMemRelease(handle), "release");
	must(cuMemRelease(retain(address)), "release");
	must(cuMemUnmap(address, 2 * GRAIN), "unmap");
	must(cuMemAddressFree(address, 2 * GRAIN), "free");
	/* The same memory again, from the beginning. */
	handle = create(2 * GRAIN);
	must(cuMemRelease(handle), "release");
}

static void still_referenced(void)
{
	vmm_handle handle = create(2 * GRAIN); /* @referenced */
	CUdeviceptr address = reserve(2 * GRAIN);

	map(address, 2 * GRAIN, handle);
	retain(address);
	must(cuMemRelease(handle), "release");
	must(cuMemUnmap(address, 2 * GRAIN), "unmap");
	must(cuMemAddressFree(address, 2 * GRAIN), "free");
}

/* The range is unmapped as a whole, with a hole in it; then once more, which is no mistake. */
static void many_at_once(void)
{
	vmm_handle one = create(GRAIN), two = create(2 * GRAIN);
	CUdeviceptr address = reserve(16 * GRAIN);

	map(address, GRAIN, one);
	map(address + GRAIN, 2 * GRAIN, two);
	map(address + 3 * GRAIN, GRAIN, one);
	map(address + 8 * GRAIN, 2 * GRAIN, two);
	must(cuMemRelease(one), "release");
	must(cuMemRelease(two), "release");
	printf("unmap: %d\n", cuMemUnmap(address, 16 * GRAIN));
	printf("once more: %d\n", cuMemUnmap(address, 16 * GRAIN));
	printf("free: %d\n", cuMemAddressFree(address, 16 * GRAIN));
}

/* Tells what each call answers, and tries each twice: STANDIN_FAIL makes the first one fail. */
static void refused(void)
{
	const struct properties properties = { 1, 0, device, NULL, { 0 } };
	vmm_handle handle = 0;
	CUdeviceptr address = 0;
	CUresult made;

	printf("create: %d\n", cuMemCreate(&handle, 2 * GRAIN, &properties, 0)); /* @try_create */
	if (!handle)
		handle = create(2 * GRAIN); /* @create_again */
	made = cuMemAddressReserve(&address, 4 * GRAIN, 0, 0, 0); /* @try_reserve */
	printf("reserve: %d\n", made);
	if (!address)
		address = reserve(4 * GRAIN); /* @reserve_again */
	printf("map: %d\n", cuMemMap(address, 2 * GRAIN, 0, handle, 0)); /* @first_map */
	made = cuMemMap(address + 2 * GRAIN, 2 * GRAIN, 0, handle, 0); /* @second_map */
	printf("map: %d\n", made);
	printf("release: %d\n", cuMemRelease(handle)); /* @first_release */
	printf("release: %d\n", cuMemRelease(handle)); /* @second_release */
	printf("unmap: %d\n", cuMemUnmap(address, 4 * GRAIN)); /* @first_unmap */
	printf("unmap: %d\n", cuMemUnmap(address, 4 * GRAIN));
	printf("free: %d\n", cuMemAddressFree(address, 4 * GRAIN)); /* @first_free */
	printf("free: %d\n", cuMemAddressFree(address, 4 * GRAIN)); /* @second_free */
}

/* A failed unmap, a failed free, a failed release: all is as before, and reported. */
static void nothing_ended(void)
{
	vmm_handle handle = create(2 * GRAIN); /* @kept_handle */
	CUdeviceptr address = reserve(4 * GRAIN); /* @kept_range */

	map(address, 2 * GRAIN, handle); /* @kept_map */
	map(address + 2 * GRAIN, 2 * GRAIN, handle); /* @kept_other */
	printf("unmap: %d\n", cuMemUnmap(address, 4 * GRAIN)); /* @no_unmap */
	printf("release: %d\n", cuMemRelease(handle)); /* @no_release */
	printf("free: %d\n", cuMemAddressFree(address, 4 * GRAIN)); /* @no_free */
}

static void at_host(void)
{
	const struct location host = { ON_HOST, 7 };

	create_on(host, 0, 2 * GRAIN); /* @host */
}

static void *without_context(void *unused)
{
	map(reserve(2 * GRAIN), 2 * GRAIN, create(2 * GRAIN)); /* @without */
	return unused;
}

static void in_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, without_context, NULL);
	pthread_join(thread, NULL);
}

static vmm_handle import(size_t fd)
{
	vmm_handle handle;

	must(cuMemImportFromShareableHandle(&handle, (void *)fd, 1), "import"); /* @import */
	return handle;
}

static void shared(void)
{
	vmm_handle handle = create_on(device, 1, 2 * GRAIN), others;
	int fd;

	must(cuMemExportToShareableHandle(&fd, handle, 1, 0), "export");
	must(cuMemRelease(import((size_t)fd)), "release");
	must(cuMemRelease(handle), "release");
	others = import((size_t)fd); /* @others */
	map(reserve(2 * GRAIN), 2 * GRAIN, others); /* @others_map */
	close(fd);
}

/* The child asks for the memory of its parent, whose descriptor it opens: see main. */
static void other_process(void)
{
	vmm_handle handle = create_on(device, 1, 2 * GRAIN); /* @exported */
	CUdeviceptr address = reserve(2 * GRAIN);
	int fd;

	must(cuMemExportToShareableHandle(&fd, handle, 1, 0), "export");
	map(address, 2 * GRAIN, handle);
	must(cuMemRelease(handle), "release");
	must(cuMemUnmap(address, 2 * GRAIN), "unmap");
	must(cuMemAddressFree(address, 2 * GRAIN), "free");
	if (write(child_asks, &fd, sizeof(fd)) != sizeof(fd))
		exit(1);
	close(child_asks);
	wait(NULL);
}

static void child_of(int parent_tells)
{
	char path[64];
	int fd;

	if (read(parent_tells, &fd, sizeof(fd)) != sizeof(fd))
		exit(1);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getppid(), fd);
	must(cuInit(0), "cuInit");
	map(reserve(2 * GRAIN), 2 * GRAIN, import((size_t)open(path, O_RDONLY))); /* @in_child */
	exit(0);
}

static void nulls(void)
{
	const struct properties properties = { 1, 0, device, NULL, { 0 } };
	vmm_handle handle;
	CUdeviceptr address;

	printf("create: %d", cuMemCreate(NULL, GRAIN, &properties, 0));
	printf(" %d", cuMemCreate(&handle, GRAIN, NULL, 0));
	printf(" %d\n", cuMemCreate(&handle, 0, &properties, 0));
	printf("reserve: %d", cuMemAddressReserve(NULL, GRAIN, 0, 0, 0));
	printf(" %d\n", cuMemAddressReserve(&address, 0, 0, 0, 0));
	printf("retain: %d %d\n", cuMemRetainAllocationHandle(NULL, NULL),
	       cuMemRetainAllocationHandle(&handle, NULL));
	printf("import: %d\n", cuMemImportFromShareableHandle(NULL, NULL, 1));
	printf("map: %d, unmap: %d %d, free: %d, release: %d\n", cuMemMap(0, 0, 0, 0, 0),
	       cuMemUnmap(0, 0), cuMemUnmap(0, GRAIN), cuMemAddressFree(0, 0), cuMemRelease(0));
	printf("multicast: %d %d\n", cuMulticastCreate(NULL, NULL),
	       cuMulticastUnbind(0, 0, 0, 0));
}

static const struct {
	const char *name;
	void (*tell)(void);
} stories[] = {
	{ "left", all_left }, { "freed", all_freed }, { "reservation", reservation_left },
	{ "outlives", outlives_handle }, { "passed", passed_on }, { "back", came_back },
	{ "went", came_and_went }, { "referenced", still_referenced }, { "many", many_at_once },
	{ "refused", refused }, { "nothing", nothing_ended }, { "host", at_host },
	{ "thread", in_thread }, { "shared", shared }, { "nulls", nulls },
	{ "process", other_process },
};

int main(int argc, char **argv)
{
	int ends[2];

	if (argc > 1 && strcmp(argv[1], "process") == 0) {
		if (pipe(ends) < 0)
			return 1;
		child_asks = ends[1];
		if (fork() == 0)
			child_of(ends[0]); /* @main_child */
	}
	must(cuInit(0), "cuInit"); /* and no context: none of this needs one */
	for (size_t i = 0; argc > 1 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			stories[i].tell(); /* @main */
	return 0;
}
