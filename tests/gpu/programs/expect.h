/* SPDX-License-Identifier: MIT
 *
 * Notes what a report on this process must say and prints it as one line of JSON, for
 * expect.py. Numbers come from what the program asked of the runtime and what that answered.
 */
#ifndef GPULEAK_TESTS_GPU_EXPECT_H
#define GPULEAK_TESTS_GPU_EXPECT_H

#include <cstdio>
#include <cstdlib>
#include <string>

#define NOINLINE __attribute__((noinline))

static struct expectation {
	std::string leaks, errors;
	unsigned long long blocks, bytes, freed, with_context, with_context_bytes, late;
} expected;

static void must_at(cudaError_t r, const char *call, int line)
{
	if (r == cudaSuccess)
		return;
	fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(r));
	exit(1);
}
#define MUST(call) must_at(call, #call, __LINE__)

static inline void expect_made(size_t bytes)
{
	expected.blocks++;
	expected.bytes += bytes;
}

static inline void expect_freed(void)
{
	expected.freed++;
}

static inline void expect_ended_with_context(size_t bytes)
{
	expected.with_context++;
	expected.with_context_bytes += bytes;
}

/* APIS: the calls that may have made it, with blanks between: which one a runtime takes is its
 * own affair. FUNCTION stands in the stack. */
static inline void expect_leak(const char *function, const char *kind, const char *apis,
			       size_t bytes, int device = 0)
{
	char text[400];

	snprintf(text, sizeof(text),
		 "%s{\"function\": \"%s\", \"kind\": \"%s\", \"apis\": \"%s\", \"bytes\": %zu, "
		 "\"device\": %d}",
		 expected.leaks.empty() ? "" : ", ", function, kind, apis, bytes, device);
	expected.leaks += text;
}

/* BYTES: of the block that was freed before. */
static inline void expect_error(const char *function, const char *type, const char *apis,
				size_t bytes)
{
	char text[400];

	snprintf(text, sizeof(text),
		 "%s{\"function\": \"%s\", \"type\": \"%s\", \"apis\": \"%s\", \"bytes\": %zu}",
		 expected.errors.empty() ? "" : ", ", function, type, apis, bytes);
	expected.errors += text;
}

static inline void expect_print(void)
{
	printf("EXPECT {\"leaks\": [%s], \"errors\": [%s], \"allocated_blocks\": %llu, "
	       "\"allocated_bytes\": %llu, \"freed_blocks\": %llu, \"with_context_blocks\": %llu, "
	       "\"with_context_bytes\": %llu, \"late_blocks\": %llu}\n",
	       expected.leaks.c_str(), expected.errors.c_str(), expected.blocks, expected.bytes,
	       expected.freed, expected.with_context, expected.with_context_bytes, expected.late);
	fflush(stdout);
}

#endif
