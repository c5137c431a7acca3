/* SPDX-License-Identifier: MIT
 *
 * Opens libraries that have a cl_story() in one way and has each tell its story: in turn,
 * and again after closing them, so that what was known of them must be found anew.
 *
 * opener local|global|deepbind|namespace|reopen|threads STORY PLATFORM LIBRARY...
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *open_as(const char *way, const char *path)
{
	if (strcmp(way, "namespace") == 0)
		return dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
	if (strcmp(way, "deepbind") == 0)
		return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	return dlopen(path, RTLD_NOW | (strcmp(way, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
}

static int tell(const char *way, const char *path, char **argv)
{
	void *library = open_as(way, path);
	int (*story)(int, char **);
	int r;

	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	*(void **)&story = dlsym(library, "cl_story");
	if (!story)
		return 2;
	r = story(3, argv);
	fflush(stdout);
	if (strcmp(way, "reopen") == 0 || strcmp(way, "threads") == 0)
		dlclose(library);
	return r;
}

/* Each thread opens and closes them all, beginning with another one. */
enum { THREADS = 8, TURNS = 40 };
static char **libraries;
static int library_count;

static void *storm(void *first)
{
	char *argv[] = { NULL, NULL, NULL };
	long turn = (long)first;

	for (int i = 0; i < TURNS; i++, turn++)
		if (tell("threads", libraries[turn % library_count], argv))
			return first;
	return NULL;
}

static int storms(void)
{
	pthread_t threads[THREADS];
	int r = 0;

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, storm, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		r |= failed != NULL;
	}
	return r;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 && strcmp(argv[1], "reopen") == 0 ? 3 : 1, r = 0;

	if (argc < 5)
		return 3;
	libraries = argv + 4;
	library_count = argc - 4;
	if (strcmp(argv[1], "threads") == 0)
		return storms();
	for (int round = 0; round < rounds; round++)
		for (int i = 4; i < argc && r == 0; i++)
			r = tell(argv[1], argv[i], argv + 1);
	return r;
}
