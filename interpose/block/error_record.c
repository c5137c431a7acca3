/* SPDX-License-Identifier: MIT
 *
 * Writes error records. Owns the names of the error types; must not decide whether a free is an
 * error (free_errors.c does), and takes only the writer's lock.
 */
#include "interpose/block/error_record.h"

#include <string.h>


uint32_t error_only_counted(struct recorder *recorder)
{
	shared_add(recorder->header->errors, 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_ERRORS, 1);
	return 0;
}

uint32_t error_write(struct recorder *recorder, const char *type, struct hook *hook,
		     struct ledger_error *error)
{
	uint32_t ref = 0;

	error->type = ledger_add_string(&recorder->writer, type, strlen(type));
	error->api = recorder_name_ref(recorder, hook);
	error->time_ns = recorder_fine_time(recorder);
	if (shared_load(recorder->header->errors) < ERRORS_MAX && error->type)
		ref = ledger_add_error(&recorder->writer, error);
	if (!ref)
		return error_only_counted(recorder);
	shared_add(recorder->header->errors, 1);
	return ref;
}

static uint32_t write_error(struct recorder *recorder, const char *type,
			    const struct free_error *wrong, struct ledger_error *error)
{
	error->stack = wrong->stack;
	error->result = wrong->result;
	error->address = wrong->address;
	error->flags = wrong->flags;
	error->asked_bytes = wrong->asked_bytes;
	return error_write(recorder, type, wrong->hook, error);
}

static void tell_made(struct recorder *recorder, uint32_t site_ref, uint64_t made_ns,
		      struct ledger_event *ret)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, site_ref);

	*ret = (struct ledger_event){ site->api, site->stack, made_ns };
}

static void tell_block(struct recorder *recorder, uint32_t site_ref, uint64_t address,
		       uint64_t bytes, struct ledger_error *ret)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, site_ref);

	ret->block_address = address;
	ret->block_bytes = bytes;
	ret->kind = site->kind;
	ret->device = site->device;
}

void error_tell_live(struct recorder *recorder, const struct ledger_block *live,
		     struct ledger_error *ret)
{
	tell_block(recorder, live->site, live->address, live->bytes, ret);
	tell_made(recorder, live->site, live->time_ns, &ret->allocated);
}

void error_tell_past(struct recorder *recorder, uint64_t address, const struct past *past,
		     struct ledger_error *ret)
{
	tell_block(recorder, past->site, address, past->bytes, ret);
	tell_made(recorder, past->site, past->made_ns, &ret->allocated);
	ret->freed = (struct ledger_event){ past->freed_api, past->freed_stack, past->freed_ns };
}

/* Returns true for memory of a graph. A node that allocates always gets the same address, so the
 * earlier block at that address belongs to the same node. */
static bool is_of_graph(struct recorder *recorder, const struct ledger_site *site)
{
	return recorder_text_is(recorder, site->kind, "graph");
}

uint32_t error_double_free(struct recorder *recorder, const struct free_error *wrong,
			   const struct past past[2])
{
	const struct ledger_site *site = ledger_at(&recorder->writer, past[0].site);
	struct ledger_error error = { 0 };

	error_tell_past(recorder, wrong->address, past, &error);
	if (past[1].freed_api && !past[1].by_context && !past[0].by_context &&
	    !is_of_graph(recorder, site)) {
		tell_made(recorder, past[1].site, past[1].made_ns, &error.earlier_allocated);
		error.earlier_freed = (struct ledger_event){
			past[1].freed_api, past[1].freed_stack, past[1].freed_ns
		};
		error.earlier_bytes = past[1].bytes;
	}
	return write_error(recorder, past[0].by_context ? "free-after-context" : "double-free",
			   wrong, &error);
}

uint32_t error_of_live(struct recorder *recorder, const char *type, const struct free_error *wrong,
		       const struct ledger_block *live)
{
	struct ledger_error error = { 0 };

	error_tell_live(recorder, live, &error);
	return write_error(recorder, type, wrong, &error);
}

uint32_t error_invalid_free(struct recorder *recorder, const struct free_error *wrong)
{
	struct ledger_error error = { .device = -1 };

	return write_error(recorder, "invalid-free", wrong, &error);
}

#define RETRACTED_MAX 64

bool error_may_retract(struct recorder *recorder)
{
	return shared_load(recorder->errors_retracted) < RETRACTED_MAX;
}

void error_retract(struct recorder *recorder, uint32_t ref)
{
	struct ledger_error *error = ledger_at(&recorder->writer, ref);

	shared_publish(error->type, 0);
	atomic_fetch_sub_explicit(&SHARED(recorder->header->errors), 1, memory_order_relaxed);
	shared_add(recorder->errors_retracted, 1);
}
