/* SPDX-License-Identifier: MIT
 *
 * Records which functions of an instrumented build run between walk_begin() and walk_end(), for
 * walks.py: a preload that gcc's -finstrument-functions calls at each entry and exit. Writes
 * "DEPTH ADDRESS" lines. Must not call anything that is instrumented.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENTS_MAX (1u << 20)

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);
void walk_begin(void);
void walk_end(const char *path);

static struct event {
	void *function;
	unsigned int depth;
} events[EVENTS_MAX];
static unsigned int count, depth;
static __thread bool mine; /* the thread that is followed */

void walk_begin(void)
{
	count = depth = 0;
	mine = true;
}

void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	if (!mine)
		return;
	depth++;
	if (count < EVENTS_MAX)
		events[count++] = (struct event){ function, depth };
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
	if (mine && depth)
		depth--;
}

void walk_end(const char *path)
{
	FILE *out;

	mine = false;
	out = fopen(path, "w");
	if (!out)
		abort();
	for (unsigned int i = 0; i < count; i++) {
		Dl_info where = { 0 };

		dladdr(events[i].function, &where);
		fprintf(out, "%u %s %#lx\n", events[i].depth,
			where.dli_fname ? where.dli_fname : "?",
			(unsigned long)((uintptr_t)events[i].function -
					(uintptr_t)where.dli_fbase));
	}
	fclose(out);
}

/* WALK_WHOLE=PATH: all of the process, as for the command. */
static __attribute__((constructor)) void whole(void)
{
	if (getenv("WALK_WHOLE"))
		walk_begin();
}

static __attribute__((destructor)) void whole_ends(void)
{
	const char *path = getenv("WALK_WHOLE");

	if (path)
		walk_end(path);
}
