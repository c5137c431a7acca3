/* SPDX-License-Identifier: MIT
 *
 * Writes the trace for ui.perfetto.dev and trace_processor: a counter for each kind of memory and
 * device, and for each cache what its suballocations have; slices for the ranges of each thread;
 * instants for steps and for requests that ran out of memory. Fields have the numbers of perfetto's
 * protos/perfetto/trace. Has no place for findings.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>

#include "report/describe/kinds.h"
#include "report/model/lives.h"
#include "report/model/model.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/protobuf.h"

enum {
	TRACE_PACKET = 1,
	PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11, PACKET_TRACK = 60,
	TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_PARENT = 5, TRACK_COUNTER = 8,
	PROCESS_PID = 1, PROCESS_NAME = 6,
	COUNTER_UNIT = 3, UNIT_BYTES = 3,
	EVENT_TYPE = 9, EVENT_TRACK = 11, EVENT_CATEGORY = 22, EVENT_NAME = 23, EVENT_VALUE = 30,
	TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4,
};

#define MESSAGE_MAX 1536 /* of a message; texts are cut */
#define TEXT_MAX 500
#define SERIES_MAX 256 /* of one process; further kinds join the last one */

struct message {
	unsigned char bytes[MESSAGE_MAX];
	size_t size;
};

/* Memory of one kind on one device, or suballocations of one cache. */
struct series {
	const struct report_site *where; /* one of its call sites */
	const char *cache; /* NULL: blocks */
	uint64_t track, bytes;
};

struct perfetto {
	FILE *out;
	const struct report_process *process;
	uint64_t process_track, tracks; /* last number of a track */
	uint64_t shift_ns; /* from the start of the first process to that of this one */
	uint64_t last_ns; /* events of one tick of the clock become a nanosecond apart */
	struct series series[SERIES_MAX];
	size_t count;
	uint64_t range_tracks; /* last number of a track before those of ranges */
};

/* ---- messages ---- */

static void add_number(struct message *to, unsigned int field, uint64_t value)
{
	to->size = (size_t)(put_number(to->bytes + to->size, field, value) - to->bytes);
}

static void add_bytes(struct message *to, unsigned int field, const void *bytes, size_t size)
{
	unsigned char *at = put_head(to->bytes + to->size, field, size);

	memcpy(at, bytes, size);
	to->size = (size_t)(at - to->bytes) + size;
}

/* TEXT may have any bytes. */
static void add_text(struct message *to, unsigned int field, const char *text)
{
	FREE_AT_END char *valid = PRINTED(out, print_escaped(out, text));
	size_t length = strlen(valid);

	while (length > TEXT_MAX || (length && (valid[length] & 0xc0) == 0x80))
		length--;
	add_bytes(to, field, valid, length);
}

static void write_packet(struct perfetto *p, const struct message *packet)
{
	unsigned char head[PROTO_HEAD_MAX];

	fwrite(head, 1, (size_t)(put_head(head, TRACE_PACKET, packet->size) - head), p->out);
	fwrite(packet->bytes, 1, packet->size, p->out);
}

static void write_track(struct perfetto *p, const struct message *track)
{
	struct message packet = { .size = 0 };

	add_number(&packet, PACKET_SEQUENCE, 1);
	add_bytes(&packet, PACKET_TRACK, track->bytes, track->size);
	write_packet(p, &packet);
}

static void write_event(struct perfetto *p, uint64_t ns, const struct message *event)
{
	struct message packet = { .size = 0 };

	ns = add_bounded(ns, p->shift_ns);
	p->last_ns = ns > p->last_ns ? ns : p->last_ns + 1;
	add_number(&packet, PACKET_TIMESTAMP, p->last_ns);
	add_number(&packet, PACKET_SEQUENCE, 1);
	add_bytes(&packet, PACKET_EVENT, event->bytes, event->size);
	write_packet(p, &packet);
}

/* ---- tracks ---- */

static void begin_process(struct perfetto *p)
{
	struct message process = { .size = 0 }, track = { .size = 0 };

	p->process_track = ++p->tracks;
	p->count = 0;
	p->last_ns = 0;
	add_number(&process, PROCESS_PID, (uint64_t)p->process->pid);
	add_text(&process, PROCESS_NAME, p->process->program);
	add_number(&track, TRACK_UUID, p->process_track);
	add_bytes(&track, TRACK_PROCESS, process.bytes, process.size);
	write_track(p, &track);
}

/* COUNTER: NULL if the track has slices. */
static void write_named_track(struct perfetto *p, uint64_t uuid, const char *name,
			      const struct message *counter)
{
	struct message track = { .size = 0 };

	add_number(&track, TRACK_UUID, uuid);
	add_text(&track, TRACK_NAME, name);
	add_number(&track, TRACK_PARENT, p->process_track);
	if (counter)
		add_bytes(&track, TRACK_COUNTER, counter->bytes, counter->size);
	write_track(p, &track);
}

static void write_counter_track(struct perfetto *p, struct series *series)
{
	const struct report_site *where = series->where;
	struct message counter = { .size = 0 };
	FREE_AT_END char *name = PRINTED(to, {
		if (series->cache)
			fprintf(to, "in use of the %s", series->cache);
		else
			fputs(kind_words(where->kind), to);
		if (where->device >= 0)
			fprintf(to, ", device %d", where->device);
	});

	series->track = ++p->tracks;
	add_number(&counter, COUNTER_UNIT, UNIT_BYTES);
	write_named_track(p, series->track, name, &counter);
}

static struct series *series_of(struct perfetto *p, const struct life *life)
{
	const char *cache = life->inside ? report_cache_of(life->where) : NULL;

	for (size_t i = 0; i < p->count; i++) {
		struct series *series = &p->series[i];

		if (series->where->device == life->where->device &&
		    is_same_text(series->cache, cache) &&
		    strcmp(series->where->kind, life->where->kind) == 0)
			return series;
	}
	if (p->count == SERIES_MAX)
		return &p->series[SERIES_MAX - 1];
	p->series[p->count] = (struct series){ .where = life->where, .cache = cache };
	write_counter_track(p, &p->series[p->count]);
	return &p->series[p->count++];
}

/* Writes the tracks of ranges. The viewer joins neighbours that have one name. */
static void write_range_tracks(struct perfetto *p)
{
	const struct lives *lives = lives_of(p->process);

	p->range_tracks = p->tracks;
	for (size_t i = 0; i < lives->range_count; i++) {
		const struct life_range *range = &lives->ranges[i];

		if (range->track != i + 1)
			continue;
		FREE_AT_END char *name = PRINTED(to, {
			if (range->is_started)
				fprintf(to, "range %s", range->name);
			else
				fprintf(to, "ranges of thread %" PRIu32, range->thread);
			if (range->domain)
				fprintf(to, " [%s]", range->domain);
		});
		write_named_track(p, p->range_tracks + range->track, name, NULL);
	}
	p->tracks += lives->range_count;
}

/* ---- events ---- */

static void write_value(struct perfetto *p, const struct series *series, uint64_t ns)
{
	struct message event = { .size = 0 };

	add_number(&event, EVENT_TYPE, TYPE_COUNTER);
	add_number(&event, EVENT_TRACK, series->track);
	add_number(&event, EVENT_VALUE, series->bytes < INT64_MAX ? series->bytes : INT64_MAX);
	write_event(p, ns, &event);
}

/* Writes an event of the type TYPE, which has a NAME unless it is an end. */
static void write_named(struct perfetto *p, unsigned int type, uint64_t track, uint64_t ns,
			const char *category, const char *name)
{
	struct message event = { .size = 0 };

	add_number(&event, EVENT_TYPE, type);
	add_number(&event, EVENT_TRACK, track);
	if (type != TYPE_END) {
		add_text(&event, EVENT_CATEGORY, category);
		add_text(&event, EVENT_NAME, name);
	}
	write_event(p, ns, &event);
}

static void write_mark(struct perfetto *p, const struct life_mark *mark)
{
	bool is_step = mark->kind == LEDGER_TRACE_STEP;
	FREE_AT_END char *name = PRINTED(to, {
		if (is_step)
			fprintf(to, "step %s", NUMBER(mark->value));
		else
			fprintf(to, "%s refused: %s at %s", SIZE(mark->bytes), mark->api,
				PLACE(mark->stack));
	});

	write_named(p, TYPE_INSTANT, p->process_track, mark->time_ns,
		    is_step ? "step" : "out of memory", name);
}

static void write_range(struct perfetto *p, const struct life_range *range, uint64_t ns, bool ends)
{
	write_named(p, ends ? TYPE_END : TYPE_BEGIN, p->range_tracks + range->track, ns, "range",
		    range->name);
}

static void write_life(struct perfetto *p, const struct life *life, uint64_t ns, bool ends)
{
	struct series *series = series_of(p, life);

	series->bytes = ends ? less(series->bytes, life->bytes)
			     : add_bounded(series->bytes, life->bytes);
	write_value(p, series, ns);
}

static void write_events(struct perfetto *p)
{
	size_t count;
	struct life_event *events = lives_events(lives_of(p->process), &count);

	EACH_ITEM(events, count, event) {
		uint64_t ns = life_event_ns(event);

		if (event->mark)
			write_mark(p, event->mark);
		else if (event->range)
			write_range(p, event->range, ns, event->ends);
		else
			write_life(p, event->life, ns, event->ends);
	}
	free(events);
}

/* Writes what was allocated before the trace, and the ranges that had begun: the outer ones, which
 * ended last, first. */
static void write_start(struct perfetto *p)
{
	const struct lives *lives = lives_of(p->process);
	uint64_t begin_ns = lives->begin_ns == UINT64_MAX ? 0 : lives->begin_ns;

	for (size_t i = 0; i < lives->count; i++)
		if (!lives->list[i].from) {
			struct series *series = series_of(p, &lives->list[i]);

			series->bytes = add_bounded(series->bytes, lives->list[i].bytes);
		}
	for (size_t i = 0; i < p->count; i++)
		write_value(p, &p->series[i], begin_ns);
	for (size_t i = lives->range_count; i > 0; i--)
		if (!lives->ranges[i - 1].from)
			write_range(p, &lives->ranges[i - 1], begin_ns, false);
}

int print_perfetto(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct perfetto *p = calloc(1, sizeof(*p));
	uint64_t start_ns = UINT64_MAX;

	(void)judgement;
	p->out = out;
	for (size_t i = 0; i < report->count; i++)
		if (report->processes[i]->start_real_ns < start_ns)
			start_ns = report->processes[i]->start_real_ns;
	for (size_t i = 0; i < report->count; i++) {
		p->process = report->processes[i];
		p->shift_ns = p->process->start_real_ns - start_ns;
		begin_process(p);
		write_range_tracks(p);
		write_start(p);
		write_events(p);
	}
	free(p);
	return ferror(out) ? -EIO : 0;
}
