/* SPDX-License-Identifier: MIT
 *
 * A call site: what identifies a call that allocates, wherever the report lists one. The builder
 * interns call sites, so two sites of one process are equal if their pointers are. Must not include
 * other headers of model/.
 */
#ifndef GPULEAK_REPORT_SITE_H
#define GPULEAK_REPORT_SITE_H

#include <stdbool.h>
#include <stdint.h>

struct report_stack;

struct report_site {
	const char *api;  /* never NULL */
	const char *kind; /* of the memory or the object; never NULL, "unknown" if there is none */
	int device;       /* -1 unknown */
	const struct report_stack *stack; /* never NULL; count 0: the stack was not recorded */
	/* as read from a JSON report; 0: compute it with report_site_fingerprint() */
	uint64_t fingerprint;
};

/* Returns true if KIND is a kind of object that is not memory. */
bool kind_is_object(const char *kind);

/* Returns the fingerprint of SITE from the JSON report it was read from. Otherwise computes it from
 * api, kind and stack. */
uint64_t report_site_fingerprint(const struct report_site *site);

#endif
