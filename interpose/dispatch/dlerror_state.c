/* SPDX-License-Identifier: MIT
 *
 * Reads a pending dlerror() message and makes it pending again, by a loader call that fails in the
 * same way. Supports glibc's two common messages; any other message is lost.
 */
#include "interpose/dispatch/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "interpose/base/fork_guard.h"

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

static int has_wanted_name(struct dl_phdr_info *info, size_t size, void *data)
{
	struct wanted *wanted = data;

	(void)size;
	wanted->found = info->dlpi_name && strcmp(info->dlpi_name, wanted->name) == 0;
	return wanted->found;
}

/* Repeats the lookup of SYMBOL, which fails again. The handle is closed before the lookup, because
 * closing it afterwards would clear the message. It stays valid, because the application has its
 * own reference. */
static void look_up_again(const char *module, const char *symbol)
{
	struct wanted wanted = { module, false };
	void *handle;

	/* Messages name the program by argv[0]; its name in the loader's list is empty. */
	fork_guard_iterate(has_wanted_name, &wanted);
	handle = dlopen(wanted.found ? module : NULL, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return;
	lookup_close(handle);
	lookup_real(handle, symbol);
}

void dlerror_give_back(const struct dlerror_state *state)
{
	char text[sizeof(state->message)];
	char *at;

	dlerror(); /* clear what gpuleak's own calls left */
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
