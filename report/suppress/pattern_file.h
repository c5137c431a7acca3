/* SPDX-License-Identifier: MIT
 *
 * The files that users write for suppressions and for the gate: one rule per line. Reads a file,
 * limits its number of rules, and owns the rules. A syntax parses one line. Must not depend on
 * what the rules decide, and must not print.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/suppress/frame_pattern.h"
#include "report/util/lines.h"

/* A rule. The syntax of its file decides which members it uses; the others are 0. */
struct pattern_rule {
	unsigned int line; /* number in the file */
	int subject;       /* what the rule applies to: enum gate_subject */
	char *text;        /* of a budget: "kind:pinned"; of a known leak: its place, any bytes */
	struct frame_pattern pattern;
	uint64_t fingerprint;   /* of a known leak */
	bool partial;           /* it is that of a partial stack */
	uint64_t bytes, blocks; /* of a known leak; or what a suppression suppressed */
	bool matched;           /* suppressions_count() was called for the rule */
	int device;             /* of a budget, as the next members */
	bool in_blocks;         /* `limit` is a number of blocks or objects, not of bytes */
	bool is_plain;          /* the limit was a number without a unit */
	uint64_t limit;
};

struct pattern_file {
	char *name; /* path of the file */
	struct pattern_rule *rules;
	size_t count;
	bool headed; /* the first line of a baseline was read */
};

struct pattern_syntax {
	const char *what; /* "budget" if the file is "a budget file" */
	size_t max;       /* of rules */
	/* Parses LINE. Returns 0 if *RET, at first only with its line, is a rule of FILE. Returns 1
	 * if LINE has no rule, and -errno with a message in the error buffer. */
	int (*parse)(struct pattern_file *file, struct line *line, struct pattern_rule *ret);
	/* Checks the whole FILE; returns as `parse` does. NULL: every file is correct. */
	int (*check)(struct pattern_file *file, struct lines *lines);
};

/* Reads a file of SYNTAX from the LENGTH bytes of TEXT, or from the file NAME if TEXT is NULL.
 * Returns 0, or -errno with "NAME:LINE: ..." in ERROR and *RET unchanged. The caller destroys
 * *RET. */
int pattern_file_parse(const struct pattern_syntax *syntax, const char *text, size_t length,
		       const char *name, struct pattern_file **ret, char *error,
		       size_t error_size);

/* Does the same, but ignores invalid lines. ERROR describes the first invalid line, or is "". */
struct pattern_file *pattern_file_parse_good(const struct pattern_syntax *syntax, const char *text,
					     size_t length, const char *name, char *error,
					     size_t error_size);

void pattern_file_destroy(struct pattern_file *file); /* FILE may be NULL */
