/* SPDX-License-Identifier: MIT
 *
 * The report that the library prints itself if the gpuleak command cannot be run. Its frames have
 * modules, offsets and dynamic symbols. It applies no suppressions.
 */
#ifndef GPULEAK_PLAIN_H
#define GPULEAK_PLAIN_H

#include <stdbool.h>

#include "interpose/recorder/recorder.h"

/* Writes the report to FD, with WHY (how to get a better one) at its end. Returns true if there
 * are leaks or errors. *RET_WRITTEN becomes false if FD did not take the whole report. */
bool plain_report(struct recorder *recorder, int fd, const char *why, bool *ret_written);

#endif
