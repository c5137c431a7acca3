/* SPDX-License-Identifier: MIT
 *
 * Coverage: how a process reached the drivers, which functions it looked up that are not
 * tracked, and which modules bypass gpuleak. It limits what the report proves.
 */
#ifndef GPULEAK_REPORT_COVERAGE_H
#define GPULEAK_REPORT_COVERAGE_H

#include <stddef.h>
#include <stdint.h>

/* One kind of observation with one subject, and the modules that it was made for. */
struct report_fact {
	const char *kind;    /* "linked", "deepbind" ... (docs/developers/ledger-format.md) */
	const char *subject; /* "" if it has none */
	const char *detail;  /* the reason, or NULL */
	const char *const *modules;
	size_t module_count;
	uint64_t count;      /* how often, all modules together */
	int asked_for;       /* looked up by name, and not only by a runtime that looks up every
			      * function */
};

struct report_coverage {
	const struct report_fact *facts; /* by kind, then by subject */
	size_t count;
	const char *const *gaps;         /* sentences: what is not seen */
	size_t gap_count;
};

/* The I-th fact of that kind, or NULL. */
const struct report_fact *coverage_fact(const struct report_coverage *coverage, const char *kind,
					size_t i);

/* For observations about modules that bypass gpuleak: a short name ("RTLD_DEEPBIND") and the
 * reason. Returns NULL for every other kind. */
struct coverage_reach {
	const char *kind, *name, *reason;
};
const struct coverage_reach *coverage_reach(const char *kind);

/* The routes, in the order in which reports name them. */
struct coverage_route {
	const char *kind, *name;
};
extern const struct coverage_route coverage_routes[];
extern const size_t coverage_route_count;

#endif
