/* SPDX-License-Identifier: MIT
 *
 * The directory of this library, in which its command and its private libraries are looked for.
 * Must not open any of them.
 */
#ifndef GPULEAK_LIBRARY_DIRECTORY_H
#define GPULEAK_LIBRARY_DIRECTORY_H

/* Returns the absolute path of the directory, with a '/' at its end; "" if it is unknown. If the
 * library was loaded through a symbolic link, it is the directory of the file itself. The
 * constructor makes the first call, before there are other threads: the library's path may be
 * relative to the working directory of that moment. Takes no lock; keeps errno. */
const char *library_directory(void);

#endif
