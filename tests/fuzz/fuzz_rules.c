/* SPDX-License-Identifier: MIT
 *
 * Fuzzes the parser of rules and what they say: any bytes as a file, then every rule against
 * a few frames. With -DFUZZ_REPLAY a main that runs files given as arguments.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/symbols/frame.h"
#include "replay.h"
#include "report/symbols/rules.h"

static const struct report_frame frames[] = {
	{ .function = "cuMemAlloc_v2", .module = "/usr/lib/x86_64-linux-gnu/libcuda.so.1" },
	{ .function = "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc()",
	  .module = "/usr/lib/python3/site-packages/torch/lib/libc10_cuda.so" },
	{ .function = "cublasCreate_v2", .module = "libcublas.so.12" },
	{ .function = "step", .file = "/home/me/train.py", .line = 12, .language = FRAME_PYTHON },
	{ .function = NULL, .file = NULL, .module = NULL },
	{ .function = "", .file = "", .module = "" },
	{ .function = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab" },
	{ .function = "main", .file = "/src/app.c", .module = "/src/build/app" },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rules_stack stack = { 0 };
	struct rules *rules = NULL;
	char error[128] = "";
	const char *cache;

	if (rules_parse((const char *)data, size, "fuzz", &rules, error, sizeof(error)) < 0) {
		if (rules || !*error || strlen(error) >= sizeof(error))
			abort();
		return 0;
	}
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		const struct rules_frame said = rules_frame(rules, &frames[i]);

		if (said.role > FRAME_INTERPRETER || said.cache_rule > rules_size(rules))
			abort();
		rules_add_frame(rules, &stack, &said);
		cache = rules_cache(rules, &stack);
		if (cache && (!*cache || strlen(cache) > RULES_NAME_MAX))
			abort();
	}
	rules_destroy(rules);
	return 0;
}
