/* SPDX-License-Identifier: MIT
 *
 * The commit that this command was built from. meson.build makes version.c from version.c.in.
 */
#ifndef GPULEAK_TOOLS_VERSION_H
#define GPULEAK_TOOLS_VERSION_H

/* 12 hexadecimal digits, with -dirty if tracked files were changed; "unknown" if the build had
 * neither a git checkout nor the tarball's file COMMIT. */
extern const char version_commit[];

#endif
