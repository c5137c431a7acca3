/* SPDX-License-Identifier: MIT
 *
 * Planted errors by OpenCL on the first device, one for each name: planted_cl ERROR [clean]. Real
 * kernels make them, on PoCL too. Output and markers are as those of planted.cu.
 */
#include <stdbool.h>

#include "cl.h"

enum { SIZE = 65536, PITCH = 1024, WIDTH = 1000, ROWS = 64 };

static const char *source =
	"kernel void write_bytes(global char *block, long from, long count) {\n"
	"	for (long i = get_global_id(0); i < count; i += get_global_size(0))\n"
	"		block[from + i] = (char)((from + i) % 97 + 1);\n"
	"}\n"
	"kernel void sum_bytes(global int *sum, global const char *block, long count) {\n"
	"	for (long i = get_global_id(0); i < count; i += get_global_size(0))\n"
	"		atomic_add(sum, block[i]);\n"
	"}\n"
	"kernel void note_address(global ulong *to, global char *block) {\n"
	"	to[0] = (ulong)block;\n"
	"}\n"
	"kernel void write_noted(global const ulong *address, long count) {\n"
	"	global char *block = (global char *)address[0];\n"
	"	for (long i = get_global_id(0); i < count; i += get_global_size(0))\n"
	"		block[i] = (char)(i % 97 + 1);\n"
	"}\n"
	"kernel void sum_noted(global int *sum, global const ulong *address, long count) {\n"
	"	global const char *block = (global const char *)address[0];\n"
	"	for (long i = get_global_id(0); i < count; i += get_global_size(0))\n"
	"		atomic_add(sum, block[i]);\n"
	"}\n";

static bool clean;
static cl_command_queue queues[2];
static cl_program program;
static unsigned char host[4 << 20];

static void say(const char *what, cl_int result)
{
	printf("%s: %d\n", what, result);
}

static size_t extra(size_t bytes)
{
	return clean ? 0 : bytes;
}

static cl_mem victim(size_t bytes)
{
	cl_int r;
	cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &r); /* @victim */

	say("victim", r);
	return made;
}

static cl_mem bystander(size_t bytes)
{
	cl_int r;
	cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &r); /* @bystander */

	say("bystander", r);
	return made;
}

static void drop(cl_mem block)
{
	say("release", clReleaseMemObject(block)); /* @free */
}

static void show(cl_mem block, size_t bytes)
{
	unsigned long sum = 0;
	cl_int r;

	memset(host, 0, bytes);
	r = clEnqueueReadBuffer(queues[0], block, CL_TRUE, 0, bytes, host, 0, NULL, NULL);
	for (size_t i = 0; i < bytes; i++)
		sum = sum * 31 + host[i];
	printf("show: %d\ncontent: %lx\n", r, sum);
}

struct argument {
	size_t bytes;
	const void *value;
};
#define ARGUMENT(name) { sizeof(name), &(name) }

static void run(cl_command_queue queue, const char *name, const struct argument *arguments,
	int count)
{
	const size_t items = 64;
	cl_int r;
	cl_kernel kernel = clCreateKernel(program, name, &r);

	must(r, name);
	for (int i = 0; i < count; i++)
		must(clSetKernelArg(kernel, i, arguments[i].bytes, arguments[i].value),
			"clSetKernelArg");
	say("launch", clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, /* @access */
		NULL, NULL));
	say("sync", clFinish(queue));
	clReleaseKernel(kernel);
}
#define RUN(queue, name, ...) \
	run(queue, name, (struct argument[]){ __VA_ARGS__ }, \
	    sizeof((struct argument[]){ __VA_ARGS__ }) / sizeof(struct argument))

static void write(cl_mem block, cl_long from, cl_long count)
{
	RUN(queues[0], "write_bytes", ARGUMENT(block), ARGUMENT(from), ARGUMENT(count));
}

static cl_mem zero_sum(void)
{
	const cl_int zero = 0;
	cl_mem sum = bystander(512);

	clEnqueueWriteBuffer(queues[0], sum, CL_TRUE, 0, sizeof(zero), &zero, 0, NULL, NULL);
	return sum;
}

static void end_sum(cl_mem sum)
{
	if (clean)
		show(sum, 4);
	drop(sum);
}

static void over_by(size_t size, size_t bytes)
{
	cl_mem block = victim(size);

	write(block, 0, size + extra(bytes));
	show(block, size);
	drop(block);
}

static void over_1(void) { over_by(SIZE, 1); }
static void over_16(void) { over_by(SIZE, 16); }
static void over_256(void) { over_by(SIZE, 256); }
static void over_4096(void) { over_by(SIZE, 4096); }
static void odd_over_1(void) { over_by(1001, 1); }
static void odd_over_256(void) { over_by(1001, 256); }
static void large_over_16(void) { over_by(3 << 20, 16); }

/* On another queue, and the buffer is never released. */
static void over_kept(void)
{
	cl_mem block = victim(SIZE);
	cl_long from = 0, count = SIZE + extra(16);

	RUN(queues[1], "write_bytes", ARGUMENT(block), ARGUMENT(from), ARGUMENT(count));
	if (clean)
		drop(block);
}

static void before_16(void)
{
	cl_mem block = victim(SIZE);

	write(block, clean ? 0 : -16, 16);
	drop(block);
}

static void read_behind(void)
{
	cl_mem block = victim(SIZE), sum = zero_sum();
	cl_long count = SIZE + extra(16);

	write(block, 0, SIZE);
	RUN(queues[0], "sum_bytes", ARGUMENT(sum), ARGUMENT(block), ARGUMENT(count));
	end_sum(sum);
	drop(block);
}

/* A kernel keeps the address of a buffer; another one uses it after the buffer was released. */
static void noted(const char *name, cl_command_queue queue)
{
	cl_mem address = bystander(8), sum = zero_sum(), block = victim(SIZE);
	cl_long count = SIZE;

	RUN(queues[0], "note_address", ARGUMENT(address), ARGUMENT(block));
	write(block, 0, SIZE);
	if (!clean)
		drop(block);
	if (strcmp(name, "sum_noted") == 0)
		RUN(queue, name, ARGUMENT(sum), ARGUMENT(address), ARGUMENT(count));
	else
		RUN(queue, name, ARGUMENT(address), ARGUMENT(count));
	if (clean)
		drop(block);
	end_sum(sum);
	drop(address);
}

static void write_freed(void) { noted("write_noted", queues[0]); }
static void write_freed_queue(void) { noted("write_noted", queues[1]); }
static void read_freed(void) { noted("sum_noted", queues[0]); }

/* ---- by the host ---- */

static void write_past(void)
{
	cl_mem block = victim(SIZE);

	say("write", clEnqueueWriteBuffer(queues[0], block, CL_TRUE, 100, /* @access */
		SIZE - 100 + extra(1), host, 0, NULL, NULL));
	drop(block);
}

static void read_past(void)
{
	cl_mem block = victim(SIZE);

	write(block, 0, SIZE);
	say("read", clEnqueueReadBuffer(queues[0], block, CL_TRUE, 0, /* @access */
		SIZE + extra(16), host, 0, NULL, NULL));
	drop(block);
}

static void copy_past(void)
{
	cl_mem from = bystander(2 * SIZE), to = victim(SIZE);

	say("copy", clEnqueueCopyBuffer(queues[0], from, to, 0, 0, SIZE + extra(256), /* @access */
		0, NULL, NULL));
	say("sync", clFinish(queues[0]));
	drop(from);
	drop(to);
}

static void copy_from_past(void)
{
	cl_mem from = victim(SIZE), to = bystander(2 * SIZE);

	write(from, 0, SIZE);
	say("copy", clEnqueueCopyBuffer(queues[1], from, to, SIZE / 2 + extra(16), 0, /* @access */
		SIZE / 2, 0, NULL, NULL));
	say("sync", clFinish(queues[1]));
	drop(from);
	drop(to);
}

/* Both ends lie behind their buffers. */
static void copy_both_past(void)
{
	cl_mem from = victim(SIZE), to = victim(SIZE);

	write(from, 0, SIZE);
	say("copy", clEnqueueCopyBuffer(queues[0], from, to, 0, 0, SIZE + extra(4096), /* @access */
		0, NULL, NULL));
	say("sync", clFinish(queues[0]));
	drop(from);
	drop(to);
}

static void fill_past(void)
{
	const cl_int value = 7;
	cl_mem block = victim(SIZE);

	say("fill", clEnqueueFillBuffer(queues[0], block, &value, 4, 0, /* @access */
		SIZE + extra(16), 0, NULL, NULL));
	say("sync", clFinish(queues[0]));
	drop(block);
}

static void map_past(void)
{
	cl_mem block = victim(SIZE);
	cl_int r;
	void *at = clEnqueueMapBuffer(queues[0], block, CL_TRUE, CL_MAP_WRITE, 4096, /* @access */
		SIZE - 4096 + extra(16), 0, NULL, NULL, &r);

	say("map", r);
	if (!r)
		clEnqueueUnmapMemObject(queues[0], block, at, 0, NULL, NULL);
	say("sync", clFinish(queues[0]));
	drop(block);
}

/* The last row begins in the buffer and ends behind it. */
static void rows_past(void)
{
	const size_t none[3] = { 0 }, region[3] = { WIDTH + extra(8), ROWS, 1 };
	cl_mem block = victim(PITCH * (ROWS - 1) + WIDTH);

	say("write", clEnqueueWriteBufferRect(queues[0], block, CL_TRUE, none, none, /* @access */
		region, PITCH, 0, PITCH, 0, host, 0, NULL, NULL));
	drop(block);
}

static void copy_rows_past(void)
{
	const size_t none[3] = { 0 }, origin[3] = { 0, extra(1), 0 };
	const size_t region[3] = { WIDTH, ROWS, 1 };
	cl_mem from = bystander(PITCH * ROWS), to = victim(PITCH * (ROWS - 1) + WIDTH);

	say("copy", clEnqueueCopyBufferRect(queues[0], from, to, none, origin, region, /* @access */
		PITCH, 0, PITCH, 0, 0, NULL, NULL));
	say("sync", clFinish(queues[0]));
	drop(from);
	drop(to);
}

/* Past the end of a part, but inside the whole. */
static void part_past(void)
{
	const cl_buffer_region region = { 4096, 4096 };
	cl_mem whole = bystander(SIZE), part;
	cl_int r;

	part = clCreateSubBuffer(whole, CL_MEM_READ_WRITE, /* @victim */
		CL_BUFFER_CREATE_TYPE_REGION, &region, &r);
	say("victim", r);
	say("write", clEnqueueWriteBuffer(queues[0], part, CL_TRUE, 0, /* @access */
		4096 + extra(16), host, 0, NULL, NULL));
	drop(part);
	drop(whole);
}

/* 64 rows of 64 texels of four bytes, between an image and a buffer. */
static void image_copy(bool to_image)
{
	const size_t none[3] = { 0 }, region[3] = { 64, 64, 1 };
	const cl_image_format format = { CL_RGBA, CL_UNORM_INT8 };
	const cl_image_desc shape = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64,
				      .image_height = 64 };
	cl_mem block = victim(64 * 64 * 4 + 100), image;
	size_t from = 100 + extra(4);
	cl_int r;

	image = clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, NULL, &r);
	say("image", r);
	write(block, 0, 64 * 64 * 4 + 100);
	if (to_image)
		say("copy", clEnqueueCopyBufferToImage(queues[0], block, image, from, /* @access */
			none, region, 0, NULL, NULL));
	else
		say("copy", clEnqueueCopyImageToBuffer(queues[0], image, block, none, /* @access */
			region, from, 0, NULL, NULL));
	say("sync", clFinish(queues[0]));
	drop(image);
	drop(block);
}

static void to_image(void) { image_copy(true); }
static void from_image(void) { image_copy(false); }

static void *shared_victim(size_t bytes)
{
	void *made = clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, 0); /* @victim */

	say("victim", made ? 0 : -1);
	return made;
}

static void svm_copy_past(void)
{
	char *block = shared_victim(SIZE);

	say("copy", clEnqueueSVMMemcpy(queues[0], CL_TRUE, block, host, /* @access */
		SIZE + extra(8), 0, NULL, NULL));
	clSVMFree(context, block);
}

static void svm_fill_past(void)
{
	const cl_int value = 7;
	char *block = shared_victim(SIZE);

	say("fill", clEnqueueSVMMemFill(queues[0], block, &value, 4, SIZE + extra(8), /* @access */
		0, NULL, NULL));
	say("sync", clFinish(queues[0]));
	clSVMFree(context, block);
}

static void svm_from_freed(void)
{
	char *block = shared_victim(SIZE);

	if (!clean)
		clSVMFree(context, block); /* @free */
	say("copy", clEnqueueSVMMemcpy(queues[0], CL_TRUE, host, block, SIZE, 0, NULL, /* @access */
		NULL));
	if (clean)
		clSVMFree(context, block);
}

static void svm_fill_freed(void)
{
	const cl_int value = 7;
	char *block = shared_victim(SIZE);

	if (!clean)
		clSVMFree(context, block); /* @free */
	say("fill", clEnqueueSVMMemFill(queues[0], block, &value, 4, SIZE, 0, NULL, /* @access */
		NULL));
	say("sync", clFinish(queues[0]));
	if (clean)
		clSVMFree(context, block);
}

static void svm_map_freed(void)
{
	char *block = shared_victim(SIZE);

	if (!clean)
		clSVMFree(context, block); /* @free */
	say("map", clEnqueueSVMMap(queues[0], CL_TRUE, CL_MAP_WRITE, block, SIZE, 0, /* @access */
		NULL, NULL));
	say("unmap", clEnqueueSVMUnmap(queues[0], block, 0, NULL, NULL));
	say("sync", clFinish(queues[0]));
	if (clean)
		clSVMFree(context, block);
}

/* Small, in the middle, and after other memory was allocated and freed. */
static void svm_inside_freed(void)
{
	char *block = shared_victim(1000);
	void *next;

	if (!clean)
		clSVMFree(context, block); /* @free */
	next = clSVMAlloc(context, CL_MEM_READ_WRITE, 1000, 0);
	clSVMFree(context, next);
	say("copy", clEnqueueSVMMemcpy(queues[0], CL_TRUE, host, block + 500, 8, /* @access */
		0, NULL, NULL));
	if (clean)
		clSVMFree(context, block);
}

/* ---- programs without an error, which a guard may take for one ---- */

/* The host may get the addresses of freed SVM once it is not held back any more. */
static void trap_svm(void)
{
	for (int i = 0; i < 300; i++) {
		size_t bytes = (size_t)1 << (i % 20);
		char *block = clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, 0), *own;

		say("copy in", clEnqueueSVMMemcpy(queues[0], CL_TRUE, block, host, bytes, 0, NULL,
			NULL));
		clSVMFree(context, block);
		own = malloc(bytes);
		say("copy out", clEnqueueSVMMemcpy(queues[0], CL_TRUE, own, host, bytes, 0, NULL,
			NULL));
		free(own);
	}
}

static void trap_reuse(void)
{
	for (int i = 0; i < 200; i++) {
		size_t bytes = 1 + i * 517;
		cl_mem block = victim(bytes);

		write(block, 0, bytes);
		show(block, bytes);
		drop(block);
	}
}

/* One release of two leaves the buffer valid; a command keeps a buffer beyond its last release. */
static void trap_retained(void)
{
	cl_mem block = victim(SIZE), to = bystander(SIZE);
	cl_event event, ready = clCreateUserEvent(context, NULL);

	write(block, 0, SIZE);
	say("retain", clRetainMemObject(block));
	drop(block);
	show(block, SIZE);
	write(block, 0, SIZE);
	say("copy", clEnqueueCopyBuffer(queues[0], block, to, 0, 0, SIZE, 1, &ready, &event));
	drop(block);
	clSetUserEventStatus(ready, CL_COMPLETE);
	say("wait", clWaitForEvents(1, &event));
	clReleaseEvent(event);
	clReleaseEvent(ready);
	show(to, SIZE);
	drop(to);
}

/* Memory of the application is used as it is; parts are used beside each other. */
static void trap_parts(void)
{
	static unsigned char mine[SIZE] __attribute__((aligned(4096)));
	cl_buffer_region region = { 0, SIZE / 2 };
	cl_mem whole, parts[2];
	size_t bytes = 0;
	cl_int r;

	whole = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, SIZE, mine, &r);
	say("whole", r);
	for (int i = 0; i < 2; i++, region.origin = SIZE / 2) {
		parts[i] = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &r);
		say("part", r);
		write(parts[i], 0, SIZE / 2);
		say("info", clGetMemObjectInfo(parts[i], CL_MEM_SIZE, sizeof(bytes), &bytes, NULL));
		printf("%zu bytes\n", bytes);
	}
	show(whole, SIZE);
	drop(parts[0]);
	drop(whole);
	show(parts[1], SIZE / 2);
	drop(parts[1]);
}

static void trap_queries(void)
{
	unsigned char bytes[1000];
	size_t size = 0;
	cl_mem block, whole = victim(SIZE);
	cl_int r;
	char *at;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	block = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof(bytes), bytes, &r);
	say("copied", r);
	say("info", clGetMemObjectInfo(block, CL_MEM_SIZE, sizeof(size), &size, NULL));
	printf("%zu bytes\n", size);
	show(block, sizeof(bytes));
	at = clEnqueueMapBuffer(queues[0], block, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
		sizeof(bytes), 0, NULL, NULL, &r);
	say("map", r);
	at[999] = 5;
	say("unmap", clEnqueueUnmapMemObject(queues[0], block, at, 0, NULL, NULL));
	show(block, sizeof(bytes));
	say("write", clEnqueueWriteBuffer(queues[0], whole, CL_TRUE, SIZE - 1, 1, host, 0, NULL,
		NULL));
	drop(block);
	drop(whole);
}

#define PROGRAM(name) { #name, name }
static const struct story programs[] = {
	PROGRAM(over_1), PROGRAM(over_16), PROGRAM(over_256), PROGRAM(over_4096),
	PROGRAM(odd_over_1), PROGRAM(odd_over_256), PROGRAM(large_over_16), PROGRAM(over_kept),
	PROGRAM(before_16), PROGRAM(read_behind), PROGRAM(write_freed), PROGRAM(write_freed_queue),
	PROGRAM(read_freed), PROGRAM(write_past), PROGRAM(read_past), PROGRAM(copy_past),
	PROGRAM(copy_from_past), PROGRAM(fill_past), PROGRAM(map_past), PROGRAM(rows_past),
	PROGRAM(copy_rows_past), PROGRAM(part_past), PROGRAM(svm_copy_past), PROGRAM(svm_fill_past),
	PROGRAM(to_image), PROGRAM(from_image), PROGRAM(copy_both_past),
	PROGRAM(svm_from_freed), PROGRAM(svm_fill_freed), PROGRAM(svm_map_freed),
	PROGRAM(svm_inside_freed), PROGRAM(trap_svm), PROGRAM(trap_reuse), PROGRAM(trap_retained),
	PROGRAM(trap_parts),
	PROGRAM(trap_queries),
};

int main(int argc, char **argv)
{
	cl_int r;
	cl_mem around[2];

	clean = argc > 2 && strcmp(argv[2], "clean") == 0;
	begin();
	program = clCreateProgramWithSource(context, 1, &source, NULL, &r);
	must(r, "clCreateProgramWithSource");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
	drop(bystander(SIZE));
	for (int i = 0; i < 2; i++) {
		queues[i] = clCreateCommandQueue(context, device, 0, &r);
		must(r, "clCreateCommandQueue");
		around[i] = bystander(SIZE << i);
		must(clEnqueueWriteBuffer(queues[i], around[i], CL_TRUE, 0, SIZE << i, host, 0,
			NULL, NULL), "clEnqueueWriteBuffer");
	}
	if (argc > 1)
		TELL(programs, argv[1]);
	for (int i = 0; i < 2; i++) {
		drop(around[i]);
		clReleaseCommandQueue(queues[i]);
	}
	clReleaseProgram(program);
	clReleaseContext(context);
	return 0;
}
