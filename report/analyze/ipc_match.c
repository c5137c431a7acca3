/* SPDX-License-Identifier: MIT
 *
 * Finds which process exported the memory that another process has open: the handle, 64 bytes, is
 * the same in both ledgers. A handle is unique on its machine, but a report may be about several
 * machines. So an export on the importer's host is preferred. An export on another host counts
 * only if the handle was exported on no third host. Containers of one machine have different host
 * names.
 */
#include "report/analyze/ipc_match.h"

#include <stdlib.h>
#include <string.h>

#include "report/model/model_ipc.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"

struct found_export {
	const struct report_process *process;
	const struct report_export *export;
};

struct matching {
	struct found_export *exports; /* ordered by handle, host and time */
	size_t count;
	struct table groups; /* struct report_shared of the present importer */
};

static const char *host_of(const struct report_process *process)
{
	return process->host ? process->host : "";
}

static int compare_handles(const void *left, const void *right)
{
	return memcmp(left, right, LEDGER_IPC_HANDLE);
}

/* Compares A with a key of handle, host and time. HOST NULL: compares only the handle. */
static int compare_key(const struct found_export *a, const uint8_t *handle, const char *host,
		       uint64_t time_ns)
{
	int r = compare_handles(a->export->handle, handle);

	if (r == 0 && host)
		r = strcmp(host_of(a->process), host);
	return r ? r : host ? compare_numbers(a->export->time_ns, time_ns) : 0;
}

static int compare_exports(const void *left, const void *right)
{
	const struct found_export *b = right;

	return compare_key(left, b->export->handle, host_of(b->process), b->export->time_ns);
}

/* Returns the number of exports that are before the key; if AFTER is set, also those that are equal
 * to it. HOST NULL: the key is only the handle. */
static size_t find_place(const struct matching *m, const uint8_t *handle, const char *host,
			 uint64_t time_ns, bool after)
{
	size_t from = 0, to = m->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int r = compare_key(&m->exports[middle], handle, host, time_ns);

		if (r < 0 || (r == 0 && after))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Returns the last export of OPENED's handle on HOST before it was opened, or NULL. */
static const struct found_export *last_on_host(const struct matching *m,
					       const struct report_opened *opened, const char *host)
{
	size_t place = find_place(m, opened->handle, host, opened->time_ns, true);
	const struct found_export *found = place ? &m->exports[place - 1] : NULL;

	return found && compare_handles(found->export->handle, opened->handle) == 0 &&
			       strcmp(host_of(found->process), host) == 0
		       ? found
		       : NULL;
}

static const struct found_export *find_export(const struct matching *m,
					      const struct report_process *importer,
					      const struct report_opened *opened)
{
	const struct found_export *found = last_on_host(m, opened, host_of(importer));
	size_t first, end;

	if (found)
		return found;
	first = find_place(m, opened->handle, NULL, 0, false);
	end = find_place(m, opened->handle, NULL, 0, true);
	if (first == end || strcmp(host_of(m->exports[first].process),
				   host_of(m->exports[end - 1].process)) != 0)
		return NULL;
	return last_on_host(m, opened, host_of(m->exports[first].process));
}

/* ---- groups ---- */

static bool same_event(const struct report_event *a, const struct report_event *b)
{
	return a->api == b->api && a->stack == b->stack; /* both are interned in their process */
}

static bool same_group(const void *value, const void *key)
{
	const struct report_shared *a = value, *b = key;

	return a->exporter == b->exporter && a->state == b->state && a->is_leak == b->is_leak &&
	       a->device == b->device && same_event(&a->opened, &b->opened) &&
	       same_event(&a->allocated, &b->allocated) &&
	       same_event(&a->exported, &b->exported) && same_event(&a->ended, &b->ended);
}

static uint64_t group_hash(const struct report_shared *key)
{
	uint64_t hash = hash_number((uintptr_t)key->opened.stack, (uint64_t)key->state);

	hash = hash_number((uintptr_t)key->allocated.stack, hash);
	hash = hash_number((uintptr_t)key->exported.stack, hash);
	hash = hash_number((uintptr_t)key->ended.stack, hash);
	return hash_number((uintptr_t)key->exporter, hash);
}

static enum report_shared_state state_of(const struct report_ipc *importer,
					 const struct report_export *export)
{
	if (!export->freed)
		return REPORT_SHARED_ALLOCATED;
	return export->freed_ns && importer->ended_ns && importer->ended_ns < export->freed_ns
		       ? REPORT_SHARED_FREED_AFTER
		       : REPORT_SHARED_FREED;
}

static void add_opened(struct matching *m, const struct report_process *importer,
		       const struct report_opened *opened)
{
	const struct found_export *found = find_export(m, importer, opened);
	struct report_ipc *ipc = importer->ipc;
	static const struct report_stack no_stack;
	const struct report_event none = { .stack = &no_stack };
	struct report_shared key = { .importer = importer, .is_leak = opened->is_leak,
				     .device = opened->device, .opened = opened->opened,
				     .allocated = none, .exported = none, .ended = none };
	struct report_shared *group;

	if (found) {
		key.exporter = found->process;
		key.state = state_of(ipc, found->export);
		key.allocated = found->export->allocated;
		key.exported = found->export->exported;
		key.ended = found->export->ended;
	}
	key.allocated.bytes = 0;
	group = table_find(&m->groups, group_hash(&key), same_group, &key);
	if (!group) {
		group = &ipc->shared[ipc->shared_count++];
		*group = key;
		table_add(&m->groups, group_hash(&key), group);
	}
	group->blocks++;
	group->references = add_bounded(group->references, opened->references);
	group->bytes = add_bounded(group->bytes, found ? found->export->bytes : 0);
}

static int compare_groups(const void *left, const void *right)
{
	const struct report_shared *a = left, *b = right;
	int r = compare_numbers(b->bytes, a->bytes);

	return r ? r : compare_numbers(b->blocks, a->blocks);
}

static void match_process(struct matching *m, const struct report_process *process)
{
	struct report_ipc *ipc = process->ipc;

	if (!ipc || !ipc->opened_count || ipc->shared)
		return;
	ipc->shared = arena_alloc(process->arena, ipc->opened_count * sizeof(*ipc->shared));
	for (size_t i = 0; i < ipc->opened_count; i++)
		add_opened(m, process, &ipc->opened[i]);
	table_finish(&m->groups);
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

static void gather(const struct report *report, struct matching *m)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; process->ipc && j < process->ipc->export_count; j++) {
			*LIST_ADD(m->exports, m->count) =
				(struct found_export){ process, &process->ipc->exports[j] };
		}
	}
	SORT(m->exports, m->count, compare_exports);
}

void ipc_match(struct report *report)
{
	struct matching m = { 0 };

	gather(report, &m);
	for (size_t i = 0; i < report->count; i++)
		match_process(&m, report->processes[i]);
	for (size_t i = 0; i < report->count; i++)
		list_freed(report, report->processes[i]);
	free(m.exports);
}
