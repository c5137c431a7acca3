/* SPDX-License-Identifier: MIT
 *
 * A framework's cache that `gpuleak run --bypass-pools` switches off. The command fills the list;
 * ledgers do not contain it.
 */
#ifndef GPULEAK_REPORT_MODEL_BYPASS_H
#define GPULEAK_REPORT_MODEL_BYPASS_H

#include <stdbool.h>
#include <stddef.h>

struct report_bypass {
	const char *framework;  /* "CuPy" */
	const char *setting;    /* "VARIABLE=VALUE", or a call in Python */
	bool switched_off;      /* false: the user's setting or a problem prevents it */
	const char *found;      /* the user's value of the variable, which stays; NULL: none */
	const char *changes;    /* what is different for the program */
	int *pids; /* processes whose cache held memory at the end, although it was switched off */
	size_t pid_count;
};

#endif
