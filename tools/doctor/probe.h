/* SPDX-License-Identifier: MIT
 *
 * Runs what may crash or hang in a child process with a time limit: a driver's library, a damaged
 * file, an interpreter. Must not change this process.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "report/util/text_buffer.h"

/* The caller declares it so: AT_END(probe_finish) struct probe probe = { 0 }; */
struct probe {
	char *text;    /* what the child wrote, terminated by 0; "" after an error */
	size_t length;
	int status;    /* as wait() returns it */
};

/* Calls FUNCTION(OUT, DATA) in a child. Returns 0 if the child ended, also by a signal; -ETIMEDOUT
 * if it did not end within SECONDS and was killed; or another -errno. */
int probe_call(void (*function)(FILE *out, void *data), void *data, int seconds,
	       struct probe *ret);

/* Does the same for a command. Its standard output and error are both read. PRELOAD is the value of
 * LD_PRELOAD; NULL: none. */
int probe_command(char *const argv[], const char *preload, int seconds, struct probe *ret);

/* Does the same for loading library NAME: the text is the loader's error, or "". */
int probe_library(const char *name, int seconds, struct probe *ret);

/* Returns true if the child called exit(0) or returned. */
int probe_succeeded(const struct probe *probe);

void probe_finish(struct probe *probe);

/* Returns the advice for a library that did not load: USUAL, or to raise a limit on address space,
 * which also lets healthy libraries fail or crash. */
const char *probe_load_advice(const char *usual);
