/* SPDX-License-Identifier: MIT
 *
 * The only GPU user is a plugin (bypassed_plugin.c), opened with RTLD_DEEPBIND if the second
 * argument says so. The program itself is not linked to the driver.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int flags = RTLD_NOW | (strcmp(argv[2], "deepbind") == 0 ? RTLD_DEEPBIND : 0);
	void *plugin = dlopen(argv[1], flags);
	void (*work)(void) = (void (*)(void))(plugin ? dlsym(plugin, "work") : NULL);

	if (!work)
		return 1;
	work(); /* @work */
	puts("worked");
	fflush(stdout);
	if (argc > 3 && strcmp(argv[3], "close") == 0)
		return dlclose(plugin) != 0;
	if (argc > 3) /* "_exit" */
		_exit(0);
	return 0;
}
