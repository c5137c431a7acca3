/* SPDX-License-Identifier: MIT
 *
 * Writes into the ledger for which stream a framework's cache has its memory, as the Python package
 * has it from the framework. The number of records is limited. Must not block threads that
 * allocate.
 */
#include <stddef.h>
#include <string.h>

#include "interpose/base/export.h"
#include "interpose/recorder/recorder.h"
#include "ledger/reader.h"
#include "ledger/shared.h"

EXPORT int gpuleak_segment(uint64_t address, uint64_t bytes, uint64_t stream, uint64_t pool);

/* Returns the record that differs from WANTED in its time alone, or NULL and the number of all. */
static struct ledger_segment *find_segment(struct recorder *recorder,
					   const struct ledger_segment *wanted, uint32_t *ret_count)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_segment *found;
	struct ledger_view view;

	*ret_count = 0;
	if (ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view) != LEDGER_OK)
		return NULL;
	while ((found = ledger_next_segment(&view, &walk)) &&
	       memcmp(found, wanted, offsetof(struct ledger_segment, time_ns)) != 0)
		++*ret_count;
	return (struct ledger_segment *)found;
}

/* Stores the memory with the time of the call. Returns 0, or -1 if there is no room. Not safe in a
 * signal handler. */
EXPORT int gpuleak_segment(uint64_t address, uint64_t bytes, uint64_t stream, uint64_t pool)
{
	LEAVE_AT_END struct recorder *recorder = recorder_now() ? recorder_enter() : NULL;
	struct ledger_segment segment = { address, bytes, stream, pool, 0 }, *found;
	uint32_t count;

	if (!address || !recorder || recorder_has_ended(recorder))
		return -1;
	segment.time_ns = recorder_time(recorder);
	found = find_segment(recorder, &segment, &count);
	if (found)
		shared_store(found->time_ns, segment.time_ns);
	else if (count >= LEDGER_SEGMENTS_MAX || !ledger_add_segment(&recorder->writer, &segment))
		return -1;
	return 0;
}
