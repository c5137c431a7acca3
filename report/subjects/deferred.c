/* SPDX-License-Identifier: MIT
 *
 * Deferred frees: released memory that was still allocated at the end, the reason, and the longest
 * wait. JSON has all values, also if nothing is wrong.
 */
#include "report/subjects/subject.h"

#include <inttypes.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/describe/json_values.h"
#include "report/subjects/judgement.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define DEFERRED_MAX 100 /* JSON has all groups */
#define JUDGED_MAX 20    /* places in reasons of the gate */
/* shorter waits are not printed: the call that releases a block takes that long */
#define WAIT_NS 1000000u

void describe_mapped(FILE *out, const struct report_leak *leak, bool whole)
{
	fputs("released, but never unmapped: mapped at ", out);
	describe_place_and_caller(out, leak->mapping->mapped.stack, whole);
}

void describe_mapping(FILE *out, const struct report_leak *leak, bool whole)
{
	describe_event(out, "Mapped by", &leak->mapping->mapped, " at", whole);
	describe_event(out, "Released by", &leak->mapping->released, " at", whole);
}

bool describe_stuck(FILE *out, const struct report_process *process, bool whole)
{
	const struct report_deferred *most = NULL;
	uint64_t blocks = 0, bytes = 0;

	for (size_t i = 0; i < process->deferred.group_count; i++) {
		const struct report_deferred *deferred = &process->deferred.groups[i];

		if (!report_deferred_fails(deferred))
			continue;
		most = most ? most : deferred;
		blocks = add_bounded(blocks, deferred->blocks);
		bytes = add_bounded(bytes, deferred->bytes);
	}
	if (!most)
		return false;
	fprintf(out, "%s released block%s, %s, held by a user event that was never set, created "
		"at ", NUMBER(blocks), plural(blocks), EXACT_SIZE(bytes));
	describe_place_and_caller(out, most->event.stack, whole);
	return true;
}

static void print_holder(FILE *out, const struct report_holder *holder, bool whole)
{
	fputs(strcmp(holder->what, "kernel") == 0 ? "  The memory is an argument of "
						  : "  The memory is held by ",
	      out);
	describe_kind(out, holder->kind);
	if (holder->allocated.bytes) {
		fprintf(out, " of %s", EXACT_SIZE(holder->allocated.bytes));
	}
	fputs(", made by ", out);
	print_escaped(out, holder->allocated.api ? holder->allocated.api : "an unknown call");
	fputs(" at ", out);
	describe_place_and_caller(out, holder->allocated.stack, whole);
	fputc('\n', out);
}

/* Prints why the memory is still allocated, if the ledger proves it. print_holder() prints the
 * objects that keep it allocated. */
static void print_reason(FILE *out, const struct report_deferred *deferred, bool whole)
{
	switch (deferred->reason) {
	case REPORT_DEFERRED_USER_EVENT:
		fputs("  The memory is held by a command that waits for a user event that was "
		      "never set\n", out);
		describe_event(out, "Command by", &deferred->command, " at", whole);
		describe_event(out, "User event made by", &deferred->event, " at", whole);
		break;
	case REPORT_DEFERRED_UNKNOWN:
		fputs("  Why the driver still holds the memory is unknown: no recorded call "
		      "explains it\n", out);
		break;
	case REPORT_DEFERRED_PART:
		break;
	}
}

static void print_deferred(FILE *out, const struct report_deferred *deferred, bool whole)
{
	fprintf(out, "\nReleased but not freed: %s of ", EXACT_SIZE(deferred->bytes));
	describe_kind(out, deferred->kind);
	if (deferred->blocks > 1)
		fprintf(out, " in %s blocks", NUMBER(deferred->blocks));
	fputc('\n', out);
	describe_event(out, "Released by", &deferred->released, " at", whole);
	describe_event(out, "Allocated by", &deferred->allocated, " at", whole);
	print_reason(out, deferred, whole);
	for (const struct report_holder *holder = deferred->holders; holder; holder = holder->next)
		print_holder(out, holder, whole);
}

static void print_waits(FILE *out, const struct report_deferred_frees *frees, bool whole)
{
	fprintf(out, "\nReleased but not yet freed: at most %s", EXACT_SIZE(frees->peak_bytes));
	if (frees->longest.kind) {
		fprintf(out, " at a time; longest wait %s, of %s released at ",
			TIME(frees->longest_wait_ns), EXACT_SIZE(frees->longest.bytes));
		describe_place_and_caller(out, frees->longest.released.stack, whole);
	}
	fputc('\n', out);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	const struct report_deferred_frees *frees = &process->deferred;
	bool more = frees->group_count || process->leak_count || process->summary.errors;

	for (size_t i = 0; i < frees->group_count && i < DEFERRED_MAX; i++)
		print_deferred(out, &frees->groups[i], view->verbose);
	if (frees->group_count > DEFERRED_MAX)
		fprintf(out, "\nAnd %s more places released memory that was not freed; --format "
			"json lists all\n", NUMBER(frees->group_count - DEFERRED_MAX));
	if ((frees->peak_bytes || frees->longest.kind) &&
	    (view->verbose || (more && frees->longest_wait_ns >= WAIT_NS)))
		print_waits(out, frees, view->verbose);
}

static json_t *block_json(const struct report_deferred *deferred)
{
	return JSON_OBJECT(
		{ "kind", json_text(deferred->kind) },
		{ "bytes", json_number(deferred->bytes) },
		{ "address", JSON_IF(deferred->address, json_address(deferred->address)) },
		{ "released", json_event(&deferred->released) },
		{ "allocated", json_allocation(&deferred->allocated) });
}

static json_t *holders_json(const struct report_holder *first)
{
	json_t *ret = json_array();

	for (const struct report_holder *holder = first; holder; holder = holder->next)
		json_array_append_new(ret, JSON_OBJECT(
			{ "what", json_text(holder->what) },
			{ "kind", json_text(holder->kind) },
			{ "address", json_address(holder->address) },
			{ "allocated", json_allocation(&holder->allocated) }));
	return ret;
}

static json_t *group_json(const void *group)
{
	static const char *const reasons[] = {
		[REPORT_DEFERRED_UNKNOWN] = "unknown",
		[REPORT_DEFERRED_PART] = "part",
		[REPORT_DEFERRED_USER_EVENT] = "user-event",
	};
	const struct report_deferred *deferred = group;
	bool waits = deferred->reason == REPORT_DEFERRED_USER_EVENT;
	json_t *ret = block_json(deferred);

	JSON_ADD(ret,
		 { "blocks", json_number(deferred->blocks) },
		 { "reason", json_string(reasons[deferred->reason]) },
		 { "command", JSON_IF(waits, json_event(&deferred->command)) },
		 { "user_event", JSON_IF(waits, json_event(&deferred->event)) },
		 { "pattern", JSON_IF(deferred->pattern, json_text(deferred->pattern)) },
		 { "held_by", holders_json(deferred->holders) });
	return ret;
}

static bool is_wrong(const struct report_process *process)
{
	return process->deferred.group_count != 0;
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_deferred_frees *frees = &view->process->deferred;

	json_set(object, "released", JSON_OBJECT(
		{ "peak_bytes", json_number(frees->peak_bytes) },
		{ "peak_ns", json_number(frees->peak_ns) },
		{ "longest_wait_ns", json_number(frees->longest_wait_ns) },
		{ "longest", frees->longest.kind ? block_json(&frees->longest) : json_null() },
		{ "timeline", JSON_LIST(frees->samples, frees->sample_count, json_sample) },
		{ "held_blocks", json_number(frees->deferred_blocks) },
		{ "held_bytes", json_number(frees->deferred_bytes) },
		{ "held", JSON_LIST(frees->groups, frees->group_count, group_json) }));
}

/* ---- gate ---- */

static void add_stuck(struct judgement *judgement, const struct report_process *p,
		      const struct report_deferred *deferred)
{
	char event[FORMAT_PLACE_MAX], who[FORMAT_PLACE_MAX];

	judgement_reason(judgement, "%" PRIu64 " block%s, %s of %s released, but held by a command "
			 "that waits for a user event that was never set, created at %s",
			 deferred->blocks, plural(deferred->blocks), EXACT_SIZE(deferred->bytes),
			 format_process(p, who), format_place(deferred->event.stack, event));
}

/* Memory that waits for a user event that was never set makes the gate fail. Memory without a known
 * reason does so only on request, because the driver may free it later. If a sub-buffer keeps the
 * memory allocated, the sub-buffer itself is a leak. */
static void add_reasons(struct judgement *judgement, const struct judge_input *input,
			const struct report_process *p)
{
	char who[FORMAT_PLACE_MAX];
	uint64_t blocks = 0, bytes = 0;
	size_t stuck = 0;

	for (size_t i = 0; !input->leaks_unwanted && i < p->deferred.group_count; i++) {
		const struct report_deferred *deferred = &p->deferred.groups[i];

		if (report_deferred_fails(deferred)) {
			if (stuck++ < JUDGED_MAX)
				add_stuck(judgement, p, deferred);
		} else if (deferred->reason == REPORT_DEFERRED_UNKNOWN && !deferred->pattern) {
			blocks = add_bounded(blocks, deferred->blocks);
			bytes = add_bounded(bytes, deferred->bytes);
		}
	}
	if (stuck > JUDGED_MAX)
		judgement_reason(judgement, "memory released at %zu more places is held by a "
				 "command that waits for a user event that was never set",
				 stuck - JUDGED_MAX);
	if (blocks && input->count_deferred)
		judgement_reason(judgement, "%" PRIu64 " block%s, %s of %s released, but not freed "
				 "for an unknown reason", blocks, plural(blocks), EXACT_SIZE(bytes),
				 format_process(p, who));
}

const struct subject subject_deferred = { .finding = print_finding, .is_wrong = is_wrong,
					  .json = add_json, .judge = add_reasons };
