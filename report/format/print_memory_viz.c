/* SPDX-License-Identifier: MIT
 *
 * Writes what torch.cuda.memory._snapshot() returns as a pickle, for PyTorch's memory viewer and
 * torch/cuda/_memory_viz.py: segments with their blocks, the events of the trace, and its ranges as
 * annotations. Each block of
 * the driver is a segment. A framework's segment has its suballocations as blocks, every other
 * segment is one block, so the memory of NCCL, cuBLAS and others is there, too. Has no place for
 * findings. Uses only opcodes that the viewer reads.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>

#include "report/model/lives.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"

#define DEVICES_MAX 64 /* of one process */
#define ENCLOSING_MAX 256 /* lives of blocks at lower addresses that are looked at */
#define SMALL_SEGMENT ((uint64_t)2 << 20) /* PyTorch's segments for small blocks */

/* ---- pickle, protocol 2 ---- */

struct pickle {
	FILE *out;
	struct report_arena arena;
	struct table texts, stacks; /* those that have a number in the memo */
	uint32_t memo;
};

/* What a table maps to a number of the memo. */
struct memo {
	uint64_t key;
	uint32_t number; /* plus 1 */
};

static void put_bytes(struct pickle *p, uint64_t value, int count)
{
	for (int i = 0; i < count; i++)
		fputc((int)(value >> 8 * i & 0xff), p->out);
}

static void put_number(struct pickle *p, uint64_t value)
{
	if (value <= INT32_MAX) {
		fputc('J', p->out); /* BININT */
		put_bytes(p, value, 4);
		return;
	}
	fputs("\x8a\x08", p->out); /* LONG1 of 8 bytes */
	put_bytes(p, value < INT64_MAX ? value : INT64_MAX, 8);
}

/* Writes a reference to the object with KEY if it is in the memo, and returns true. Otherwise the
 * caller writes the object, and then calls memo_end(). */
static bool memo_get(struct pickle *p, struct table *table, uint64_t key, struct memo **ret)
{
	*ret = table_intern(&p->arena, table, &key, sizeof(key), sizeof(**ret));
	if (!(*ret)->number)
		return false;
	fputc('j', p->out); /* LONG_BINGET */
	put_bytes(p, (*ret)->number - 1, 4);
	return true;
}

static void memo_end(struct pickle *p, struct memo *memo)
{
	memo->number = ++p->memo;
	fputc('r', p->out); /* LONG_BINPUT */
	put_bytes(p, memo->number - 1, 4);
}

/* Texts are interned by their address: those of a report do not move. */
static void put_text(struct pickle *p, const char *text)
{
	FREE_AT_END char *valid = NULL;
	struct memo *memo;

	if (memo_get(p, &p->texts, (uintptr_t)text, &memo))
		return;
	valid = PRINTED(to, print_escaped(to, text));
	fputc('X', p->out); /* BINUNICODE */
	put_bytes(p, strlen(valid), 4);
	fputs(valid, p->out);
	memo_end(p, memo);
}

static void put_key_number(struct pickle *p, const char *key, uint64_t value)
{
	put_text(p, key);
	put_number(p, value);
}

static void put_key_text(struct pickle *p, const char *key, const char *value)
{
	put_text(p, key);
	put_text(p, value);
}

static const char *frame_name(struct pickle *p, const struct report_frame *frame)
{
	return frame->function ?: arena_printf(&p->arena, "+0x%" PRIx64, frame->offset);
}

static void put_frame(struct pickle *p, const struct report_frame *frame)
{
	const char *place = frame->file ? frame->file : frame->module ? frame->module : "??";

	fputs("}(", p->out);
	put_key_text(p, "name", frame_name(p, frame));
	put_key_text(p, "filename", place);
	put_key_number(p, "line", frame->file ? frame->line : 0);
	fputc('u', p->out);
}

/* Writes the key "frames". */
static void put_frames(struct pickle *p, const struct report_stack *stack)
{
	struct memo *memo;

	put_text(p, "frames");
	if (memo_get(p, &p->stacks, (uintptr_t)stack, &memo))
		return;
	fputs("](", p->out);
	for (size_t i = 0; i < stack->count; i++)
		put_frame(p, &stack->frames[i]);
	fputc('e', p->out);
	memo_end(p, memo);
}

/* ---- the memory of a process ---- */

struct viz {
	struct pickle pickle;
	const struct report_process *process;
	uint64_t at_ns; /* the moment of the snapshot */
	uint64_t last_ns; /* the latest event of a list until now: the coarse clock is a bit late */
	unsigned int first_device; /* the process's device 0 in the snapshot */
	struct table divided; /* call sites of segments that have suballocations */
	/* sorted by device and address: live at the moment */
	const struct life **segments, **parts;
	size_t segment_count, part_count;
};

static unsigned int device_of(const struct life *life)
{
	int device = life->where->device;

	return device < 0 ? 0 : device < DEVICES_MAX ? (unsigned int)device : DEVICES_MAX - 1;
}

/* Returns true if the memory of LIFE is on a device. Other memory is not in a snapshot, nor are
 * blocks that do not count bytes of their own. */
static bool is_shown(const struct life *life)
{
	static const char *const others[] = { "pinned", "registered", "mempool" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(life->where->kind, others[i]) == 0)
			return false;
	return life->bytes != 0;
}

static int compare_addresses(const void *left, const void *right)
{
	const struct life *a = *(const struct life *const *)left;
	const struct life *b = *(const struct life *const *)right;

	return compare_numbers(a->address, b->address);
}

static bool is_same_site(const void *value, const void *key)
{
	return value == key;
}

/* Returns true if LIFE is a segment whose suballocations the framework reports. */
static bool is_divided(const struct viz *v, const struct life *life)
{
	return !life->inside && table_find(&v->divided, hash_number((uintptr_t)life->where, 0),
					   is_same_site, life->where);
}

/* Marks the call site of the segment in which PART lies. BLOCKS are sorted by address. */
static void mark_segment(struct viz *v, const struct life **blocks, size_t count,
			 const struct life *part)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (blocks[middle]->address <= part->address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < ENCLOSING_MAX; i--) {
		const struct life *block = blocks[i - 1];

		if (part->address - block->address >= block->bytes ||
		    part->from_ns > block->to_ns || block->from_ns > part->to_ns)
			continue;
		if (!is_divided(v, block))
			table_add(&v->pickle.arena, &v->divided,
				  hash_number((uintptr_t)block->where, 0), (void *)block->where);
		return;
	}
}

static void find_divided(struct viz *v)
{
	const struct lives *lives = lives_of(v->process);
	const struct life **blocks = NULL;
	size_t count = 0;

	for (size_t i = 0; i < lives->count; i++)
		if (!lives->list[i].inside && is_shown(&lives->list[i]))
			*LIST_ADD(blocks, count) = &lives->list[i];
	SORT(blocks, count, compare_addresses);
	for (size_t i = 0; i < lives->count; i++)
		if (lives->list[i].inside)
			mark_segment(v, blocks, count, &lives->list[i]);
	free(blocks);
}

static int compare_lives(const void *left, const void *right)
{
	const struct life *a = *(const struct life *const *)left;
	const struct life *b = *(const struct life *const *)right;

	return compare_ints(a->where->device, b->where->device)
	       ?: compare_numbers(a->address, b->address) ?: compare_numbers(a->bytes, b->bytes);
}

/* Returns true if PART lies before SEGMENT in the order of compare_lives(). */
static bool is_before(const struct life *part, const struct life *segment)
{
	int devices = compare_ints(part->where->device, segment->where->device);

	return devices < 0 || (devices == 0 &&
			       add_bounded(part->address, part->bytes) <= segment->address);
}

static void find_live(struct viz *v)
{
	const struct lives *lives = lives_of(v->process);

	for (size_t i = 0; i < lives->count; i++) {
		const struct life *life = &lives->list[i];

		if (life->from_ns > v->at_ns || v->at_ns >= life->to_ns || !is_shown(life))
			continue;
		if (life->inside)
			*LIST_ADD(v->parts, v->part_count) = life;
		else
			*LIST_ADD(v->segments, v->segment_count) = life;
	}
	SORT(v->segments, v->segment_count, compare_lives);
	SORT(v->parts, v->part_count, compare_lives);
}

/* ---- segments ---- */

static void put_block(struct pickle *p, uint64_t address, uint64_t bytes, const struct life *life)
{
	static const struct report_stack none;

	fputs("}(", p->out);
	put_key_number(p, "address", address);
	put_key_number(p, "size", bytes);
	put_key_number(p, "requested_size", life ? bytes : 0);
	put_key_text(p, "state", life ? "active_allocated" : "inactive");
	put_frames(p, life ? life->where->stack : &none);
	fputc('u', p->out);
}

static const struct life **end_of_parts(const struct viz *v)
{
	return v->part_count ? v->parts + v->part_count : v->parts;
}

/* Writes the blocks of the range of SEGMENT from *PART on, which is the first that ends in it or
 * after it. Returns the bytes of suballocations. */
static uint64_t put_parts(struct viz *v, const struct life *segment, const struct life **part,
			  bool writes)
{
	const struct life **end = end_of_parts(v);
	uint64_t at = segment->address, used = 0;
	uint64_t stop = add_bounded(segment->address, segment->bytes);

	for (; part < end && (*part)->where->device == segment->where->device &&
	       (*part)->address < stop; part++) {
		uint64_t from = (*part)->address > at ? (*part)->address : at;
		uint64_t to = add_bounded((*part)->address, (*part)->bytes);

		to = to < stop ? to : stop;
		if (to <= from)
			continue;
		if (writes && from > at)
			put_block(&v->pickle, at, from - at, NULL);
		if (writes)
			put_block(&v->pickle, from, to - from, *part);
		used += to - from;
		at = to;
	}
	if (writes && stop > at)
		put_block(&v->pickle, at, stop - at, NULL);
	return used;
}

/* PARTS: see put_parts(). */
static void put_segment(struct viz *v, const struct life *segment, const struct life **parts)
{
	bool has_parts = is_divided(v, segment);
	struct pickle *p = &v->pickle;
	uint64_t used = segment->bytes;

	if (has_parts)
		used = put_parts(v, segment, parts, false);
	fputs("}(", p->out);
	put_key_number(p, "device", v->first_device + device_of(segment));
	put_key_number(p, "address", segment->address);
	put_key_number(p, "total_size", segment->bytes);
	put_key_number(p, "allocated_size", used);
	put_key_number(p, "active_size", used);
	put_key_number(p, "requested_size", used);
	put_key_number(p, "stream", 0);
	put_key_text(p, "segment_type", segment->bytes > SMALL_SEGMENT ? "large" : "small");
	put_text(p, "is_expandable");
	fputs(strcmp(segment->where->kind, "vmm-mapping") == 0 ? "\x88" : "\x89", p->out);
	put_frames(p, segment->where->stack);
	put_text(p, "blocks");
	fputs("](", p->out);
	if (!has_parts)
		put_block(p, segment->address, segment->bytes, segment);
	else
		put_parts(v, segment, parts, true);
	fputs("eu", p->out);
}

/* ---- events ---- */

static void put_time(struct viz *v, uint64_t ns)
{
	v->last_ns = ns > v->last_ns ? ns : v->last_ns;
	put_key_number(&v->pickle, "time_us", (v->process->start_real_ns + v->last_ns) / 1000);
}

static void put_entry(struct viz *v, const char *action, const struct life *life, uint64_t ns)
{
	struct pickle *p = &v->pickle;

	fputs("}(", p->out);
	put_key_text(p, "action", action);
	put_key_number(p, "addr", life->address);
	put_key_number(p, "size", life->bytes);
	put_key_number(p, "stream", 0);
	put_time(v, ns);
	put_frames(p, life->where->stack);
	fputc('u', p->out);
}

/* The record of a refused request has how much memory was free. */
static uint64_t free_bytes_of(const struct viz *v, const struct life_mark *mark)
{
	for (size_t i = 0; i < v->process->out_of_memory_count; i++) {
		const struct report_out_of_memory *refused = &v->process->out_of_memory[i];

		if (refused->has_free && refused->bytes == mark->bytes &&
		    refused->site->stack == mark->stack)
			return refused->free_bytes;
	}
	return 0;
}

static void put_refusal(struct viz *v, const struct life_mark *mark)
{
	struct pickle *p = &v->pickle;

	fputs("}(", p->out);
	put_key_text(p, "action", "oom");
	put_key_number(p, "size", mark->bytes);
	put_key_number(p, "device_free", free_bytes_of(v, mark));
	put_key_number(p, "stream", 0);
	put_time(v, mark->time_ns);
	put_frames(p, mark->stack);
	fputc('u', p->out);
}

static void put_event(struct viz *v, const struct life_event *event)
{
	const struct life *life = event->life;
	bool is_block = life && !is_divided(v, life);
	uint64_t ns = life_event_ns(event);

	if (event->mark && event->mark->kind == LEDGER_TRACE_OUT_OF_MEMORY)
		put_refusal(v, event->mark);
	if (event->range && ns > v->last_ns)
		v->last_ns = ns; /* what follows is inside the range */
	if (!life || !is_shown(life))
		return;
	if (!event->ends && !life->inside)
		put_entry(v, "segment_alloc", life, ns);
	if (is_block && !event->ends)
		put_entry(v, "alloc", life, ns);
	if (is_block && event->ends) {
		put_entry(v, "free_requested", life, ns);
		put_entry(v, "free_completed", life, ns);
	}
	if (event->ends && !life->inside)
		put_entry(v, "segment_free", life, ns);
}

static unsigned int devices_of(const struct report_process *process)
{
	const struct lives *lives = lives_of(process);
	unsigned int ret = 1;

	for (size_t i = 0; i < lives->count; i++)
		if (device_of(&lives->list[i]) >= ret)
			ret = device_of(&lives->list[i]) + 1;
	return ret;
}

static void put_annotation(struct viz *v, const struct life_event *event)
{
	struct pickle *p = &v->pickle;

	if (!event->range)
		return;
	fputs("}(", p->out);
	put_key_text(p, "name", event->range->name);
	put_key_text(p, "stage", event->ends ? "END" : "START");
	put_key_number(p, "device", v->first_device);
	put_time(v, life_event_ns(event));
	fputc('u', p->out);
}

/* Writes a list: calls PUT for each event of DEVICE until the moment of the snapshot. A range is an
 * event of every device, a refused request one of the first device. */
static void put_list(struct viz *v, void (*put)(struct viz *v, const struct life_event *event),
		     unsigned int device)
{
	size_t count;
	struct life_event *events = lives_events(lives_of(v->process), &count);

	v->last_ns = 0;
	EACH_ITEM(events, count, event) {
		unsigned int of = event->life ? device_of(event->life) : event->mark ? 0 : device;

		if (of == device && life_event_ns(event) <= v->at_ns)
			put(v, event);
	}
	free(events);
}

static void put_events(struct viz *v)
{
	unsigned int devices = devices_of(v->process);

	for (unsigned int device = 0; device < devices; device++) {
		fputs("](", v->pickle.out);
		put_list(v, put_event, device);
		fputc('e', v->pickle.out);
	}
}

static void put_annotations(struct viz *v)
{
	put_list(v, put_annotation, 0);
	v->first_device += devices_of(v->process);
}

/* ---- processes ---- */

static void begin_process(struct viz *v, const struct report_process *process)
{
	v->process = process;
	v->at_ns = LIFE_GOES_ON - 1;
	if (process->moment_count && process->moments->from_ns == process->moments->to_ns)
		v->at_ns = process->moments->from_ns;
	find_divided(v);
}

static void put_segments(struct viz *v)
{
	const struct life **parts;

	find_live(v);
	parts = v->parts;
	for (size_t i = 0; i < v->segment_count; i++) {
		const struct life *segment = v->segments[i];

		while (parts < end_of_parts(v) && is_before(*parts, segment))
			parts++;
		put_segment(v, segment, parts);
	}
	free(v->segments);
	free(v->parts);
	v->segments = v->parts = NULL;
	v->segment_count = v->part_count = 0;
	v->first_device += devices_of(v->process);
}

/* Writes the key KEY and its list: calls PUT for each process. */
static void put_processes(struct viz *v, const struct report *report, const char *key,
			  void (*put)(struct viz *v))
{
	put_text(&v->pickle, key);
	fputs("](", v->pickle.out);
	v->first_device = 0;
	for (size_t i = 0; i < report->count; i++) {
		begin_process(v, report->processes[i]);
		put(v);
	}
	fputc('e', v->pickle.out);
}

int print_memory_viz(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct viz v = { .pickle = { .out = out } };

	(void)judgement;
	fputs("\x80\x02}(", out); /* PROTO 2, a dictionary */
	put_processes(&v, report, "segments", put_segments);
	put_processes(&v, report, "device_traces", put_events);
	put_processes(&v, report, "external_annotations", put_annotations);
	fputs("u.", out);
	arena_finish(&v.pickle.arena);
	return ferror(out) ? -EIO : 0;
}
