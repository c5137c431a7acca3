/* SPDX-License-Identifier: MIT
 *
 * The directory of this library, in which its command and its private libraries are looked for.
 * Must not open any of them.
 */
#pragma once

/* Returns the absolute path of the directory, with a '/' at its end; "" if it is unknown. If the
 * library was loaded through a symbolic link, it is the directory of the file itself. libgpuleak's
 * constructor makes the first call, for two reasons: there are no other threads yet, and a relative
 * path of the library is relative to the working directory at that time. Takes no lock; keeps
 * errno. */
const char *library_directory(void);
