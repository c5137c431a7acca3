/* SPDX-License-Identifier: MIT
 *
 * A process whose driver holds more than the program allocated. What NVML's stand-in says of
 * it stands in the file STANDIN_NVML, which this program writes, number by number; while it
 * changes anything it keeps the sampler waiting inside a call, so that no sample sees half.
 */
#include <string.h>
#include <unistd.h>

#include "cu.h"

typedef struct CUmod_st *CUmodule;
CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned int flags,
			CUdevice device);
CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned int flags, CUdevice device);
CUresult cuCtxSetLimit(int limit, size_t value);
CUresult cuModuleLoad(CUmodule *module, const char *name);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options,
			    void **values);
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image);
CUresult cuLibraryLoadData(void **library, const void *code, int *options, void **values,
			   unsigned int count, int *more, void **more_values, unsigned int rest);
CUresult cuLibraryLoadFromFile(void **library, const char *name, int *options, void **values,
			       unsigned int count, int *more, void **more_values,
			       unsigned int rest);
CUresult cuFuncLoad(void *function);

#define MIB ((size_t)1 << 20)
#define PATIENCE_S 120

static const char *path; /* of what NVML says */
static const char *list = "nvmlDeviceGetComputeRunningProcesses_v3";

/* What NVML says from now on: always a whole file. */
static void say(const char *text)
{
	char next[4096];
	FILE *file;

	snprintf(next, sizeof(next), "%s.next", path);
	file = fopen(next, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0 || rename(next, path) != 0)
		must(1, "say");
}

static unsigned int count_calls(const char *name)
{
	char calls[4096], line[128];
	unsigned int count = 0;
	FILE *file;

	snprintf(calls, sizeof(calls), "%s.calls", path);
	file = fopen(calls, "r");
	while (file && fgets(line, sizeof(line), file))
		count += strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == '\n';
	if (file)
		fclose(file);
	return count;
}

static void wait_calls(const char *name, unsigned int wanted)
{
	for (int i = 0; i < PATIENCE_S * 1000; i++) {
		if (count_calls(name) >= wanted)
			return;
		usleep(1000);
	}
	printf("no %s\n", name);
	exit(1);
}

/* At least one whole sample of DEVICES devices is taken while nothing changes. Before its first
 * sample, the sampler reads each device once. */
static void be_sampled_on(unsigned int devices)
{
	wait_calls(list, count_calls(list) + 2 * devices + 2);
}

static void be_sampled(void)
{
	be_sampled_on(1);
}

/* The next sample waits inside its call. */
static void hold_sampler(const char *text)
{
	unsigned int before = count_calls("blocked");
	char all[512];

	snprintf(all, sizeof(all), "%sblock %s\n", text, list);
	say(all);
	wait_calls("blocked", before + 1);
}

/* Lines of NVML's file that held() puts before the line of this process. */
static const char *more_lines = "";

static const char *held(size_t mib)
{
	static char text[2][256];
	static int turn;

	turn = !turn;
	snprintf(text[turn], sizeof(text[turn]), "%sprocess compute 0 %d %zu\n", more_lines,
		 (int)getpid(), mib * MIB);
	return text[turn];
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
	return address;
}

static void use_device(CUdevice device)
{
	CUcontext context;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, device), "retain"); /* @retain */
	must(cuCtxSetCurrent(context), "set current");
}

static void load(void)
{
	CUmodule module;

	must(cuModuleLoadData(&module, ""), "load"); /* @load */
}

/* 500 MiB for the context, 800 more for a module, 100 more for another one. */
static void grow(void)
{
	say(held(500));
	use_device(0); /* @main_retain */
	be_sampled();
	hold_sampler(held(500));
	allocate(64 * MIB); /* @kept */
	say(held(564));
	be_sampled();
	hold_sampler(held(564));
	load(); /* @main_load */
	say(held(1364));
	be_sampled();
	hold_sampler(held(1364));
	load();
	say(held(1464));
	be_sampled();
}

/* The sampler waits in a query while this process loads COUNT modules, and another one has MIB of
 * memory after it. */
static void load_beside(int count, size_t held_mib, size_t others_mib)
{
	static char others[128];

	hold_sampler(held(held_mib));
	for (int i = 0; i < count; i++)
		load(); /* @beside */
	snprintf(others, sizeof(others), "process compute 0 1 %zu\n", others_mib * MIB);
	more_lines = others;
	say(held(held_mib));
	be_sampled();
}

/* A module while another process keeps its memory, and two more while it changes. */
static void grow_beside(void)
{
	more_lines = "process compute 0 1 1048576\n";
	say(held(500));
	use_device(0);
	be_sampled();
	load_beside(1, 900, 1); /* @alone */
	load_beside(2, 1700, 2000); /* @not_alone */
}

/* The sampler is in a query from before the last cost until after the end of the process. */
static void grow_to_the_end(void)
{
	say(held(500));
	use_device(0);
	be_sampled();
	hold_sampler(held(500));
	load(); /* @last */
}

/* The context is the largest. */
static void begin_only(void)
{
	say(held(500));
	use_device(0); /* @main_begin */
	allocate(64 * MIB); /* @begin_kept */
	be_sampled();
}

/* Grows by itself: kernels that are loaded at their first launch. */
static void grow_unmarked(void)
{
	say(held(100));
	use_device(0);
	allocate(64 * MIB); /* @unmarked_kept */
	be_sampled();
	hold_sampler(held(100));
	say(held(400));
	be_sampled();
}

/* One query of the sampler takes 3 s. The sampler must make the next ones within seconds: the
 * allocation after it is part of the figures. */
static void be_slow(void)
{
	say(held(500));
	use_device(0);
	be_sampled();
	hold_sampler(held(500));
	usleep(3000000);
	allocate(64 * MIB); /* @slow_kept */
	say(held(564));
	be_sampled();
}

/* Every call that is noted, in one go. */
static void call_all(void)
{
	CUcontext context;
	CUmodule module;
	void *library;

	say(held(100));
	use_device(0);
	be_sampled();
	hold_sampler(held(100));
	must(cuCtxCreate(&context, 0, 0), "create"); /* @create */
	must(cuCtxCreate_v2(&context, 0, 0), "create v2");
	must(cuCtxCreate_v3(&context, NULL, 0, 0, 0), "create v3");
	must(cuCtxCreate_v4(&context, NULL, 0, 0), "create v4");
	must(cuCtxSetLimit(0, 4096), "limit");
	must(cuModuleLoad(&module, "x"), "load");
	must(cuModuleLoadData(&module, ""), "load data");
	must(cuModuleLoadDataEx(&module, "", 0, NULL, NULL), "load ex");
	must(cuModuleLoadFatBinary(&module, ""), "load fat");
	must(cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0), "library");
	must(cuLibraryLoadFromFile(&library, "x", NULL, NULL, 0, NULL, NULL, 0), "library file");
	must(cuFuncLoad(NULL), "function");
	must(cuModuleLoadData(NULL, "") == 1 ? 0 : 1, "refused"); /* is not noted */
	say(held(900));
	be_sampled();
}

/* Two devices, each with a figure of its own. */
static void two_devices(int argc, char **argv)
{
	char text[512];

	snprintf(text, sizeof(text), "%s%sprocess compute 1 %d %zu\nprocess graphics 1 %d %zu\n",
		 argc > 2 ? argv[2] : "", held(300), (int)getpid(), 700 * MIB, (int)getpid(),
		 700 * MIB);
	say(text);
	use_device(0);
	allocate(10 * MIB); /* @first */
	use_device(1);
	allocate(20 * MIB); /* @second */
	be_sampled_on(2);
}

/* Only the whole device has a figure; it had 1000 MiB in use before. */
static void whole_device(int argc, char **argv)
{
	wait_calls("nvmlDeviceGetMemoryInfo", 2);
	usleep(200000); /* the sampler sees that there is no ledger yet */
	say(argc > 2 ? argv[2] : "used 0 1572864000\n"); /* 1500 MiB */
	use_device(0);
	allocate(64 * MIB); /* @device_kept */
	wait_calls("nvmlDeviceGetMemoryInfo", 6);
}

/* The figure is the test's; no sampler is waited for. MORE: other lines for NVML. */
static void say_figure(const char *figure, const char *more)
{
	char text[512];

	snprintf(text, sizeof(text), "%s%s\n",
		 strcmp(figure, "hang") == 0 ? "hang nvmlDeviceGetComputeRunningProcesses_v3\n"
					     : held((size_t)atoi(figure)), more);
	say(text);
}

static void just_hold(char **argv)
{
	CUdeviceptr address;

	if (*argv[2])
		say_figure(argv[2], argv[3] && argv[4] ? argv[4] : "");
	use_device(0);
	allocate(64 * MIB); /* @hold_kept */
	if (argv[3] && strcmp(argv[3], "managed") == 0)
		must(cuMemAllocManaged(&address, 32 * MIB, CU_MEM_ATTACH_GLOBAL),
		     "managed"); /* @hold_managed */
	if (argv[3] && strcmp(argv[3], "wait") == 0) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	if (argv[3] && strcmp(argv[3], "hanging") == 0)
		wait_calls("hanging", 1);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	path = getenv("STANDIN_NVML");
	if (strcmp(what, "old") == 0)
		list = "nvmlDeviceGetComputeRunningProcesses";
	if (!path)
		return 2;
	if (strncmp(what, "grow-late", 9) == 0) /* the sampler has read device 0 before it */
		wait_calls("nvmlDeviceGetMemoryInfo", 2);
	if (strcmp(what, "beside") == 0)
		grow_beside(); /* @main_beside */
	if (strcmp(what, "to-the-end") == 0)
		grow_to_the_end(); /* @main_end */
	if (strncmp(what, "grow", 4) == 0) {
		more_lines = argc > 2 ? argv[2] : "";
		grow(); /* @main_grow */
	}
	if (strcmp(what, "grow-late-release") == 0)
		must(cuDevicePrimaryCtxRelease_v2(0), "release");
	else if (strcmp(what, "begin") == 0 || strcmp(what, "old") == 0)
		begin_only(); /* @main_begin_only */
	else if (strcmp(what, "slow") == 0)
		be_slow(); /* @main_slow */
	else if (strcmp(what, "unmarked") == 0)
		grow_unmarked(); /* @main_unmarked */
	else if (strcmp(what, "all") == 0)
		call_all(); /* @main_all */
	else if (strcmp(what, "two") == 0)
		two_devices(argc, argv); /* @main_two */
	else if (strcmp(what, "device") == 0)
		whole_device(argc, argv); /* @main_device */
	else if (strcmp(what, "hold") == 0)
		just_hold(argv); /* @main_hold */
	return 0;
}
