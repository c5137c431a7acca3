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
#include "report/symbols/rule.h"
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
	struct report_frame copies[sizeof(frames) / sizeof(frames[0])];
	struct report_arena arena = { 0 };
	struct table known = { 0 };
	struct rules *rules = NULL;
	char error[128] = "";
	const struct rule *cache;

	if (rules_parse((const char *)data, size, "fuzz", &rules, error, sizeof(error)) < 0) {
		if (rules || !*error || strlen(error) >= sizeof(error))
			abort();
		return 0;
	}
	/* each stack that begins with the first frame */
	for (size_t count = 1; count <= sizeof(frames) / sizeof(frames[0]); count++) {
		memcpy(copies, frames, sizeof(frames));
		cache = rules_apply(rules, &known, &arena, copies, count);
		if (copies[count - 1].role > FRAME_INTERPRETER ||
		    (cache && (!cache->name || !*cache->name ||
			       strlen(cache->name) > RULES_NAME_MAX)))
			abort();
	}
	arena_finish(&arena);
	rules_destroy(rules);
	return 0;
}
