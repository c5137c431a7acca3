/* SPDX-License-Identifier: MIT
 *
 * A C program that makes GPU calls first, and only then opens a C++ library: by that time
 * a tracer has loaded its unwinder, which must not have come in front of libgcc's.
 */
#include <dlfcn.h>

#include "cu.h"

int main(int argc, char **argv)
{
	static const struct driver driver = LINKED_DRIVER;
	void *handle;
	void (*throw_and_tell)(void);

	work(&driver);
	handle = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_GLOBAL);
	need(handle, "library");
	*(void **)&throw_and_tell = dlsym(handle, "throw_and_tell");
	need((void *)throw_and_tell, "throw_and_tell");
	throw_and_tell();
	return 0;
}
