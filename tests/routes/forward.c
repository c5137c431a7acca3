/* SPDX-License-Identifier: MIT
 *
 * A weak forwarder, as OpenMP's ompt_start_tool: each library that has it looks for the
 * next one and adds itself. Built three times with another TAG; the digits of the result
 * are the libraries that were asked, in order. Whoever answers RTLD_NEXT for another
 * caller than the true one makes it call itself for ever.
 */
#include <dlfcn.h>
#include <stddef.h>

/* One name of each library's own, so that a program needs all of them. */
#define JOIN(a, b) a##b
#define NEEDED(tag) JOIN(needed_, tag)
int NEEDED(TAG)(void);
int NEEDED(TAG)(void)
{
	return TAG;
}

int start_tool(int depth);
__attribute__((weak)) int start_tool(int depth)
{
	int (*next)(int);

	if (depth > 5)
		return 0; /* in a circle */
	*(void **)&next = dlsym(RTLD_NEXT, "start_tool");
	return TAG + (next ? 10 * next(depth + 1) : 0);
}
