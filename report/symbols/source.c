/* SPDX-License-Identifier: MIT
 *
 * Compares paths as text. Does not check if a path of the traced process exists on this machine.
 */
#include "report/symbols/source.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies PATH without final slashes. Does not accept "/" as a root, because it would contain every
 * file. */
static void set(char *to, const char *path)
{
	size_t length = strlen(path);

	while (length > 0 && path[length - 1] == '/')
		length--;
	if (path[0] != '/' || length >= PATH_MAX)
		length = 0;
	memcpy(to, path, length);
	to[length] = '\0';
}

void source_root_find(struct source_root *ret)
{
	static const char *const variables[] = { "GITHUB_WORKSPACE", "CI_PROJECT_DIR" };
	char path[PATH_MAX];

	*ret = (struct source_root){ 0 };
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !ret->path[0]; i++) {
		const char *value = getenv(variables[i]);

		if (value)
			set(ret->path, value);
	}
	if (!ret->path[0] && getcwd(path, sizeof(path)))
		set(ret->path, path);
	if (ret->path[0] && realpath(ret->path, path))
		set(ret->real, path);
}

static const char *below(const char *root, const char *file)
{
	size_t length = strlen(root);

	if (length == 0 || strncmp(file, root, length) != 0 || file[length] != '/')
		return NULL;
	return file + length + strspn(file + length, "/");
}

static bool climbs(const char *path)
{
	while (path) {
		if (strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0'))
			return true;
		path = strchr(path, '/');
		path = path ? path + 1 : NULL;
	}
	return false;
}

const char *source_relative(const struct source_root *root, const char *file)
{
	const char *ret = file[0] == '/' ? below(root->path, file) : file;

	if (!ret)
		ret = below(root->real, file);
	return ret && *ret && !climbs(ret) ? ret : NULL;
}

const char *source_path(const struct source_root *root, const char *file)
{
	const char *relative = source_relative(root, file);

	return relative ? relative : file;
}
