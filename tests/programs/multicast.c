/* SPDX-License-Identifier: MIT
 *
 * Multicast objects: memory that only a binding keeps, bindings that are lost, ended twice,
 * refused, or gone with their object.
 */
#include <string.h>

#include "vmm.h"

static const struct location device = { ON_DEVICE, 0 };

static vmm_handle make_object(void)
{
	const struct multicast_properties properties = { 1, 4 * GRAIN, 0, 0 };
	vmm_handle object;

	must(cuMulticastCreate(&object, &properties), "object"); /* @object */
	must(cuMulticastAddDevice(object, 0), "add device");
	return object;
}

static void bind(vmm_handle object, size_t offset, vmm_handle memory)
{
	must(cuMulticastBindMem(object, offset, memory, 0, 2 * GRAIN, 0), "bind"); /* @bind */
}

static void left(void)
{
	vmm_handle object = make_object(), memory = create_on(device, 0, 2 * GRAIN); /* @left */

	bind(object, 0, memory); /* @kept */
	must(cuMemRelease(memory), "release");
}

static void freed(void)
{
	vmm_handle object = make_object(), memory = create_on(device, 0, 2 * GRAIN);
	CUdeviceptr address = reserve(8 * GRAIN), stream_ordered;

	map(address, 2 * GRAIN, memory);
	map(address + 4 * GRAIN, 4 * GRAIN, object);
	must(cuMulticastBindAddr(object, 2 * GRAIN, address, 2 * GRAIN, 0), "bind address");
	must(cuMemRelease(memory), "release");
	must(cuMemUnmap(address, 2 * GRAIN), "unmap"); /* only the binding is left */
	must(cuMulticastUnbind(object, 0, 2 * GRAIN, 2 * GRAIN), "unbind");
	must(cuMemAllocAsync(&stream_ordered, 2 * GRAIN, NULL), "async");
	must(cuMulticastBindAddr(object, 0, stream_ordered, 2 * GRAIN, 0), "bind async");
	must(cuMulticastUnbind(object, 0, 0, 2 * GRAIN), "unbind");
	must(cuMemFreeAsync(stream_ordered, NULL), "free async");
	must(cuMemUnmap(address + 4 * GRAIN, 4 * GRAIN), "unmap");
	must(cuMemRelease(object), "release");
	must(cuMemAddressFree(address, 8 * GRAIN), "free");
}

/* The object takes its bindings with it: released, but mapped, it does not yet. */
static void gone_with_object(void)
{
	vmm_handle object = make_object(), memory = create_on(device, 0, 2 * GRAIN);
	CUdeviceptr address = reserve(4 * GRAIN);

	bind(object, 0, memory);
	map(address, 4 * GRAIN, object);
	must(cuMemRelease(memory), "release");
	must(cuMemRelease(object), "release");
	must(cuMemUnmap(address, 4 * GRAIN), "unmap");
	must(cuMemAddressFree(address, 4 * GRAIN), "free");
	object = make_object();
	memory = create_on(device, 0, 2 * GRAIN);
	bind(object, 0, memory);
	must(cuMemRelease(memory), "release");
	must(cuMemRelease(object), "release");
}

static void twice(void)
{
	vmm_handle object = make_object(), memory = create_on(device, 0, 2 * GRAIN);

	bind(object, 0, memory); /* @twice */
	must(cuMemRelease(memory), "release");
	must(cuMulticastUnbind(object, 0, 0, 2 * GRAIN), "unbind"); /* @once */
	printf("again: %d\n", cuMulticastUnbind(object, 0, 0, 2 * GRAIN)); /* @again */
	printf("stranger: %d\n", cuMulticastUnbind(object, 0, GRAIN, GRAIN)); /* @stranger */
	must(cuMemRelease(object), "release");
}

static void refused(void)
{
	vmm_handle object = make_object(), memory = create_on(device, 0, 2 * GRAIN); /* @half */

	bind(object, 0, memory); /* @sized */
	printf("half: %d\n", cuMulticastUnbind(object, 0, 0, GRAIN)); /* @half_unbind */
	printf("unbind: %d\n", cuMulticastUnbind(object, 0, 0, 2 * GRAIN)); /* @unbind */
	printf("unbind: %d\n", cuMulticastUnbind(object, 0, 0, 2 * GRAIN));
	must(cuMemRelease(memory), "release");
	must(cuMemRelease(object), "release");
}

int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "left";

	begin();
	if (strcmp(story, "left") == 0)
		left(); /* @main_left */
	else if (strcmp(story, "freed") == 0)
		freed();
	else if (strcmp(story, "gone") == 0)
		gone_with_object();
	else if (strcmp(story, "twice") == 0)
		twice(); /* @main_twice */
	else
		refused(); /* @main_refused */
	return 0;
}
