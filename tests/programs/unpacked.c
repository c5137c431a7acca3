/* SPDX-License-Identifier: MIT
 *
 * Loads a copy of a plugin (unpacked_plugin.c) as programs do that unpack their libraries: the file
 * is gone when the process ends. The second argument says when the copy is removed: "before" or
 * "after" its GPU call, or "memfd": it never had a name. "twice": two copies, removed after.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void copy(const char *from, int to)
{
	char bytes[65536];
	int fd = open(from, O_RDONLY);
	ssize_t got;

	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)got) != got)
			exit(1);
	close(fd);
}

static void (*load(const char *path))(void)
{
	void *plugin = dlopen(path, RTLD_NOW);

	return (void (*)(void))(plugin ? dlsym(plugin, "work") : NULL);
}

int main(int argc, char **argv)
{
	unsigned int copies = argc > 2 && strcmp(argv[2], "twice") == 0 ? 2 : 1;
	char paths[2][64];
	void (*works[2])(void);

	for (unsigned int i = 0; i < copies; i++) {
		int fd;

		snprintf(paths[i], sizeof(paths[i]), "/tmp/gpuleak-unpacked-XXXXXX");
		if (strcmp(argv[2], "memfd") == 0) {
			fd = memfd_create("plugin", 0);
			snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", fd);
		} else {
			fd = mkstemp(paths[i]);
		}
		copy(argv[1], fd);
		works[i] = load(paths[i]);
		if (!works[i])
			return 1;
		if (strcmp(argv[2], "before") == 0)
			unlink(paths[i]);
	}
	for (unsigned int i = 0; i < copies; i++) {
		works[i]();
		unlink(paths[i]);
	}
	puts("worked");
	return 0;
}
