/* SPDX-License-Identifier: MIT
 *
 * From a finished recording to a report on the user's screen.
 */
#ifndef GPULEAK_VERDICT_H
#define GPULEAK_VERDICT_H

#include <stdbool.h>

#include "recorder.h"

/* Reports as the options say, and removes the ledger unless it is to be kept. Returns
 * true if the gate failed. Takes no lock that another thread could hold for long; may be
 * called from a signal handler (by way of _exit). */
bool verdict_report(struct recorder *recorder);

/* Where the gpuleak command is that belongs to this library. */
bool verdict_find_command(char *ret, size_t size);

#endif
