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
#ifndef GPULEAK_REPORT_BASELINE_H
#define GPULEAK_REPORT_BASELINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct leak_totals;

#define BASELINE_ENTRIES_MAX 65536

struct baseline_entry {
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	unsigned int line;
	char *place; /* from the file: any bytes; "" if the line has none */
};

struct baseline {
	char *name; /* path of the file */
	struct baseline_entry *entries; /* ordered by fingerprint */
	size_t count;
};

/* Read a baseline from TEXT or from the file at PATH. Return 0, or -errno with "NAME:LINE: ..." in
 * ERROR. The caller destroys *RET. An empty text is a baseline without leaks. */
int baseline_parse(const char *text, size_t length, const char *name, struct baseline **ret,
		   char *error, size_t error_size);
int baseline_load(const char *path, struct baseline **ret, char *error, size_t error_size);

/* Returns the entry of FINGERPRINT, or NULL. BASELINE may be NULL. */
const struct baseline_entry *baseline_find(const struct baseline *baseline, uint64_t fingerprint);

/* Writes to OUT a baseline with all leaks of TOTALS. */
void baseline_write(const struct leak_totals *totals, FILE *out);

void baseline_destroy(struct baseline *baseline); /* BASELINE may be NULL */

#endif
