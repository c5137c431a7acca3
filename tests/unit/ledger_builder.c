/* SPDX-License-Identifier: MIT
 *
 * See ledger_builder.h.
 */
#include "ledger_builder.h"

#include <stdlib.h>
#include <string.h>

static void grow(struct ledger_builder *builder)
{
	uint8_t *grown = aligned_alloc(LEDGER_CHUNK, builder->size + LEDGER_CHUNK);

	if (!grown)
		abort();
	if (builder->size)
		memcpy(grown, builder->bytes, builder->size);
	memset(grown + builder->size, 0, LEDGER_CHUNK);
	free(builder->bytes);
	builder->bytes = grown;
	builder->size += LEDGER_CHUNK;
	builder_header(builder)->chunks = (uint32_t)(builder->size / LEDGER_CHUNK);
}

static struct ledger_chunk *chunk_at(struct ledger_builder *builder, uint32_t number)
{
	return (struct ledger_chunk *)(builder->bytes + (size_t)number * LEDGER_CHUNK);
}

static uint32_t add(struct ledger_builder *builder, enum ledger_chunk_type type,
		    const void *head, size_t head_size, const void *tail, size_t tail_size)
{
	size_t size = (head_size + tail_size + 7) & ~(size_t)7;
	uint32_t number = builder->open[type];
	struct ledger_chunk *chunk;
	uint64_t at;

	if (!number || chunk_at(builder, number)->used + size > LEDGER_CHUNK) {
		grow(builder);
		number = (uint32_t)(builder->size / LEDGER_CHUNK) - 1;
		builder->open[type] = number;
		*chunk_at(builder, number) = (struct ledger_chunk){
			.type = type, .used = sizeof(struct ledger_chunk)
		};
	}
	chunk = chunk_at(builder, number);
	at = (uint64_t)number * LEDGER_CHUNK + chunk->used;
	memcpy(builder->bytes + at, head, head_size);
	if (tail_size)
		memcpy(builder->bytes + at + head_size, tail, tail_size);
	chunk->used += (uint32_t)size;
	return (uint32_t)(at / LEDGER_REF_UNIT);
}

void builder_init(struct ledger_builder *builder)
{
	static const char command[] = "/bin/app\0-x";
	struct ledger_header header = {
		.version = LEDGER_VERSION,
		.reader_min = LEDGER_READER_MIN, .byte_order = LEDGER_BYTE_ORDER,
		.chunk_bytes = LEDGER_CHUNK, .header_bytes = sizeof(header), .stack_depth = 64,
		.pid = 4242, .ppid = 1, .start_ticks = 1, .chunks = 1, .ended = LEDGER_EXIT,
		.first_call = 1,
	};

	memcpy(header.magic, LEDGER_MAGIC, sizeof(header.magic));
	memset(builder, 0, sizeof(*builder));
	grow(builder);
	memcpy(builder->bytes, &header, sizeof(header));
	header.exe = builder_string(builder, "/bin/app");
	header.host = builder_string(builder, "elsewhere");
	header.cwd = builder_string(builder, "/");
	header.command = builder_bytes(builder, command, sizeof(command));
	header.chunks = builder_header(builder)->chunks;
	memcpy(builder->bytes, &header, sizeof(header));
}

void builder_finish(struct ledger_builder *builder)
{
	free(builder->bytes);
	memset(builder, 0, sizeof(*builder));
}

struct ledger_header *builder_header(struct ledger_builder *builder)
{
	return (struct ledger_header *)builder->bytes;
}

void *builder_at(struct ledger_builder *builder, uint32_t ref)
{
	return builder->bytes + (uint64_t)ref * LEDGER_REF_UNIT;
}

uint32_t builder_bytes(struct ledger_builder *builder, const void *bytes, size_t length)
{
	uint32_t head = (uint32_t)length;

	return add(builder, LEDGER_CHUNK_STRINGS, &head, sizeof(head), bytes, length);
}

uint32_t builder_string(struct ledger_builder *builder, const char *text)
{
	return builder_bytes(builder, text, strlen(text));
}

uint32_t builder_stack(struct ledger_builder *builder, const uint64_t *pcs, unsigned int frames,
		       uint32_t epoch)
{
	struct ledger_stack stack = { .frames = (uint16_t)frames, .epoch = epoch };

	return add(builder, LEDGER_CHUNK_STACKS, &stack, sizeof(stack), pcs, frames * sizeof(*pcs));
}

uint32_t builder_code(struct ledger_builder *builder, const char *function, const char *file)
{
	struct ledger_code code = { 0 };

	code.function = builder_string(builder, function);
	code.file = builder_string(builder, file);
	return add(builder, LEDGER_CHUNK_CODES, &code, sizeof(code), NULL, 0);
}

uint32_t builder_python_stack(struct ledger_builder *builder, const uint64_t *pcs,
			      unsigned int frames, const uint32_t *codes, const uint32_t *lines,
			      unsigned int count)
{
	struct ledger_python python = { .frames = (uint16_t)count };
	struct ledger_python_frame frame[LEDGER_FRAMES_MAX];
	struct ledger_stack stack = { .frames = (uint16_t)frames };

	for (unsigned int i = 0; i < count && i < LEDGER_FRAMES_MAX; i++)
		frame[i] = (struct ledger_python_frame){ codes[i], lines[i] };
	stack.python = add(builder, LEDGER_CHUNK_PYTHON, &python, sizeof(python), frame,
			   count * sizeof(frame[0]));
	return add(builder, LEDGER_CHUNK_STACKS, &stack, sizeof(stack), pcs, frames * sizeof(*pcs));
}

uint32_t builder_row(struct ledger_builder *builder, const char *api, const char *kind, int device,
		     uint32_t stack, uint64_t allocs, uint64_t bytes)
{
	struct ledger_site site = { .stack = stack, .device = device, .allocs = allocs,
				  .bytes = bytes };

	site.api = builder_string(builder, api);
	site.kind = builder_string(builder, kind);
	return add(builder, LEDGER_CHUNK_SITES, &site, sizeof(site), NULL, 0);
}

uint32_t builder_block(struct ledger_builder *builder, uint32_t site, uint64_t address,
		       uint64_t bytes)
{
	struct ledger_block block = { .state = 1u << 8 | LEDGER_BLOCK_LIVE, .site = site,
				      .address = address, .bytes = bytes, .references = 1 };

	return add(builder, LEDGER_CHUNK_BLOCKS, &block, sizeof(block), NULL, 0);
}

uint32_t builder_suballocation_row(struct ledger_builder *builder, int device, uint32_t stack,
				   uint64_t allocs, uint64_t bytes)
{
	struct ledger_site site = { .stack = stack, .device = device, .allocs = allocs,
				    .bytes = bytes };

	site.api = builder_string(builder, "c10::reportMemoryUsageToProfiler");
	site.kind = builder_string(builder, LEDGER_KIND_SUBALLOCATION);
	return add(builder, LEDGER_CHUNK_SUBALLOCATION_SITES, &site, sizeof(site), NULL, 0);
}

uint32_t builder_suballocation(struct ledger_builder *builder, uint32_t site, uint64_t address,
			       uint64_t bytes)
{
	struct ledger_block block = { .state = 1u << 8 | LEDGER_BLOCK_LIVE, .site = site,
				      .address = address, .bytes = bytes, .references = 1 };

	return add(builder, LEDGER_CHUNK_SUBALLOCATIONS, &block, sizeof(block), NULL, 0);
}

static void add_chunk(struct ledger_builder *builder, enum ledger_chunk_type type, uint32_t used)
{
	uint32_t number;

	grow(builder);
	number = (uint32_t)(builder->size / LEDGER_CHUNK) - 1;
	builder->open[type] = number;
	*chunk_at(builder, number) = (struct ledger_chunk){ .type = type, .used = used };
}

void builder_begin_balances(struct ledger_builder *builder, int inside)
{
	add_chunk(builder, LEDGER_CHUNK_OTHERS_BALANCES, LEDGER_CHUNK);
	add_chunk(builder, LEDGER_CHUNK_BALANCES, LEDGER_CHUNK);
	add_chunk(builder, inside ? LEDGER_CHUNK_SUBALLOCATION_SITES : LEDGER_CHUNK_SITES,
		  sizeof(struct ledger_chunk));
}

struct ledger_balance *builder_balance(struct ledger_builder *builder, uint32_t row)
{
	return builder_at(builder, row - LEDGER_CHUNK / LEDGER_REF_UNIT);
}

struct ledger_balance *builder_others_balance(struct ledger_builder *builder, uint32_t row)
{
	return builder_at(builder, row - 2 * LEDGER_CHUNK / LEDGER_REF_UNIT);
}

uint32_t builder_peak(struct ledger_builder *builder, const struct ledger_peak *peak)
{
	return add(builder, LEDGER_CHUNK_PEAKS, peak, sizeof(*peak), NULL, 0);
}

uint32_t builder_live_series(struct ledger_builder *builder,
			     const struct ledger_live_series *series)
{
	return add(builder, LEDGER_CHUNK_LIVE_SERIES, series, sizeof(*series), NULL, 0);
}

uint32_t builder_module(struct ledger_builder *builder, const char *path, uint64_t start,
			uint64_t end, uint64_t bias, uint32_t epoch)
{
	struct ledger_module module = { .start = start, .end = end, .bias = bias,
					.epoch = epoch };

	module.path = builder_string(builder, path);
	return add(builder, LEDGER_CHUNK_MODULES, &module, sizeof(module), NULL, 0);
}

uint32_t builder_error(struct ledger_builder *builder, const struct ledger_error *error)
{
	return add(builder, LEDGER_CHUNK_ERRORS, error, sizeof(*error), NULL, 0);
}

uint32_t builder_fact(struct ledger_builder *builder, const char *kind, const char *subject,
		      const char *module, const char *detail, uint32_t count)
{
	struct ledger_observation fact = { .count = count };

	fact.kind = builder_string(builder, kind);
	fact.subject = builder_string(builder, subject);
	fact.module = module ? builder_string(builder, module) : 0;
	fact.detail = detail ? builder_string(builder, detail) : 0;
	return add(builder, LEDGER_CHUNK_OBSERVATIONS, &fact, sizeof(fact), NULL, 0);
}

uint32_t builder_driver_growth(struct ledger_builder *builder,
			       const struct ledger_driver_growth *growth)
{
	return add(builder, LEDGER_CHUNK_DRIVER_GROWTHS, growth, sizeof(*growth), NULL, 0);
}

uint32_t builder_device(struct ledger_builder *builder, const struct ledger_device *device)
{
	return add(builder, LEDGER_CHUNK_DEVICES, device, sizeof(*device), NULL, 0);
}

uint32_t builder_pools(struct ledger_builder *builder)
{
	static const struct ledger_pools empty;

	return add(builder, LEDGER_CHUNK_POOLS, &empty, sizeof(empty), NULL, 0);
}

uint32_t builder_parts(struct ledger_builder *builder)
{
	static const struct ledger_parts none;

	return add(builder, LEDGER_CHUNK_PARTS, &none, sizeof(none), NULL, 0);
}

uint32_t builder_moment(struct ledger_builder *builder, const struct ledger_moment *moment)
{
	return add(builder, LEDGER_CHUNK_PARTS, moment, sizeof(*moment), NULL, 0);
}

struct ledger_trace_event *builder_trace(struct ledger_builder *builder,
					 enum ledger_trace_kind kind, uint32_t ref,
					 uint64_t address, uint64_t bytes, uint64_t time_ns)
{
	struct ledger_trace_event event = { .ref = ref, .time_ns = time_ns, .address = address,
					    .bytes = bytes, .what = 1u << 8 | kind };
	struct ledger_header *header = builder_header(builder);
	struct ledger_trace_event *ring;

	if (!header->trace_first) {
		grow(builder);
		header = builder_header(builder);
		header->trace_first = (uint32_t)(builder->size / LEDGER_CHUNK) - 1;
		header->trace_chunks = 1;
		*chunk_at(builder, header->trace_first) =
			(struct ledger_chunk){ .type = LEDGER_CHUNK_TRACE, .used = LEDGER_CHUNK };
	}
	ring = (struct ledger_trace_event *)(chunk_at(builder, header->trace_first) + 1);
	ring += header->traced++ % LEDGER_TRACE_EVENTS;
	event.number = (uint32_t)header->traced;
	event.check = ledger_trace_check(&event);
	*ring = event;
	return ring;
}

uint32_t builder_sample(struct ledger_builder *builder, uint64_t time_ns, uint64_t live_bytes)
{
	struct ledger_sample sample = { time_ns, live_bytes };

	return add(builder, LEDGER_CHUNK_TIMELINE, &sample, sizeof(sample), NULL, 0);
}

uint32_t builder_step(struct ledger_builder *builder, uint32_t number, uint64_t time_ns,
		      uint64_t live_bytes, const char *label)
{
	struct ledger_step step = { .time_ns = time_ns, .live_bytes = live_bytes,
				    .live_blocks = 1, .number = number };

	memcpy(step.label, label, strnlen(label, sizeof(step.label)));
	return add(builder, LEDGER_CHUNK_STEPS, &step, sizeof(step), NULL, 0);
}

uint32_t builder_named_step(struct ledger_builder *builder, const struct ledger_named_step *step)
{
	return add(builder, LEDGER_CHUNK_NAMED_STEPS, step, sizeof(*step), NULL, 0);
}

uint32_t builder_keepers(struct ledger_builder *builder, uint32_t site, const char *text,
			 size_t length)
{
	struct ledger_keepers keepers = { .done = 1, .began = 1, .site = site,
					  .time_ns = 1500000000, .length = (uint32_t)length };

	memcpy(keepers.text, text, length < sizeof(keepers.text) ? length : 0);
	return add(builder, LEDGER_CHUNK_KEEPERS, &keepers, sizeof(keepers), NULL, 0);
}

uint32_t builder_driver_cost(struct ledger_builder *builder,
			     const struct ledger_driver_cost *cost)
{
	return add(builder, LEDGER_CHUNK_DRIVER_COSTS, cost, sizeof(*cost), NULL, 0);
}

uint32_t builder_cost_call(struct ledger_builder *builder, const struct ledger_cost_call *call)
{
	return add(builder, LEDGER_CHUNK_COST_CALLS, call, sizeof(*call), NULL, 0);
}

uint32_t builder_context_end(struct ledger_builder *builder,
			     const struct ledger_context_end *end)
{
	return add(builder, LEDGER_CHUNK_CONTEXT_ENDS, end, sizeof(*end), NULL, 0);
}

uint32_t builder_parked(struct ledger_builder *builder, const struct ledger_parked *parked)
{
	return add(builder, LEDGER_CHUNK_PARKED, parked, sizeof(*parked), NULL, 0);
}

uint32_t builder_extent(struct ledger_builder *builder, const struct ledger_extent *extent)
{
	return add(builder, LEDGER_CHUNK_EXTENTS, extent, sizeof(*extent), NULL, 0);
}

uint32_t builder_segment(struct ledger_builder *builder, const struct ledger_segment *segment)
{
	return add(builder, LEDGER_CHUNK_SEGMENTS, segment, sizeof(*segment), NULL, 0);
}

uint32_t builder_ipc(struct ledger_builder *builder, const struct ledger_ipc *record)
{
	return add(builder, LEDGER_CHUNK_IPC, record, sizeof(*record), NULL, 0);
}

uint32_t builder_growth(struct ledger_builder *builder, const struct ledger_growth *growth)
{
	return add(builder, LEDGER_CHUNK_GROWTH, growth, sizeof(*growth), NULL, 0);
}

uint32_t builder_out_of_memory(struct ledger_builder *builder,
			       const struct ledger_out_of_memory *record)
{
	return add(builder, LEDGER_CHUNK_OUT_OF_MEMORY, record, sizeof(*record), NULL, 0);
}

uint32_t builder_history(struct ledger_builder *builder, uint32_t block)
{
	struct ledger_history history = { .block = block };
	uint32_t ref = add(builder, LEDGER_CHUNK_HISTORIES, &history, sizeof(history), NULL, 0);

	((struct ledger_block *)builder_at(builder, block))->history = ref;
	return ref;
}

void builder_event(struct ledger_builder *builder, uint32_t ref, enum ledger_reference_op op,
		   uint32_t api, uint32_t stack)
{
	struct ledger_history *history = builder_at(builder, ref);
	uint32_t slot = (LEDGER_HISTORY_EVENTS - 1 - history->order) % LEDGER_HISTORY_EVENTS;

	/* From the last slot down: a reader must go by `order`. */
	history->events[slot] = (struct ledger_reference){
		.order = ++history->order, .op = op, .api = api, .stack = stack,
		.time_ns = history->order * 100,
	};
	history->kept |= 1ull << slot;
}

uint32_t builder_kernel_args(struct ledger_builder *builder, uint32_t kernel, uint32_t block)
{
	struct ledger_kernel_args args = { .kernel = 1ull << 32 | kernel };

	args.arg[1] = 1ull << 32 | block;

	return add(builder, LEDGER_CHUNK_KERNEL_ARGS, &args, sizeof(args), NULL, 0);
}

uint32_t builder_mapped(struct ledger_builder *builder, uint32_t block, uint32_t api,
			uint32_t stack)
{
	const struct ledger_mapped mapped = {
		.block = 1ull << 32 | block, .api = api, .stack = stack, .count = 1,
	};

	return add(builder, LEDGER_CHUNK_MAPPED, &mapped, sizeof(mapped), NULL, 0);
}

uint32_t builder_event_wait(struct ledger_builder *builder, uint32_t block, uint32_t api,
			    uint32_t stack)
{
	const struct ledger_event_wait wait = {
		.block = 1ull << 32 | block, .api = api, .stack = stack, .event_api = api,
		.event_stack = stack,
	};

	return add(builder, LEDGER_CHUNK_EVENT_WAITS, &wait, sizeof(wait), NULL, 0);
}
