/* SPDX-License-Identifier: MIT
 *
 * Where the source tree is, so that CI systems find a file by its path in the repository. Owns
 * the choice of the root; must not open files.
 */
#ifndef GPULEAK_REPORT_SOURCE_H
#define GPULEAK_REPORT_SOURCE_H

#include <limits.h>

/* The directory that paths are relative to, as it was named and with its links followed; ""
 * unknown. Neither ends in a slash. */
struct source_root {
	char path[PATH_MAX];
	char real[PATH_MAX];
};

/* $GITHUB_WORKSPACE, else $CI_PROJECT_DIR (GitLab), else the working directory. */
void source_root_find(struct source_root *ret);

/* The part of FILE below ROOT; FILE itself if it is relative; NULL if it lies elsewhere or has a
 * `..` in it. */
const char *source_relative(const struct source_root *root, const char *file);

/* The path to show a CI system: relative where that is possible. */
const char *source_path(const struct source_root *root, const char *file);

#endif
