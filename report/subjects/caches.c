/* SPDX-License-Identifier: MIT
 *
 * Memory in frameworks' caches, summed up by the name of the cache. There are at most as many
 * names as rules. Only the largest caches have their own paragraph.
 */
#include "report/subjects/common.h"

#include <stdint.h>

#define CACHES_MAX 16 /* caches printed by name; a process usually has two or three */
#define BRIEF_MAX 3

/* Total of one cache. */
struct cache_total {
	const char *name;
	uint64_t blocks, bytes, used_bytes;
	const struct report_leak *most;
};

struct caches {
	struct cache_total list[CACHES_MAX];
	size_t count;
	struct cache_total others;
};

static void add_to_cache(struct caches *caches, const struct report_leak *leak)
{
	struct cache_total *total = caches->list;

	while (total < caches->list + caches->count && strcmp(total->name, leak->cache) != 0)
		total++;
	if (total == caches->list + CACHES_MAX) {
		total = &caches->others;
	} else if (total == caches->list + caches->count) {
		*total = (struct cache_total){ .name = leak->cache, .most = leak };
		caches->count++;
	}
	total->blocks = add_bounded(total->blocks, leak->blocks);
	total->bytes = add_bounded(total->bytes, leak->bytes);
	total->used_bytes = add_bounded(total->used_bytes, leak->used_bytes);
}

static int compare(const void *left, const void *right)
{
	const struct cache_total *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: strcmp(a->name, b->name);
}

static void count(struct caches *caches, struct report_process *const *processes, size_t n)
{
	*caches = (struct caches){ .count = 0 };
	for (size_t i = 0; i < n; i++)
		for (size_t leak = 0; leak < processes[i]->cached_count; leak++)
			add_to_cache(caches, &processes[i]->cached[leak]);
	SORT(caches->list, caches->count, compare);
}

void describe_caches(FILE *out, struct report_process *const *processes, size_t process_count)
{
	struct caches caches;

	count(&caches, processes, process_count);
	for (size_t i = 0; i < caches.count; i++) {
		const struct cache_total *total = &caches.list[i];

		if (i >= BRIEF_MAX) {
			caches.others.blocks = add_bounded(caches.others.blocks, total->blocks);
			caches.others.bytes = add_bounded(caches.others.bytes, total->bytes);
			continue;
		}
		eprintf(out, ", %s %sby the %s (%s)", NUMBER(total->blocks), i ? "" : "held ",
			total->name, SIZE(total->bytes));
	}
	if (caches.others.blocks)
		fprintf(out, ", %s by other caches (%s)", NUMBER(caches.others.blocks),
			SIZE(caches.others.bytes));
}

/* Prints "  PyTorch caching allocator: 2,097,152 bytes (2.0 MiB) in 1 block", and how many of these
 * bytes are in use. */
static void print_cached(FILE *out, const char *name, const struct cache_total *total)
{
	eprintf(out, "  %s: %s in %s", name, EXACT_SIZE(total->bytes),
		COUNT(total->blocks, "block"));
	describe_division(out, &(struct report_leak){ .cache = name, .bytes = total->bytes,
						      .used_bytes = total->used_bytes }, ": ");
}

static void print_sums(FILE *out, const struct caches *caches, bool whole)
{
	EACH_ITEM(caches->list, caches->count, total) {
		print_cached(out, total->name, total);
		fprintf(out, "%s %sat ", total->used_bytes ? ";" : ",",
			total->most->blocks == total->blocks ? "" : "most ");
		describe_place_and_caller(out, total->most->site->stack, whole);
		fputc('\n', out);
	}
	if (caches->others.blocks) {
		print_cached(out, "other caches", &caches->others);
		fputc('\n', out);
	}
}

static void print_stacks(FILE *out, const struct report_process *process, bool whole)
{
	EACH_ITEM(process->cached, process->cached_count, leak) {
		print_cached(out, leak->cache,
			     &(struct cache_total){ .blocks = leak->blocks, .bytes = leak->bytes,
						    .used_bytes = leak->used_bytes });
		describe_source(out, leak->site->kind, leak->site->api, -1);
		fputs(", allocated at:\n", out);
		describe_stack(out, leak->site->stack, whole);
	}
}

static void print_details(FILE *out, const struct subject_view *view)
{
	struct report_process *one = (struct report_process *)view->process;
	struct caches caches;

	if (!view->is_wrong && !view->verbose)
		return;
	fputs("\nHeld by caches: not leaks; the gate counts them only with --gate-caches 1\n", out);
	count(&caches, &one, 1);
	if (view->verbose)
		print_stacks(out, one, view->verbose);
	else
		print_sums(out, &caches, view->verbose);
}

const struct subject subject_caches = {
	.only_if = PART(cached_count), .has_keys_always = true, .details = print_details,
	LIST("cached", cached, cached_count, .of_view = json_leak),
};
