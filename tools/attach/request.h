/* SPDX-License-Identifier: MIT
 *
 * Begins recording in a running process: by its page if it was started with GPULEAK_RECORD=off,
 * otherwise by a call in it. Prints nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tools/attach/target.h"

#define REQUEST_ERROR_SIZE 600

/* Returns true if gpuleak already records process PID, or if PID is a `gpuleak run`, with a
 * sentence in WHY. */
bool attach_is_recorded(int pid, char *why, size_t size);

/* Begins recording with SETTINGS (ledger/attach.h). LIBRARY is the path of the library in the
 * process. Returns true, or false with the reason in ERROR. */
bool attach_request(const struct target *target, const char *library, const char *settings,
		    char error[REQUEST_ERROR_SIZE]);
