/* SPDX-License-Identifier: MIT
 *
 * Reads the ring of the trace. A block has a life from the event of its allocation to that of its
 * free. A free without an allocation ends a life that began before the ring, and a live block
 * without an event is such a life, too. So the lives are complete from the ring's first event on.
 * Ranges are read in the same way, but one that began before the ring and never ended is unknown.
 * Believes no event: the ledger may be damaged, and a process may have been killed between a change
 * and its event.
 */
#include "report/model/lives.h"

#include "report/model/builder.h"
#include "report/util/number.h"

/* The open lives of one block: several, if the driver gave its address to another thread before the
 * first thread recorded its free. The oldest ends first. */
struct open {
	uint64_t address, site; /* ref; the key of the table */
	size_t first, last;     /* indices of lives, plus 1 */
};

struct tracing {
	struct builder *b;
	struct lives *lives;
	struct table open, tracks;
	uint64_t number; /* of the event */
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
	ret = ARENA_ADD(t->b->arena, t->lives->list, t->lives->count);
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
	life->from = t->number;
	if (open->first)
		t->lives->list[open->last - 1].next = t->lives->count;
	else
		open->first = t->lives->count;
	open->last = t->lives->count;
	return life;
}

static void end_at(struct life *life, uint64_t time_ns)
{
	life->to_ns = time_ns > life->from_ns ? time_ns : life->from_ns;
}

/* Ends the oldest life of the event's block. If no life of it is known, adds one of BYTES that
 * began before the trace. */
static struct life *end_life(struct tracing *t, const struct ledger_trace_event *event,
			     uint64_t bytes)
{
	struct open *open = open_of(t, event->address, event->ref);
	struct life *life;

	if (open->first) {
		life = &t->lives->list[open->first - 1];
		open->first = life->next;
	} else {
		life = add_life(t, event->ref, event->address, bytes);
	}
	if (life) {
		end_at(life, event->time_ns);
		life->to = t->number;
	}
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

static void add_mark(struct tracing *t, const struct ledger_trace_event *event)
{
	*ARENA_ADD(t->b->arena, t->lives->marks, t->lives->mark_count) = (struct life_mark){
		.kind = (enum ledger_trace_kind)LEDGER_TRACE_KIND(event->what),
		.number = t->number, .time_ns = event->time_ns, .bytes = event->bytes,
		.value = event->address, .stack_ref = event->ref,
	};
}

/* ---- ranges ---- */

/* The ranges of one domain that one thread pushed, or a range that any thread may end. */
struct range_track {
	uint64_t key[2];
	size_t first, open; /* numbers of the first range and of the innermost open one, plus 1 */
};

static struct range_track *track_of(struct tracing *t, const struct ledger_trace_event *event)
{
	const uint64_t key[2] = { event->address ?: event->what >> 8,
				  event->address ? UINT64_MAX : event->bytes };

	return table_intern(t->b->arena, &t->tracks, key, sizeof(key), sizeof(struct range_track));
}

static struct life_range *add_range(struct tracing *t, struct range_track *track,
				    const struct ledger_trace_event *event)
{
	struct life_range *ret = ARENA_ADD(t->b->arena, t->lives->ranges, t->lives->range_count);

	track->first = track->first ?: t->lives->range_count;
	*ret = (struct life_range){ .to_ns = LIFE_GOES_ON, .thread = event->what >> 8,
				    .number = event->ref, .is_started = event->address != 0,
				    .track = track->first, .outer = track->open };
	return ret;
}

static void begin_range(struct tracing *t, const struct ledger_trace_event *event)
{
	struct range_track *track = track_of(t, event);
	struct life_range *range = add_range(t, track, event);

	range->from_ns = event->time_ns;
	range->from = t->number;
	track->open = t->lives->range_count;
}

static void end_range(struct tracing *t, const struct ledger_trace_event *event)
{
	struct range_track *track = track_of(t, event);
	struct life_range *range = track->open ? &t->lives->ranges[track->open - 1]
					       : add_range(t, track, event);

	track->open = range->outer;
	range->to_ns = event->time_ns > range->from_ns ? event->time_ns : range->from_ns;
	range->to = t->number;
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
	case LEDGER_TRACE_STEP:
	case LEDGER_TRACE_OUT_OF_MEMORY:
		add_mark(t, event);
		break;
	case LEDGER_TRACE_RANGE_BEGAN:
		begin_range(t, event);
		break;
	case LEDGER_TRACE_RANGE_ENDED:
		end_range(t, event);
	}
}

/* A live block that has no open life was allocated before the trace, or its event is missing. Else
 * its newest life goes on. */
static void read_live(struct tracing *t, const struct ledger_block *block)
{
	struct open *open = open_of(t, block->address, block->site);
	struct life *life;

	if (open->first) {
		t->lives->list[open->last - 1].is_live = true;
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

		for (size_t at = open ? open->first : 0; at; at = t->lives->list[at - 1].next) {
			struct life *life = &t->lives->list[at - 1];

			if (!life->is_live)
				end_at(life, t->lives->end_ns);
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
	struct lives *lives = t->lives;
	struct ledger_trace_event event;

	lives->dropped = oldest - 1;
	lives->begin_ns = 0;
	for (uint64_t n = oldest; n - 1 < newest; n++) { /* ends for UINT64_MAX, too */
		if (!ledger_trace_read(t->b->view, n, &event)) {
			/* of a running process, the oldest may have been overwritten meanwhile */
			*(lives->events ? &lives->torn : &lives->dropped) += 1;
			continue;
		}
		if (!lives->events++ && lives->dropped)
			lives->begin_ns = event.time_ns;
		if (event.time_ns > lives->end_ns)
			lives->end_ns = event.time_ns;
		t->number = n;
		read_event(t, &event);
	}
}

struct lives *lives_build(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	const uint64_t oldest = ledger_trace_oldest(b->view);
	struct tracing t = { .b = b };

	if (b->lives)
		return b->lives;
	b->lives = t.lives = arena_alloc(b->arena, sizeof(*t.lives));
	t.lives->begin_ns = UINT64_MAX;
	if (header->end_mono_ns > header->start_mono_ns)
		t.lives->end_ns = header->end_mono_ns - header->start_mono_ns;
	if (oldest)
		read_ring(&t, oldest);
	read_blocks(&t);
	return t.lives;
}

const struct lives *lives_of(const struct report_process *process)
{
	static const struct lives none;

	return process->lives ? process->lives : &none;
}

static int compare_events(const void *left, const void *right)
{
	const struct life_event *a = left, *b = right;

	return compare_numbers(a->number, b->number);
}

uint64_t life_event_ns(const struct life_event *event)
{
	if (event->mark)
		return event->mark->time_ns;
	if (event->range)
		return event->ends ? event->range->to_ns : event->range->from_ns;
	return event->ends ? event->life->to_ns : event->life->from_ns;
}

/* Adds EVENT if the trace has it. */
static void add_event(struct life_event **list, size_t *count, struct life_event event)
{
	if (event.number)
		*LIST_ADD(*list, *count) = event;
}

struct life_event *lives_events(const struct lives *lives, size_t *ret_count)
{
	struct life_event *ret = NULL;
	size_t *count = ret_count;

	*count = 0;
	EACH_ITEM(lives->list, lives->count, life) {
		add_event(&ret, count, (struct life_event){ life->from, .life = life });
		add_event(&ret, count, (struct life_event){ life->to, .life = life, .ends = true });
	}
	for (size_t i = 0; i < lives->mark_count; i++)
		add_event(&ret, count, (struct life_event){ lives->marks[i].number,
							    .mark = &lives->marks[i] });
	for (size_t i = 0; i < lives->range_count; i++) {
		const struct life_range *range = &lives->ranges[i];

		add_event(&ret, count, (struct life_event){ range->from, .range = range });
		add_event(&ret, count,
			  (struct life_event){ range->to, .range = range, .ends = true });
	}
	SORT(ret, *count, compare_events);
	return ret;
}

static void look_up_ranges(struct builder *b, struct lives *lives)
{
	const struct ledger_range *record, *by_number[LEDGER_RANGE_OTHER + 1] = { NULL };
	struct ledger_walk walk = { 0 };

	while (lives->range_count && (record = ledger_next_range(b->view, &walk)))
		if (record->number <= LEDGER_RANGE_OTHER)
			by_number[record->number] = record;
	for (size_t i = 0; i < lives->range_count; i++) {
		struct life_range *range = &lives->ranges[i];

		record = range->number <= LEDGER_RANGE_OTHER ? by_number[range->number] : NULL;
		range->name = build_name(b, record ? record->name : 0);
		range->domain = record ? build_text(b, record->domain) : NULL;
	}
}

const struct lives *lives_look_up(struct builder *b)
{
	struct lives *lives = lives_build(b);
	struct table sites = { 0 };

	for (size_t i = 0; i < lives->count; i++) {
		struct life *life = &lives->list[i];
		uint32_t ref = build_ref(b, life->site);
		const struct ref_node *known = table_find_ref(&sites, ref);

		life->where = known ? known->value : &intern_site(b, life->site)->site;
		if (!known)
			table_add_ref(b->arena, &sites, ref, life->where);
	}
	for (size_t i = 0; i < lives->mark_count; i++) {
		struct life_mark *mark = &lives->marks[i];

		mark->stack = build_stack(b, mark->stack_ref);
		mark->api = mark->kind == LEDGER_TRACE_OUT_OF_MEMORY
				    ? build_name(b, (uint32_t)mark->value)
				    : NULL;
	}
	look_up_ranges(b, lives);
	return lives;
}
