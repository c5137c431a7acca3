/* SPDX-License-Identifier: MIT
 *
 * Fuzzes the suppression parser and matcher: any bytes as a file, then each pattern
 * against a few stacks. With -DFUZZ_REPLAY a main that runs files given as arguments.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/symbols/frame.h"
#include "replay.h"
#include "report/suppress/suppress.h"

static const struct report_frame frames[] = {
	{ .function = "cuMemAlloc_v2", .module = "/usr/lib/x86_64-linux-gnu/libcuda.so.1" },
	{ .function = "std::vector<int, std::allocator<int> >::push_back(int&&)",
	  .file = "/usr/include/c++/12/bits/stl_vector.h", .module = "/opt/app/libworker.so" },
	{ .function = NULL, .file = NULL, .module = NULL },
	{ .function = "", .file = "", .module = "" },
	{ .function = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab" },
	{ .function = "main", .file = "/src/app.c", .module = "/src/build/app" },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t count = sizeof(frames) / sizeof(frames[0]);
	struct pattern_file *s = NULL;
	char error[128] = "";
	int index;

	if (pattern_file_parse(&suppression_syntax, (const char *)data, size, "fuzz", &s, error,
			       sizeof(error)) < 0) {
		if (s || !*error || strlen(error) >= sizeof(error))
			abort();
		return 0;
	}
	for (size_t from = 0; from <= count; from++) {
		index = suppressions_match(s, frames + from, count - from);
		if (index < -1 || index >= (int)suppressions_size(s))
			abort();
		suppressions_count(s, index, 1, 64);
		if (index >= 0 && !s->rules[index].matched)
			abort();
	}
	pattern_file_destroy(s);
	return 0;
}
