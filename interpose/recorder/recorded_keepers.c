/* SPDX-License-Identifier: MIT
 *
 * Writes into the ledger which objects of the interpreter keep the blocks of a call site allocated.
 * The number of records is fixed: if all are used, a new call site replaces the oldest record. Must
 * not block threads that allocate.
 */
#include "interpose/recorder/recorded_keepers.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "interpose/recorder/recorder.h"
#include "ledger/reader.h"

/* Returns the record of SITE, else an unused one, else the oldest one; NULL if the ledger has no
 * room. */
static struct ledger_keepers *find_record(struct recorder *recorder,
					  struct recorded_keepers *keepers, uint32_t site)
{
	static const struct ledger_keepers empty;
	struct ledger_keepers *oldest = keepers->records;
	uint32_t ref;

	for (uint32_t i = 0; i < keepers->count; i++) {
		if (keepers->records[i].site == site)
			return &keepers->records[i];
		if (keepers->records[i].time_ns < oldest->time_ns)
			oldest = &keepers->records[i];
	}
	if (keepers->count == LEDGER_KEEPERS_MAX)
		return oldest;
	ref = ledger_add_keepers(&recorder->writer, &empty);
	if (!ref)
		return NULL;
	if (!keepers->count++)
		keepers->records = ledger_at(&recorder->writer, ref);
	return ledger_at(&recorder->writer, ref);
}

/* Returns the length of the whole lines of TEXT that a record has room for. */
static uint32_t length_of_lines(const char *text)
{
	size_t length = strnlen(text, LEDGER_KEEPERS_TEXT + 1);

	if (length <= LEDGER_KEEPERS_TEXT)
		return (uint32_t)length;
	length = LEDGER_KEEPERS_TEXT;
	while (length > 0 && text[length] != '\n')
		length--;
	return (uint32_t)length;
}

static void write_record(struct ledger_keepers *record, uint32_t site, uint64_t time_ns,
			 const char *text)
{
	ledger_begin_change(&record->began);
	record->site = site;
	record->time_ns = time_ns;
	record->length = length_of_lines(text);
	memcpy(record->text, text, record->length);
	ledger_end_change(&record->began, &record->done);
}

/* Returns true if the ledger has the call site SITE, a ref. */
static bool is_site(const struct recorder *recorder, uint64_t site)
{
	struct ledger_view view;

	return site <= UINT32_MAX &&
	       ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view) ==
		       LEDGER_OK &&
	       ledger_any_site(&view, (uint32_t)site);
}

int recorded_keepers_store(struct recorder *recorder, uint64_t site, const char *text)
{
	struct recorded_keepers *keepers = recorder->keepers;
	struct ledger_keepers *record;

	if (!is_site(recorder, site))
		return -ENOENT;
	if (recorder_has_ended(recorder))
		return -ENODATA;
	HOLD(&keepers->lock);
	record = find_record(recorder, keepers, (uint32_t)site);
	if (record)
		write_record(record, (uint32_t)site, recorder_fine_time(recorder), text);
	return record ? 0 : -ENODATA;
}
