/* SPDX-License-Identifier: MIT
 *
 * The rules that users write for the gate. Budgets limit leaks and other memory, with blanks
 * before the limit:
 *
 *     kind:pinned 64MiB
 *     device:0 1GiB
 *     api:cuMemHostAlloc 3 blocks
 *     site:PATTERN 4MiB          leaks whose stack has a matching frame
 *     cache:PATTERN 2GiB         memory at exit in a framework's cache with a matching name
 *     accumulation:PATTERN 1MiB  suballocations that accumulate, whose stack has a matching frame
 *     object:stream 8            objects at exit that are not memory
 *     range:PATTERN 1GiB         what is left of named ranges with a matching name
 *     peak 8GiB                  the largest peak of one process
 *
 * The policy of --only-at lists the call sites that may allocate. A site is allowed if one rule
 * matches:
 *
 *     site:PATTERN   stacks in which a frame's function, file or module matches
 *     kind:pinned    a kind of memory, from any call site
 *     api:NAME       a call, from any call site
 *
 * Reads and matches rules. judge_rules.c decides the gate.
 */
#pragma once

#include "report/suppress/pattern_file.h"

struct report_leak;
struct report_site;

#define BUDGETS_MAX 4096
#define ONLY_AT_MAX 65536

enum gate_subject {
	GATE_SITE,
	GATE_KIND,
	GATE_API,
	POLICY_SUBJECTS, /* a policy has only the subjects before this */
	GATE_DEVICE = POLICY_SUBJECTS,
	GATE_CACHE,
	GATE_ACCUMULATION,
	GATE_OBJECT,
	GATE_RANGE,
	GATE_PEAK,
};

extern const struct pattern_syntax budget_syntax, only_at_syntax;

/* Returns true if LEAK matches RULE, which may be for leaks, for memory in caches, or for
 * suballocations that accumulate. Returns false for other rules. */
bool budget_covers(const struct pattern_rule *rule, const struct report_leak *leak);

/* Returns true if a rule of POLICY allows SITE to allocate. */
bool only_at_allows(const struct pattern_file *policy, const struct report_site *site);
