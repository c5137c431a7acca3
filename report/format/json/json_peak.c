/* SPDX-License-Identifier: MIT
 *
 * Writes the peak of the memory that had the largest one, with those who held it. The peaks of
 * other memories are in its key "others".
 */
#include "report/describe/describe_peak.h"
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"

static json_t *one_peak(const void *item)
{
	const struct report_peak *peak = item;
	json_t *ret = JSON_OBJECT(
		{ "memory", json_string(peak_memory_word(peak)) },
		{ "device", json_integer(peak->device) },
		{ "bytes", json_number(peak->bytes) },
		{ "seconds", json_real((double)peak->time_ns / 1e9) },
		{ "error_bytes", json_number(peak->error_bytes) });

	json_add_holders(&ret, &peak->held);
	return ret;
}

json_t *json_peak(const struct report_process *process)
{
	json_t *ret;

	if (!process->peak_count)
		return json_null();
	ret = one_peak(process->peaks);
	json_set(&ret, "others", JSON_LIST(process->peaks + 1, process->peak_count - 1, one_peak));
	return ret;
}
