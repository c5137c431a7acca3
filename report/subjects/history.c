/* SPDX-License-Identifier: MIT
 *
 * The retains and releases of a leaked handle: the reference count, then each event in order.
 * Prints the whole stack of an event if it has no match. Marks guessed matches.
 */
#include "report/subjects/subject_words.h"

#include "report/describe/describe_stack.h"
#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/describe/json_values.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define EVENTS_MAX 12 /* JSON has all events */

static const char *op_words(enum report_op op)
{
	switch (op) {
	case REPORT_CREATE:
		return "created";
	case REPORT_RETAIN:
		return "retained";
	case REPORT_RELEASE:
		break;
	}
	return "released";
}

static void print_partner(FILE *out, const struct report_history *history,
			  const struct report_reference *event)
{
	const struct report_reference *partner;

	if (event->partner < 0)
		return;
	partner = &history->events[event->partner];
	if (partner->op == REPORT_CREATE)
		fputs(": matches the creation", out);
	else
		fprintf(out, ": matches retain %d", event->partner);
	if (event->guess)
		fputs(" (a best guess)", out);
}

static void print_event(FILE *out, const struct report_history *history, size_t number, bool whole)
{
	const struct report_reference *event = &history->events[number];
	const char *alone = !history->complete ? "no match known" : "UNMATCHED";

	fprintf(out, "    %zu %s", number, op_words(event->op));
	if (event->op == REPORT_CREATE) { /* the caller printed its stack just before */
		fprintf(out, " as above%s%s\n", event->partner < 0 ? ": " : "",
			event->partner < 0 ? alone : "");
		return;
	}
	eprintf(out, " by %s", event->api ? event->api : "an unknown call");
	if (event->partner < 0) {
		fprintf(out, ": %s, at:\n", alone);
		describe_stack(out, event->stack, whole);
		return;
	}
	fputs(" at ", out);
	describe_place_and_caller(out, event->stack, whole);
	if (event->op == REPORT_RELEASE)
		print_partner(out, history, event);
	fputc('\n', out);
}

/* Prints all unmatched events, but only the latest matched ones if there are many. */
static void print_events(FILE *out, const struct report_history *history, bool whole)
{
	size_t from = history->count > EVENTS_MAX ? history->count - EVENTS_MAX : 0;
	size_t hidden = 0;

	for (size_t i = 0; i < history->count; i++) {
		int partner = history->events[i].partner;

		if (partner >= 0 && i > 0 && i < from && (size_t)partner < from)
			hidden++;
		else
			print_event(out, history, i, whole);
	}
	if (hidden)
		fprintf(out, "    (%zu matched events are not shown; --format json lists them)\n",
			hidden);
}

void describe_history(FILE *out, const struct report_history *history, uint64_t blocks, bool whole)
{
	fputs("  References", out);
	if (blocks > 1)
		fprintf(out, " of the block with the most references among %s blocks",
			NUMBER(blocks));
	fprintf(out, ": %s left\n", NUMBER(history->references));
	print_events(out, history, whole);
	if (history->left_out)
		fprintf(out, "    %s earlier retain/release pair%s not shown\n",
			NUMBER(history->left_out), plural(history->left_out));
	if (!history->complete)
		fputs("    (this list is incomplete: some calls were not recorded)\n", out);
}

static json_t *reference_json(const void *item)
{
	static const char *const words[] = {
		[REPORT_CREATE] = "create",
		[REPORT_RETAIN] = "retain",
		[REPORT_RELEASE] = "release",
	};
	const struct report_reference *event = item;

	return JSON_OBJECT(
		{ "op", json_string(words[event->op]) },
		{ "api", json_text(event->api) },
		{ "time_ns", json_number(event->time_ns) },
		{ "stack", json_stack(event->stack) },
		{ "partner", event->partner < 0 ? json_null() : json_integer(event->partner) },
		{ "guess", JSON_IF(event->guess, json_true()) });
}

json_t *json_history(const struct report_history *history)
{
	json_t *unmatched = json_array();

	for (size_t i = 0; i < history->count; i++)
		if (history->events[i].partner < 0)
			json_array_append_new(unmatched, json_integer((json_int_t)i));
	return JSON_OBJECT(
		{ "references", json_number(history->references) },
		{ "events", JSON_LIST(history->events, history->count, reference_json) },
		{ "left_out", json_number(history->left_out) },
		{ "unpartnered", unmatched },
		{ "complete", json_boolean(history->complete) });
}
