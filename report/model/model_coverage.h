/* SPDX-License-Identifier: MIT
 *
 * Coverage: how a process reached the drivers, which untracked functions it looked up, and which
 * modules bypass gpuleak. The report cannot make statements about GPU calls that gpuleak did not
 * intercept.
 */
#ifndef GPULEAK_REPORT_COVERAGE_H
#define GPULEAK_REPORT_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line of what gpuleak saw of the ways by which the application reaches the driver: for example
 * that these modules are linked with libcuda.so.1, or opened a file with RTLD_DEEPBIND. */
struct report_observation {
	const char *kind;    /* "linked", "deepbind" ... (docs/developers/ledger-format.md) */
	const char *subject; /* the API, function or file that it is about; "" if none */
	const char *detail;  /* the reason, or NULL */
	const char *const *modules;
	size_t module_count;
	uint64_t count;      /* number of occurrences, total of all modules */
	/* true: a module looked the function up by name. false: all modules that did so look up all
	 * functions, or are merely linked with it */
	bool asked_for;
};

struct report_coverage {
	const struct report_observation *observations; /* ordered by kind, then by subject */
	size_t count;
	const char *const *gaps;         /* sentences about what gpuleak did not intercept */
	size_t gap_count;
};

/* Returns observation I (from 0) of KIND, or NULL. */
const struct report_observation *coverage_observation(const struct report_coverage *coverage,
						      const char *kind, size_t i);

/* For an observation of modules that bypass gpuleak: a short name ("RTLD_DEEPBIND") and the reason.
 * coverage_reach() returns NULL for every other KIND. */
struct coverage_reach {
	const char *kind, *name, *reason;
};
const struct coverage_reach *coverage_reach(const char *kind);

/* The routes by which calls reach gpuleak, in the order of the reports. */
struct coverage_route {
	const char *kind, *name;
};
extern const struct coverage_route coverage_routes[];
extern const size_t coverage_route_count;

#endif
