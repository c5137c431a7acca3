/* SPDX-License-Identifier: MIT
 *
 * Writes new observations into the ledger, and updates the counts of those already written.
 */
#include "interpose/recorder/write_observations.h"

#include <string.h>

#include "interpose/recorder/recorder.h"
#include "ledger/shared.h"

static struct ledger_observation *record_of(struct recorder *recorder, unsigned int i)
{
	return ledger_at(&recorder->writer, recorder->observations->ref[i]);
}

/* Many observations have the same module or reason. Each text is written once. */
static uint32_t module_ref(struct recorder *recorder, const struct observation *observation)
{
	if (!observation->has_module)
		return 0;
	if (!observation->module[0])
		return recorder->header->exe;
	for (unsigned int i = 0; i < OBSERVATIONS_MAX; i++)
		if (recorder->observations->ref[i] && observation_at(i)->has_module &&
		    strcmp(observation_at(i)->module, observation->module) == 0)
			return record_of(recorder, i)->module;
	return recorder_add_text(recorder, observation->module);
}

static uint32_t reason_ref(struct recorder *recorder, const struct observation *observation)
{
	if (!observation->reason)
		return 0;
	for (unsigned int i = 0; i < OBSERVATIONS_MAX; i++)
		if (recorder->observations->ref[i] && observation_at(i)->reason &&
		    strcmp(observation_at(i)->reason, observation->reason) == 0)
			return record_of(recorder, i)->detail;
	return recorder_add_text(recorder, observation->reason);
}

static uint32_t write_observation(struct recorder *recorder, const struct observation *observation)
{
	struct observations_written *written = recorder->observations;
	struct ledger_observation record = { .count = atomic_load(&observation->count) };

	if (!written->kind[observation->kind])
		written->kind[observation->kind] =
			recorder_add_text(recorder, observation_kind_name(observation->kind));
	record.kind = written->kind[observation->kind];
	record.subject = recorder_add_text(recorder, observation->subject);
	record.module = module_ref(recorder, observation);
	record.detail = reason_ref(recorder, observation);
	return ledger_add_observation(&recorder->writer, &record);
}

/* Writes the observation that others were lost. It has no index in the table, because there is at
 * most one. */
static void write_lost(struct recorder *recorder)
{
	struct observation none = { .kind = OBSERVED_LOST, .count = observations_lost() };

	if (none.count && !recorder->observations->kind[OBSERVED_LOST])
		write_observation(recorder, &none);
}

static void write_troubles(struct recorder *recorder)
{
	for (unsigned int what = 0; what < LEDGER_TROUBLE_COUNT; what++) {
		uint32_t *written = &recorder->observations->troubles[what];
		uint32_t count = observations_troubles((enum ledger_trouble)what);

		if (count == *written)
			continue;
		ledger_trouble(recorder->header, (enum ledger_trouble)what, count - *written);
		*written = count;
	}
}

void observations_write(struct recorder *recorder)
{
	struct observations_written *written = recorder->observations;
	uint32_t now = observations_recorded();

	if (shared_load(written->recorded) == now)
		return;
	HOLD(&written->lock);
	for (unsigned int i = 0; i < OBSERVATIONS_MAX; i++) {
		const struct observation *observation = observation_at(i);

		if (!observation)
			continue;
		if (written->ref[i])
			shared_store(record_of(recorder, i)->count,
				     atomic_load(&observation->count));
		else
			written->ref[i] = write_observation(recorder, observation);
	}
	write_lost(recorder);
	write_troubles(recorder);
	shared_store(written->recorded, now);
}
