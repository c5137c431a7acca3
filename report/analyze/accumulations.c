/* SPDX-License-Identifier: MIT
 *
 * A place is the frame that most likely caused the allocation. Several stacks may have one place:
 * a layer allocates in several functions of the framework.
 */
#include "report/analyze/accumulations.h"

#include <string.h>

#include "report/model/model.h"
#include "report/model/model_suballocations.h"
#include "report/util/number.h"

/* Stacks beyond this number count as places of their own, to limit the time of the comparisons. The
 * list begins with those that kept most. */
#define COMPARED_MAX 500

static bool same_place(const struct report_stack *a, const struct report_stack *b)
{
	const struct report_frame *left = report_stack_culprit(a), *right = report_stack_culprit(b);

	if (!left || !right)
		return left == right;
	return left->line == right->line && is_same_text(left->function, right->function) &&
	       is_same_text(left->file, right->file) &&
	       (left->file || left->offset == right->offset);
}

/* Returns the bytes that all entries at the place of ENTRY kept. Returns 0 if an earlier entry has
 * this place: its call returned them. */
static uint64_t kept_at_place(const struct report_process *process, size_t entry)
{
	const struct report_suballocations *list = process->suballocations;
	uint64_t bytes = 0;

	for (size_t i = 0; i < process->suballocation_count && i < COMPARED_MAX; i++) {
		if (!report_accumulates(&list[i]) ||
		    !same_place(list[i].live.site->stack, list[entry].live.site->stack))
			continue;
		if (i < entry)
			return 0;
		bytes = add_bounded(bytes, list[i].kept_bytes);
	}
	return entry < COMPARED_MAX ? bytes : list[entry].kept_bytes;
}

void accumulations_add(struct accumulations *ret, const struct report_process *process)
{
	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];
		uint64_t bytes;

		if (!report_accumulates(entry))
			continue;
		ret->blocks = add_bounded(ret->blocks, entry->kept_blocks);
		ret->bytes = add_bounded(ret->bytes, entry->kept_bytes);
		bytes = kept_at_place(process, i);
		ret->places += bytes != 0;
		if (bytes <= ret->most_bytes)
			continue;
		ret->most_bytes = bytes;
		ret->most = entry->live.site->stack;
		ret->cache = entry->live.cache;
		ret->most_in = process;
	}
}
