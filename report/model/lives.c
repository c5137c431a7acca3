/* SPDX-License-Identifier: MIT
 *
 * Reads the ring of the trace. A block has a life from the event of its allocation to that of its
 * free. A free without an allocation ends a life that began before the ring, and a live block
 * without an event is such a life, too. So the lives are complete from the ring's first event on.
 * Believes no event: the ledger may be damaged, and a process may have been killed between a change
 * and its event.
 */
#include "report/model/lives.h"

#include "report/util/number.h"

/* The open lives of one block: several, if the driver gave its address to another thread before the
 * first thread recorded its free. The oldest ends first. */
struct open {
	uint64_t address, site; /* ref; the key of the table */
	size_t first, last;     /* indices of lives, plus 1 */
};

struct tracing {
	struct builder *b;
	struct report_trace *trace;
	struct table open;
};

static struct open *open_of(struct tracing *t, uint64_t address, uint32_t site)
{
	const uint64_t key[2] = { address, site };

	return table_intern(t->b->arena, &t->open, key, sizeof(key), sizeof(struct open));
}

/* Returns a new life of a block of the call site with REF, or NULL if REF leads nowhere or to
 * objects that are not memory. */
static struct life *add_life(struct tracing *t, uint32_t ref, uint64_t address, uint64_t bytes)
{
	const struct ledger_site *site = ledger_any_site(t->b->view, ref);
	struct life *ret;

	if (!site || ledger_site_is_object(t->b->view, site))
		return NULL;
	ret = ARENA_ADD(t->b->arena, t->trace->lives, t->trace->count);
	*ret = (struct life){ .address = address, .bytes = bytes, .to_ns = LIFE_GOES_ON,
			      .site = site, .inside = !ledger_site(t->b->view, ref) };
	return ret;
}

static struct life *begin_life(struct tracing *t, const struct ledger_trace_event *event,
			       uint64_t bytes)
{
	struct open *open = open_of(t, event->address, event->ref);
	struct life *life = add_life(t, event->ref, event->address, bytes);

	if (!life)
		return NULL;
	life->from_ns = event->time_ns;
	if (open->first)
		t->trace->lives[open->last - 1].next = t->trace->count;
	else
		open->first = t->trace->count;
	open->last = t->trace->count;
	return life;
}

static void end_at(struct life *life, uint64_t time_ns)
{
	life->to_ns = time_ns > life->from_ns ? time_ns : life->from_ns;
}

/* Ends the oldest life of the event's block. If there is none, it began before the trace, with
 * BYTES. */
static struct life *end_life(struct tracing *t, const struct ledger_trace_event *event,
			     uint64_t bytes)
{
	struct open *open = open_of(t, event->address, event->ref);
	struct life *life;

	if (open->first) {
		life = &t->trace->lives[open->first - 1];
		open->first = life->next;
	} else {
		life = add_life(t, event->ref, event->address, bytes);
	}
	if (life)
		end_at(life, event->time_ns);
	return life;
}

/* The block had BEFORE bytes until the event, and has AFTER since. */
static void change_bytes(struct tracing *t, const struct ledger_trace_event *event, uint64_t before,
			 uint64_t after)
{
	struct life *life = end_life(t, event, before);

	if (life)
		life->continues = true;
	life = begin_life(t, event, after);
	if (life)
		life->is_continued = true;
}

static void read_event(struct tracing *t, const struct ledger_trace_event *event)
{
	switch (LEDGER_TRACE_KIND(event->what)) {
	case LEDGER_TRACE_ALLOCATED:
		begin_life(t, event, event->bytes);
		break;
	case LEDGER_TRACE_FREED:
		end_life(t, event, event->bytes);
		break;
	case LEDGER_TRACE_BYTES_TAKEN:
		change_bytes(t, event, 0, event->bytes);
		break;
	case LEDGER_TRACE_BYTES_GIVEN:
		change_bytes(t, event, event->bytes, 0);
		break;
	default:
		*ARENA_ADD(t->b->arena, t->trace->others, t->trace->other_count) = *event;
	}
}

/* A live block that has no open life was allocated before the trace, or its event is missing. Else
 * its newest life goes on. */
static void read_live(struct tracing *t, const struct ledger_block *block)
{
	struct open *open = open_of(t, block->address, block->site);
	struct life *life;

	if (open->first) {
		t->trace->lives[open->last - 1].is_live = true;
		return;
	}
	life = add_life(t, block->site, block->address, block->bytes);
	if (life)
		life->from_ns = block->time_ns;
}

/* Ends the other open lives: their blocks are not allocated any more, so the event of their free is
 * missing. */
static void end_remaining(struct tracing *t)
{
	for (size_t i = 0; i < t->open.size; i++) {
		const struct open *open = t->open.slots[i].value;

		for (size_t at = open ? open->first : 0; at; at = t->trace->lives[at - 1].next) {
			struct life *life = &t->trace->lives[at - 1];

			if (!life->is_live)
				end_at(life, t->trace->end_ns);
		}
	}
}

static void read_blocks(struct tracing *t)
{
	struct ledger_walk walk = { 0 }, inside = { 0 };
	const struct ledger_block *block;

	while ((block = ledger_next_block_slot(t->b->view, &walk)))
		if (LEDGER_BLOCK_STATE(block->state))
			read_live(t, block);
	while ((block = ledger_next_suballocation(t->b->view, &inside)))
		read_live(t, block);
	end_remaining(t);
}

/* Reads the events from number OLDEST on. */
static void read_ring(struct tracing *t, uint64_t oldest)
{
	const uint64_t newest = ledger_header(t->b->view)->traced;
	struct report_trace *trace = t->trace;
	struct ledger_trace_event event;

	trace->dropped = oldest - 1;
	for (uint64_t n = oldest; n - 1 < newest; n++) { /* ends for UINT64_MAX, too */
		if (!ledger_trace_read(t->b->view, n, &event)) {
			/* of a running process, the oldest may have been overwritten meanwhile */
			*(trace->events ? &trace->torn : &trace->dropped) += 1;
			continue;
		}
		if (!trace->events++ && trace->dropped)
			trace->begin_ns = event.time_ns;
		if (event.time_ns > trace->end_ns)
			trace->end_ns = event.time_ns;
		read_event(t, &event);
	}
}

const struct report_trace *trace_build(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	const uint64_t oldest = ledger_trace_oldest(b->view);
	struct tracing t = { .b = b };

	if (b->trace || !oldest)
		return b->trace;
	t.trace = arena_alloc(b->arena, sizeof(*t.trace));
	if (header->end_mono_ns > header->start_mono_ns)
		t.trace->end_ns = header->end_mono_ns - header->start_mono_ns;
	read_ring(&t, oldest);
	read_blocks(&t);
	return b->trace = t.trace;
}
