/* SPDX-License-Identifier: MIT
 *
 * Opens a plugin RTLD_LOCAL and lets it be the program: neither its symbols nor those of the
 * driver that it is linked to are in anybody's global scope.
 *
 * opener PLUGIN ARGUMENT...
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*run)(int, char **) = NULL;

	if (plugin)
		*(void **)&run = dlsym(plugin, "matrix_main");
	if (!run) {
		printf("%s\n", dlerror());
		return 1;
	}
	return run(argc - 1, argv + 1);
}
