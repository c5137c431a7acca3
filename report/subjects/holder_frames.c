/* SPDX-License-Identifier: MIT
 *
 * Holders whose frames are the same form a group. If the callers of these frames differ, each
 * holder of the group gets its caller's frame. That divides the group, and the rule is applied to
 * the new groups. A function in which nearly all leaks are is a wrapper in the same way. Must not
 * change what fingerprints and suppressions read.
 */
#include "report/subjects/common.h"

#include "report/model/model_holders.h"
#include "report/subjects/held.h"

/* maximum number of divisions: so many nested functions may only pass on requests */
#define ROUNDS_MAX 8

struct holder_choice {
	const struct report_stack *stack;
	size_t at; /* index of the frame */
	size_t holder;
	bool is_called; /* the frame is a caller that divide() chose */
};

static int compare_functions(const struct report_frame *a, const struct report_frame *b)
{
	return compare_texts(a->function, b->function) ?: compare_texts(a->file, b->file)
	       ?: compare_texts(a->module, b->module);
}

static int compare_lines(const struct report_frame *a, const struct report_frame *b)
{
	return compare_numbers(a->line, b->line)
	       ?: (a->line ? 0 : compare_numbers(a->offset, b->offset));
}

static int compare_frames(const struct report_frame *a, const struct report_frame *b)
{
	return compare_lines(a, b) ?: compare_functions(a, b);
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

/* ---- wrappers: most leaks pass through one function, so lines name its callers ---- */

#define SITES_MIN 5
#define CALLERS_MIN 3

/* The place of a leak, and how its function was called. */
struct place {
	struct report_frame *frame;
	struct report_frame *last;   /* FRAME, or a function that called it for others, too */
	struct report_frame *caller; /* of LAST: another function of the application */
	const struct report_frame *end; /* of the stack */
};

static int by_function(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	return compare_functions(a->last, b->last);
}

static int by_line(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	return compare_lines(a->last, b->last);
}

static int by_caller(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	return compare_functions(a->caller, b->caller);
}

static bool is_named(const struct report_frame *frame)
{
	return frame->role == FRAME_APPLICATION && frame->code == FRAME_OWN && frame->function;
}

/* Sets the caller of PLACE's last function. Returns false if no function called it. */
static bool find_caller(struct place *place)
{
	place->caller = place->last;
	while (place->caller < place->end &&
	       (!is_named(place->caller) || !compare_functions(place->caller, place->last)))
		place->caller++;
	return place->caller < place->end;
}

/* Stores the places that have a caller in PLACES, and returns their number. */
static size_t read_places(const struct report_process *process, struct place *places)
{
	size_t count = 0;

	for (size_t i = 0; i < process->leak_count; i++) {
		const struct report_stack *stack = process->leaks[i].site->stack;
		/* Each stack has its own copies of frames: see flatten(). */
		struct report_frame *frame = (struct report_frame *)report_stack_culprit(stack);

		if (!frame || !is_named(frame))
			continue;
		places[count] = (struct place){ frame, frame, NULL, stack->frames + stack->count };
		count += find_caller(&places[count]);
	}
	return count;
}

static size_t count_different(struct place *places, size_t count,
			      int (*compare)(const void *, const void *))
{
	size_t ret = count != 0;

	SORT(places, count, compare);
	for (size_t i = 1; i < count; i++)
		ret += compare(&places[i - 1], &places[i]) != 0;
	return ret;
}

/* Keeps those PLACES that COMPARE finds equal, if they are more than half of them. Returns their
 * number. */
static size_t keep_most(struct place *places, size_t count,
			int (*compare)(const void *, const void *))
{
	size_t kept = 0;
	struct place middle;

	SORT(places, count, compare);
	middle = places[count / 2];
	for (size_t i = 0; i < count; i++)
		if (compare(&places[i], &middle) == 0)
			places[kept++] = places[i];
	return kept;
}

/* Keeps the places that pass through a wrapper, and returns their number. The callers of a wrapper,
 * or of functions around it, distinguish the leaks better than its own lines. Returns 0 if there is
 * no wrapper. */
static size_t find_wrapper(struct place *places, size_t count, size_t leaks)
{
	size_t sites = keep_most(places, count, by_function), lines = 0, different, called;

	while (sites >= SITES_MIN && sites >= leaks - leaks / 10) {
		different = count_different(places, sites, by_line);
		lines = different > lines ? different : lines;
		different = count_different(places, sites, by_caller);
		if (different >= CALLERS_MIN && different > lines)
			return sites;
		called = keep_most(places, sites, by_caller);
		sites = 0;
		for (size_t i = 0; i < called; i++) {
			places[sites] = places[i];
			places[sites].last = places[i].caller;
			sites += find_caller(&places[sites]);
		}
	}
	return 0;
}

void mark_wrappers(const struct report_process *process)
{
	size_t leaks = process->leak_count, sites = leaks;
	struct place *places = calloc(leaks + 1, sizeof(*places));

	for (int round = 0; round < ROUNDS_MAX && sites >= SITES_MIN; round++) {
		sites = find_wrapper(places, read_places(process, places), leaks);
		for (size_t i = 0; i < sites; i++)
			for (; places[i].frame < places[i].caller; places[i].frame++)
				if (is_named(places[i].frame))
					places[i].frame->code = FRAME_WRAPPER;
	}
	free(places);
}

/* ---- functions whose other blocks were freed: a line names the caller that did not free ---- */

#define LEAKS_MAX 100
#define FREED_MAX 1000
#define SHARED_MIN 2 /* functions; a line names the caller of one, unless that is in a library */

/* Stores the stacks of call sites whose blocks were all freed in FREED. Returns their number. */
static size_t list_freed(struct builder *b, const struct report_stack *freed[FREED_MAX])
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *record;
	size_t count = 0;

	while (count < FREED_MAX && (record = build_next_site(b, &walk))) {
		const struct build_site *site = intern_site(b, record);

		if (!site->groups[0] && !site->groups[1] && !record->with_context &&
		    !record->unseen && record->allocs > record->late)
			freed[count++] = site->site.stack;
	}
	return count;
}

/* Returns how many frames the two stacks share, from the innermost on. Returns 0 if one of them has
 * no other frame. */
static size_t count_shared(const struct report_stack *a, const struct report_stack *b)
{
	size_t i = 0;

	while (i < a->count && i < b->count && compare_frames(&a->frames[i], &b->frames[i]) == 0)
		i++;
	return i < a->count && i < b->count ? i : 0;
}

/* Marks the functions in the first SHARED frames of STACK, if at least two are in one module, or if
 * one is in a library and the next function, too. */
static void mark_shared(const struct report_stack *stack, size_t shared)
{
	/* Each stack has its own copies of frames: see flatten(). */
	struct report_frame *frame = (struct report_frame *)stack->frames, *last = NULL;
	struct report_frame *next = frame + shared, *end = frame + stack->count;
	size_t functions = 0;

	for (struct report_frame *at = frame; at < next; at++)
		if (is_named(at) && (!last || compare_texts(last->module, at->module) == 0)) {
			functions += !last || compare_functions(last, at) != 0;
			last = at;
		}
	while (next < end && !(is_named(next) && next->line))
		next++;
	if (functions == 1 && next < end && compare_texts(last->module, next->module) == 0 &&
	    report_stack_outside(stack, last) != last)
		functions = SHARED_MIN;
	for (; functions >= SHARED_MIN && next < end && shared--; frame++)
		if (is_named(frame))
			frame->code = FRAME_WRAPPER;
}

void mark_shared_functions(struct builder *b)
{
	const struct report_process *process = b->process;
	const struct report_stack **freed = calloc(FREED_MAX, sizeof(*freed));
	size_t count = process->leak_count ? list_freed(b, freed) : 0;

	for (size_t i = 0; i < process->leak_count && i < LEAKS_MAX; i++) {
		const struct report_stack *stack = process->leaks[i].site->stack;
		size_t most = 0, shared;

		for (size_t k = 0; k < count; k++)
			if ((shared = count_shared(stack, freed[k])) > most)
				most = shared;
		if (most)
			mark_shared(stack, most);
	}
	free(freed);
}
