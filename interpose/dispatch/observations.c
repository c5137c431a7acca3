/* SPDX-License-Identifier: MIT
 *
 * The table of observations. A thread claims an entry by its 64-bit hash, fills it, and publishes
 * it; entries are never removed. Two observations with the same hash would be counted as one, which
 * is very improbable.
 */
#include "interpose/dispatch/observations.h"

#include <string.h>

#define PROBES_MAX 64

static struct observation observations[OBSERVATIONS_MAX];
/* A bit for each that is published: a reader of all touches only the pages of these. */
static _Atomic uint64_t ready[OBSERVATIONS_MAX / 64];
/* increases with every new or lost observation and every trouble */
static _Atomic uint32_t recorded;
static _Atomic uint32_t lost;
static _Atomic uint32_t troubles[LEDGER_TROUBLE_COUNT];

static const char *const kind_names[OBSERVATION_KINDS] = {
#define X(name, word) [OBSERVED_##name] = word,
	OBSERVATIONS(X)
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

static uint64_t observation_key(enum observation_kind kind, const char *subject, const char *module)
{
	uint64_t hash = hash_text(0xcbf29ce484222325u + (uint64_t)kind, subject);

	hash = module ? hash_text(hash, module) : hash;
	return hash ? hash : 1;
}

static void observation_fill(struct observation *observation, enum observation_kind kind,
			     const char *subject, const char *module, const char *reason)
{
	size_t length = strnlen(subject, OBSERVATION_SUBJECT_BYTES - 1);
	size_t i = (size_t)(observation - observations);

	memcpy(observation->subject, subject, length);
	observation->kind = kind;
	observation->reason = reason;
	observation->has_module = module != NULL;
	length = module ? strlen(module) : 0;
	if (length >= OBSERVATION_MODULE_BYTES) {
		module += length - (OBSERVATION_MODULE_BYTES - 1);
		length = OBSERVATION_MODULE_BYTES - 1;
	}
	if (length)
		memcpy(observation->module, module, length);
	atomic_fetch_or(&ready[i / 64], (uint64_t)1 << i % 64);
	atomic_fetch_add_explicit(&recorded, 1, memory_order_release);
}

void observation_record(enum observation_kind kind, const char *subject, const char *module,
			const char *reason)
{
	uint64_t key = observation_key(kind, subject, module);

	for (unsigned int probe = 0; probe < PROBES_MAX; probe++) {
		struct observation *observation = &observations[(key + probe) % OBSERVATIONS_MAX];
		uint64_t seen = atomic_load_explicit(&observation->key, memory_order_relaxed);

		if (seen == 0 && atomic_compare_exchange_strong(&observation->key, &seen, key)) {
			observation_fill(observation, kind, subject, module, reason);
			seen = key;
		}
		if (seen != key)
			continue;
		atomic_fetch_add_explicit(&observation->count, 1, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&recorded, 1, memory_order_release);
}

void observe_trouble(enum ledger_trouble what)
{
	atomic_fetch_add_explicit(&troubles[what], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&recorded, 1, memory_order_release);
}

uint32_t observations_recorded(void)
{
	return atomic_load_explicit(&recorded, memory_order_acquire);
}

uint32_t observations_lost(void)
{
	return atomic_load(&lost);
}

uint32_t observations_troubles(enum ledger_trouble what)
{
	return atomic_load(&troubles[what]);
}

const struct observation *observation_at(unsigned int i)
{
	return atomic_load(&ready[i / 64]) >> i % 64 & 1 ? &observations[i] : NULL;
}

const char *observation_kind_name(enum observation_kind kind)
{
	return kind_names[kind];
}
