/* SPDX-License-Identifier: MIT
 *
 * Builds a pprof profile. Each string, function, location and mapping is stored once and has a
 * number. Owns the message and its memory. Must not depend on reports.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/util/report_arena.h"
#include "report/util/text_buffer.h"

/* The fields of a profile, as pprof's profile.proto numbers them. */
enum pprof_field {
	PPROF_SAMPLE_TYPE = 1,
	PPROF_SAMPLE,
	PPROF_MAPPING,
	PPROF_LOCATION,
	PPROF_FUNCTION,
	PPROF_STRING,
	PPROF_TIME_NANOS = 9,
	PPROF_PERIOD_TYPE = 11,
	PPROF_PERIOD,
	PPROF_COMMENT,
	PPROF_DEFAULT_SAMPLE_TYPE,
};

/* Begins with pprof_start() and is released with pprof_finish(). */
struct pprof {
	struct text_buffer message;
	struct report_arena arena;
	struct table strings, functions, locations, mappings;
	struct pprof_node *first_mapping, **next_mapping; /* in the order of their numbers */
};

void pprof_start(struct pprof *pprof);
void pprof_finish(struct pprof *pprof);

/* Adds FIELD, which holds one number. */
void pprof_number(struct pprof *pprof, enum pprof_field field, uint64_t number);

/* Adds FIELD, which holds a ValueType: the meaning and the unit of values. */
void pprof_type(struct pprof *pprof, enum pprof_field field, const char *type, const char *unit);

/* Replaces invalid UTF-8 in TEXT, and returns the number of the resulting string. */
uint64_t pprof_string(struct pprof *pprof, const char *text);

uint64_t pprof_function(struct pprof *pprof, uint64_t name, uint64_t file);

/* FILE and BUILD_ID are numbers of strings. */
uint64_t pprof_mapping(struct pprof *pprof, uint64_t file, uint64_t build_id, bool has_functions);

struct pprof_line {
	uint64_t function, line;
};
uint64_t pprof_location(struct pprof *pprof, uint64_t mapping, uint64_t address,
			const struct pprof_line *lines, size_t count);

#define PPROF_VALUES 6
struct pprof_label {
	const char *key, *value; /* the label is left out if `value` is NULL */
};
void pprof_sample(struct pprof *pprof, const uint64_t *locations, size_t location_count,
		  const uint64_t values[PPROF_VALUES], const struct pprof_label *labels,
		  size_t label_count);

void pprof_comment(struct pprof *pprof, const char *text);

/* Stores the complete gzipped profile in *RET; the caller frees it. Returns 0, or -EFBIG
 * for more than 2 GiB. */
int pprof_pack(struct pprof *pprof, unsigned char **ret, size_t *ret_length);
