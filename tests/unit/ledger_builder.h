/* SPDX-License-Identifier: MIT
 *
 * Builds ledgers in memory for tests, valid ones unless the test breaks them afterwards.
 * Shares format.h with the writer and nothing else, so that a mistake of the writer is not
 * repeated here. Aborts when memory runs out.
 */
#ifndef GPULEAK_TESTS_LEDGER_BUILDER_H
#define GPULEAK_TESTS_LEDGER_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

struct ledger_builder {
	uint8_t *bytes; /* moves when the ledger grows: keep refs, not pointers */
	size_t size;    /* of whole chunks */
	uint32_t open[64]; /* chunk being filled, per type; 0 = none */
};

/* An empty ledger of process 4242, "/bin/app -x", ended by exit with status 0. */
void builder_init(struct ledger_builder *builder);
void builder_finish(struct ledger_builder *builder);

struct ledger_header *builder_header(struct ledger_builder *builder);
void *builder_at(struct ledger_builder *builder, uint32_t ref); /* until the next growth */

/* Each adds a record and returns its ref. */
uint32_t builder_string(struct ledger_builder *builder, const char *text);
uint32_t builder_bytes(struct ledger_builder *builder, const void *bytes, size_t length);
uint32_t builder_stack(struct ledger_builder *builder, const uint64_t *pcs, unsigned int frames,
		       uint32_t epoch);
/* A row of ALLOCS blocks of BYTES in all. */
/* The same that ran COUNT frames of Python: CODES and LINES as a ledger has them. */
uint32_t builder_code(struct ledger_builder *builder, const char *function, const char *file);
uint32_t builder_python_stack(struct ledger_builder *builder, const uint64_t *pcs,
			      unsigned int frames, const uint32_t *codes, const uint32_t *lines,
			      unsigned int count);
uint32_t builder_row(struct ledger_builder *builder, const char *api, const char *kind, int device,
		     uint32_t stack, uint64_t allocs, uint64_t bytes);
/* A live block of ROW. */
uint32_t builder_block(struct ledger_builder *builder, uint32_t row, uint64_t address,
		       uint64_t bytes);
/* The same for suballocations: a call site, and a live one of it. */
uint32_t builder_suballocation_row(struct ledger_builder *builder, int device, uint32_t stack,
				   uint64_t allocs, uint64_t bytes);
uint32_t builder_suballocation(struct ledger_builder *builder, uint32_t row, uint64_t address,
			       uint64_t bytes);
/* Begins a chunk of call sites, of suballocations if INSIDE is not 0, whose rows have balances. */
void builder_begin_balances(struct ledger_builder *builder, int inside);
/* Those of ROW, to be filled in place: of its own thread, and of the others. */
struct ledger_balance *builder_balance(struct ledger_builder *builder, uint32_t row);
struct ledger_balance *builder_others_balance(struct ledger_builder *builder, uint32_t row);
uint32_t builder_peak(struct ledger_builder *builder, const struct ledger_peak *peak);
/* Of a call site: its ref is the site's `series`. */
uint32_t builder_live_series(struct ledger_builder *builder,
			     const struct ledger_live_series *series);
uint32_t builder_module(struct ledger_builder *builder, const char *path, uint64_t start,
			uint64_t end, uint64_t bias, uint32_t epoch);
uint32_t builder_error(struct ledger_builder *builder, const struct ledger_error *error);
/* MODULE and DETAIL may be NULL. */
uint32_t builder_fact(struct ledger_builder *builder, const char *kind, const char *subject,
		      const char *module, const char *detail, uint32_t count);
uint32_t builder_driver_growth(struct ledger_builder *builder,
			       const struct ledger_driver_growth *growth);
uint32_t builder_device(struct ledger_builder *builder, const struct ledger_device *device);
/* The history of BLOCK, with no event yet. */
uint32_t builder_history(struct ledger_builder *builder, uint32_t block);
void builder_event(struct ledger_builder *builder, uint32_t history,
		   enum ledger_reference_op op, uint32_t api, uint32_t stack);
/* KERNEL has BLOCK as argument 1. */
uint32_t builder_kernel_args(struct ledger_builder *builder, uint32_t kernel, uint32_t block);
/* BLOCK is mapped, by a call API at STACK; or waits for a user event that was made there. */
uint32_t builder_mapped(struct ledger_builder *builder, uint32_t block, uint32_t api,
			uint32_t stack);
uint32_t builder_event_wait(struct ledger_builder *builder, uint32_t block, uint32_t api,
			    uint32_t stack);
/* An empty one, to be filled in place. */
uint32_t builder_pools(struct ledger_builder *builder);
/* Columns of the timeline by kind and device, to be filled in place, and a moment of it. */
uint32_t builder_parts(struct ledger_builder *builder);
uint32_t builder_moment(struct ledger_builder *builder, const struct ledger_moment *moment);
uint32_t builder_step(struct ledger_builder *builder, uint32_t number, uint64_t time_ns,
		      uint64_t live_bytes, const char *label);
uint32_t builder_named_step(struct ledger_builder *builder, const struct ledger_named_step *step);
/* What keeps the blocks of the call site SITE; LENGTH bytes of TEXT. */
uint32_t builder_keepers(struct ledger_builder *builder, uint32_t site, const char *text,
			 size_t length);
uint32_t builder_driver_cost(struct ledger_builder *builder,
			     const struct ledger_driver_cost *cost);
uint32_t builder_cost_call(struct ledger_builder *builder, const struct ledger_cost_call *call);
uint32_t builder_context_end(struct ledger_builder *builder,
			     const struct ledger_context_end *end);
uint32_t builder_parked(struct ledger_builder *builder, const struct ledger_parked *parked);
uint32_t builder_extent(struct ledger_builder *builder, const struct ledger_extent *extent);
uint32_t builder_segment(struct ledger_builder *builder, const struct ledger_segment *segment);
uint32_t builder_ipc(struct ledger_builder *builder, const struct ledger_ipc *record);
uint32_t builder_growth(struct ledger_builder *builder, const struct ledger_growth *growth);
uint32_t builder_out_of_memory(struct ledger_builder *builder,
			       const struct ledger_out_of_memory *record);
/* Adds an event of KIND to a ring of one chunk, which the first event makes. REF is that of a call
 * site. */
struct ledger_trace_event *builder_trace(struct ledger_builder *builder,
					 enum ledger_trace_kind kind, uint32_t ref,
					 uint64_t address, uint64_t bytes, uint64_t time_ns);
uint32_t builder_sample(struct ledger_builder *builder, uint64_t time_ns, uint64_t live_bytes);

#endif
