/* SPDX-License-Identifier: MIT
 *
 * The table of result codes, made from result_names.def.
 */
#include "report/describe/result_names.h"

#include <stddef.h>
#include <string.h>

#define PREFIX_CUDA "cu"
#define PREFIX_OPENCL "cl"

const char *result_name(const char *api, int result)
{
	static const struct {
		const char *prefix, *name;
		int number;
	} rows[] = {
#define RESULT(api, name, number) { PREFIX_##api, #name, number },
#include "report/describe/result_names.def"
#undef RESULT
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].number == result && strncmp(api, rows[i].prefix, 2) == 0)
			return rows[i].name;
	return NULL;
}
