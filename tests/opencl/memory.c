/* SPDX-License-Identifier: MIT
 *
 * One story of OpenCL memory on one platform, linked to the loader: unified shared memory
 * and other extensions by their addresses, GL objects, callbacks that call back in. Prints
 * what the driver answers. As a library (-DPLUGIN) it is opened by opener.c.
 *
 * memory STORY [PLATFORM] [name]     `name`: extension addresses without the platform
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <CL/cl_egl.h>
#include <CL/cl_ext.h>
#include <CL/cl_gl.h>

enum { LEAK_BYTES = 4097, PAIR_BYTES = 8192, PLATFORMS_MAX = 16 };

static cl_platform_id platforms[PLATFORMS_MAX];
static cl_uint platform_count;
static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static bool by_name;

static void told(const char *what, cl_int r)
{
	printf("%s: %d\n", what, r);
	fflush(stdout);
}

static void *ask(const char *name)
{
	void *found = by_name ? clGetExtensionFunctionAddress(name)
			      : clGetExtensionFunctionAddressForPlatform(platform, name);

	if (!found)
		printf("no %s\n", name);
	return found;
}
#define ASK(name) ((name##_fn)ask(#name))

static void CL_API_CALL complain(const char *what, const void *more, size_t bytes, void *data);

static int start(cl_uint number, bool with_callback)
{
	cl_int r;

	if (!platform_count &&
	    clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count) != CL_SUCCESS)
		return 77;
	if (number >= platform_count)
		return 77;
	platform = platforms[number];
	if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
		return 77;
	context = clCreateContext(NULL, 1, &device, with_callback ? complain : NULL, NULL, &r);
	told("context", r);
	return 0;
}

/* ---- unified shared memory ---- */

static struct {
	clHostMemAllocINTEL_fn host;
	clDeviceMemAllocINTEL_fn device;
	clSharedMemAllocINTEL_fn shared;
	clMemFreeINTEL_fn free;
	clMemBlockingFreeINTEL_fn free_blocking;
} usm;

static void find_usm(void)
{
	usm.host = ASK(clHostMemAllocINTEL);
	usm.device = ASK(clDeviceMemAllocINTEL);
	usm.shared = ASK(clSharedMemAllocINTEL);
	usm.free = ASK(clMemFreeINTEL);
	usm.free_blocking = ASK(clMemBlockingFreeINTEL);
}

static __attribute__((noinline)) char *make_usm(size_t size)
{
	cl_int r = 77;
	char *made = usm.host(context, NULL, size, 0, &r);

	told("host", r);
	return made;
}

static __attribute__((noinline)) void leak_usm(void)
{
	cl_int r = 77;

	make_usm(LEAK_BYTES);
	usm.device(context, device, NULL, LEAK_BYTES + 1, 0, &r);
	told("device", r);
	usm.shared(context, device, NULL, LEAK_BYTES + 2, 0, &r);
	told("shared", r);
	__asm__ volatile("" ::: "memory");
}

static void usm_pairs(void)
{
	cl_int r = 77;

	told("free", usm.free(context, make_usm(PAIR_BYTES)));
	told("free, blocking", usm.free_blocking(context, make_usm(PAIR_BYTES)));
	told("free of device's",
	     usm.free(context, usm.device(context, device, NULL, PAIR_BYTES, 0, &r)));
	told("free of shared",
	     usm.free_blocking(context, usm.shared(context, NULL, NULL, PAIR_BYTES, 0, &r)));
	told("free of nothing", usm.free(context, NULL));
	told("allocate nothing", make_usm(0) != NULL);
	usm.host(context, NULL, 0, 0, NULL);
}

static __attribute__((noinline)) void free_again(char *address)
{
	told("free again", usm.free_blocking(context, address));
	__asm__ volatile("" ::: "memory");
}

static void usm_twice(void)
{
	char *address = make_usm(PAIR_BYTES);

	told("free", usm.free(context, address));
	free_again(address);
}

static void usm_wrong(void)
{
	char *address = make_usm(PAIR_BYTES), *svm;
	static char own[64];

	told("free of the inside", usm.free(context, address + 64));
	told("free of our own", usm.free(context, own));
	told("free", usm.free(context, address));
	svm = clSVMAlloc(context, CL_MEM_READ_WRITE, PAIR_BYTES, 0);
	told("USM free of SVM", usm.free(context, svm));
	clSVMFree(context, svm);
	clSVMFree(context, make_usm(PAIR_BYTES));
}

/* Refused, it is still there; then it goes. */
static void usm_refused(bool lose)
{
	char *address = make_usm(PAIR_BYTES);

	told("free", usm.free(context, address));
	if (!lose)
		told("free", usm.free(context, address));
}

static void usm_everywhere(void)
{
	for (cl_uint i = 0; i < platform_count; i++) {
		start(i, false);
		find_usm();
		make_usm(LEAK_BYTES);
		told("free", usm.free(context, make_usm(PAIR_BYTES)));
	}
}

static void *usm_storm(void *of)
{
	for (int i = 0; i < 1000; i++) {
		cl_int r;
		void *address = usm.device(context, device, NULL, 64, 0, &r);

		if (r != CL_SUCCESS || usm.free(context, address) != CL_SUCCESS)
			abort();
	}
	return of;
}

static void usm_threads(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, usm_storm, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	leak_usm();
}

/* ---- other creators ---- */

typedef cl_mem (*clImportMemoryARM_fn)(cl_context, cl_mem_flags, const intptr_t *, void *, size_t,
				       cl_int *);
typedef cl_mem (*clCreateBufferNV_fn)(cl_context, cl_mem_flags, cl_bitfield, size_t, void *,
				      cl_int *);
typedef void *(*clSVMAllocWithPropertiesKHR_fn)(cl_context, const cl_properties *, cl_uint, size_t,
						cl_int *);
typedef cl_int (*clSVMFreeWithPropertiesKHR_fn)(cl_context, const cl_properties *, cl_bitfield,
						void *);
typedef void *(*clSVMAllocARM_fn)(cl_context, cl_bitfield, size_t, cl_uint);
typedef void (*clSVMFreeARM_fn)(cl_context, void *);

static __attribute__((noinline)) void creators(bool lose)
{
	static char own[64];
	cl_mem made[16];
	unsigned int count = 0;
	cl_int r[16];

#define MADE(call) (made[count] = call, count++)
	MADE(clCreateFromGLBuffer(context, 0, 1, &r[count]));
	MADE(clCreateFromGLTexture(context, 0, 1, 0, 1, &r[count]));
	MADE(clCreateFromGLTexture2D(context, 0, 1, 0, 1, &r[count]));
	MADE(clCreateFromGLTexture3D(context, 0, 1, 0, 1, &r[count]));
	MADE(clCreateFromGLRenderbuffer(context, 0, 1, &r[count]));
	MADE(clCreateFromEGLImageKHR(context, NULL, own, 0, NULL, &r[count]));
	/* Loaders give out their own function for names that end in KHR. */
	MADE(ASK(clCreateFromEGLImageKHR)(context, NULL, own, 0, NULL, &r[count]));
	MADE(ASK(clCreateBufferWithPropertiesINTEL)(context, NULL, 0, PAIR_BYTES, NULL, &r[count]));
	MADE(ASK(clCreateBufferNV)(context, 0, 1, LEAK_BYTES, NULL, &r[count]));
	MADE(ASK(clImportMemoryARM)(context, 0, NULL, own, sizeof(own), &r[count]));
	clCreateFromGLBuffer(context, 0, 0, NULL);
	for (unsigned int i = 0; i < count; i++) {
		told("made", r[i]);
		if (!lose)
			told("release", clReleaseMemObject(made[i]));
	}
}

static __attribute__((noinline)) void other_svm(bool lose)
{
	void *khr = ASK(clSVMAllocWithPropertiesKHR)(context, NULL, 0, LEAK_BYTES, NULL);
	void *arm = ASK(clSVMAllocARM)(context, 0, PAIR_BYTES, 0);

	if (lose)
		return;
	told("free", ASK(clSVMFreeWithPropertiesKHR)(context, NULL, 0, khr));
	ASK(clSVMFreeARM)(context, arm);
	told("free again", ASK(clSVMFreeWithPropertiesKHR)(context, NULL, 0, khr));
}

/* ---- buffers ---- */

static __attribute__((noinline)) cl_mem make(size_t size)
{
	cl_int r = 77;
	cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &r);

	told("create", r);
	return made;
}

static __attribute__((noinline)) void leak_here(void)
{
	make(LEAK_BYTES);
	__asm__ volatile("" ::: "memory");
}

/* The driver calls this inside clCreateBuffer. */
static void CL_API_CALL complain(const char *what, const void *more, size_t bytes, void *data)
{
	(void)more, (void)bytes, (void)data;
	printf("%s\n", what);
	leak_here();
	told("release", clReleaseMemObject(make(PAIR_BYTES)));
}

static __attribute__((noinline)) void work(void)
{
	cl_mem retained = make(PAIR_BYTES);
	void *svm = clSVMAlloc(context, CL_MEM_READ_WRITE, PAIR_BYTES, 0);

	leak_here();
	told("retain", clRetainMemObject(retained));
	told("release", clReleaseMemObject(retained));
	told("release", clReleaseMemObject(retained));
	clSVMFree(context, svm);
	told("release nothing", clReleaseMemObject(NULL));
	told("create nothing", make(0) != NULL);
}

static __attribute__((noinline)) void twice(void)
{
	cl_mem made = make(PAIR_BYTES);

	told("release", clReleaseMemObject(made));
	told("release again", clReleaseMemObject(made));
}

/* ---- the pool, on a driver whose commands hold no buffer ---- */

static cl_command_queue new_queue(void)
{
	cl_int r;
	cl_command_queue made = clCreateCommandQueue(context, device, 0, &r);

	told("queue", r);
	return made;
}

static void say_same(const char *what, cl_mem one, cl_mem other)
{
	printf("%s: %s\n", what, one == other ? "the same" : "another");
	fflush(stdout);
}

/* Something is put into QUEUE that could use MADE, which goes before that is done. */
static void release_in_use(cl_command_queue queue, cl_mem made)
{
	told("command", clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL));
	told("release", clReleaseMemObject(made));
}

static void pool_pending(void)
{
	cl_command_queue one = new_queue(), two = new_queue();
	cl_mem made = make(PAIR_BYTES), other, third;

	release_in_use(one, made);
	other = make(PAIR_BYTES);
	say_same("both have work", made, other);
	told("finish", clFinish(one));
	third = make(PAIR_BYTES);
	say_same("the second has", made, third);
	told("finish", clFinish(two));
	say_same("none has", made, make(PAIR_BYTES));
	release_in_use(one, third);
	told("queue", clReleaseCommandQueue(two));
	say_same("one is gone", third, make(PAIR_BYTES));
	told("queue", clReleaseCommandQueue(one)); /* ends what is in it */
	say_same("both are", third, make(PAIR_BYTES));
}

static void pool_broken(void)
{
	cl_command_queue one = new_queue();
	cl_mem made = make(PAIR_BYTES);

	release_in_use(one, made);
	told("finish", clFinish(one));
	say_same("its marker failed", made, make(PAIR_BYTES));
	told("again", clReleaseMemObject(made));
}

/* Room for three. */
static void pool_full(void)
{
	cl_mem made[3];

	for (int i = 0; i < 3; i++)
		made[i] = make(PAIR_BYTES);
	for (int i = 0; i < 3; i++)
		told("release", clReleaseMemObject(made[i]));
	made[0] = make(2 * PAIR_BYTES);
	told("full", make(2 * PAIR_BYTES) != NULL);
	told("release", clReleaseMemObject(made[0]));
}

static void end_at_once(void)
{
	leak_here();
	_exit(4);
}

static const struct {
	const char *name;
	void (*tell)(bool lose);
	bool lose;
} stories[] = {
	{ "creators", creators, false }, { "creators lost", creators, true },
	{ "svm", other_svm, false },	 { "svm lost", other_svm, true },
	{ "usm refused", usm_refused, false }, { "usm refused, lost", usm_refused, true },
};
static const struct {
	const char *name;
	void (*tell)(void);
} more[] = {
	{ "usm lost", leak_usm },   { "usm", usm_pairs },	      { "usm twice", usm_twice },
	{ "usm wrong", usm_wrong }, { "usm everywhere", usm_everywhere }, { "work", work },
	{ "usm threads", usm_threads }, { "twice", twice },
	{ "_exit", end_at_once },   { "pool pending", pool_pending },
	{ "pool broken", pool_broken }, { "pool full", pool_full },
};

__attribute__((visibility("default"))) int cl_story(int argc, char **argv);
int cl_story(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "";

	by_name = argc > 3;
	if (start(argc > 2 ? (cl_uint)atoi(argv[2]) : 0, strcmp(story, "callback") == 0))
		return 77;
	if (strncmp(story, "usm", 3) == 0)
		find_usm();
	if (strcmp(story, "callback") == 0)
		told("release", clReleaseMemObject(make(13)));
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(story, stories[i].name) == 0)
			stories[i].tell(stories[i].lose);
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (strcmp(story, more[i].name) == 0)
			more[i].tell();
	return 0;
}

#ifndef PLUGIN
int main(int argc, char **argv)
{
	return cl_story(argc, argv);
}
#endif
