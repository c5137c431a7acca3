/* SPDX-License-Identifier: MIT
 *
 * The tables of names and paths are hash tables with open addressing. Entries are added by one
 * compare-and-exchange and stay, so that a reader needs no lock. The number of an entry is its
 * place.
 */
#include "interpose/recorder/named_ranges.h"

#include "interpose/base/config.h"
#include "interpose/base/hash.h"
#include "interpose/base/upcalls.h"
#include "interpose/dispatch/observations.h"

#define PLACES (LEDGER_RANGE_OTHER - 1u) /* numbers 1 .. PLACES */
#define PROBES_MAX 64u                   /* more: the table counts as full */
#define DEPTH_MAX 31u
#define TEXT_BYTES (256u << 10)

struct range_text {
	uint32_t hash;
	uint32_t length;
	char text[];
};

static _Atomic(const struct range_text *) names[PLACES + 1];
static _Alignas(8) char texts[TEXT_BYTES];
static _Atomic uint32_t texts_used;
/* see path_inside(); 0: unused */
static _Atomic uint64_t paths[PLACES + 1];

/* ---- names ---- */

static bool add_byte(struct range_name *name, uint32_t byte)
{
	bool is_digit = byte - '0' < 10 && !config.ranges_as_named, is_more = name->after_digit;

	name->after_digit = is_digit;
	if (is_digit && is_more)
		return true;
	if (name->length == RANGE_NAME_BYTES)
		return false;
	name->text[name->length++] = (char)(is_digit ? '#' : byte);
	return true;
}

bool range_name_add(struct range_name *name, uint32_t character)
{
	if (character < 0x80)
		return add_byte(name, character);
	if (character < 0x800) {
		add_byte(name, 0xc0 | character >> 6);
	} else {
		if (character < 0x10000)
			add_byte(name, 0xe0 | character >> 12);
		else if (add_byte(name, 0xf0 | (character >> 18 & 7)))
			add_byte(name, 0x80 | (character >> 12 & 0x3f));
		add_byte(name, 0x80 | (character >> 6 & 0x3f));
	}
	return add_byte(name, 0x80 | (character & 0x3f));
}

/* Returns a new entry for NAME, or NULL if there is no room. */
static const struct range_text *new_name(const struct range_name *name, uint32_t hash)
{
	uint32_t size = (uint32_t)(sizeof(struct range_text) + name->length + 7) & ~7u, at;
	struct range_text *ret;

	if (atomic_load(&texts_used) > TEXT_BYTES - size)
		return NULL; /* do not let the number overflow */
	at = atomic_fetch_add(&texts_used, size);
	if (at > TEXT_BYTES - size)
		return NULL;
	ret = (struct range_text *)(texts + at);
	ret->hash = hash;
	ret->length = name->length;
	memcpy(ret->text, name->text, name->length);
	return ret;
}

static uint32_t hash_of(const struct range_name *name)
{
	uint64_t hash = name->length;

	for (uint32_t i = 0; i < name->length; i++)
		hash = (hash ^ (unsigned char)name->text[i]) * 0x100000001b3u;
	return table_hash(hash);
}

uint32_t range_name_number(const struct range_name *name)
{
	uint32_t hash = hash_of(name);
	const struct range_text *new = NULL;

	if (!name->length)
		return range_name("(no name)");

	for (uint32_t probe = 0; probe < PROBES_MAX; probe++) {
		uint32_t place = (hash + probe) % PLACES + 1;
		const struct range_text *entry = atomic_load_explicit(&names[place],
								memory_order_acquire);

		if (!entry) {
			new = new ? new : new_name(name, hash);
			if (!new || atomic_compare_exchange_strong(&names[place], &entry, new))
				return new ? place : 0;
		}
		if (entry->hash == hash && entry->length == name->length &&
		    memcmp(entry->text, name->text, name->length) == 0)
			return place;
	}
	return 0;
}

uint32_t range_name(const char *text)
{
	struct range_name name = { 0 };

	while (text && *text && add_byte(&name, (unsigned char)*text))
		text++;
	return range_name_number(&name);
}

/* ---- paths: an element (a range) inside another path ---- */

#define ELEMENT(domain, name, started) \
	((uint64_t)(started) << 24 | (uint64_t)(domain) << 12 | (name))
#define ELEMENT_OF(word) ((word) & 0x1ffffff)
#define STARTED ELEMENT(0, 0, 1)
#define PATH_PARENT(word) ((uint32_t)((word) >> 25) & 0xfff)
#define PATH_DOMAIN(word) ((uint32_t)((word) >> 12) & 0xfff)
#define PATH_NAME(word) ((uint32_t)(word) & 0xfff)
#define PATH_DEPTH(word) ((uint32_t)((word) >> 37))

static uint64_t path_at(uint32_t path)
{
	return atomic_load_explicit(&paths[path], memory_order_relaxed);
}

/* Returns the number of the path ELEMENT inside PARENT. Returns LEDGER_RANGE_OTHER if the table has
 * no room, and PARENT if PARENT is too deep. */
static uint32_t path_inside(uint32_t parent, uint64_t element)
{
	uint64_t depth = parent ? PATH_DEPTH(path_at(parent)) + 1 : 1;
	uint64_t word = depth << 37 | (uint64_t)parent << 25 | element;
	uint32_t hash = table_hash(word);

	if (depth > DEPTH_MAX)
		return parent;
	for (uint32_t probe = 0; PATH_NAME(element) && probe < PROBES_MAX; probe++) {
		uint32_t place = (hash + probe) % PLACES + 1;
		uint64_t known = path_at(place);

		if (!known && atomic_compare_exchange_strong(&paths[place], &known, word))
			return place;
		if (known == word)
			return place;
	}
	return LEDGER_RANGE_OTHER;
}

/* Stores the elements of PATH, innermost first, in RET. Returns their number. */
static uint32_t elements_of(uint32_t path, uint64_t ret[DEPTH_MAX])
{
	uint32_t count = 0;

	for (uint64_t word; path; path = PATH_PARENT(word)) {
		word = path_at(path);
		ret[count++] = ELEMENT_OF(word);
	}
	return count;
}

/* Returns the path of COUNT elements, innermost first, without number LEFT_OUT of them. Leaves out
 * elements for which the table has no room, too. */
static uint32_t path_of(const uint64_t *elements, uint32_t count, uint32_t left_out)
{
	uint32_t ret = 0, next;

	while (count--) {
		next = count == left_out ? ret : path_inside(ret, elements[count]);
		ret = next == LEDGER_RANGE_OTHER ? ret : next;
	}
	return ret;
}

/* Returns PATH without its innermost element that equals ELEMENT in the bits of MASK, or PATH if it
 * has no such element. */
static uint32_t path_without(uint32_t path, uint64_t element, uint64_t mask)
{
	uint64_t elements[DEPTH_MAX];
	uint32_t count = elements_of(path, elements), i = 0;

	while (i < count && (elements[i] & mask) != element)
		i++;
	return i == 0 && count ? PATH_PARENT(path_at(path))
	       : i == count    ? path
			       : path_of(elements, count, i);
}

/* ---- the range of a thread ---- */

/* ID: of a range that was started, else 0. */
static void trace_path(enum ledger_trace_kind kind, uint32_t path, uint64_t id)
{
	if (path && path != LEDGER_RANGE_OTHER)
		upcalls.trace_range(kind, (uint16_t)path, id, PATH_DOMAIN(path_at(path)));
}

/* Returns where the calling thread has the path of its counted ranges. */
static uint16_t *counted_path(void)
{
	return thread_self.ranges_uncounted ? &thread_self.range_before : &thread_self.range;
}

void range_push(uint32_t domain, uint32_t name)
{
	struct thread *self = &thread_self;
	uint32_t path = self->range;

	if (!self->ranges_uncounted)
		path = path_inside(self->range, ELEMENT(domain, name, 0));
	if (path != self->range && path != LEDGER_RANGE_OTHER) {
		self->range = (uint16_t)path;
		trace_path(LEDGER_TRACE_RANGE_BEGAN, path, 0);
		return;
	}
	observe_trouble(path == LEDGER_RANGE_OTHER ? LEDGER_TROUBLE_OTHER_RANGES
						   : LEDGER_TROUBLE_DEEP_RANGES);
	if (!self->ranges_uncounted++)
		self->range_before = self->range;
	self->range = (uint16_t)path;
}

void range_pop(uint32_t domain)
{
	const uint64_t element = ELEMENT(domain, 0, 0), mask = ELEMENT(0xfff, 0, 1);
	struct thread *self = &thread_self;
	uint32_t ended = self->range;

	if (self->ranges_uncounted) {
		if (!--self->ranges_uncounted)
			self->range = self->range_before;
		return;
	}
	while (ended && (path_at(ended) & mask) != element)
		ended = PATH_PARENT(path_at(ended));
	if (!ended)
		observe_trouble(LEDGER_TROUBLE_UNMATCHED_RANGES);
	trace_path(LEDGER_TRACE_RANGE_ENDED, ended, 0);
	self->range = (uint16_t)path_without(self->range, element, mask);
}

/* ---- ranges that one thread starts and any thread ends ---- */

#define STARTS 1024u
#define ENDED 0x80000000u

/* A start that has not ended, or that its thread has not noticed yet. */
static struct {
	_Atomic uint64_t id; /* 0: unused */
	_Atomic uint32_t thread; /* number of the thread that started the range; ENDED; 0: none */
	uint32_t element; /* 0: the table of paths, or the path, had no room for it */
} starts[STARTS];
_Atomic uint32_t range_ends READ_BY_ALL;

/* The calling thread is in ELEMENT from now on, outside the ranges that it pushed. Returns false if
 * there is no room for ELEMENT. */
static bool begin_outside(uint64_t element)
{
	uint16_t *path = counted_path();
	uint64_t elements[DEPTH_MAX + 1];
	uint32_t count = elements_of(*path, elements), pushed = 0;

	if (count == DEPTH_MAX || path_inside(0, element) == LEDGER_RANGE_OTHER) {
		observe_trouble(count == DEPTH_MAX ? LEDGER_TROUBLE_DEEP_RANGES
						   : LEDGER_TROUBLE_OTHER_RANGES);
		return false;
	}
	while (pushed < count && !(elements[pushed] & STARTED))
		pushed++;
	memmove(elements + pushed + 1, elements + pushed, (count - pushed) * sizeof(*elements));
	elements[pushed] = element;
	*path = (uint16_t)path_of(elements, count + 1, count + 1);
	return true;
}

static void trace_start_or_end(enum ledger_trace_kind kind, uint32_t i, uint64_t id)
{
	if (starts[i].element)
		trace_path(kind, path_inside(0, starts[i].element), id);
}

static void end_outside(uint32_t i)
{
	uint16_t *path = counted_path();

	*path = (uint16_t)path_without(*path, starts[i].element, ELEMENT(0xfff, 0xfff, 1));
	atomic_store(&starts[i].thread, 0);
	atomic_store(&starts[i].id, 0);
}

uint64_t range_start(uint32_t domain, uint32_t name, uint64_t id)
{
	static _Atomic uint32_t ids, threads;
	uint32_t hash;

	if (!thread_self.range_thread)
		thread_self.range_thread = (atomic_fetch_add(&threads, 1) + 1) & ~ENDED;
	id = id ? id : RANGE_NEW_ID << 32 | (uint32_t)atomic_fetch_add(&ids, 1);
	hash = table_hash(id);
	for (uint32_t probe = 0; probe < PROBES_MAX; probe++) {
		uint32_t i = (hash + probe) % STARTS;
		uint64_t unused = 0;

		if (!atomic_compare_exchange_strong(&starts[i].id, &unused, id))
			continue;
		starts[i].element = (uint32_t)ELEMENT(domain, name, 1);
		if (!begin_outside(starts[i].element))
			starts[i].element = 0;
		trace_start_or_end(LEDGER_TRACE_RANGE_BEGAN, i, id);
		atomic_store(&starts[i].thread, thread_self.range_thread);
		return id;
	}
	observe_trouble(LEDGER_TROUBLE_OTHER_RANGES);
	return id;
}

void range_end(uint64_t id)
{
	uint32_t hash = table_hash(id);

	for (uint32_t probe = 0; id && probe < PROBES_MAX; probe++) {
		uint32_t i = (hash + probe) % STARTS;

		if (atomic_load(&starts[i].id) != id)
			continue;
		trace_start_or_end(LEDGER_TRACE_RANGE_ENDED, i, id);
		if (atomic_load(&starts[i].thread) == thread_self.range_thread) {
			end_outside(i);
		} else {
			atomic_fetch_or(&starts[i].thread, ENDED);
			atomic_fetch_add(&range_ends, 1);
		}
		return;
	}
	observe_trouble(LEDGER_TROUBLE_UNMATCHED_RANGES);
}

void range_notice_ends(void)
{
	thread_self.range_ends_seen = atomic_load(&range_ends);
	for (uint32_t i = 0; thread_self.range_thread && i < STARTS; i++)
		if (atomic_load(&starts[i].thread) == (thread_self.range_thread | ENDED))
			end_outside(i);
}

/* ---- the ledger ---- */

const char *range_name_text(uint32_t number, uint32_t *ret_length)
{
	const struct range_text *name = atomic_load(&names[number]);

	*ret_length = name->length;
	return name->text;
}

/* Locking: the caller holds the lock of struct named_ranges. */
static uint32_t write_name(struct recorder *recorder, uint32_t number)
{
	uint32_t *ref = &recorder->named_ranges->names[number], length;

	if (number && !*ref) {
		const char *text = range_name_text(number, &length);

		*ref = ledger_add_string(&recorder->writer, text, length);
	}
	return *ref;
}

uint32_t range_name_ref(struct recorder *recorder, uint32_t number)
{
	HOLD(&recorder->named_ranges->lock);
	return write_name(recorder, number);
}

static bool write_range(struct recorder *recorder, uint32_t owner, uint32_t range)
{
	struct ledger_range **record = &recorder->named_ranges->records[range];
	uint64_t word = range == LEDGER_RANGE_OTHER ? 0 : path_at(range);
	const struct ledger_range new = {
		.number = range, .parent = PATH_PARENT(word), .owner = owner,
		.name = write_name(recorder, PATH_NAME(word)),
		.domain = write_name(recorder, PATH_DOMAIN(word)),
	};
	uint32_t ref = ledger_add_range(&recorder->writer, &new);

	*record = ref ? ledger_at(&recorder->writer, ref) : NULL;
	return ref;
}

uint16_t named_range_write(struct recorder *recorder, uint32_t owner, uint16_t range)
{
	struct named_ranges *ranges = recorder->named_ranges;
	bool written = true;

	HOLD(&ranges->lock);
	for (uint32_t at = range; at && written && !ranges->records[at];
	     at = at == LEDGER_RANGE_OTHER ? 0 : PATH_PARENT(path_at(at)))
		written = write_range(recorder, owner, at);
	return ranges->records[range] ? range : 0;
}

HOT_CALL void named_range_change(struct recorder *recorder, uint16_t range,
				 enum ledger_range_memory memory, uint32_t thread_state,
				 int64_t bytes)
{
	struct ledger_range *record = recorder->named_ranges->records[range];
	struct ledger_range_live *live = &record->live[memory];
	uint64_t now;

	if (record->owner == thread_state && thread_state) { /* several threads share state 0 */
		now = live->own + (uint64_t)bytes;
		shared_store(live->own, now);
		now += shared_load(live->others);
	} else {
		now = shared_add(live->others, (uint64_t)bytes) + (uint64_t)bytes +
		      shared_load(live->own);
	}
	if ((int64_t)now > (int64_t)shared_load(live->peak))
		shared_store(live->peak, now);
}
