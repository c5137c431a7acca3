/* SPDX-License-Identifier: MIT
 *
 * Finds which process exported the memory that another process has open: the handle, 64 bytes, is
 * the same in both ledgers. A handle is unique on its machine, but a report may be about several
 * machines. So an export on the importer's host is preferred. An export on another host counts
 * only if the handle was exported on no third host. Containers of one machine have different host
 * names.
 */
#include "report/analyze/ipc_match.h"

#include <string.h>

#include "report/model/model_ipc.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"

struct found_export {
	const struct report_process *process;
	const struct report_export *export;
	const struct found_export *previous; /* of the same handle */
};

struct shared_handle {
	uint8_t handle[LEDGER_IPC_HANDLE];
	const struct found_export *last;
};

struct matching {
	struct report *report;
	struct report_arena arena;
	struct table handles; /* struct shared_handle */
	struct table groups; /* struct shared_group */
};

static bool same_host(const struct report_process *a, const struct report_process *b)
{
	return strcmp(a->host ? a->host : "", b->host ? b->host : "") == 0;
}

static struct shared_handle *intern_handle(struct matching *m, const uint8_t *handle)
{
	return table_intern(&m->arena, &m->handles, handle, LEDGER_IPC_HANDLE,
			    sizeof(struct shared_handle));
}

/* Returns the last export of OPENED's handle before it was opened, or NULL. */
static const struct found_export *find_export(struct matching *m,
					      const struct report_process *importer,
					      const struct report_opened *opened)
{
	const struct shared_handle *known = intern_handle(m, opened->handle);
	const struct found_export *here = NULL, *elsewhere = NULL;
	bool one_host = true;

	for (const struct found_export *each = known->last; each; each = each->previous) {
		const struct found_export **last =
			same_host(each->process, importer) ? &here : &elsewhere;

		one_host &= same_host(each->process, known->last->process);
		if (each->export->time_ns <= opened->time_ns &&
		    (!*last || each->export->time_ns > (*last)->export->time_ns))
			*last = each;
	}
	return here || !one_host ? here : elsewhere;
}

/* ---- groups ---- */

/* Strings and stacks are interned in their process, so pointers can be compared. */
#define EVENT_KEY(event) (uintptr_t)(event).api, (uintptr_t)(event).stack
#define GROUP_KEY(group)                                                                          \
	{ (uintptr_t)(group).importer, (uintptr_t)(group).exporter, (group).state,                \
	  (group).is_leak, (uintptr_t)(group).device, EVENT_KEY((group).opened),                  \
	  EVENT_KEY((group).allocated), EVENT_KEY((group).exported), EVENT_KEY((group).ended) }

struct shared_group {
	uintptr_t key[13];
	struct report_shared *public; /* NULL: it is new */
};

static enum report_shared_state state_of(const struct report_ipc *importer,
					 const struct report_export *export)
{
	if (!export->freed)
		return REPORT_SHARED_ALLOCATED;
	return export->freed_ns && importer->ended_ns && importer->ended_ns < export->freed_ns
		       ? REPORT_SHARED_FREED_AFTER
		       : REPORT_SHARED_FREED;
}

/* The memory of OPENED counts at its exporter, not at the leak of IMPORTER. */
static void count_at_exporter(struct matching *m, struct report_process *importer,
			      const struct report_opened *opened)
{
	struct report_leak *leak = importer->leaks, *end = leak + importer->leak_count;
	const struct report_event *event = &opened->opened;

	while (leak < end && (leak->site->api != event->api || leak->site->stack != event->stack ||
			      leak->site->device != opened->device))
		leak++;
	if (leak == end || leak->keeps_bytes < opened->bytes)
		return;
	leak->keeps_bytes -= opened->bytes;
	importer->summary.keeps_bytes -= opened->bytes;
	m->report->summary.keeps_bytes -= opened->bytes;
}

static void add_opened(struct matching *m, struct report_process *importer,
		       const struct report_opened *opened)
{
	const struct found_export *found = find_export(m, importer, opened);
	struct report_ipc *ipc = importer->ipc;
	static const struct report_stack no_stack;
	const struct report_event none = { .stack = &no_stack };
	struct report_shared key = { .importer = importer, .is_leak = opened->is_leak,
				     .device = opened->device, .opened = opened->opened,
				     .allocated = none, .exported = none, .ended = none };
	struct shared_group *group;

	if (found) {
		key.exporter = found->process;
		key.state = state_of(ipc, found->export);
		key.allocated = found->export->allocated;
		key.exported = found->export->exported;
		key.ended = found->export->ended;
		if (opened->is_leak && key.state != REPORT_SHARED_FREED)
			count_at_exporter(m, importer, opened);
	}
	key.allocated.bytes = 0;
	group = table_intern(&m->arena, &m->groups, (uintptr_t[])GROUP_KEY(key),
			     sizeof(group->key), sizeof(*group));
	if (!group->public) {
		group->public = &ipc->shared[ipc->shared_count++];
		*group->public = key;
	}
	group->public->blocks++;
	group->public->references = add_bounded(group->public->references, opened->references);
	group->public->bytes =
		add_bounded(group->public->bytes, found ? found->export->bytes : 0);
}

static int compare_groups(const void *left, const void *right)
{
	const struct report_shared *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: compare_numbers(b->blocks, a->blocks);
}

static void match_process(struct matching *m, struct report_process *process)
{
	struct report_ipc *ipc = process->ipc;

	if (!ipc || !ipc->opened_count || ipc->shared)
		return;
	ipc->shared = arena_alloc(process->arena, ipc->opened_count * sizeof(*ipc->shared));
	for (size_t i = 0; i < ipc->opened_count; i++)
		add_opened(m, process, &ipc->opened[i]);
	SORT(ipc->shared, ipc->shared_count, compare_groups);
}

/* Stores in LIST what PROCESS freed and another process has open. LIST NULL: only counts it. */
static size_t find_freed(const struct report *report, const struct report_process *process,
			 const struct report_shared **list)
{
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct report_ipc *other = report->processes[i]->ipc;

		for (size_t j = 0; other && j < other->shared_count; j++) {
			const struct report_shared *group = &other->shared[j];

			if (group->exporter != process || !group->is_leak ||
			    group->state != REPORT_SHARED_FREED)
				continue;
			if (list)
				list[count] = group;
			count++;
		}
	}
	return count;
}

static void list_freed(const struct report *report, const struct report_process *process)
{
	struct report_ipc *ipc = process->ipc;
	size_t count = ipc && !ipc->freed ? find_freed(report, process, NULL) : 0;

	if (!count)
		return;
	ipc->freed = arena_alloc(process->arena, count * sizeof(*ipc->freed));
	ipc->freed_count = find_freed(report, process, ipc->freed);
}

static void add_export(struct matching *m, const struct report_process *process,
		       const struct report_export *export)
{
	struct shared_handle *known = intern_handle(m, export->handle);
	struct found_export *found = arena_alloc(&m->arena, sizeof(*found));

	*found = (struct found_export){ process, export, known->last };
	known->last = found;
}

void ipc_match(struct report *report)
{
	struct matching m = { .report = report };

	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; process->ipc && j < process->ipc->export_count; j++)
			add_export(&m, process, &process->ipc->exports[j]);
	}
	for (size_t i = 0; i < report->count; i++)
		match_process(&m, report->processes[i]);
	for (size_t i = 0; i < report->count; i++)
		list_freed(report, report->processes[i]);
	arena_finish(&m.arena);
}
