/* SPDX-License-Identifier: MIT
 *
 * Reads GPULEAK_* once. Owns the copies of the values and the warnings about bad values. No
 * other file of the library reads GPULEAK_* variables.
 */
#include "interpose/base/config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "ledger/nocancel.h"
#include "interpose/base/message.h"

struct options config;
const char *config_texts[OPTION_COUNT];
bool config_is_read;
_Atomic bool recording_is_off;
bool recording_was_requested, recording_is_prepared;
static const _Atomic uint32_t no_request;
const _Atomic uint32_t *recording_request = &no_request;
const char *config_roster;
const char *config_run;

#define PREFIX "GPULEAK_"
#define WARNINGS_MAX 8
#define SHOWN_MAX 256 /* bytes; a longer bad value is not printed, because say() cuts long lines */

static char store[32768];
static size_t stored;
static struct {
	char name[64];
	int id; /* -1: no such option */
	const char *value; /* NULL: too long to print */
} warnings[WARNINGS_MAX];
static unsigned int warning_count;

/* Variables of the command or of tests. They are not options. */
static const char *const internal[] = { "LIBRARY", "ROSTER", "BYPASS", "RUN", "TREE", "BEFORE" };

static void warn_later(const char *name, size_t length, int id, const char *value)
{
	if (warning_count == WARNINGS_MAX)
		return;
	if (length >= sizeof(warnings[0].name))
		length = sizeof(warnings[0].name) - 1;
	memcpy(warnings[warning_count].name, name, length);
	warnings[warning_count].value = value && strlen(value) <= SHOWN_MAX ? value : NULL;
	warnings[warning_count++].id = id;
}

static const char *copy_value(const char *value)
{
	size_t size = strlen(value) + 1;
	char *copy = store + stored;

	if (size > sizeof(store) - stored)
		return NULL;
	memcpy(copy, value, size);
	stored += size;
	return copy;
}

static bool is_internal(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(internal) / sizeof(internal[0]); i++)
		if (strlen(internal[i]) == length && memcmp(internal[i], name, length) == 0)
			return true;
	return false;
}

static void read_one(const char *name, const char *equals)
{
	size_t length = (size_t)(equals - name);
	int id = option_find(name, length);
	const char *value;

	if (id < 0) {
		if (!is_internal(name, length))
			warn_later(name, length, -1, NULL);
		else if (strncmp(name, "ROSTER=", sizeof("ROSTER=") - 1) == 0)
			config_roster = copy_value(equals + 1);
		else if (strncmp(name, "RUN=", sizeof("RUN=") - 1) == 0)
			config_run = copy_value(equals + 1);
		return;
	}
	value = copy_value(equals + 1);
	if (!value || option_set(&config, id, value) < 0)
		warn_later(name, length, id, value);
	else
		config_texts[id] = value;
}

static void read_variable(const char *variable)
{
	const char *equals = strchr(variable, '=');

	if (equals && strncmp(variable, PREFIX, sizeof(PREFIX) - 1) == 0)
		read_one(variable + sizeof(PREFIX) - 1, equals);
}

/* Reads the variables from /proc. A GPU call from DT_PREINIT_ARRAY runs before libc has set
 * `environ`. */
static void read_before_libc(void)
{
	static char text[65536];
	int fd = nocancel_open("/proc/self/environ", O_RDONLY | O_CLOEXEC, 0);
	size_t length = 0;
	ssize_t n;

	if (fd < 0)
		return;
	while (length < sizeof(text) - 1 &&
	       (n = nocancel_read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)n;
	nocancel_close(fd);
	text[length] = '\0';
	for (char *at = text; at < text + length; at += strlen(at) + 1)
		read_variable(at);
}

static void read_all(void)
{
	/* the caller of a set-user-ID program must not control that program */
	if (getauxval(AT_SECURE))
		return;
	if (!environ) {
		read_before_libc();
		return;
	}
	for (char **variable = environ; *variable; variable++)
		read_variable(*variable);
}

void config_read(void)
{
	options_defaults(&config);
	read_all();
	config_is_read = true;
}

bool config_read_settings(const char *settings, config_setting *internal_setting)
{
	const char *at = settings, *end;

	options_defaults(&config);
	memset(config_texts, 0, sizeof(config_texts));
	config_roster = config_run = NULL;
	warning_count = 0;
	stored = 0;
	for (; *at; at = end + 1) {
		size_t length;
		char *line = store + stored;

		end = strchr(at, '\n');
		length = end ? (size_t)(end - at) : 0;
		if (!end || length + 1 > sizeof(store) - stored ||
		    length < sizeof(PREFIX) || strncmp(at, PREFIX, sizeof(PREFIX) - 1) != 0 ||
		    !memchr(at, '=', length))
			return false;
		memcpy(line, at, length);
		line[length] = '\0';
		stored += length + 1;
		if (!internal_setting(line + sizeof(PREFIX) - 1))
			read_variable(line);
	}
	config_is_read = recording_was_requested = true;
	return true;
}

static const char *default_of(int id)
{
	const char *text = option_rows[id].default_text;

	return text[0] ? text : "unset";
}

void config_warn(void)
{
	for (unsigned int i = 0; i < warning_count; i++) {
		const char *value = warnings[i].value;
		int id = warnings[i].id;

		if (id < 0)
			say("gpuleak: " PREFIX, warnings[i].name,
			    ": no such option, ignored; `gpuleak run --help` lists them\n", NULL);
		else
			say("gpuleak: bad value '", value ? value : "(too long)", "' of " PREFIX,
			    warnings[i].name, ": expected is ", option_expects(id),
			    "; the default is used: ", default_of(id), "\n", NULL);
	}
	warning_count = 0;
}
