/* SPDX-License-Identifier: MIT
 *
 * gpuleak.h about OpenCL: who made a handle, a mark between handles, a handle that is ignored.
 */
#include "cl.h"

#include <errno.h>
#include <inttypes.h>

#include "gpuleak.h"

static void print_who(const char *what, const void *handle)
{
	struct gpuleak_block block = { .size = sizeof(block) };

	if (gpuleak_who((uintptr_t)handle, &block) < 0)
		printf("%s: %s\n", what, strerror(errno));
	else
		printf("%s: %s %s %" PRIu64 " references %u flags %u\n", what, block.api,
		       block.kind, block.bytes, block.references, block.flags);
}

static void print_since(const char *what, uint64_t mark)
{
	struct gpuleak_sum sum = { .size = sizeof(sum) };

	if (gpuleak_leaked_since(mark, &sum) < 0)
		printf("%s: %s\n", what, strerror(errno));
	else
		printf("%s: %" PRIu64 " blocks %" PRIu64 " bytes, ignored %" PRIu64 "\n", what,
		       sum.blocks, sum.bytes, sum.ignored_blocks);
}

int main(void)
{
	const cl_buffer_region region = { 0, 1024 };
	cl_command_queue queue;
	uint64_t mark;
	cl_mem older, newer, part;
	cl_int r;
	void *svm;

	begin();
	queue = clCreateCommandQueue(context, device, 0, &r);
	must(r, "clCreateCommandQueue");
	older = create(1 << 16);
	mark = gpuleak_mark();
	newer = create(1 << 12);
	part = clCreateSubBuffer(older, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region,
				 &r);
	must(r, "clCreateSubBuffer");
	svm = clSVMAlloc(context, CL_MEM_READ_WRITE, 1 << 14, 0);
	retain(newer);
	print_who("older", older);
	print_who("newer", newer);
	print_who("part", part);
	print_who("svm", (char *)svm + 100);
	print_who("queue", queue);
	print_since("since", mark);
	printf("ignored %d\n", gpuleak_ignore((uintptr_t)newer));
	print_since("then", mark);
	clSVMFree(context, svm);
	release(part);
	release(older);
	print_since("released", mark);
	must(clReleaseCommandQueue(queue), "clReleaseCommandQueue");
	print_who("gone", older);
	return 0;
}
