/* SPDX-License-Identifier: MIT
 *
 * Writes Python frames into the ledger: functions by name and file, chains of frames by function
 * and line. Copies everything when a frame is first seen, because its code object may be freed at
 * any time. Compares by content, so code that is created repeatedly is written once.
 */
#include <string.h>

#include "interpose/stack/python.h"
#include "interpose/recorder/recorder.h"

#define TABLE_BYTES_MAX (16u << 20) /* larger line tables are rejected */
#define MIX 0x9e3779b97f4a7c15u

static uint64_t hash_of_bytes(const void *bytes, size_t size, uint64_t hash)
{
	const unsigned char *at = bytes;
	uint64_t word;

	hash ^= size * MIX;
	for (; size >= sizeof(word); size -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * MIX;
		hash ^= hash >> 29;
	}
	word = 0;
	memcpy(&word, at, size);
	hash = (hash ^ word) * MIX;
	return hash ^ hash >> 32;
}

/* Adds REF to TABLE, unless it is 0. If memory runs out, the same record is written again later;
 * readers merge the copies. */
static void name_insert(struct arena *arena, struct ref_table *table, uint64_t hash, uint32_t ref)
{
	if (ref)
		ref_table_set(arena, table, hash, ref);
}

/* ---- strings ---- */

static size_t put_utf8(char *to, uint32_t letter, bool is_path)
{
	/* Python stores bytes of a path that are not UTF-8 as U+DC80 to U+DCFF. Write the original
	 * byte. */
	if (is_path && letter >= 0xdc80 && letter <= 0xdcff) {
		to[0] = (char)(letter - 0xdc00);
		return 1;
	}
	if (letter < 0x80) {
		to[0] = (char)letter;
		return 1;
	}
	if (letter < 0x800) {
		to[0] = (char)(0xc0 | letter >> 6);
		to[1] = (char)(0x80 | (letter & 63));
		return 2;
	}
	if (letter >= 0xd800 && letter < 0xe000)
		letter = 0xfffd;
	if (letter < 0x10000) {
		to[0] = (char)(0xe0 | letter >> 12);
		to[1] = (char)(0x80 | (letter >> 6 & 63));
		to[2] = (char)(0x80 | (letter & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | (letter >> 18 & 7));
	to[1] = (char)(0x80 | (letter >> 12 & 63));
	to[2] = (char)(0x80 | (letter >> 6 & 63));
	to[3] = (char)(0x80 | (letter & 63));
	return 4;
}

static uint32_t letter_at(const void *letters, unsigned int width, uint64_t i)
{
	return width == 1 ? ((const uint8_t *)letters)[i]
	     : width == 2 ? ((const uint16_t *)letters)[i] : ((const uint32_t *)letters)[i];
}

/* Stores the string at TEXT as UTF-8 in RET (LEDGER_STRING_MAX bytes). Returns its length, or 0 if
 * TEXT is not a string. */
static size_t decode(const struct python *python, uintptr_t text, bool is_path, char *ret)
{
	uint64_t letters;
	uint32_t state;
	unsigned int width;
	size_t length = 0;

	if (!python_plausible(text) ||
	    python_word(text + PYTHON_TYPE) != (uintptr_t)python->text_type)
		return 0;
	letters = python_word(text + PYTHON_SIZE);
	state = *(const uint32_t *)(text + PYTHON_STATE);
	width = state >> 2 & 7;
	if (!(state & 0x20) || (width != 1 && width != 2 && width != 4))
		return 0;
	text += (unsigned int)(state & 0x40 ? python->at.ascii : python->at.compact);
	for (uint64_t i = 0; i < letters && length + 4 <= LEDGER_STRING_MAX; i++)
		length += put_utf8(ret + length, letter_at((const void *)text, width, i), is_path);
	return length;
}

static bool same_text(struct recorder *recorder, uint32_t ref, const char *text, size_t length)
{
	const struct ledger_string *string = ledger_at(&recorder->writer, ref);

	return string->length == length && memcmp(string->bytes, text, length) == 0;
}

/* Locking for the functions below: the caller holds the lock of python_names. */

static uint32_t intern_bytes(struct recorder *recorder, const char *text, size_t length)
{
	struct python_names *names = recorder->python;
	uint64_t hash;
	uint32_t ref;

	if (length == 0)
		return 0;
	hash = hash_of_bytes(text, length, 0);
	ref = ref_table_find(&names->texts, hash);
	if (ref && same_text(recorder, ref, text, length))
		return ref;
	ref = ledger_add_string(&recorder->writer, text, length);
	name_insert(&recorder->arena, &names->texts, hash, ref);
	return ref;
}

static uint32_t intern_text(struct recorder *recorder, const struct python *python,
			    uintptr_t object, bool is_path)
{
	char *text = recorder->python->text;

	return intern_bytes(recorder, text, decode(python, object, is_path, text));
}

/* ---- functions ---- */

static uint32_t intern_record(struct recorder *recorder, const struct ledger_code *record)
{
	struct python_names *names = recorder->python;
	uint64_t hash = hash_of_bytes(record, sizeof(*record), 1);
	uint32_t ref = ref_table_find(&names->codes, hash);

	if (ref && memcmp(ledger_at(&recorder->writer, ref), record, sizeof(*record)) == 0)
		return ref;
	if (names->code_count == PYTHON_CODES_MAX)
		return 0;
	ref = ledger_add_code(&recorder->writer, record);
	names->code_count += ref != 0;
	name_insert(&recorder->arena, &names->codes, hash, ref);
	return ref;
}

static uint32_t intern_code(struct recorder *recorder, const struct python *python, uintptr_t code)
{
	const struct python_offsets *at = &python->at;
	struct ledger_code record = { 0 };

	record.first_line = *(const uint32_t *)(code + (unsigned int)at->first_line);
	record.function = intern_text(recorder, python,
				      python_word(code + (unsigned int)at->name), false);
	record.file = intern_text(recorder, python,
				  python_word(code + (unsigned int)at->filename), true);
	return intern_record(recorder, &record);
}

/* Like intern_code(), but first looks in the table of recent code objects, which costs only a few
 * loads. */
static uint32_t code_ref(struct recorder *recorder, const struct python *python, uintptr_t code)
{
	struct python_names *names = recorder->python;
	uint64_t key = (code ^ python_identity(python, code)) * MIX;
	unsigned int slot = (unsigned int)(key >> 32) % PYTHON_RECENT;

	if (!names->recent[slot].ref || names->recent[slot].key != key) {
		names->recent[slot].ref = intern_code(recorder, python, code);
		names->recent[slot].key = key;
	}
	return names->recent[slot].ref;
}

/* ---- frames ---- */

static uint32_t line_of(const struct python *python, const struct python_frame *frame)
{
	const struct python_offsets *at = &python->at;
	uintptr_t code = frame->code & ~(uintptr_t)1;
	uintptr_t table = python_word(code + (unsigned int)at->lines);
	int first = *(const int *)(code + (unsigned int)at->first_line);
	int64_t offset = (int32_t)(uint32_t)frame->at;
	uint64_t size;

	if (!python_plausible(table) ||
	    python_word(table + PYTHON_TYPE) != (uintptr_t)python->bytes_type)
		return 0;
	size = python_word(table + PYTHON_SIZE);
	if (size > TABLE_BYTES_MAX)
		return 0;
	if (at->bytecode != PYTHON_NONE)
		offset = (int64_t)(frame->at - code) - at->bytecode;
	else if (at->table == PYTHON_LINES)
		offset *= 2;
	return python_line(at->table, (const uint8_t *)table + PYTHON_BYTES, size, first, offset) &
	       ~LEDGER_PYTHON_ENTRY;
}

static uint32_t intern_chain(struct recorder *recorder, const struct ledger_python *chain,
			     const struct ledger_python_frame *frames)
{
	struct python_names *names = recorder->python;
	size_t size = chain->frames * sizeof(*frames);
	uint64_t hash = hash_of_bytes(frames, size, 2 + chain->flags);
	uint32_t ref = ref_table_find(&names->chains, hash);
	struct ledger_python record = *chain;
	const struct ledger_python *there;

	if (ref) {
		there = ledger_at(&recorder->writer, ref);
		if (there->frames == chain->frames && there->flags == chain->flags &&
		    memcmp(there->frame, frames, size) == 0)
			return ref;
	}
	record.hash = (uint32_t)hash;
	ref = ledger_add_python(&recorder->writer, &record, frames);
	name_insert(&recorder->arena, &names->chains, hash, ref);
	return ref;
}

__attribute__((noinline)) uint32_t python_intern(struct recorder *recorder, unsigned int depth,
						 unsigned int flags)
{
	const struct python *python = atomic_load_explicit(&python_now, memory_order_acquire);
	struct ledger_python_frame frames[LEDGER_FRAMES_MAX];
	struct ledger_python record = { 0 };
	struct python_chain chain;
	uint32_t ref;

	if (!python)
		return 0;
	python_read(python, depth, &chain);
	if (chain.frames == 0)
		return 0;
	record.frames = (uint16_t)chain.frames;
	record.flags = (uint16_t)(flags | (chain.cut ? LEDGER_PYTHON_CUT : 0));
	lock_take(&recorder->python->lock);
	for (unsigned int i = 0; i < chain.frames; i++) {
		uintptr_t code = chain.frame[i].code & ~(uintptr_t)1;

		frames[i].code = code_ref(recorder, python, code);
		frames[i].line = line_of(python, &chain.frame[i]);
		if (chain.frame[i].code & 1)
			frames[i].line |= LEDGER_PYTHON_ENTRY;
	}
	ref = intern_chain(recorder, &record, frames);
	lock_give(&recorder->python->lock);
	return ref;
}

/* ---- frames of other languages ---- */

static size_t text_length(const char *text)
{
	size_t length = strlen(text);

	return length < LEDGER_STRING_MAX ? length : LEDGER_STRING_MAX;
}

uint32_t python_add_code(struct recorder *recorder, const char *function, const char *file)
{
	struct ledger_code record = { 0 };
	uint32_t ret;

	lock_take(&recorder->python->lock);
	record.function = intern_bytes(recorder, function, text_length(function));
	record.file = intern_bytes(recorder, file, text_length(file));
	ret = intern_record(recorder, &record);
	lock_give(&recorder->python->lock);
	return ret;
}

uint32_t python_find_chain(struct recorder *recorder, uint64_t key)
{
	uint32_t ret;

	lock_take(&recorder->python->lock);
	ret = ref_table_find(&recorder->python->keys, key);
	lock_give(&recorder->python->lock);
	return ret;
}

uint32_t python_add_chain(struct recorder *recorder, const struct ledger_python *chain,
			  const struct ledger_python_frame *frames, uint64_t key)
{
	uint32_t ret;

	lock_take(&recorder->python->lock);
	ret = intern_chain(recorder, chain, frames);
	name_insert(&recorder->arena, &recorder->python->keys, key, ret);
	lock_give(&recorder->python->lock);
	return ret;
}
