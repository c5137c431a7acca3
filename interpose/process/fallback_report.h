/* SPDX-License-Identifier: MIT
 *
 * The report of last resort, printed by the library itself when the gpuleak command
 * can't be run: modules and offsets, dynamic symbols, no suppressions.
 */
#ifndef GPULEAK_PLAIN_H
#define GPULEAK_PLAIN_H

#include <stdbool.h>

#include "interpose/recorder/recorder.h"

/* Writes it to FD with WHY (how to get a better one) at its end. True if there are leaks
 * or errors. */
bool plain_report(struct recorder *recorder, int fd, const char *why);

#endif
