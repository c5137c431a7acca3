/* SPDX-License-Identifier: MIT
 *
 * Fragmentation: memory that a cache has and that its suballocations do not use. A cache frees a
 * segment as a whole, so one small suballocation keeps all of it. Only caches that report their
 * suballocations are listed. At an out-of-memory, states if the request would have fitted.
 */
#include "report/subjects/subject.h"

#include <inttypes.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"
#include "report/model/builder.h"
#include "report/model/model_fragmentation.h"
#include "report/model/model_holders.h"
#include "report/subjects/figures.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define PINS_SHOWN 3
#define LEAST_BYTES ((uint64_t)1 << 20)

/* The private pool of a segment: two numbers, as PyTorch's snapshots have them. */
#define POOL "%" PRIu64 ":%" PRIu64
#define POOL_OF(segment) (segment)->pool >> 32, (segment)->pool & UINT32_MAX

/* If no tensor is live, all of the cache is unused: the list of caches has it. */
static void build(struct builder *b)
{
	const struct report_fragmentations *all = build_fragmentations(b, NULL);

	for (size_t i = 0; i < all->count; i++)
		if (all->list[i].used_bytes)
			b->process->fragmentation = all;
}

/* ---- text ---- */

/* Prints "2.0 MiB in 1 tensor at embed (/abs/model.py:40) keep a segment of 512.0 MiB, 510.0 MiB of
 * it unused". */
static void print_pin(FILE *out, const struct report_pin *pin, bool whole)
{
	fprintf(out, "    %s in %s at ", SIZE(pin->held.bytes),
		COUNT(pin->held.blocks, describe_unit(&pin->held)));
	describe_place_and_caller(out, pin->held.site->stack, whole);
	if (pin->segments == 1)
		fputs(" keep a segment", out);
	else
		fprintf(out, " keep %s", COUNT(pin->segments, "segment"));
	fprintf(out, " of %s, %s of %s unused", SIZE(pin->segment_bytes), SIZE(pin->unused_bytes),
		pin->segments == 1 ? "it" : "them");
	if (pin->own_segments < pin->segments)
		fprintf(out, "; other places keep %s of these segments, too",
			pin->own_segments ? NUMBER(pin->segments - pin->own_segments)
			: pin->segments == 1 ? "it" : "all");
	fputc('\n', out);
}

static void print_one(FILE *out, const struct report_fragmentation *entry, bool whole)
{
	size_t shown = whole ? entry->pin_count : PINS_SHOWN;

	eprintf(out, "  %s", entry->cache);
	if (entry->device > 0)
		fprintf(out, " of device %d", entry->device);
	if (entry->segment)
		fprintf(out, ", stream 0x%" PRIx64, entry->segment->stream);
	if (entry->segment && entry->segment->pool)
		fprintf(out, ", private pool " POOL, POOL_OF(entry->segment));
	fprintf(out, "%s: ", entry->captured ? ", private pools of CUDA graphs" : "");
	fprintf(out, "%s reserved, ", SIZE(entry->reserved_bytes));
	fprintf(out, "%s in %ss, ", SIZE(entry->used_bytes), suballocation_word(entry->cache));
	fprintf(out, "%s unused in %s that a %s keeps, ", SIZE(entry->pinned_free_bytes),
		COUNT(entry->pinned_segments, "segment"), suballocation_word(entry->cache));
	fprintf(out, "%s in free segments\n", SIZE(entry->whole_free_bytes));
	for (size_t i = 0; i < entry->pin_count && i < shown; i++)
		print_pin(out, &entry->pins[i], whole);
}

/* Prints TITLE before the first of those that are notable. */
static void print_fragmentations(FILE *out, const char *title,
				 const struct report_fragmentations *all, bool whole)
{
	for (size_t i = 0; i < all->count; i++) {
		if (!whole && all->list[i].pinned_free_bytes < LEAST_BYTES)
			continue;
		fputs(title, out);
		print_one(out, &all->list[i], whole);
		title = "";
	}
}

static void print_details(FILE *out, const struct subject_view *view)
{
	if (view->verbose || view->is_wrong)
		print_fragmentations(out, "\nFragmentation:\n", view->process->fragmentation,
				     view->verbose);
}

/* ---- a refused request ---- */

/* What a refused request could have used on its device. */
struct fit {
	uint64_t free;   /* was free, or 0 if that is not known */
	uint64_t whole;  /* in segments that the cache can free */
	uint64_t pinned; /* unused in other segments */
	bool fits;     /* enough for the request, which was more than `free` */
	bool by_whole; /* enough without `pinned` */
	bool expandable; /* the cache maps physical memory: its setting is in effect already */
	const struct report_fragmentation *most; /* the cache that `pinned` is in; NULL: none */
};

/* What a cache offers against fragmentation. */
static const struct remedy {
	const char *cache, *variable, *setting, *call;
} remedies[] = {
	{ "PyTorch caching allocator", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True",
	  "torch.cuda.empty_cache()" },
};

/* Returns what the cache of ENTRY offers, or NULL. */
static const struct remedy *remedy_of(const struct report_fragmentation *entry)
{
	for (size_t i = 0; entry && i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (strcmp(remedies[i].cache, entry->cache) == 0)
			return &remedies[i];
	return NULL;
}

/* A request cannot use the private pool of a graph. */
static bool is_usable(const struct report_fragmentation *entry, int device)
{
	return !entry->captured && (device < 0 || entry->device == device);
}

/* Adds what the segments of ENTRY have. OWN: the cache itself made the request. It has freed its
 * whole segments before it gives up, so those that are left belong to private pools. */
static void add_usable(struct fit *fit, const struct report_fragmentation *entry, bool own)
{
	fit->pinned = add_bounded(fit->pinned, entry->pinned_free_bytes);
	if (!own)
		fit->whole = add_bounded(fit->whole, entry->whole_free_bytes);
	fit->expandable |= entry->physical;
	if (!fit->most || entry->pinned_free_bytes > fit->most->pinned_free_bytes)
		fit->most = entry;
}

static void add_all_usable(struct fit *fit, const struct report_fragmentations *all, int device,
			   bool own)
{
	for (size_t i = 0; i < all->count; i++)
		if (is_usable(&all->list[i], device))
			add_usable(fit, &all->list[i], own);
}

/* Returns the bytes that were free when ENTRY was refused, or 0 if they are not known. */
static uint64_t free_bytes(const struct report_out_of_memory *entry)
{
	if (entry->refuser == LEDGER_REFUSER_LIMIT)
		return less(entry->limit_bytes, entry->tracked_bytes);
	return entry->refuser == LEDGER_REFUSER_DRIVER && entry->has_free ? entry->free_bytes : 0;
}

static struct fit fit_of(const struct report_out_of_memory *entry)
{
	struct fit fit = { .free = free_bytes(entry) };
	uint64_t wanted = out_of_memory_wanted(entry);
	bool own = entry->gave_up || report_cache_of(entry->site);

	if (entry->refuser == LEDGER_REFUSER_FAIL_AT || entry->recovered || !wanted ||
	    !entry->fragmentation)
		return fit;
	add_all_usable(&fit, entry->fragmentation, entry->site->device, own);
	fit.by_whole = fit.whole && fit.free < wanted && add_bounded(fit.free, fit.whole) >= wanted;
	fit.fits = fit.by_whole ||
		   (fit.pinned && fit.free < wanted &&
		    add_bounded(add_bounded(fit.free, fit.whole), fit.pinned) >= wanted);
	return fit;
}

void describe_fit(FILE *out, const struct report_out_of_memory *entry)
{
	struct fit fit = fit_of(entry);
	const struct remedy *remedy = remedy_of(fit.most);

	if (!fit.fits)
		return;
	if (fit.by_whole)
		fprintf(out, "; would fit after %s (frees %s)",
			remedy ? remedy->call : "freeing unused segments", SIZE(fit.whole));
	else if (remedy && !fit.expandable)
		fprintf(out, "; would fit without fragmentation: %s frees %s", remedy->setting,
			SIZE(fit.pinned));
	else
		fprintf(out, "; would fit without fragmentation (%s unused)", SIZE(fit.pinned));
}

/* What helps, in the order of the report: the names are those of JSON. */
static const char *const helps[] = { "empty-cache", "expandable-segments", "order" };
#define HELPS (sizeof(helps) / sizeof(helps[0]))

/* Returns the bytes that helps[WHICH] would have freed. */
static uint64_t help_bytes(const struct fit *fit, size_t which)
{
	const struct report_fragmentation *most = fit->most;

	if (which == 0)
		return fit->whole;
	if (which == 1)
		return fit->expandable || !remedy_of(most) ? 0 : fit->pinned;
	return most && most->pin_count ? most->pins->own_unused_bytes : 0;
}

static void describe_help(FILE *out, const struct fit *fit, size_t which, bool whole)
{
	const struct remedy *remedy = remedy_of(fit->most);

	if (which == 0) {
		fprintf(out, "call %s before the request",
			remedy ? remedy->call : "what frees the cache's unused segments");
	} else if (which == 1) {
		fprintf(out, "set %s=%s", remedy->variable, remedy->setting);
	} else {
		fprintf(out, "allocate the %ss of ", describe_unit(&fit->most->pins->held));
		describe_place(out, fit->most->pins->held.site->stack, whole);
		fputs(" before larger temporary ones, or free them", out);
	}
	fprintf(out, " (frees up to %s)", SIZE(help_bytes(fit, which)));
}

void describe_refused_fragmentation(FILE *out, const struct report_out_of_memory *entry,
				    bool whole)
{
	struct fit fit = fit_of(entry);
	const char *fits = fit.fits ? ": the request would have fitted" : "";

	if (!fit.most || add_bounded(fit.pinned, fit.whole) < LEAST_BYTES)
		return;
	fprintf(out, "  Unused in caches then%s:\n", fits);
	print_fragmentations(out, "", entry->fragmentation, whole);
	for (size_t i = 0; i < HELPS; i++) {
		if (help_bytes(&fit, i) < LEAST_BYTES)
			continue;
		fputs("  Next: ", out);
		describe_help(out, &fit, i, whole);
		fputc('\n', out);
	}
}

/* ---- JSON and metrics ---- */

static const struct figure rows[] = {
	{ "reserved_bytes", FIGURE(report_fragmentation, reserved_bytes), .page = { 1, "Reserved" },
	  .help = "Bytes that a framework's cache has from the driver." },
	{ "used_bytes", FIGURE(report_fragmentation, used_bytes), .page = { 2, "In use" },
	  .help = "Bytes of these in tensors." },
	{ "pinned_free_bytes", FIGURE(report_fragmentation, pinned_free_bytes),
	  .page = { 3, "Unused beside tensors" },
	  .help = "Unused bytes in segments of the cache that a tensor keeps." },
	{ "whole_free_bytes", FIGURE(report_fragmentation, whole_free_bytes),
	  .page = { 4, "In free segments" },
	  .help = "Bytes in segments of the cache that have no tensor." },
	{ "segments", FIGURE(report_fragmentation, segments) },
	{ "pinned_segments", FIGURE(report_fragmentation, pinned_segments) },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_fragmentations *all = process->fragmentation;
	const struct report_fragmentation *entry;

	if (!all || i >= all->count || i >= METRIC_ITEMS_MAX)
		return NULL;
	entry = &all->list[i];
	if (!labels)
		return entry;
	metric_device(labels, entry->device);
	metric_label(labels, "cache", entry->cache);
	metric_label(labels, "pool", entry->captured ? "graph" : "");
	if (entry->segment)
		fprintf(labels, ",stream=\"0x%" PRIx64 "\",private_pool=\"" POOL "\"",
			entry->segment->stream, POOL_OF(entry->segment));
	return entry;
}

static const struct figures figures = { .prefix = "gpuleak_cache_", FIGURES(rows), .item = item,
					.is_optional = true };

static json_t *pin_json(const void *item, const struct subject_view *view)
{
	const struct report_pin *pin = item;
	const struct report_site *site = pin->held.site;

	return JSON_OBJECT(
		JSON_SITE(site),
		{ "bytes", json_number(pin->held.bytes) },
		{ "blocks", json_number(pin->held.blocks) },
		{ "cache", json_text(pin->held.cache) },
		{ "segments", json_number(pin->segments) },
		{ "segment_bytes", json_number(pin->segment_bytes) },
		{ "unused_bytes", json_number(pin->unused_bytes) },
		{ "own_segments", json_number(pin->own_segments) },
		{ "own_unused_bytes", json_number(pin->own_unused_bytes) },
		{ "stack", json_stack(site->stack) },
		{ "site", JSON_IF(view->has_words, json_site(site->stack)) });
}

static json_t *entry_json(const void *item, const struct subject_view *view)
{
	const struct report_fragmentation *entry = item;
	json_t *ret = JSON_OBJECT(
		{ "cache", json_text(entry->cache) },
		{ "device", json_integer(entry->device) },
		{ "pool", entry->captured ? json_string("graph") : json_null() },
		{ "stream", entry->segment ? json_address(entry->segment->stream) : json_null() },
		{ "private_pool", entry->segment && entry->segment->pool ? JSON_PRINTED(to,
			fprintf(to, POOL, POOL_OF(entry->segment))) : json_null() });

	figures_add_json(ret, &figures, entry);
	json_set(ret, "pinned_by", JSON_LIST_FOR(view, entry->pins, entry->pin_count, pin_json));
	return ret;
}

static json_t *list_json(const struct report_fragmentations *all, const struct subject_view *view)
{
	return JSON_LIST_FOR(view, all->list, all->count, entry_json);
}

static json_t *remedies_json(const struct fit *fit, const struct subject_view *view)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < HELPS; i++)
		if (help_bytes(fit, i))
			json_array_append_new(ret, JSON_OBJECT(
				{ "remedy", json_string(helps[i]) },
				{ "frees_bytes", json_number(help_bytes(fit, i)) },
				{ "told", JSON_IF(view->has_words, JSON_PRINTED(to,
					describe_help(to, fit, i, false))) }));
	return ret;
}

void json_add_fragmentation(json_t *object, const struct report_out_of_memory *entry,
			    const struct subject_view *view)
{
	struct fit fit = fit_of(entry);

	if (!entry->fragmentation)
		return;
	JSON_ADD(object,
		 { "fragmentation", list_json(entry->fragmentation, view) },
		 { "fits_unfragmented", json_boolean(fit.fits) },
		 { "remedies", remedies_json(&fit, view) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	json_set(object, "fragmentation", list_json(view->process->fragmentation, view));
}

const struct subject subject_fragmentation = {
	.build = build, .needs = &subject_suballocations,
	.chunks = CHUNK_BIT(SUBALLOCATION_SITES) | CHUNK_BIT(SUBALLOCATIONS),
	.only_if = PART(fragmentation), .details = print_details, .json = add_json,
	.figures = &figures,
};
