/* SPDX-License-Identifier: MIT
 *
 * The leaks of a report by fingerprint, summed over devices, lines and processes: what a
 * baseline keeps and what two reports are compared by.
 */
#ifndef GPULEAK_REPORT_TALLY_H
#define GPULEAK_REPORT_TALLY_H

#include <stddef.h>
#include <stdint.h>

struct report;
struct report_leak;

struct tally_entry {
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	const struct report_leak *largest; /* one of them, to name the place */
};

struct tally {
	struct tally_entry *entries; /* in the order of their fingerprints */
	size_t count;
};

/* The fingerprint that LEAK was read with, or what its api, kind and stack make. */
uint64_t report_leak_fingerprint(const struct report_leak *leak);

/* Fills *RET, to be finished by the caller; its leaks are REPORT's. 0 or -ENOMEM. */
int tally_leaks(const struct report *report, struct tally *ret);

/* Puts the largest first; tally_find() is then no longer possible. */
void tally_sort_by_size(struct tally *tally);

/* The entry of FINGERPRINT, or NULL. */
const struct tally_entry *tally_find(const struct tally *tally, uint64_t fingerprint);

void tally_finish(struct tally *tally);

#endif
