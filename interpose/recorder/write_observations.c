/* SPDX-License-Identifier: MIT
 *
 * Writes new observations into the ledger, and updates the counts of those already written.
 */
#include "interpose/recorder/write_observations.h"

#include <string.h>

#include "interpose/recorder/recorder.h"

static uint32_t text_ref(struct recorder *recorder, const char *text)
{
	return ledger_add_string(&recorder->writer, text, strlen(text));
}

static const struct ledger_fact *record_of(struct recorder *recorder, unsigned int i)
{
	return ledger_at(&recorder->writer, recorder->facts->ref[i]);
}

/* Many observations have the same module or reason. Each text is written once. */
static uint32_t module_ref(struct recorder *recorder, const struct fact *fact)
{
	if (!fact->has_module)
		return 0;
	if (!fact->module[0])
		return recorder->header->exe;
	for (unsigned int i = 0; i < FACTS_MAX; i++)
		if (recorder->facts->ref[i] && fact_at(i)->has_module &&
		    strcmp(fact_at(i)->module, fact->module) == 0)
			return record_of(recorder, i)->module;
	return text_ref(recorder, fact->module);
}

static uint32_t reason_ref(struct recorder *recorder, const struct fact *fact)
{
	if (!fact->reason)
		return 0;
	for (unsigned int i = 0; i < FACTS_MAX; i++)
		if (recorder->facts->ref[i] && fact_at(i)->reason &&
		    strcmp(fact_at(i)->reason, fact->reason) == 0)
			return record_of(recorder, i)->detail;
	return text_ref(recorder, fact->reason);
}

static uint32_t add(struct recorder *recorder, const struct fact *fact)
{
	struct facts_written *written = recorder->facts;
	struct ledger_fact record = { .count = atomic_load(&fact->count) };

	if (!written->kind[fact->kind])
		written->kind[fact->kind] = text_ref(recorder, fact_word(fact->kind));
	record.kind = written->kind[fact->kind];
	record.subject = text_ref(recorder, fact->subject);
	record.module = module_ref(recorder, fact);
	record.detail = reason_ref(recorder, fact);
	return ledger_add_fact(&recorder->writer, &record);
}

/* Writes the observation that others were lost. It has no index in the table, because there is at
 * most one. */
static void write_lost(struct recorder *recorder)
{
	struct fact none = { .kind = FACT_LOST, .count = facts_lost() };

	if (none.count && !recorder->facts->kind[FACT_LOST])
		add(recorder, &none);
}

static void write_troubles(struct recorder *recorder)
{
	for (unsigned int what = 0; what < LEDGER_TROUBLE_COUNT; what++) {
		uint32_t *written = &recorder->facts->troubles[what];
		uint32_t count = facts_troubles((enum ledger_trouble)what);

		if (count == *written)
			continue;
		ledger_trouble(recorder->header, (enum ledger_trouble)what, count - *written);
		*written = count;
	}
}

void facts_write(struct recorder *recorder)
{
	struct facts_written *written = recorder->facts;
	uint32_t now = facts_noted();

	if (__atomic_load_n(&written->noted, __ATOMIC_RELAXED) == now)
		return;
	lock_take(&written->lock);
	for (unsigned int i = 0; i < FACTS_MAX; i++) {
		const struct fact *fact = fact_at(i);

		if (!fact)
			continue;
		if (written->ref[i])
			__atomic_store_n(&((struct ledger_fact *)ledger_at(
						 &recorder->writer, written->ref[i]))->count,
					 atomic_load(&fact->count), __ATOMIC_RELAXED);
		else
			written->ref[i] = add(recorder, fact);
	}
	write_lost(recorder);
	write_troubles(recorder);
	__atomic_store_n(&written->noted, now, __ATOMIC_RELAXED);
	lock_give(&written->lock);
}
