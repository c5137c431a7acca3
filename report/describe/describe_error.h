/* SPDX-License-Identifier: MIT
 *
 * Invalid frees in the text report, each with its stacks.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_ERROR_H
#define GPULEAK_REPORT_DESCRIBE_ERROR_H

#include <stdint.h>
#include <stdio.h>

struct report_arena;
struct report_error;
struct report_process;

/* Invalid frees of one type, with the same stacks. */
struct error_group {
	const struct report_error *error; /* the first error of the group */
	uint64_t count;
	struct error_group *next;
};

/* Puts the invalid frees of PROCESS into groups. The groups are allocated from ARENA, in the order
 * of their first errors. *RET is NULL if there are no errors. Returns 0 or -ENOMEM. */
int error_groups(const struct report_process *process, struct report_arena *arena,
		 struct error_group **ret);

/* Prints a group of errors with its stacks, in several lines. */
void describe_error(FILE *out, const struct error_group *group);

/* Returns the words for an error type ("double free"). Returns an unknown type unchanged; it may
 * have any bytes. */
const char *error_words(const char *type);

/* Prints the words for ERROR's type, which for some types name a size and a place: "reservation
 * freed while 2.0 MiB of it is mapped at main (/abs/app.c:10)". */
void describe_error_words(FILE *out, const struct report_error *error);

/* Prints all errors of PROCESS. Prints errors with the same stacks once, with their number. Returns
 * 0 or -ENOMEM. */
int describe_errors(FILE *out, const struct report_process *process);

/* Prints "double free of 0x... at cleanup (/abs/app.c:40)", for the first line of a report. */
void describe_error_briefly(FILE *out, const struct report_error *error);

/* Prints "cuMemFree_v2 was given a block that had been freed already (the driver returned
 * CUDA_ERROR_INVALID_VALUE (1))". */
void describe_error_cause(FILE *out, const struct report_error *error);

#endif
