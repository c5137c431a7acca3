/* SPDX-License-Identifier: MIT
 *
 * Whose code a frame is, and whose cache took memory at a stack: decided by rules that are
 * data (gpuleak.rules, and a file of the user's that is read before it). Knows frames and
 * nothing else of a report; prints nothing.
 */
#ifndef GPULEAK_REPORT_RULES_H
#define GPULEAK_REPORT_RULES_H

#include <stddef.h>

#include "report/symbols/frame.h"

struct rules;

/* Limits, so that a wrong file ends in one line of text and no file makes reports slow. */
#define RULES_BYTES_MAX (1u << 20)
#define RULES_MAX 4096
#define RULES_NAME_MAX 64 /* of a cache */

/* The rules that come with the command. 0 with *RET to be destroyed, or -ENOMEM. */
int rules_shipped(struct rules **ret);

/* The rules of LENGTH bytes of TEXT, which NAME is said to be, and behind them the shipped
 * ones. 0 with *RET, or -errno with "NAME:LINE: what" in ERROR and *RET untouched. */
int rules_parse(const char *text, size_t length, const char *name, struct rules **ret,
		char *error, size_t error_size);

/* The same for the file at PATH. */
int rules_load(const char *path, struct rules **ret, char *error, size_t error_size);

/* How many rules there are. */
size_t rules_size(const struct rules *rules);

void rules_destroy(struct rules *rules); /* NULL is fine */

/* What the rules say of a frame; the same for every frame of the same function, file and
 * module, so it is worth keeping. */
struct rules_frame {
	enum frame_role role;
	unsigned int keeper; /* 1 + the first rule of a cache or a library that matches; 0 none */
	int in_library;      /* a rule of a library matches */
};
struct rules_frame rules_frame(const struct rules *rules, const struct report_frame *frame);

/* A stack on its way from the innermost frame outwards. Starts as { 0 }. */
struct rules_stack {
	unsigned int keeper;  /* as above: the first rule that holds so far */
	unsigned int library; /* the one that holds unless the application called the library */
};
void rules_see(const struct rules *rules, struct rules_stack *stack,
	       const struct rules_frame *frame);

/* Behind the outermost frame: the name of the cache whose memory this is, as long as RULES
 * live; NULL: nobody's. */
const char *rules_cache(const struct rules *rules, const struct rules_stack *stack);

#endif
