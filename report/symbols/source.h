/* SPDX-License-Identifier: MIT
 *
 * Finds the root of the source tree, so that CI systems can match a file by its path in the
 * repository. Must not open files.
 */
#pragma once

#include <limits.h>

/* The directory to which paths are relative: PATH as the environment names it, REAL with symbolic
 * links resolved. "" unknown. Neither of them ends with a slash. */
struct source_root {
	char path[PATH_MAX];
	char real[PATH_MAX];
};

/* Uses $GITHUB_WORKSPACE, else $CI_PROJECT_DIR (GitLab), else the working directory. */
void source_root_find(struct source_root *ret);

/* Returns the part of FILE below ROOT, or FILE itself if it is relative. Returns NULL if FILE is
 * not below ROOT or contains `..`. */
const char *source_relative(const struct source_root *root, const char *file);

/* Returns the path for a CI system: relative to ROOT if possible, else FILE. */
const char *source_path(const struct source_root *root, const char *file);
