/* SPDX-License-Identifier: MIT
 *
 * The file of leaks that are known: read, looked up, written. Knows nothing of verdicts.
 *
 *     gpuleak-baseline 1
 *     9af3c2d81b0e4457 4194304 1 # cuMemAlloc_v2 device make_buffer (app.c)
 *
 * fingerprint, bytes, blocks; what follows # is for people and holds no line numbers, so that
 * a line changes only when its leak does. In the order of the fingerprints: a line keeps its
 * place, too.
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
	char *place; /* as the file has it: any bytes; "" if it has none */
};

struct baseline {
	char *name; /* its path */
	struct baseline_entry *entries; /* in the order of their fingerprints */
	size_t count;
};

/* Both return 0 and *RET to be destroyed by the caller, or -errno with "NAME:LINE: what" in ERROR.
 * An empty text is a baseline without leaks. */
int baseline_parse(const char *text, size_t length, const char *name, struct baseline **ret,
		   char *error, size_t error_size);
int baseline_load(const char *path, struct baseline **ret, char *error, size_t error_size);

/* Returns the entry of FINGERPRINT, or NULL. BASELINE may be NULL. */
const struct baseline_entry *baseline_find(const struct baseline *baseline, uint64_t fingerprint);

/* Writes a baseline with all leaks of TOTALS. */
void baseline_write(const struct leak_totals *totals, FILE *out);

void baseline_destroy(struct baseline *baseline); /* NULL is fine */

#endif
