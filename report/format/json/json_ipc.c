/* SPDX-License-Identifier: MIT
 *
 * Memory that is shared between processes, in the JSON report.
 */
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model.h"
#include "report/model/model_ipc.h"
#include "report/util/number.h"

static json_t *process_json(const struct report_process *process)
{
	return !process ? json_null()
			: JSON_OBJECT(
				  { "pid", json_integer(process->pid) },
				  { "host", json_text(process->host) },
				  { "exe", json_text(process->exe) });
}

static json_t *open_json(const void *item)
{
	static const char *const words[] = {
		[REPORT_SHARED_UNKNOWN] = "unknown",
		[REPORT_SHARED_ALLOCATED] = "allocated",
		[REPORT_SHARED_FREED] = "freed",
		[REPORT_SHARED_FREED_AFTER] = "freed-after-end",
	};
	const struct report_shared *group = item;

	return JSON_OBJECT(
		{ "api", json_text(group->opened.api) },
		{ "device", json_integer(group->device) },
		{ "blocks", json_number(group->blocks) },
		{ "references", json_number(group->references) },
		{ "leaked", json_boolean(group->is_leak) },
		{ "stack", json_stack(group->opened.stack) },
		{ "state", json_string(words[group->state]) },
		{ "exporter", process_json(group->exporter) },
		{ "bytes", group->exporter ? json_number(group->bytes) : json_null() },
		{ "allocated", json_event(&group->allocated) },
		{ "exported", json_event(&group->exported) },
		{ "freed", json_event(&group->ended) });
}

static json_t *freed_json(const void *item)
{
	const struct report_shared *group = *(const struct report_shared *const *)item;

	return JSON_OBJECT(
		{ "bytes", json_number(group->bytes) },
		{ "blocks", json_number(group->blocks) },
		{ "allocated", json_event(&group->allocated) },
		{ "exported", json_event(&group->exported) },
		{ "freed", json_event(&group->ended) },
		{ "importer", process_json(group->importer) },
		{ "opened", json_event(&group->opened) });
}

json_t *json_ipc(const struct report_process *process)
{
	const struct report_ipc *ipc = process->ipc;
	uint64_t bytes = 0, blocks = 0;

	if (!ipc)
		return json_left_out();
	for (size_t i = 0; i < ipc->export_count; i++) {
		blocks += !ipc->exports[i].freed;
		bytes = add_bounded(bytes, ipc->exports[i].freed ? 0 : ipc->exports[i].bytes);
	}
	return JSON_OBJECT(
		{ "exported_blocks", json_number(blocks) },
		{ "exported_bytes", json_number(bytes) },
		{ "exported_freed_blocks", json_number(add_bounded(ipc->export_count - blocks,
								   ipc->exports_dropped)) },
		{ "open", JSON_LIST(ipc->shared, ipc->shared_count, open_json) },
		{ "freed_while_open", JSON_LIST(ipc->freed, ipc->freed_count, freed_json) });
}
