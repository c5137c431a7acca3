/* SPDX-License-Identifier: MIT
 *
 * Opens one plugin after the other, lets each leak, and closes it again: the second one
 * very likely lies where the first one was.
 */
#include <dlfcn.h>

#include "cu.h"

static void use(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void (*work)(void) = plugin ? (void (*)(void))dlsym(plugin, "plugin_work") : NULL;

	if (!work) {
		printf("%s: %s\n", path, dlerror());
		exit(1);
	}
	work(); /* @call */
	dlclose(plugin);
}

int main(int argc, char **argv)
{
	begin();
	for (int i = 1; i < argc; i++)
		use(argv[i]); /* @main */
	printf("used %d\n", argc - 1);
	return 0;
}
