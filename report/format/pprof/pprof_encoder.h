/* SPDX-License-Identifier: MIT
 *
 * Builds a pprof profile. Each string, function, location and mapping is stored once and has a
 * number. Owns the message and its memory. Must not depend on reports.
 */
#ifndef GPULEAK_REPORT_PPROF_PARTS_H
#define GPULEAK_REPORT_PPROF_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "report/util/report_arena.h"
#include "pprof.pb-c.h"

/* A growing array of pointers for one field of the profile. */
struct pprof_list {
	void **items;
	size_t count, size;
};

/* Starts as { 0 }. Always release it with pprof_finish(). When memory runs out, `failed` is set.
 * Then all functions return 0 and the profile is unusable. */
struct pprof {
	Pprof__Profile profile;
	struct report_arena arena;
	struct table strings, functions, locations, mappings;
	struct pprof_list string_list, function_list, location_list, mapping_list, sample_list;
	struct pprof_list comment_list; /* items are numbers of strings, not pointers */
	int failed;
};

void pprof_start(struct pprof *pprof);
void pprof_finish(struct pprof *pprof);

/* Returns the number of TEXT after replacing invalid UTF-8. */
int64_t pprof_string(struct pprof *pprof, const char *text);

uint64_t pprof_function(struct pprof *pprof, int64_t name, int64_t file);

/* FILE and BUILD_ID are numbers of strings. */
uint64_t pprof_mapping(struct pprof *pprof, int64_t file, int64_t build_id, int has_functions);

struct pprof_line {
	uint64_t function;
	int64_t line;
};
uint64_t pprof_location(struct pprof *pprof, uint64_t mapping, uint64_t address,
			const struct pprof_line *lines, size_t count);

#define PPROF_VALUES 4
#define PPROF_LABELS_MAX 8
struct pprof_label {
	const char *key, *value;
};
void pprof_sample(struct pprof *pprof, const uint64_t *locations, size_t location_count,
		  const uint64_t values[PPROF_VALUES], const struct pprof_label *labels,
		  size_t label_count);

void pprof_comment(struct pprof *pprof, const char *text);

/* Stores the complete gzipped profile in *RET; the caller frees it. Returns 0 or -ENOMEM. */
int pprof_pack(struct pprof *pprof, unsigned char **ret, size_t *ret_length);

#endif
