/* SPDX-License-Identifier: MIT
 *
 * Memory that is shared between processes: which calls allocated, exported and freed memory that
 * another process has open. The reports on both processes contain it, from the same struct
 * report_shared.
 */
#include "report/subjects/subject.h"

#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/model/model_ipc.h"
#include "report/describe/json_values.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define GROUPS_MAX 100 /* JSON has all */

static void print_event(FILE *out, const char *what, const struct report_event *event, bool whole)
{
	if (!event->api)
		return;
	fprintf(out, "  %s ", what);
	print_escaped(out, event->api);
	fputs(" at ", out);
	describe_place(out, event->stack, whole);
	fputc('\n', out);
}

/* Prints "still open in worker (pid 4711)", or how that process ended without closing it. */
static void print_importer(FILE *out, const struct report_process *importer)
{
	bool killed = importer->ended == REPORT_SIGNAL || importer->ended == REPORT_UNKNOWN;

	fputs(killed ? "never closed by " : "still open in ", out);
	describe_process(out, importer);
	if (killed)
		fputs(", which was killed", out);
	else if (importer->ended != REPORT_RUNNING)
		fputs(" when it ended", out);
}

/* ---- in the process that freed the memory ---- */

static bool is_wrong(const struct report_process *process)
{
	return process->ipc && process->ipc->freed_count;
}

void describe_freed_while_open(FILE *out, struct report_process *const *processes, size_t count,
			       bool whole)
{
	const struct report_shared *most = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct report_ipc *ipc = processes[i]->ipc;

		for (size_t j = 0; ipc && j < ipc->freed_count; j++)
			if (!most || ipc->freed[j]->bytes > most->bytes)
				most = ipc->freed[j];
	}
	if (!most)
		return;
	fprintf(out, "; %s freed", SIZE(most->bytes));
	if (most->ended.api) {
		fputs(" at ", out);
		describe_place(out, most->ended.stack, whole);
	}
	fputs(", ", out);
	print_importer(out, most->importer);
	fputs(" (opened at ", out);
	describe_place(out, most->opened.stack, whole);
	fputc(')', out);
}

static void print_freed(FILE *out, const struct report_shared *group, bool whole)
{
	fprintf(out, "\nFreed, but still open in another process: %s in %s",
		EXACT_SIZE(group->bytes), COUNT(group->blocks, "block"));
	if (group->ended.api) {
		fputs(", freed by ", out);
		print_escaped(out, group->ended.api);
		fputs(" at:\n", out);
		describe_stack(out, group->ended.stack, whole);
	} else {
		fputs("; the call that freed it was not seen\n", out);
	}
	fputs("  ", out);
	print_importer(out, group->importer);
	fputc('\n', out);
	print_event(out, "opened in that process by", &group->opened, whole);
	print_event(out, "allocated by", &group->allocated, whole);
	print_event(out, "exported by", &group->exported, whole);
	fputs("  CUDA does not define what happens to memory that is freed while it is open: "
	      "close it with cuIpcCloseMemHandle before its owner frees it\n", out);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_ipc *ipc = view->process->ipc;

	if (!is_wrong(view->process))
		return;
	for (size_t i = 0; i < ipc->freed_count && i < GROUPS_MAX; i++)
		print_freed(out, ipc->freed[i], view->verbose);
	if (ipc->freed_count > GROUPS_MAX)
		fprintf(out, "\nAnd memory that was freed at %s more places and is still open in "
			"another process; --format json lists all\n",
			NUMBER(ipc->freed_count - GROUPS_MAX));
}

/* ---- in the process that has it open ---- */

static const char *fate_of(const struct report_shared *group)
{
	if (group->state == REPORT_SHARED_FREED)
		return "the owner freed the memory while this process had it open, with";
	if (group->state == REPORT_SHARED_FREED_AFTER)
		return "the owner freed the memory after this process had ended, with";
	return NULL;
}

static void print_owner(FILE *out, const struct report_shared *group, bool whole)
{
	const char *fate = fate_of(group);

	if (group->state == REPORT_SHARED_UNKNOWN) {
		fprintf(out, "  Memory of a process that is not in this report: %s\n",
			COUNT(group->blocks, "block"));
		return;
	}
	fputs("  Memory of ", out);
	describe_process(out, group->exporter);
	fprintf(out, ": %s in %s\n", EXACT_SIZE(group->bytes), COUNT(group->blocks, "block"));
	print_event(out, "the owner allocated the memory with", &group->allocated, whole);
	print_event(out, "the owner exported the memory with", &group->exported, whole);
	if (fate && group->ended.api)
		print_event(out, fate, &group->ended, whole);
	else if (fate)
		fputs("  the owner freed the memory by a call that was not seen\n", out);
	else
		fputs(group->exporter->ended == REPORT_RUNNING
			      ? "  the owner has not freed the memory so far\n"
			      : "  the owner never freed the memory\n",
		      out);
}

void describe_owner_of_leak(FILE *out, const struct report_process *process,
			    const struct report_leak *leak, bool whole)
{
	const struct report_ipc *ipc = process->ipc;
	size_t printed = 0;

	for (size_t i = 0; ipc && i < ipc->shared_count && printed < GROUPS_MAX; i++) {
		const struct report_shared *group = &ipc->shared[i];

		if (!group->is_leak || group->opened.api != leak->site->api ||
		    group->opened.stack != leak->site->stack || group->device != leak->site->device)
			continue;
		print_owner(out, group, whole);
		printed++;
	}
}

/* ---- JSON ---- */

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

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_ipc *ipc = view->process->ipc;
	uint64_t bytes = 0, blocks = 0;

	if (!ipc)
		return;
	for (size_t i = 0; i < ipc->export_count; i++) {
		blocks += !ipc->exports[i].freed;
		bytes = add_bounded(bytes, ipc->exports[i].freed ? 0 : ipc->exports[i].bytes);
	}
	json_set(object, "ipc", JSON_OBJECT(
		{ "exported_blocks", json_number(blocks) },
		{ "exported_bytes", json_number(bytes) },
		{ "exported_freed_blocks", json_number(add_bounded(ipc->export_count - blocks,
								   ipc->exports_dropped)) },
		{ "open", JSON_LIST(ipc->shared, ipc->shared_count, open_json) },
		{ "freed_while_open", JSON_LIST(ipc->freed, ipc->freed_count, freed_json) }));
}

const struct subject subject_ipc = { .finding = print_finding, .is_wrong = is_wrong,
				     .json = add_json };
