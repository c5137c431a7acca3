/* SPDX-License-Identifier: MIT
 *
 * No driver in the process, as on a machine without a GPU: who asks the global scope
 * whether there is one must get NULL and a message, once.
 */
#include <dlfcn.h>
#include <stdio.h>

static void ask(void *handle, const char *name)
{
	const char *message;

	printf("%s: %s", name, dlsym(handle, name) ? "found" : "not found");
	message = dlerror();
	printf(", %s", message ? message : "no message");
	printf(", then %s\n", dlerror() ? "a message" : "none");
	fflush(stdout);
}

int main(void)
{
	static const char *const names[] = { "nothing", "cuFoo", "cuMemAlloc_v2", "cuInit",
					     "clCreateBuffer", "cuMemAlloc_v2" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ask(dlopen(NULL, RTLD_NOW), names[i]);
		ask(RTLD_DEFAULT, names[i]);
		ask(RTLD_NEXT, names[i]);
	}
	return 0;
}
