/* SPDX-License-Identifier: MIT
 *
 * Sets variables of the program, and makes GPULEAK_RUN, by which the library puts back what
 * `gpuleak run` has set (ledger/run_environment.h). Only for the child that is about to start the
 * program: it changes the environment, and its memory is never freed.
 */
#pragma once

/* Puts FIRST in front of the list with colons in the variable NAME. */
void run_variables_put(const char *name, const char *first);
/* Does the same unless the list, in which any of SEPARATORS ends a word, already begins so. */
void run_variables_put_once(const char *name, const char *first, const char *separators);

/* Remembers the environment as it is before this run sets anything. */
void run_variables_begin(void);

/* Sets GPULEAK_RUN to what was set since run_variables_begin(), to LIBRARY in LD_PRELOAD, and to
 * what the value of an outer `gpuleak run` has. */
void run_variables_set(const char *library);
