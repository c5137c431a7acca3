/* SPDX-License-Identifier: MIT
 *
 * Memory that is shared between processes: the exports of a process and what it has open, and which
 * calls allocated, exported and freed memory that another process has open. The reports on both
 * processes contain it, from the same struct report_shared.
 */
#include "report/subjects/common.h"

#include "ledger/shared.h"
#include "report/model/model_ipc.h"

/* Copies RECORD to *RET. Returns false if it is unused or was changed meanwhile. */
static bool copy_record(const struct ledger_ipc *record, struct ledger_ipc *ret)
{
	uint64_t block = shared_load_acquire(record->block);
	uint32_t flags = shared_load_acquire(record->flags);

	memcpy(ret, record, sizeof(*ret));
	atomic_thread_fence(memory_order_acquire);
	return block && ret->block == block && ret->flags == flags &&
	       shared_load(record->block) == block &&
	       shared_load(record->flags) == flags;
}

/* Returns the live block with NAME (see ledger_block_name()), or NULL. */
static const struct ledger_block *live_block(const struct builder *b, uint64_t name)
{
	const struct ledger_block *block = build_named_block(b, name);

	return block && ledger_block_is_live(block->state, block->marked) ? block : NULL;
}

/* Returns the call that made the block, from its call site. */
static struct report_event read_site(struct builder *b, uint32_t ref, uint64_t bytes,
				     int *ret_device)
{
	const struct ledger_site *site = ledger_site(b->view, ref);
	struct report_event ret =
		build_event(b, site ? site->api : 0, site ? site->stack : 0, 0);

	*ret_device = site ? site->device : -1;
	ret.bytes = bytes;
	return ret;
}

static struct report_export read_export(struct builder *b, const struct ledger_ipc *record)
{
	uint64_t start_ns = ledger_header(b->view)->start_mono_ns;
	bool known = record->flags & LEDGER_IPC_FREED;
	struct report_export ret = {
		.time_ns = add_bounded(start_ns, record->time_ns),
		.freed_ns = known ? add_bounded(start_ns, record->freed_ns) : 0,
		.bytes = record->bytes,
		.freed = known || !live_block(b, record->block),
		.exported = build_event(b, record->api, record->stack, 0),
		.ended = build_event(b, known ? record->freed_api : 0,
				     known ? record->freed_stack : 0, 0),
	};

	ret.allocated = read_site(b, record->site, record->bytes, &ret.device);
	memcpy(ret.handle, record->handle, sizeof(ret.handle));
	return ret;
}

static struct report_opened read_opened(struct builder *b, const struct ledger_ipc *record,
					const struct ledger_block *block)
{
	const struct report_leak *leak = build_group_of(b, block);
	struct report_opened ret = {
		.time_ns = add_bounded(ledger_header(b->view)->start_mono_ns, record->time_ns),
		.references = block->references,
		.is_leak = !leak->pattern && !leak->cache,
	};

	ret.bytes = record->bytes;
	ret.opened = read_site(b, record->site, 0, &ret.device);
	memcpy(ret.handle, record->handle, sizeof(ret.handle));
	return ret;
}

static void read_record(struct builder *b, struct report_ipc *ipc, const struct ledger_ipc *record)
{
	const struct ledger_block *block = live_block(b, record->block);

	if (!(record->flags & LEDGER_IPC_OPENED))
		*ARENA_ADD(b->arena, ipc->exports, ipc->export_count) = read_export(b, record);
	else if (block && build_is_selected(b, block))
		*ARENA_ADD(b->arena, ipc->opened, ipc->opened_count) =
			read_opened(b, record, block);
}

static void build(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_ipc *ipc = arena_alloc(b->arena, sizeof(*ipc));
	struct ledger_ipc copy;

	LEDGER_EACH(ipc, record, b->view) {
		if (record->flags & LEDGER_IPC_IMPORTED) /* for build_keeps.c */
			continue;
		if (copy_record(record, &copy))
			read_record(b, ipc, &copy);
		b->process->ipc = ipc;
	}
	ipc->exports_dropped = header->exports_dropped;
	ipc->ended_ns = header->end_mono_ns;
}

#define GROUPS_MAX 100 /* JSON has all */

static void print_event(FILE *out, const char *what, const struct report_event *event, bool whole)
{
	if (!event->api)
		return;
	eprintf(out, "  %s %s at ", what, event->api);
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
	fprintf(out, "%s freed", SIZE(most->bytes));
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
		eprintf(out, ", freed by %s at:\n", group->ended.api);
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

	for (size_t i = 0; i < ipc->shared_count && printed < GROUPS_MAX; i++) {
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

const struct subject subject_ipc = {
	.build = build, .chunks = CHUNK_BIT(IPC), .only_if = PART(ipc),
	.finding = print_finding, .is_wrong = is_wrong, .json = add_json,
};
