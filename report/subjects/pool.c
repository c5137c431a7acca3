/* SPDX-License-Identifier: MIT
 *
 * The pools: what they did and how much memory they cached. The text always mentions that a pool
 * was on, and never calls cached memory a leak. docs/reference/formats.md has the keys of JSON.
 * Unused pools are left out. The numbers of a ledger are not trusted, so every sum is bounded.
 */
#include "report/subjects/common.h"

#include <ctype.h>

#include "ledger/options.h"
#include "report/model/model_pool.h"
#include "report/subjects/figures.h"

static const struct {
	const char *word, *text;
} reasons[LEDGER_POOL_REASON_COUNT] = {
#define X(name, what) { #name, what },
	LEDGER_POOL_REASONS(X)
#undef X
};

uint64_t report_pool_used(const struct ledger_pool *pool)
{
	return less(pool->reserved,
		    add_bounded(pool->waste, add_bounded(pool->cached, pool->pending)));
}

uint64_t report_pool_calls_saved(const struct ledger_pool *pool)
{
	/* The pool only delayed the free of a trimmed block. */
	return less(add_bounded(pool->hits, pool->frees), pool->trimmed);
}

uint64_t report_pool_allocations(const struct ledger_pool *pool)
{
	return add_bounded(pool->hits, pool->native_allocs);
}

static void add_up(struct ledger_pool *to, const struct ledger_pool *from)
{
#define ADD(member) (to->member = add_bounded(to->member, from->member))
	ADD(cached), ADD(pending), ADD(reserved), ADD(peak_reserved), ADD(peak_used);
	ADD(hits), ADD(native_allocs), ADD(native_frees), ADD(frees);
	ADD(fences), ADD(shared_fences), ADD(waits), ADD(wait_ns);
	ADD(trims), ADD(trimmed), ADD(trimmed_bytes), ADD(rescued), ADD(waste);
	for (unsigned int i = 0; i < LEDGER_POOL_REASON_COUNT; i++)
		ADD(reasons[i]);
#undef ADD
}

/* Returns true if the pool existed and was never used. */
static bool is_idle(const struct ledger_pool *pool)
{
	uint64_t any = pool->hits | pool->native_allocs | pool->frees | pool->peak_reserved;

	for (unsigned int i = 0; i < LEDGER_POOL_REASON_COUNT; i++)
		any |= pool->reasons[i];
	return !any && !pool->off;
}

static struct report_pool read_pool(struct builder *b, const struct ledger_pool *record)
{
	struct report_pool ret = {
		.api = build_name(b, record->api),
		.kind = build_name(b, record->kind),
		.off = build_text(b, record->off),
		.device = record->device,
		.mode = option_word(OPTION_POOL, (int)record->mode),
		.backend = option_word(OPTION_POOL_BACKEND, (int)record->backend),
		.count = *record,
	};

	if (!ret.off && record->off)
		ret.off = "the reason is unreadable";
	return ret;
}

static struct report_refusal read_refusal(struct builder *b, const struct ledger_refusal *record)
{
	return (struct report_refusal){ .api = build_text(b, record->api),
					.stack = build_stack(b, record->stack) };
}

static void read_pools(struct builder *b, const struct ledger_pools *record)
{
	struct report_pools *pools = arena_alloc(b->arena, sizeof(*pools));

	pools->mode = option_word(OPTION_POOL, (int)record->mode);
	pools->backend = option_word(OPTION_POOL_BACKEND, (int)record->backend);
	pools->limit = record->limit;
	pools->refused = record->refused;
	pools->injected = record->injected;
	pools->first_refused = read_refusal(b, &record->first_refused);
	pools->first_injected = read_refusal(b, &record->first_injected);
	pools->pools = arena_alloc(b->arena, LEDGER_POOLS_MAX * sizeof(*pools->pools));
	for (unsigned int i = 0; i < LEDGER_POOLS_MAX; i++) {
		if (!record->pool[i].api)
			continue;
		pools->downgraded |= record->mode == OPTION_POOL_FAST &&
				     record->pool[i].mode == OPTION_POOL_STRICT;
		if (is_idle(&record->pool[i]))
			continue;
		pools->pools[pools->count++] = read_pool(b, &record->pool[i]);
		add_up(&pools->sum, &record->pool[i]);
	}
	b->process->pools = pools;
}

static void build(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_pools *record = ledger_next_pools(b->view, &walk);

	if (record)
		read_pools(b, record);
}

/* ---- text ---- */

static void print_name(FILE *out, const struct report_pool *pool)
{
	if (pool->device >= 0)
		fprintf(out, "device %d, ", pool->device);
	describe_kind(out, pool->kind);
}

/* Prints "1,974 of 2,000 allocations (98.7%) served without the driver, 3,948 native calls
 * saved". */
static void print_hits(FILE *out, const struct ledger_pool *count)
{
	if (!report_pool_allocations(count)) {
		fputs("no allocations", out);
		return;
	}
	fprintf(out, "%s of %s allocations (%s) served without the driver, %s native calls saved",
		NUMBER(count->hits), NUMBER(report_pool_allocations(count)),
		PERCENT(count->hits, report_pool_allocations(count)),
		NUMBER(report_pool_calls_saved(count)));
}

static void print_peaks(FILE *out, const struct ledger_pool *count)
{
	fprintf(out, "peak %s in use", SIZE(count->peak_used));
	fprintf(out, ", %s reserved", SIZE(count->peak_reserved));
	if (count->peak_used)
		fprintf(out, " (%.2f times)",
			(double)count->peak_reserved / (double)count->peak_used);
}

/* Prints the memory that the pool has from the driver and that the application does not use. */
static void print_kept(FILE *out, const struct ledger_pool *count, bool running)
{
	if (!count->cached && !count->pending) {
		fprintf(out, "nothing kept %s", running ? "now" : "at the end");
		return;
	}
	fprintf(out, "%s: %s cached", running ? "now" : "at the end", SIZE(count->cached));
	if (count->pending)
		fprintf(out, ", %s pending", SIZE(count->pending));
	fputs(" (kept by the pool, no leak)", out);
}

static void print_number(FILE *out, uint64_t number, const char *one, const char *many)
{
	fprintf(out, "%s %s", NUMBER(number), number == 1 ? one : many);
}

static void print_waits(FILE *out, const struct ledger_pool *count)
{
	fputs("    ", out);
	print_number(out, count->waits, "free waited", "frees waited");
	if (count->waits)
		fprintf(out, " for the device, %s in all", TIME(count->wait_ns));
	fputs("; ", out);
	print_number(out, count->fences, "fence", "fences");
	fputs(", ", out);
	print_number(out, count->shared_fences, "free shared a fence", "frees shared a fence");
	fputc('\n', out);
}

static void print_trims(FILE *out, const struct ledger_pool *count)
{
	if (!count->trims && !count->rescued)
		return;
	fputs("    ", out);
	print_number(out, count->trims, "trim", "trims");
	fputs(" gave back ", out);
	print_number(out, count->trimmed, "block", "blocks");
	fprintf(out, " (%s)", SIZE(count->trimmed_bytes));
	if (count->rescued) {
		fputs("; ", out);
		print_number(out, count->rescued, "allocation", "allocations");
		fputs(" succeeded only after a trim", out);
	}
	fputc('\n', out);
}

static void print_one(FILE *out, const struct report_pool *pool, bool running)
{
	const struct ledger_pool *count = &pool->count;

	fputs("  ", out);
	print_name(out, pool);
	fputs(": ", out);
	print_hits(out, count);
	fputs("\n    ", out);
	print_peaks(out, count);
	fputs("; ", out);
	print_kept(out, count, running);
	fputc('\n', out);
	print_waits(out, count);
	print_trims(out, count);
	for (unsigned int i = 0; i < LEDGER_POOL_REASON_COUNT; i++)
		if (count->reasons[i])
			fprintf(out, "    not pooled (%s): %s\n", NUMBER(count->reasons[i]),
				reasons[i].text);
}

static bool is_on(const struct report_pools *pools)
{
	return pools->count || strcmp(pools->mode, "off") != 0;
}

static void print_section(FILE *out, const struct report_pools *pools, bool running)
{
	fprintf(out, "\nPool (%s", pools->mode);
	if (strcmp(pools->backend, "device") != 0)
		fprintf(out, ", of %s memory", pools->backend);
	fputs("):\n", out);
	for (size_t i = 0; i < pools->count; i++)
		print_one(out, &pools->pools[i], running);
	if (!pools->count)
		fputs("  the pool served no allocation: none was of a kind that it serves, or it "
		      "could not be set up\n", out);
}

static void print_line(FILE *out, const struct report_pools *pools, bool running)
{
	fprintf(out, "gpuleak: pool (%s): ", pools->mode);
	print_hits(out, &pools->sum);
	if (report_pool_allocations(&pools->sum)) {
		fputs("; ", out);
		print_peaks(out, &pools->sum);
		fputs("; ", out);
		print_kept(out, &pools->sum, running);
	}
	fputc('\n', out);
}

/* Prints the first call that was refused. */
static void print_first(FILE *out, const struct report_refusal *first, bool whole)
{
	if (first->api) {
		eprintf(out, ", the first a %s at ", first->api);
		describe_place_and_caller(out, first->stack, whole);
	}
	fputc('\n', out);
}

static void print_surprises(FILE *out, const struct report_pools *pools, bool whole)
{
	if (pools->downgraded)
		fputs("gpuleak: pool: fast is not possible with this driver, so strict was used\n",
		      out);
	for (size_t i = 0; i < pools->count; i++) {
		if (!pools->pools[i].off)
			continue;
		fputs("gpuleak: pool: ", out);
		print_name(out, &pools->pools[i]);
		eprintf(out, ": turned itself off: %s\n", pools->pools[i].off);
	}
	if (pools->refused) {
		fprintf(out, "gpuleak: GPULEAK_LIMIT: %s allocation%s refused",
			NUMBER(pools->refused), plural(pools->refused));
		if (pools->limit)
			fprintf(out, " beyond %s", SIZE(pools->limit));
		print_first(out, &pools->first_refused, whole);
	}
	if (pools->injected) {
		fprintf(out, "gpuleak: GPULEAK_FAIL_AT: %s allocation%s made to fail",
			NUMBER(pools->injected), plural(pools->injected));
		print_first(out, &pools->first_injected, whole);
	}
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_pools *pools = view->process->pools;
	bool running = view->process->ended == REPORT_RUNNING;

	if (is_on(pools) && (view->is_wrong || view->verbose))
		print_section(out, pools, running);
	else if (is_on(pools))
		print_line(out, pools, running);
	print_surprises(out, pools, view->verbose);
}

/* ---- JSON and metrics ---- */

/* Returns { "exported": 3 } with the reasons whose count is not 0. */
static json_t *reasons_json(const struct ledger_pool *count)
{
	json_t *ret = json_object();
	char key[64];

	for (unsigned int i = 0; i < LEDGER_POOL_REASON_COUNT; i++) {
		if (!count->reasons[i])
			continue;
		snprintf(key, sizeof(key), "%s", reasons[i].word);
		for (char *at = key; *at; at++)
			*at = (char)tolower((unsigned char)*at);
		json_set(ret, key, json_number(count->reasons[i]));
	}
	return ret;
}

static uint64_t used(const void *pool)
{
	return report_pool_used(&((const struct report_pool *)pool)->count);
}

static uint64_t calls_saved(const void *pool)
{
	return report_pool_calls_saved(&((const struct report_pool *)pool)->count);
}

#define OF_POOL(name) FIGURE(report_pool, count.name)

static const struct figure rows[] = {
	{ "used_bytes", .value = used },
	{ "cached_bytes", OF_POOL(cached), .page = { 3, "Cached" },
	  .help = "Free bytes in the pool that the next allocation can get at once." },
	{ "pending_bytes", OF_POOL(pending),
	  .help = "Bytes that were freed and the device may still be using." },
	{ "reserved_bytes", OF_POOL(reserved), .is_first = true, .page = { 2, "Reserved" },
	  .help = "Bytes that the pool allocated from the driver." },
	{ "peak_used_bytes", OF_POOL(peak_used), .page = { 1, "Peak in use" } },
	{ "peak_reserved_bytes", OF_POOL(peak_reserved),
	  .help = "Highest number of bytes that the pool had allocated from the driver." },
	{ "hits", OF_POOL(hits), .metric = "hits_total", .page = { 4, "Served" },
	  .help = "Allocations served without the driver." },
	{ "native_allocations", OF_POOL(native_allocs), .metric = "driver_allocations_total",
	  .help = "Allocations that went to the driver." },
	{ "native_frees", OF_POOL(native_frees) },
	{ "frees", OF_POOL(frees) },
	{ "native_calls_saved", .value = calls_saved, .page = { 5, "Driver calls saved" } },
	{ "tickets", OF_POOL(fences) },
	{ "shared_tickets", OF_POOL(shared_fences) },
	{ "waits", OF_POOL(waits), .metric = "waits_total", .page = { 6, "Waits" },
	  .help = "Frees that waited for the device." },
	{ "wait_ns", OF_POOL(wait_ns) },
	{ "trims", OF_POOL(trims), .metric = "trims_total",
	  .help = "How often the pool returned memory to the driver." },
	{ "trimmed_blocks", OF_POOL(trimmed) },
	{ "trimmed_bytes", OF_POOL(trimmed_bytes) },
	{ "rescued", OF_POOL(rescued) },
	{ "waste_bytes", OF_POOL(waste) },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_pool *pool;

	if (!process->pools || i >= process->pools->count)
		return NULL;
	pool = &process->pools->pools[i];
	if (labels) {
		metric_device(labels, pool->device);
		fprintf(labels, ",pool=\"%zu\"", i);
		metric_label(labels, "api", pool->api);
		metric_label(labels, "kind", pool->kind);
	}
	return pool;
}

static const struct figures figures = { .prefix = "gpuleak_pool_", FIGURES(rows), .item = item,
					.is_optional = true };

static json_t *pool_json(const void *whole)
{
	const struct report_pool *pool = whole;
	json_t *ret = JSON_OBJECT(
		{ "api", json_text(pool->api) },
		{ "kind", json_text(pool->kind) },
		{ "device", json_integer(pool->device) },
		{ "mode", json_string(pool->mode) },
		{ "backend", json_string(pool->backend) },
		{ "turned_off", json_text(pool->off) });

	figures_add_json(ret, &figures, pool);
	json_set(ret, "not_pooled", reasons_json(&pool->count));
	return ret;
}

static json_t *refusal_json(const struct report_refusal *refusal)
{
	if (!refusal->api)
		return json_null();
	return JSON_OBJECT(
		{ "api", json_text(refusal->api) },
		{ "stack", json_stack(refusal->stack) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_pools *pools = view->process->pools;

	json_set(object, "pool", JSON_OBJECT(
		{ "mode", json_string(pools->mode) },
		{ "backend", json_string(pools->backend) },
		{ "limit_bytes", json_number(pools->limit) },
		{ "refused", json_number(pools->refused) },
		{ "first_refused", refusal_json(&pools->first_refused) },
		{ "injected_failures", json_number(pools->injected) },
		{ "first_injected", refusal_json(&pools->first_injected) },
		{ "pools", JSON_LIST(pools->pools, pools->count, pool_json) }));
}

const struct subject subject_pool = {
	.build = build, .chunks = CHUNK_BIT(POOLS), .only_if = PART(pools),
	.details = print_details, .json = add_json, .figures = &figures,
};
