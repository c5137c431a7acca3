/* SPDX-License-Identifier: MIT
 *
 * Compares the environment before and after this run set its variables. Must not know which
 * variables these are: the files that set them do.
 */
#include "tools/launch/run_variables.h"

#include "ledger/run_environment.h"
#include "tools/launch/system.h"

/* Variables that are lists with colons. */
static const char *const lists[] = { "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH",
				     "ASAN_OPTIONS" };
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static char **before; /* the variables as NAME=VALUE, with a final NULL */

void run_variables_put(const char *name, const char *first)
{
	const char *rest = getenv(name);
	FREE_AT_END char *both =
		text_format("%s%s%s", first, rest && *rest ? ":" : "", rest ? rest : "");

	setenv(name, both, 1);
}

void run_variables_put_once(const char *name, const char *first, const char *separators)
{
	const char *value = getenv(name);
	const size_t length = strlen(first);

	if (!value || strncmp(value, first, length) != 0 ||
	    (value[length] && !strchr(separators, value[length])))
		run_variables_put(name, first);
}

void run_variables_begin(void)
{
	size_t count = 0;

	while (environ[count])
		count++;
	before = calloc(count + 1, sizeof(*before));
	for (size_t i = 0; i < count; i++)
		before[i] = strdup(environ[i]);
}

/* Returns the value of the variable NAME before this run, or "". */
static const char *value_before(const char *name)
{
	const size_t length = strlen(name);

	for (char **at = before; at && *at; at++)
		if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
			return *at + length + 1;
	return "";
}

static bool was_there(const char *variable)
{
	for (char **at = before; at && *at; at++)
		if (strcmp(*at, variable) == 0)
			return true;
	return false;
}

static bool is_list(const char *variable)
{
	for (size_t i = 0; i < LISTS; i++)
		if (strncmp(variable, lists[i], strlen(lists[i])) == 0 &&
		    variable[strlen(lists[i])] == '=')
			return true;
	return false;
}

static void put_escaped(FILE *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		fprintf(out, strchr(" \n%", text[i]) ? "%%%02X" : "%c", (unsigned int)text[i]);
}

/* Prints what this run has put in front of the list NAME. */
static void put_list(FILE *out, const char *name, const char *library)
{
	const char *value = getenv(name), *old = value_before(name);
	size_t length = value ? strlen(value) : 0, old_length = strlen(old);

	if (length <= old_length || strcmp(value + length - old_length, old) != 0) {
		/* An outer run may have put the library there. */
		if (strcmp(name, "LD_PRELOAD") == 0)
			fprintf(out, " LD_PRELOAD=%s", library);
		return;
	}
	length -= old_length + (old_length > 0); /* the colon */
	fprintf(out, " %s=", name);
	put_escaped(out, value, length);
}

/* Prints the names of the variables, which are no lists, that this run has set, or that are
 * gpuleak's and that the user has set. */
static void put_names(FILE *out)
{
	for (char **at = environ; *at; at++) {
		const char *equals = strchr(*at, '=');

		if (!equals || is_list(*at) || strncmp(*at, RUN_ENVIRONMENT "=", 12) == 0)
			continue;
		if (strncmp(*at, "GPULEAK_", 8) == 0 || !was_there(*at))
			fprintf(out, " %.*s", (int)(equals - *at), *at);
	}
}

void run_variables_set(const char *library)
{
	const char *outer = getenv(RUN_ENVIRONMENT);
	FREE_AT_END char *words = PRINTED(to,
		for (size_t i = 0; i < LISTS; i++)
			put_list(to, lists[i], library);
		put_names(to);
		if (outer)
			fprintf(to, " %s", outer));

	setenv(RUN_ENVIRONMENT, words + 1, 1);
}
