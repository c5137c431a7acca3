/* SPDX-License-Identifier: MIT
 *
 * The names of signals, which glibc has only since 2.32.
 */
#ifndef GPULEAK_REPORT_SIGNAL_NAME_H
#define GPULEAK_REPORT_SIGNAL_NAME_H

/* Returns the name of SIGNAL without "SIG", or NULL if it has none. */
const char *signal_name(int signal);

#endif
