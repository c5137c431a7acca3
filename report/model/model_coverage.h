/* SPDX-License-Identifier: MIT
 *
 * How a process reached the drivers, what was looked up there that is not tracked, and what
 * was out of reach: the part of a report that says how far its other parts go.
 */
#ifndef GPULEAK_REPORT_COVERAGE_H
#define GPULEAK_REPORT_COVERAGE_H

#include <stddef.h>
#include <stdint.h>

/* One word of the ledger with one subject: who did it, by path, in order. */
struct report_fact {
	const char *kind;    /* "linked", "deepbind" ... (docs/developers/ledger-format.md) */
	const char *subject; /* "" if there is none */
	const char *detail;  /* the reason in words, NULL none */
	const char *const *modules;
	size_t module_count;
	uint64_t count;      /* how often, all modules together */
	int asked_for;       /* by name: not only by a runtime that looks up everything */
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

/* What a fact of the kinds that are out of reach is, in a word or two ("RTLD_DEEPBIND"), and
 * why it is not seen; NULL for every other kind. */
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
