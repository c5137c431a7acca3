/* SPDX-License-Identifier: MIT
 *
 * What memory pools of the driver had reserved: at the exit, at the peak, and when memory ran out.
 * What a pool does not use is no leak, and fails no gate. Leaves out what only a damaged ledger
 * has: a pool that uses more than it has reserved.
 */
#include "report/subjects/common.h"

#include <inttypes.h>

#include "report/subjects/figures.h"

#define LEAST_BYTES ((uint64_t)1 << 20)

/* ---- build ---- */

/* Returns the next record that is complete, or NULL. */
static const struct ledger_parked *next_record(const struct builder *b, struct ledger_walk *walk)
{
	const struct ledger_parked *record;

	do
		record = ledger_next_parked(b->view, walk);
	while (record && (record->done != record->began || record->when >= LEDGER_PARKED_MOMENTS ||
			  !record->reserved_bytes || record->used_bytes > record->reserved_bytes));
	return record;
}

static bool is_known(const struct report_process *process, const struct ledger_parked *record)
{
	const struct ledger_parked *known = process->parked;
	size_t i = 0;

	while (i < process->parked_count &&
	       (known[i].pool != record->pool || known[i].device != record->device ||
		known[i].when != record->when))
		i++;
	return i < process->parked_count;
}

/* A pool that did not exist any more at the last peak keeps its record of an earlier one. */
static void build(struct builder *b)
{
	struct report_process *process = b->process;
	const struct ledger_parked *record;
	struct ledger_walk walk = { 0 };
	uint64_t last_ns = 0;

	while ((record = next_record(b, &walk)))
		if (record->when == LEDGER_PARKED_PEAK && record->time_ns > last_ns)
			last_ns = record->time_ns;
	walk = (struct ledger_walk){ 0 };
	while (process->parked_count < LEDGER_PARKED_MAX && (record = next_record(b, &walk)))
		if ((record->when != LEDGER_PARKED_PEAK || record->time_ns == last_ns) &&
		    !is_known(process, record))
			*ARENA_ADD(b->arena, process->parked, process->parked_count) = *record;
}

/* ---- text ---- */

static uint64_t unused(const struct ledger_parked *pool)
{
	return pool->reserved_bytes - pool->used_bytes;
}

struct parked_sum parked_sum_up(const struct report_process *process, enum ledger_parked_when when,
				uint64_t refusal, int device)
{
	struct parked_sum ret = { 0 };

	EACH_ITEM(process->parked, process->parked_count, pool) {
		if (pool->when != when || pool->refusal != refusal || !unused(pool) ||
		    (device >= 0 && pool->device != device))
			continue;
		ret.pools++;
		ret.unused = add_bounded(ret.unused, unused(pool));
		if (!ret.most || unused(pool) > unused(ret.most))
			ret.most = pool;
	}
	return ret;
}

bool describe_parked(FILE *out, const char *before, const struct parked_sum *sum, uint64_t of)
{
	const struct ledger_parked *pool = sum->most;

	if (sum->unused < LEAST_BYTES || sum->unused < of / 16)
		return false;
	fprintf(out, "%s%s unused in ", before, SIZE(sum->unused));
	if (sum->pools > 1)
		fprintf(out, "%s, most in ", COUNT(sum->pools, "memory pool"));
	if (pool->pool)
		fprintf(out, "CUDA's memory pool 0x%" PRIx64, pool->pool);
	else
		fputs("CUDA's default memory pool", out);
	if (pool->device > 0)
		fprintf(out, " of device %d", pool->device);
	fprintf(out, " (release threshold %s): cudaMemPoolTrimTo gives %s back",
		pool->threshold == UINT64_MAX ? "2^64-1" : SIZE(pool->threshold),
		sum->pools > 1 ? "their memory" : "them");
	return true;
}

/* Without a threshold, the driver returns the memory at the next synchronization. */
static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	struct parked_sum sum = parked_sum_up(process, LEDGER_PARKED_EXIT, 0, -1);

	if (sum.most && sum.most->threshold &&
	    describe_parked(out, "At exit, no leak: ", &sum, process->summary.peak_bytes))
		fputc('\n', out);
}

/* ---- JSON and metrics ---- */

static const char *const moments[] = { "exit", "peak", "out-of-memory" };

static const struct figure rows[] = {
	{ "reserved_bytes", FIGURE(ledger_parked, reserved_bytes), .page = { 1, "Reserved" },
	  .help = "Bytes that a memory pool of the driver had reserved." },
	{ "used_bytes", FIGURE(ledger_parked, used_bytes), .page = { 2, "In use" },
	  .help = "Bytes of these that were in use." },
	{ "release_threshold_bytes", FIGURE(ledger_parked, threshold) },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct ledger_parked *pool;
	char name[] = "0x0123456789abcdef";

	if (i >= process->parked_count || i >= METRIC_ITEMS_MAX)
		return NULL;
	pool = &process->parked[i];
	if (!labels)
		return pool;
	snprintf(name, sizeof(name), pool->pool ? "0x%" PRIx64 : "default", pool->pool);
	metric_device(labels, pool->device);
	metric_label(labels, "pool", name);
	metric_label(labels, "when", moments[pool->when]);
	return pool;
}

static const struct figures figures = { .prefix = "gpuleak_parked_", FIGURES(rows), .item = item,
					.is_optional = true };

static json_t *pool_json(const void *pool)
{
	const struct ledger_parked *parked = pool;
	json_t *ret = JSON_OBJECT(
		{ "pool", parked->pool ? json_address(parked->pool) : json_text("default") },
		{ "device", json_integer(parked->device) },
		{ "when", json_text(moments[parked->when]) },
		{ "seconds", json_real((double)parked->time_ns / 1e9) });

	figures_add_json(ret, &figures, parked);
	return ret;
}

const struct subject subject_parked = {
	.build = build, .chunks = CHUNK_BIT(PARKED), .only_if = PART(parked_count),
	.details = print_details, .figures = &figures,
	LIST("parked", parked, parked_count, .of = pool_json),
};
