/* SPDX-License-Identifier: MIT
 *
 * The list of findings of `gpuleak doctor`, and how it is printed. Does not find anything itself.
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum doctor_level {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* good to know */
	DOCTOR_WARNING, /* the report will have less than it could */
	DOCTOR_PROBLEM, /* nothing will be recorded, or the gate fails */
	DOCTOR_LEVELS
};

struct doctor_finding {
	enum doctor_level level;
	const char *area; /* "program", "driver" ... */
	char *what;       /* what was found, and where */
	char *advice;     /* what to do; NULL: nothing */
};

struct doctor {
	struct doctor_finding *findings;
	size_t count;
	size_t of_level[DOCTOR_LEVELS];
	const char *program; /* the user's word; NULL: no program was named */
	const char *area;    /* of the findings that are added; a constant */
};

/* Adds a finding about doctor->area. */
void doctor_add(struct doctor *doctor, enum doctor_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define doctor_ok(doctor, ...) doctor_add(doctor, DOCTOR_OK, __VA_ARGS__)
#define doctor_note(doctor, ...) doctor_add(doctor, DOCTOR_NOTE, __VA_ARGS__)
#define doctor_warn(doctor, ...) doctor_add(doctor, DOCTOR_WARNING, __VA_ARGS__)
#define doctor_problem(doctor, ...) doctor_add(doctor, DOCTOR_PROBLEM, __VA_ARGS__)

/* Adds to the last finding what the user can do. */
void doctor_advise(struct doctor *doctor, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints one line with the result, then one line per finding. COLORS: with ANSI colours. */
void doctor_print_text(const struct doctor *doctor, bool colors, FILE *out);

/* Prints the findings as one JSON object. */
void doctor_print_json(const struct doctor *doctor, FILE *out);

void doctor_finish(struct doctor *doctor);
