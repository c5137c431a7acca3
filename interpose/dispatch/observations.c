/* SPDX-License-Identifier: MIT
 *
 * The table of observations. A thread claims an entry by its 64-bit hash, fills it, and publishes
 * it; entries are never removed. Two observations with the same hash would be counted as one,
 * which is not expected.
 */
#include "interpose/dispatch/observations.h"

#include <string.h>

#define PROBES_MAX 64

static struct fact facts[FACTS_MAX];
static _Atomic uint32_t noted; /* increases with every new observation */
static _Atomic uint32_t lost;
static _Atomic uint32_t troubles[LEDGER_TROUBLE_COUNT];

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

static uint64_t fact_key_of(enum fact_kind kind, const char *subject, const char *module)
{
	uint64_t hash = hash_text(0xcbf29ce484222325u + (uint64_t)kind, subject);

	hash = module ? hash_text(hash, module) : hash;
	return hash ? hash : 1;
}

static void fill(struct fact *fact, enum fact_kind kind, const char *subject, const char *module,
		 const char *reason)
{
	size_t length = strnlen(subject, FACT_SUBJECT_BYTES - 1);

	memcpy(fact->subject, subject, length);
	fact->kind = kind;
	fact->reason = reason;
	fact->has_module = module != NULL;
	length = module ? strlen(module) : 0;
	if (length >= FACT_MODULE_BYTES) {
		module += length - (FACT_MODULE_BYTES - 1);
		length = FACT_MODULE_BYTES - 1;
	}
	if (length)
		memcpy(fact->module, module, length);
	atomic_store_explicit(&fact->ready, true, memory_order_release);
	atomic_fetch_add_explicit(&noted, 1, memory_order_release);
}

void fact_note(enum fact_kind kind, const char *subject, const char *module, const char *reason)
{
	uint64_t key = fact_key_of(kind, subject, module);

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

void fact_trouble(enum ledger_trouble what)
{
	atomic_fetch_add_explicit(&troubles[what], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&noted, 1, memory_order_release);
}

uint32_t facts_noted(void)
{
	return atomic_load_explicit(&noted, memory_order_acquire);
}

uint32_t facts_lost(void)
{
	return atomic_load(&lost);
}

uint32_t facts_troubles(enum ledger_trouble what)
{
	return atomic_load(&troubles[what]);
}

const struct fact *fact_at(unsigned int i)
{
	return atomic_load_explicit(&facts[i].ready, memory_order_acquire) ? &facts[i] : NULL;
}

const char *fact_word(enum fact_kind kind)
{
	return words[kind];
}
