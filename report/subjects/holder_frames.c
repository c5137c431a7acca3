/* SPDX-License-Identifier: MIT
 *
 * Holders whose frames are the same form a group. If the callers of these frames differ, each
 * holder of the group gets its caller's frame. That divides the group, and the rule is applied to
 * the new groups.
 */
#include "report/subjects/held.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/util/memory.h"

/* maximum number of divisions: so many nested functions may only pass on requests */
#define ROUNDS_MAX 8

struct holder_choice {
	const struct report_stack *stack;
	size_t at; /* index of the frame */
	size_t holder;
	bool is_called; /* the frame is a caller that divide() chose */
};

static int compare_frames(const struct report_frame *a, const struct report_frame *b)
{
	return compare_numbers(a->line, b->line) ?: compare_texts(a->function, b->function)
	       ?: compare_texts(a->file, b->file) ?: compare_texts(a->module, b->module)
	       ?: (a->line ? 0 : compare_numbers(a->offset, b->offset));
}

static const struct report_frame *frame_of(const struct holder_choice *choice)
{
	return &choice->stack->frames[choice->at];
}

static int compare_choices(const void *left, const void *right)
{
	return compare_frames(frame_of(left), frame_of(right));
}

/* Counts STEPS frames of the application outwards from the frame at index AT, and returns the index
 * of the last one. Returns STACK's count if the application has fewer frames there. */
static size_t caller_at(const struct report_stack *stack, size_t at, size_t steps)
{
	while (at < stack->count && steps) {
		at++;
		if (at < stack->count && stack->frames[at].role == FRAME_APPLICATION)
			steps--;
	}
	return at;
}

/* Returns true if all choices in GROUP have a caller, STEPS frames outside, and these callers
 * differ. Sets *RET_END if one of them has none. */
static bool differ(const struct holder_choice *group, size_t count, size_t steps, bool *ret_end)
{
	const struct report_frame *first = NULL;
	bool differs = false;

	for (size_t i = 0; i < count; i++) {
		size_t at = caller_at(group[i].stack, group[i].at, steps);

		if (at >= group[i].stack->count) {
			*ret_end = true;
			return false;
		}
		if (!first)
			first = &group[i].stack->frames[at];
		differs = differs || compare_frames(first, &group[i].stack->frames[at]) != 0;
	}
	return differs;
}

/* Replaces the frames of GROUP by the first callers that differ. Returns false if none differ. */
static bool divide(struct holder_choice *group, size_t count)
{
	bool end = false;
	size_t steps = 1;

	if (count < 2)
		return false;
	while (!differ(group, count, steps, &end)) {
		if (end)
			return false;
		steps++;
	}
	for (size_t i = 0; i < count; i++) {
		group[i].at = caller_at(group[i].stack, group[i].at, steps);
		group[i].is_called = true;
	}
	return true;
}

static bool divide_all(struct holder_choice *choices, size_t count)
{
	bool divided = false;
	size_t first = 0, end;

	SORT(choices, count, compare_choices);
	for (; first < count; first = end) {
		end = first + 1;
		while (end < count &&
		       compare_frames(frame_of(&choices[first]), frame_of(&choices[end])) == 0)
			end++;
		divided = divide(&choices[first], end - first) || divided;
	}
	return divided;
}

/* Returns true if HOLDER's call was made by a function of the application itself that is not in
 * Python. If a framework made the call, the application's frame uses memory and is not one that
 * only allocates for others. */
static bool is_eligible(const struct report_leak *holder, const struct report_frame *culprit)
{
	const struct report_stack *stack = holder->site->stack;
	size_t at = 0;

	while (at < stack->count && stack->frames[at].role == FRAME_RUNTIME)
		at++;
	return !holder->cache && !report_stack_thread(stack) && at < stack->count &&
	       &stack->frames[at] == culprit && culprit->role == FRAME_APPLICATION &&
	       culprit->language == FRAME_NATIVE;
}

void holder_frames_choose(const struct report_holders *held, const struct report_frame **ret)
{
	struct holder_choice *choices = calloc(held->count + 1, sizeof(*choices));
	size_t count = 0;

	for (size_t i = 0; i < held->count; i++) {
		const struct report_stack *stack = held->list[i].site->stack;
		const struct report_frame *culprit = report_stack_culprit(stack);

		ret[i] = NULL;
		if (culprit && is_eligible(&held->list[i], culprit))
			choices[count++] = (struct holder_choice){
				.stack = stack, .holder = i,
				.at = (size_t)(culprit - stack->frames),
			};
	}
	for (int round = 0; round < ROUNDS_MAX && divide_all(choices, count);)
		round++;
	for (size_t i = 0; i < count; i++)
		if (choices[i].is_called)
			ret[choices[i].holder] = frame_of(&choices[i]);
	free(choices);
}
