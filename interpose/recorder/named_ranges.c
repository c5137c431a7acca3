/* SPDX-License-Identifier: MIT
 *
 * The tables of names and paths are hash tables with open addressing. Entries are added by one
 * compare-and-exchange and stay, so that a reader needs no lock. The number of an entry is its
 * place.
 */
#include "interpose/recorder/named_ranges.h"

#include "interpose/base/config.h"
#include "interpose/base/hash.h"
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
/* see path_word(); 0: unused */
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

	if (!text)
		text = "(no name)";
	while (*text && add_byte(&name, (unsigned char)*text))
		text++;
	return range_name_number(&name);
}

/* ---- paths ---- */

/* A path is a range inside the path PARENT. */
static uint64_t path_word(uint32_t parent, uint32_t domain, uint32_t name, uint32_t depth)
{
	return (uint64_t)depth << 36 | (uint64_t)parent << 24 | domain << 12 | name;
}

static uint64_t path_at(uint32_t path)
{
	return atomic_load_explicit(&paths[path], memory_order_relaxed);
}

#define PATH_PARENT(word) ((uint32_t)((word) >> 24) & 0xfff)
#define PATH_DOMAIN(word) ((uint32_t)((word) >> 12) & 0xfff)
#define PATH_NAME(word) ((uint32_t)(word) & 0xfff)
#define PATH_DEPTH(word) ((uint32_t)((word) >> 36))

/* Returns the number of the path NAME of DOMAIN inside PARENT. Returns LEDGER_RANGE_OTHER if the
 * table has no room, and PARENT if PARENT is too deep. */
static uint32_t path_inside(uint32_t parent, uint32_t domain, uint32_t name)
{
	uint32_t depth = parent ? PATH_DEPTH(path_at(parent)) + 1 : 1;
	uint64_t word = path_word(parent, domain, name, depth);
	uint32_t hash = table_hash(word);

	if (depth > DEPTH_MAX)
		return parent;
	for (uint32_t probe = 0; name && probe < PROBES_MAX; probe++) {
		uint32_t place = (hash + probe) % PLACES + 1;
		uint64_t known = path_at(place);

		if (!known && atomic_compare_exchange_strong(&paths[place], &known, word))
			return place;
		if (known == word)
			return place;
	}
	return LEDGER_RANGE_OTHER;
}

/* Returns PATH without its innermost range of DOMAIN, or PATH if it has none. Ranges inside that
 * one for which the table has no room are left out. */
static uint32_t path_without(uint32_t path, uint32_t domain)
{
	uint64_t inner[DEPTH_MAX], word;
	uint32_t at = path, count = 0;

	while (at && PATH_DOMAIN(word = path_at(at)) != domain) {
		inner[count++] = word;
		at = PATH_PARENT(word);
	}
	if (!at)
		return path;
	at = PATH_PARENT(path_at(at));
	while (count--) {
		uint32_t next = path_inside(at, PATH_DOMAIN(inner[count]), PATH_NAME(inner[count]));

		at = next == LEDGER_RANGE_OTHER ? at : next;
	}
	return at;
}

/* ---- the range of a thread ---- */

void range_push(uint32_t domain, uint32_t name)
{
	struct thread *self = &thread_self;
	uint32_t path = self->range;

	if (!self->ranges_uncounted)
		path = path_inside(self->range, domain, name);
	if (path != self->range && path != LEDGER_RANGE_OTHER) {
		self->range = (uint16_t)path;
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
	struct thread *self = &thread_self;
	uint32_t path;

	if (self->ranges_uncounted) {
		if (!--self->ranges_uncounted)
			self->range = self->range_before;
		return;
	}
	path = path_without(self->range, domain);
	if (path == self->range)
		observe_trouble(LEDGER_TROUBLE_UNMATCHED_RANGES);
	self->range = (uint16_t)path;
}

/* ---- the ledger ---- */

static uint32_t write_name(struct recorder *recorder, uint32_t number)
{
	const struct range_text *name = number ? atomic_load(&names[number]) : NULL;

	return name ? ledger_add_string(&recorder->writer, name->text, name->length) : 0;
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
