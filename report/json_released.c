/* SPDX-License-Identifier: MIT
 *
 * What was released and not freed, as JSON: all figures, also where nothing is wrong.
 */
#include "json_released.h"

#include "json_parts.h"
#include "model.h"

static json_t *event_json(const struct report_event *event, int with_bytes)
{
	json_t *ret;

	if (!event->api && !event->stack->count)
		return json_null();
	ret = json_object();
	json_set(&ret, "api", json_text(event->api));
	if (with_bytes)
		json_set(&ret, "bytes", json_number(event->bytes));
	json_set(&ret, "stack", json_stack(event->stack));
	return ret;
}

static json_t *block_json(const struct report_held *held)
{
	json_t *ret = json_object();

	json_set(&ret, "kind", json_text(held->kind));
	json_set(&ret, "bytes", json_number(held->bytes));
	if (held->address)
		json_set(&ret, "address", json_address(held->address));
	json_set(&ret, "released", event_json(&held->released, 0));
	json_set(&ret, "allocated", event_json(&held->allocated, 1));
	return ret;
}

static json_t *holder_json(const struct report_holder *holder)
{
	json_t *ret = json_object();

	json_set(&ret, "what", json_text(holder->what));
	json_set(&ret, "kind", json_text(holder->kind));
	json_set(&ret, "address", json_address(holder->address));
	json_set(&ret, "allocated", event_json(&holder->allocated, 1));
	return ret;
}

/* Without a part of it that lives it is commands that had not finished: a kernel alone
 * keeps no driver's buffer, but tells which commands. */
static json_t *held_json(const struct report_held *held)
{
	json_t *ret = block_json(held), *holders = json_array(), *commands;

	for (const struct report_holder *holder = held->holders; holder; holder = holder->next)
		json_append(&holders, holder_json(holder));
	if (!report_held_by_part(held)) {
		commands = json_object();
		json_set(&commands, "what", json_string("commands"));
		json_append(&holders, commands);
	}
	json_set(&ret, "held_by", holders);
	return ret;
}

json_t *json_released(const struct report_released *released)
{
	json_t *ret = json_object(), *held = json_array();

	for (size_t i = 0; i < released->held_count && held; i++)
		json_append(&held, held_json(&released->held[i]));
	json_set(&ret, "peak_bytes", json_number(released->peak_bytes));
	json_set(&ret, "peak_ns", json_number(released->peak_ns));
	json_set(&ret, "longest_wait_ns", json_number(released->longest_wait_ns));
	json_set(&ret, "longest",
		 released->longest.kind ? block_json(&released->longest) : json_null());
	json_set(&ret, "timeline",
		 json_samples(released->samples, released->sample_count));
	json_set(&ret, "held_blocks", json_number(released->held_count));
	json_set(&ret, "held_bytes", json_number(released->held_bytes));
	json_set(&ret, "held", held);
	return ret;
}
