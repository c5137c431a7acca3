/* SPDX-License-Identifier: MIT
 *
 * Makes the ring of the trace and writes its events. Must not wait for another thread: an event
 * that the ring has overtaken is found by its check.
 */
#include "interpose/recorder/trace.h"

#include "interpose/base/config.h"
#include "interpose/recorder/thread_state.h"

/* Returns the largest power of two that is not above COUNT, or 0. */
static uint32_t round_down(uint64_t count)
{
	while (count & (count - 1))
		count &= count - 1;
	return count < LEDGER_CHUNKS_MAX ? (uint32_t)count : LEDGER_CHUNKS_MAX;
}

void trace_start(struct recorder *recorder)
{
	struct ledger_header *header = recorder->header;
	uint32_t count = round_down((uint64_t)config.trace / LEDGER_CHUNK), first;

	first = ledger_add_ring(&recorder->writer, count, &count);
	count = round_down(count);
	if (!first)
		return;
	header->trace_first = first;
	header->trace_chunks = count;
	recorder->trace->mask = count - 1;
	recorder->trace->ring =
		(struct ledger_chunk *)(recorder->writer.base + (size_t)first * LEDGER_CHUNK);
	atomic_fetch_or(&alloc_checks, CHECK_TRACE);
}

void trace_add(struct recorder *recorder, enum ledger_trace_kind kind, uint32_t ref,
	       uint64_t address, uint64_t bytes, uint64_t time_ns)
{
	const struct trace *trace = recorder->trace;
	struct ledger_trace_event *to, event = {
		.ref = ref, .time_ns = time_ns, .address = address, .bytes = bytes,
		.what = thread_self.thread << 8 | kind,
	};
	uint64_t i;

	if (!trace->ring)
		return;
	i = shared_add(recorder->header->traced, 1);
	event.number = (uint32_t)(i + 1);
	to = (struct ledger_trace_event *)((uint8_t *)trace->ring + sizeof(struct ledger_chunk) +
					   (i / LEDGER_TRACE_EVENTS & trace->mask) * LEDGER_CHUNK);
	to += i % LEDGER_TRACE_EVENTS;
	shared_store(to->number, event.number);
	shared_store(to->ref, event.ref);
	shared_store(to->time_ns, event.time_ns);
	shared_store(to->address, event.address);
	shared_store(to->bytes, event.bytes);
	shared_store(to->what, event.what);
	shared_store(to->check, ledger_trace_check(&event));
}

void trace_block(struct recorder *recorder, enum ledger_trace_kind kind,
		 const struct ledger_block *block, uint64_t bytes, uint64_t time_ns)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, block->site);
	const struct ledger_string *name = ledger_at(&recorder->writer, site->kind);
	static const char object[] = LEDGER_KIND_OBJECT;

	if (name->length >= sizeof(object) && memcmp(name->bytes, object, sizeof(object) - 1) == 0)
		return;
	trace_add(recorder, kind, block->site, block->address, bytes, time_ns);
}

void trace_range(int kind, uint16_t range, uint64_t id, uint32_t domain)
{
	struct recorder *recorder;

	if (!trace_is_on() || !recorder_now() || thread_self.busy)
		return;
	recorder = recorder_enter();
	if (!recorder)
		return;
	if (named_range_write(recorder, thread_self.state->number, range))
		trace_add(recorder, (enum ledger_trace_kind)kind, range, id, domain,
			  recorder_fine_time(recorder));
	recorder_leave();
}
