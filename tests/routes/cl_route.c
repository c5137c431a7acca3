/* SPDX-License-Identifier: MIT
 *
 * OpenCL by one route (linked; a loader given by path; extension addresses) and one story:
 * what is lost, retained, released in which order. Prints what the driver answers: that
 * must be the same with and without a tracer.
 *
 * cl_route ROUTE STORY [LOADER]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

enum { LEAK_BYTES = 4097, PAIR_BYTES = 8192 };

static struct {
	cl_int (*platforms)(cl_uint, cl_platform_id *, cl_uint *);
	cl_int (*devices)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
	cl_context (*context)(const cl_context_properties *, cl_uint, const cl_device_id *,
			      void(CL_CALLBACK *)(const char *, const void *, size_t, void *),
			      void *, cl_int *);
	cl_int (*release_context)(cl_context);
	cl_mem (*buffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
	cl_mem (*sub_buffer)(cl_mem, cl_mem_flags, cl_buffer_create_type, const void *, cl_int *);
	cl_int (*retain)(cl_mem);
	cl_int (*release)(cl_mem);
	cl_int (*finish)(cl_command_queue);
} cl;
static cl_context context;

#define FIND(member, name) (*(void **)&cl.member = dlsym(loader, name))

static void by_handle(void *loader)
{
	if (!loader) {
		printf("%s\n", dlerror());
		exit(1);
	}
	FIND(platforms, "clGetPlatformIDs");
	FIND(devices, "clGetDeviceIDs");
	FIND(context, "clCreateContext");
	FIND(release_context, "clReleaseContext");
	FIND(buffer, "clCreateBuffer");
	FIND(sub_buffer, "clCreateSubBuffer");
	FIND(retain, "clRetainMemObject");
	FIND(release, "clReleaseMemObject");
	FIND(finish, "clFinish");
}

static void by_extension(void *loader, const char *route)
{
	void *(*address)(const char *);
	void *(*for_platform)(cl_platform_id, const char *);
	int of_platform = strcmp(route, "extension") != 0;

	by_handle(loader);
	*(void **)&address = dlsym(loader, "clGetExtensionFunctionAddress");
	*(void **)&for_platform = dlsym(loader, "clGetExtensionFunctionAddressForPlatform");
#define ASK(name) (of_platform ? for_platform(NULL, name) : address(name))
	*(void **)&cl.buffer = ASK("clCreateBuffer");
	*(void **)&cl.retain = ASK("clRetainMemObject");
	*(void **)&cl.release = ASK("clReleaseMemObject");
	printf("unknown: %s\n", ASK("clNoSuchCall") ? "found" : "NULL");
}

#ifdef LINKED
static void by_link(void)
{
	cl.platforms = clGetPlatformIDs;
	cl.devices = clGetDeviceIDs;
	cl.context = clCreateContext;
	cl.release_context = clReleaseContext;
	cl.buffer = clCreateBuffer;
	cl.sub_buffer = clCreateSubBuffer;
	cl.retain = clRetainMemObject;
	cl.release = clReleaseMemObject;
}
#endif

static void told(const char *what, cl_int r)
{
	printf("%s: %d\n", what, r);
	fflush(stdout);
}

static __attribute__((noinline)) cl_mem make(size_t size)
{
	cl_int r = 77;
	cl_mem made = cl.buffer(context, CL_MEM_READ_WRITE, size, NULL, &r);

	told("create", r);
	return made;
}

static cl_mem part_of(cl_mem parent, size_t size)
{
	cl_buffer_region region = { 0, size };
	cl_int r = 77;
	cl_mem made = cl.sub_buffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &r);

	told("create sub-buffer", r);
	return made;
}

static __attribute__((noinline)) void leak_here(void)
{
	make(LEAK_BYTES);
	__asm__ volatile("" ::: "memory");
}

static void work(void)
{
	leak_here();
	told("release", cl.release(make(PAIR_BYTES)));
	told("create nothing", make(0) != NULL);
}

/* The parent's last reference goes first; it lives on in its part. */
static void sub_buffer(int lose)
{
	cl_mem parent = make(PAIR_BYTES), part = part_of(parent, 4096);

	told("release parent", cl.release(parent));
	if (!lose)
		told("release part", cl.release(part));
}

static void context_first(int lose)
{
	cl_mem buffer = make(PAIR_BYTES);

	told("release context", cl.release_context(context));
	if (!lose)
		told("release", cl.release(buffer));
}

static void retained(void)
{
	cl_mem buffer = make(PAIR_BYTES);

	told("retain", cl.retain(buffer));
	told("retain", cl.retain(buffer));
	told("release", cl.release(buffer));
	told("release", cl.release(buffer));
}

static void refused(int again)
{
	cl_mem buffer = make(PAIR_BYTES);

	told("release nothing", cl.release(NULL));
	told("release", cl.release(buffer));
	if (again)
		told("release again", cl.release(buffer));
}

static __attribute__((noinline)) void release_again(cl_mem buffer)
{
	told("release again", cl.release(buffer));
	__asm__ volatile("" ::: "memory");
}

static void released_twice(void)
{
	cl_mem buffer = make(PAIR_BYTES);

	told("release", cl.release(buffer));
	release_again(buffer);
}

/* Released, and freed only when the queue is finished, if ever. */
static void held(const char *then)
{
	cl_mem buffer = make(PAIR_BYTES);

	told("release", cl.release(buffer));
	if (strcmp(then, "again") == 0)
		release_again(buffer);
	if (strcmp(then, "retained") == 0)
		told("retain", cl.retain(buffer));
	if (strcmp(then, "forgotten") == 0)
		return;
	told("finish", cl.finish(NULL));
	if (strcmp(then, "reused") == 0)
		told("same handle", make(LEAK_BYTES) == buffer);
}

/* Unlike CUDA, this driver works on in a child: what the child does is its own. */
static void forked(void)
{
	int status = 77;
	pid_t pid;

	leak_here();
	pid = fork();
	if (pid == 0) {
		make(PAIR_BYTES);
		exit(0);
	}
	waitpid(pid, &status, 0);
	told("child", status);
}

static int start(void)
{
	cl_platform_id platform;
	cl_device_id device = NULL;
	cl_int r;

	if (cl.platforms && (cl.platforms(1, &platform, NULL) ||
			     cl.devices(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)))
		return 77;
	context = cl.context(NULL, 1, &device, NULL, NULL, &r);
	told("context", r);
	return 0;
}

int main(int argc, char **argv)
{
	const char *route = argc > 1 ? argv[1] : "", *story = argc > 2 ? argv[2] : "";
	void *loader = argc > 3 ? dlopen(argv[3], RTLD_NOW | RTLD_LOCAL) : NULL;

#ifdef LINKED
	if (strcmp(route, "linked") == 0)
		by_link();
#endif
	if (strcmp(route, "path") == 0)
		by_handle(loader);
	else if (strncmp(route, "extension", 9) == 0)
		by_extension(loader, route);
	if (!cl.context)
		return 2;
	if (start())
		return 77;
	if (strcmp(story, "work") == 0)
		work();
	else if (strncmp(story, "sub-buffer", 10) == 0)
		sub_buffer(strcmp(story, "sub-buffer lost") == 0);
	else if (strncmp(story, "context first", 13) == 0)
		context_first(strcmp(story, "context first, lost") == 0);
	else if (strcmp(story, "retained") == 0)
		retained();
	else if (strncmp(story, "refused", 7) == 0)
		refused(strcmp(story, "refused, again") == 0);
	else if (strncmp(story, "held, ", 6) == 0)
		held(story + 6);
	else if (strcmp(story, "fork") == 0)
		forked();
	else if (strcmp(story, "released twice") == 0)
		released_twice();
	return 0;
}
