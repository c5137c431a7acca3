/* SPDX-License-Identifier: MIT
 *
 * Decides and sets what bypass.def lists. bypass_report.c reports it. Must not change a variable
 * that the user set.
 */
#include "tools/launch/bypass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "tools/launch/library.h"
#include "tools/launch/run_variables.h"

static const struct report_bypass table[BYPASS_COUNT] = {
#define BYPASS(framework_, setting_, cache, memory, import, changes_) \
	{ .framework = framework_, .setting = setting_, .changes = changes_ },
#include "tools/launch/bypass.def"
#undef BYPASS
};

/* Writes the variable of SETTING, "VARIABLE=VALUE", to RET. Returns the value, or NULL if SETTING
 * is a call in Python. */
static const char *split(const char *setting, char ret[64])
{
	const char *equals = strchr(setting, '=');

	if (!equals)
		return NULL;
	snprintf(ret, 64, "%.*s", (int)(equals - setting), setting);
	return equals + 1;
}

static void start_variable(struct report_bypass *row)
{
	char variable[64];
	const char *value = split(row->setting, variable), *found = getenv(variable);

	row->switched_off = !found || !*found || strcmp(found, value) == 0;
	if (row->switched_off)
		return;
	row->found = found;
	print_error("--bypass-pools did not change %s, which is %s in the environment", variable,
		    found);
}

void bypass_start(struct bypass *bypass)
{
	char error[PATH_MAX * 2];
	char variable[64];

	memset(bypass, 0, sizeof(*bypass));
	if (library_find_module(bypass->module, sizeof(bypass->module), error, sizeof(error)) < 0) {
		bypass->module[0] = '\0';
		print_error("CuPy's cache cannot be switched off: %s", error);
	}
	for (int i = 0; i < BYPASS_COUNT; i++) {
		bypass->rows[i] = table[i];
		if (split(table[i].setting, variable))
			start_variable(&bypass->rows[i]);
		else
			bypass->rows[i].switched_off = bypass->module[0];
	}
}

void bypass_prepare(const struct bypass *bypass, const char *directory)
{
	char variable[64];

	for (int i = 0; i < BYPASS_COUNT; i++) {
		const char *value = split(bypass->rows[i].setting, variable);

		if (value && bypass->rows[i].switched_off)
			setenv(variable, value, 1);
	}
	if (!bypass->module[0])
		return;
	run_variables_put_once("PYTHONPATH", bypass->module, ":");
	setenv("GPULEAK_BYPASS", directory, 1);
}

void bypass_finish(struct bypass *bypass)
{
	for (int i = 0; i < BYPASS_COUNT; i++)
		free(bypass->rows[i].pids);
	memset(bypass, 0, sizeof(*bypass));
}
