/* SPDX-License-Identifier: MIT
 *
 * Takes a pending dlerror() message and makes it pending again, by a loader call that
 * fails in the same way. Owns the knowledge of glibc's two common messages; a message of
 * another kind is lost.
 */
#include "interpose/dispatch/dlerror_state.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "interpose/dispatch/loader.h"

#define UNDEFINED ": undefined symbol: "
#define NOT_OPENED ": cannot open shared object file: "

void dlerror_take(struct dlerror_state *ret)
{
	const char *message = dlerror();
	size_t length = message ? strlen(message) : 0;

	if (length >= sizeof(ret->message))
		length = 0;
	memcpy(ret->message, message ? message : "", length);
	ret->message[length] = '\0';
}

struct wanted {
	const char *name;
	bool found;
};

static int match(struct dl_phdr_info *info, size_t size, void *data)
{
	struct wanted *wanted = data;

	(void)size;
	wanted->found = info->dlpi_name && strcmp(info->dlpi_name, wanted->name) == 0;
	return wanted->found;
}

/* Fails as it did before. The reference is given back first, since giving it back would
 * clear the message; the application's own keeps the handle good. */
static void look_up_again(const char *module, const char *symbol)
{
	int (*close_handle)(void *) = (int (*)(void *))lookup_real(RTLD_NEXT, "dlclose");
	struct wanted wanted = { module, false };
	void *handle;

	/* The program itself goes by argv[0] in messages and by no name in the list. */
	dl_iterate_phdr(match, &wanted);
	handle = dlopen(wanted.found ? module : NULL, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return;
	if (close_handle)
		close_handle(handle);
	lookup_real(handle, symbol);
}

void dlerror_give_back(const struct dlerror_state *state)
{
	char text[sizeof(state->message)];
	char *at;

	dlerror(); /* whatever our own calls left */
	if (!state->message[0])
		return;
	memcpy(text, state->message, sizeof(text));
	at = strstr(text, UNDEFINED);
	if (at) {
		*at = '\0';
		look_up_again(text, at + sizeof(UNDEFINED) - 1);
		return;
	}
	at = strstr(text, NOT_OPENED);
	if (at) {
		*at = '\0';
		dlopen(text, RTLD_LAZY | RTLD_NOLOAD);
	}
}
