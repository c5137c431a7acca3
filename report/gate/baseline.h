/* SPDX-License-Identifier: MIT
 *
 * Reads, searches and writes the file of known leaks. Must not decide the gate.
 *
 *     gpuleak-baseline 1
 *     9af3c2d81b0e4457 4194304 1 # cuMemAlloc_v2 device make_buffer (app.c)
 *
 * The columns are fingerprint, bytes and blocks. The text after # is for people. It has no source
 * line numbers, so a line of the file changes only if its leak changes. Lines are ordered by
 * fingerprint, so a line keeps its position.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "report/suppress/pattern_file.h"

struct leak_totals;
struct report_site;

#define BASELINE_ENTRIES_MAX 65536

/* The rules of the file are ordered by fingerprint. An empty text is a baseline without leaks. */
extern const struct pattern_syntax baseline_syntax;

/* Returns the entry of FINGERPRINT, or NULL. BASELINE may be NULL. */
const struct pattern_rule *baseline_find(const struct pattern_file *baseline, uint64_t fingerprint);

/* Returns the fingerprint of SITE in BASELINE, a struct pattern_file or NULL. It is of version 1 if
 * an older gpuleak wrote the entry, else of version 2. Without an entry for SITE, returns
 * version 2. */
uint64_t baseline_key(const struct report_site *site, const void *baseline);

/* Writes to OUT a baseline with all leaks of TOTALS. */
void baseline_write(const struct leak_totals *totals, FILE *out);
