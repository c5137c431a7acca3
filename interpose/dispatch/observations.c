/* SPDX-License-Identifier: MIT
 *
 * The table of facts: entries are claimed by their hash, filled, and published; nothing
 * ever leaves. Two facts of one hash would be one: at 64 bits nobody will see it.
 */
#include "interpose/dispatch/observations.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "interpose/recorder/recorder.h"

#define PROBES_MAX 64
#define SUBJECT_BYTES 64
#define MODULE_BYTES 192

struct fact {
	_Atomic uint64_t key;   /* 0: unused */
	_Atomic bool ready;
	_Atomic uint32_t count; /* how often it was noted */
	enum fact_kind kind;
	bool has_module;
	const char *reason;
	char subject[SUBJECT_BYTES];
	char module[MODULE_BYTES]; /* its end, if it is longer */
};

static struct fact facts[FACTS_MAX];
static _Atomic uint32_t noted; /* goes up with every new fact */
static _Atomic uint32_t lost;

static const char *const words[FACT_KINDS] = {
#define X(name, word) [FACT_##name] = word,
	FACTS(X)
#undef X
};

static uint64_t hash_text(uint64_t hash, const char *text)
{
	size_t length = strlen(text);
	uint64_t word;

	hash ^= length;
	for (; length >= sizeof(word); length -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	word = 0;
	memcpy(&word, text, length);
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

static uint64_t key_of(enum fact_kind kind, const char *subject, const char *module)
{
	uint64_t hash = hash_text(0xcbf29ce484222325u + (uint64_t)kind, subject);

	hash = module ? hash_text(hash, module) : hash;
	return hash ? hash : 1;
}

static void fill(struct fact *fact, enum fact_kind kind, const char *subject, const char *module,
		 const char *reason)
{
	size_t length = strnlen(subject, SUBJECT_BYTES - 1);

	memcpy(fact->subject, subject, length);
	fact->kind = kind;
	fact->reason = reason;
	fact->has_module = module != NULL;
	length = module ? strlen(module) : 0;
	if (length >= MODULE_BYTES) {
		module += length - (MODULE_BYTES - 1);
		length = MODULE_BYTES - 1;
	}
	if (length)
		memcpy(fact->module, module, length);
	atomic_store_explicit(&fact->ready, true, memory_order_release);
	atomic_fetch_add_explicit(&noted, 1, memory_order_release);
}

void fact_note(enum fact_kind kind, const char *subject, const char *module, const char *reason)
{
	uint64_t key = key_of(kind, subject, module);

	for (unsigned int probe = 0; probe < PROBES_MAX; probe++) {
		struct fact *fact = &facts[(key + probe) % FACTS_MAX];
		uint64_t seen = atomic_load_explicit(&fact->key, memory_order_relaxed);

		if (seen == 0 && atomic_compare_exchange_strong(&fact->key, &seen, key)) {
			fill(fact, kind, subject, module, reason);
			seen = key;
		}
		if (seen != key)
			continue;
		atomic_fetch_add_explicit(&fact->count, 1, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&noted, 1, memory_order_release);
}

static uint32_t text_ref(struct recorder *recorder, const char *text)
{
	return ledger_add_string(&recorder->writer, text, strlen(text));
}

static const struct ledger_fact *record_of(struct recorder *recorder, unsigned int i)
{
	return ledger_at(&recorder->writer, recorder->facts.ref[i]);
}

/* Many facts are of the same few modules and reasons: those are written once. */
static uint32_t module_ref(struct recorder *recorder, const struct fact *fact)
{
	if (!fact->has_module)
		return 0;
	if (!fact->module[0])
		return recorder->header->exe;
	for (unsigned int i = 0; i < FACTS_MAX; i++)
		if (recorder->facts.ref[i] && facts[i].has_module &&
		    strcmp(facts[i].module, fact->module) == 0)
			return record_of(recorder, i)->module;
	return text_ref(recorder, fact->module);
}

static uint32_t reason_ref(struct recorder *recorder, const struct fact *fact)
{
	if (!fact->reason)
		return 0;
	for (unsigned int i = 0; i < FACTS_MAX; i++)
		if (recorder->facts.ref[i] && facts[i].reason &&
		    strcmp(facts[i].reason, fact->reason) == 0)
			return record_of(recorder, i)->detail;
	return text_ref(recorder, fact->reason);
}

static uint32_t add(struct recorder *recorder, const struct fact *fact)
{
	struct facts_written *written = &recorder->facts;
	struct ledger_fact record = { .count = atomic_load(&fact->count) };

	if (!written->kind[fact->kind])
		written->kind[fact->kind] = text_ref(recorder, words[fact->kind]);
	record.kind = written->kind[fact->kind];
	record.subject = text_ref(recorder, fact->subject);
	record.module = module_ref(recorder, fact);
	record.detail = reason_ref(recorder, fact);
	return ledger_add_fact(&recorder->writer, &record);
}

/* In its own place behind the others' refs: there is one at most. */
static void write_lost(struct recorder *recorder)
{
	struct fact none = { .kind = FACT_LOST, .count = atomic_load(&lost) };

	if (none.count && !recorder->facts.kind[FACT_LOST])
		add(recorder, &none);
}

void facts_write(struct recorder *recorder)
{
	struct facts_written *written = &recorder->facts;
	uint32_t now = atomic_load_explicit(&noted, memory_order_acquire);

	if (__atomic_load_n(&written->noted, __ATOMIC_RELAXED) == now)
		return;
	lock_take(&written->lock);
	for (unsigned int i = 0; i < FACTS_MAX; i++) {
		struct fact *fact = &facts[i];

		if (!atomic_load_explicit(&fact->ready, memory_order_acquire))
			continue;
		if (written->ref[i])
			__atomic_store_n(&((struct ledger_fact *)ledger_at(
						 &recorder->writer, written->ref[i]))->count,
					 atomic_load(&fact->count), __ATOMIC_RELAXED);
		else
			written->ref[i] = add(recorder, fact);
	}
	write_lost(recorder);
	__atomic_store_n(&written->noted, now, __ATOMIC_RELAXED);
	lock_give(&written->lock);
}
