/* SPDX-License-Identifier: MIT
 *
 * Deferred frees: released memory that was still allocated at the end, with the calls that created
 * and released it, the reason, what holds it, and the longest wait. JSON has all values, also if
 * nothing is wrong.
 */
#include "report/subjects/common.h"

#include <inttypes.h>

#include "report/subjects/judgement.h"

/* Returns the call that allocated a block of BYTES at the call site SITE_REF, and stores the
 * block's kind. */
static struct report_event read_made(struct builder *b, uint32_t site_ref, uint64_t bytes,
				     const char **ret_kind)
{
	const struct ledger_site *site = ledger_site(b->view, site_ref);

	*ret_kind = site ? build_name(b, site->kind) : build_unknown;
	return build_event(b, site ? site->api : 0, site ? site->stack : 0, bytes);
}

static void read_longest(struct builder *b, struct report_deferred_frees *frees)
{
	const struct ledger_header *header = ledger_header(b->view);
	const struct ledger_wait *wait;

	if (header->longest_wait != 1 && header->longest_wait != 2)
		return;
	wait = &header->waits[header->longest_wait - 1];
	frees->longest_wait_ns = wait->ns;
	frees->longest.bytes = wait->bytes;
	frees->longest.allocated =
		read_made(b, wait->site, wait->bytes, &frees->longest.kind);
	frees->longest.released = build_event(b, wait->api, wait->stack, 0);
}

/* ---- deferred frees ---- */

static struct report_deferred read_deferred(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_event_wait *wait = build_reason(b, &b->wait_refs, block);
	struct report_deferred ret = {
		.blocks = 1, .bytes = block->bytes, .address = block->address,
		.ignored = (block->marked & LEDGER_BLOCK_IGNORED) != 0,
		.reason = wait ? REPORT_DEFERRED_USER_EVENT : REPORT_DEFERRED_UNKNOWN,
		.event = build_event(b, wait ? wait->event_api : 0, wait ? wait->event_stack : 0,
				     0),
		.command = build_event(b, wait ? wait->api : 0, wait ? wait->stack : 0, 0),
	};

	ret.allocated = read_made(b, block->site, block->bytes, &ret.kind);
	ret.released = build_release(b, block, &ret.released_ns);
	return ret;
}

static int compare_addresses(const void *left, const void *right)
{
	const struct report_deferred *a = left, *b = right;

	return compare_numbers(a->address, b->address);
}

static struct report_deferred *find_deferred(const struct report_deferred_frees *frees,
					     uint64_t address)
{
	struct report_deferred key = { .address = address };

	return frees->group_count ? bsearch(&key, frees->groups, frees->group_count,
					    sizeof(*frees->groups), compare_addresses)
				  : NULL;
}

#define HOLDERS_MAX 8 /* holders per block; more do not explain more */

static void add_holder(struct builder *b, struct report_deferred *deferred, const char *what,
		       const struct ledger_block *by)
{
	struct report_holder *holder;
	unsigned int count = 0;

	for (const struct report_holder *other = deferred->holders; other; other = other->next)
		if (other->address == by->address || ++count == HOLDERS_MAX)
			return;
	holder = arena_alloc(b->arena, sizeof(*holder));
	holder->what = what;
	holder->address = by->address;
	holder->allocated = read_made(b, by->site, by->bytes, &holder->kind);
	holder->next = deferred->holders;
	deferred->holders = holder;
}

static const char *part_word(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_site *site = ledger_site(b->view, block->site);
	static const char image[] = "cl-image";
	uint32_t length = 0;
	const char *kind = site ? ledger_string(b->view, site->kind, &length) : NULL;

	return kind && length == sizeof(image) - 1 && memcmp(kind, image, length) == 0
		       ? "image" : "sub-buffer";
}

/* Adds a holder for each sub-buffer or image that exists: it keeps the whole buffer allocated. */
static void read_parts(struct builder *b, const struct report_deferred_frees *frees)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while (frees->group_count && (block = ledger_next_block_slot(b->view, &walk))) {
		struct report_deferred *deferred;

		if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED || !block->parent)
			continue;
		deferred = find_deferred(frees, block->parent);
		if (!deferred)
			continue;
		add_holder(b, deferred, part_word(b, block), block);
		if (deferred->reason == REPORT_DEFERRED_UNKNOWN)
			deferred->reason = REPORT_DEFERRED_PART;
	}
}

static void read_arguments(struct builder *b, const struct report_deferred_frees *frees,
			   const struct ledger_kernel_args *record,
			   const struct ledger_block *kernel)
{
	for (unsigned int i = 0; i < LEDGER_KERNEL_ARGS_MAX; i++) {
		const struct ledger_block *block = build_named_block(b, record->arg[i]);
		struct report_deferred *deferred = NULL;

		if (block && LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED)
			deferred = find_deferred(frees, block->address);
		if (deferred)
			add_holder(b, deferred, "kernel", kernel);
	}
}

static void read_kernel_args(struct builder *b, const struct report_deferred_frees *frees)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_kernel_args *record;

	while (frees->group_count && (record = ledger_next_kernel_args(b->view, &walk))) {
		const struct ledger_block *kernel = build_named_block(b, record->kernel);

		if (kernel)
			read_arguments(b, frees, record, kernel);
	}
}

static int compare_deferred(const void *left, const void *right)
{
	const struct report_deferred *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes)
	       ?: compare_numbers(a->released_ns, b->released_ns);
}

/* Counts the waiting time of a block that was not freed before the process ended. */
static void wait_to_the_end(struct builder *b, struct report_deferred_frees *frees)
{
	const struct ledger_header *header = ledger_header(b->view);
	uint64_t end = header->end_mono_ns > header->start_mono_ns
			       ? header->end_mono_ns - header->start_mono_ns : 0;

	for (size_t i = 0; i < frees->group_count; i++) {
		struct report_deferred *deferred = &frees->groups[i];

		frees->deferred_blocks++;
		frees->deferred_bytes = add_bounded(frees->deferred_bytes, deferred->bytes);
		if (!deferred->released_ns || end <= deferred->released_ns ||
		    end - deferred->released_ns <= frees->longest_wait_ns)
			continue;
		frees->longest_wait_ns = end - deferred->released_ns;
		frees->longest = *deferred;
	}
}

static void read_all_deferred(struct builder *b, struct report_deferred_frees *frees)
{
	for (size_t i = 0; i < b->deferred_count; i++)
		*ARENA_ADD(b->arena, frees->groups, frees->group_count) =
			read_deferred(b, b->deferred[i]);
}

static void sort_deferred(struct report_deferred_frees *frees,
			  int (*compare)(const void *, const void *))
{
	SORT(frees->groups, frees->group_count, compare);
}

/* ---- groups ---- */

static bool same_event(const struct report_event *a, const struct report_event *b)
{
	return a->api == b->api && a->stack == b->stack; /* interned */
}

static bool same_holders(const struct report_holder *a, const struct report_holder *b)
{
	for (; a && b; a = a->next, b = b->next)
		if (a->what != b->what || a->kind != b->kind ||
		    !same_event(&a->allocated, &b->allocated))
			return false;
	return a == b;
}

static bool same_deferred(const void *value, const void *key)
{
	const struct report_deferred *a = value, *b = key;

	return a->kind == b->kind && a->reason == b->reason && a->ignored == b->ignored &&
	       same_event(&a->released, &b->released) &&
	       same_event(&a->allocated, &b->allocated) && same_event(&a->event, &b->event) &&
	       same_event(&a->command, &b->command) && same_holders(a->holders, b->holders);
}

/* Merges blocks with the same calls, reason and holders into groups. */
static void group_deferred(struct builder *b, struct report_deferred_frees *frees)
{
	struct table table = { 0 };
	size_t count = 0;

	EACH_ITEM(frees->groups, frees->group_count, deferred) {
		uint64_t hash = hash_number((uintptr_t)deferred->released.stack,
					    hash_number((uintptr_t)deferred->allocated.stack, 0));
		struct report_deferred *first = table_find(&table, hash, same_deferred, deferred);

		if (first) {
			first->blocks++;
			first->bytes = add_bounded(first->bytes, deferred->bytes);
			continue;
		}
		frees->groups[count] = *deferred;
		table_add(b->arena, &table, hash, &frees->groups[count++]);
	}
	frees->group_count = count;
}

/* Finds the pattern that suppresses each deferred free. */
static void classify(struct builder *b, struct report_deferred_frees *frees)
{
	for (size_t i = 0; i < frees->group_count; i++) {
		struct report_deferred *deferred = &frees->groups[i];

		deferred->pattern = deferred->ignored
					    ? REPORT_IGNORED
					    : build_suppress(b, deferred->allocated.stack, 0, 0);
	}
}

static void build(struct builder *b)
{
	struct report_deferred_frees *frees = &b->process->deferred;

	frees->peak_bytes = ledger_header(b->view)->released_peak_bytes;
	frees->peak_ns = ledger_header(b->view)->released_peak_ns;
	frees->longest.allocated.stack = &build_no_stack;
	frees->longest.released.stack = &build_no_stack;
	read_longest(b, frees);
	frees->samples = build_samples(b, LEDGER_CHUNK_DEFERRED, &frees->sample_count);
	read_all_deferred(b, frees);
	sort_deferred(frees, compare_addresses);
	read_parts(b, frees);
	read_kernel_args(b, frees);
	wait_to_the_end(b, frees);
	group_deferred(b, frees);
	sort_deferred(frees, compare_deferred);
	classify(b, frees);
}

bool report_deferred_fails(const struct report_deferred *deferred)
{
	return deferred->reason == REPORT_DEFERRED_USER_EVENT && !deferred->pattern;
}

/* ---- text ---- */

#define DEFERRED_MAX 100 /* JSON has all groups */
#define JUDGED_MAX 20    /* places in reasons of the gate */
/* shorter waits are not printed: the call that releases a block takes that long */
#define WAIT_NS 1000000u

void describe_mapping(FILE *out, const struct report_leak *leak, bool whole)
{
	describe_event(out, "Mapped by", &leak->mapping->mapped, " at", whole);
	describe_event(out, "Released by", &leak->mapping->released, " at", whole);
}

bool describe_stuck(FILE *out, const struct report_process *process, bool whole)
{
	const struct report_deferred *most = NULL;
	uint64_t blocks = 0, bytes = 0;

	EACH_ITEM(process->deferred.groups, process->deferred.group_count, deferred) {
		if (!report_deferred_fails(deferred))
			continue;
		most = most ? most : deferred;
		blocks = add_bounded(blocks, deferred->blocks);
		bytes = add_bounded(bytes, deferred->bytes);
	}
	if (!most)
		return false;
	fprintf(out, "%s released block%s, %s, held by a user event that was never set, created "
		"at ", NUMBER(blocks), plural(blocks), EXACT_SIZE(bytes));
	describe_place_and_caller(out, most->event.stack, whole);
	return true;
}

static void print_holder(FILE *out, const struct report_holder *holder, bool whole)
{
	fputs(strcmp(holder->what, "kernel") == 0 ? "  The memory is an argument of "
						  : "  The memory is held by ",
	      out);
	describe_kind(out, holder->kind);
	if (holder->allocated.bytes)
		fprintf(out, " of %s", EXACT_SIZE(holder->allocated.bytes));
	eprintf(out, ", made by %s at ",
		holder->allocated.api ? holder->allocated.api : "an unknown call");
	describe_place_and_caller(out, holder->allocated.stack, whole);
	fputc('\n', out);
}

/* Prints why the memory is still allocated, if the ledger proves it. print_holder() prints the
 * objects that keep it allocated. */
static void print_reason(FILE *out, const struct report_deferred *deferred, bool whole)
{
	if (deferred->reason == REPORT_DEFERRED_UNKNOWN)
		fputs("  Why the driver still holds the memory is unknown: no recorded call "
		      "explains it\n", out);
	if (deferred->reason != REPORT_DEFERRED_USER_EVENT)
		return;
	fputs("  The memory is held by a command that waits for a user event that was never set\n",
	      out);
	describe_event(out, "Command by", &deferred->command, " at", whole);
	describe_event(out, "User event made by", &deferred->event, " at", whole);
}

static void print_deferred(FILE *out, const struct report_deferred *deferred, bool whole)
{
	fprintf(out, "\nReleased but not freed: %s of ", EXACT_SIZE(deferred->bytes));
	describe_kind(out, deferred->kind);
	if (deferred->blocks > 1)
		fprintf(out, " in %s blocks", NUMBER(deferred->blocks));
	fputc('\n', out);
	describe_event(out, "Released by", &deferred->released, " at", whole);
	describe_event(out, "Allocated by", &deferred->allocated, " at", whole);
	print_reason(out, deferred, whole);
	for (const struct report_holder *holder = deferred->holders; holder; holder = holder->next)
		print_holder(out, holder, whole);
}

static void print_waits(FILE *out, const struct report_deferred_frees *frees, bool whole)
{
	fprintf(out, "\nReleased but not yet freed: at most %s", EXACT_SIZE(frees->peak_bytes));
	if (frees->longest.kind) {
		fprintf(out, " at a time; longest wait %s, of %s released at ",
			TIME(frees->longest_wait_ns), EXACT_SIZE(frees->longest.bytes));
		describe_place_and_caller(out, frees->longest.released.stack, whole);
	}
	fputc('\n', out);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	const struct report_deferred_frees *frees = &process->deferred;
	bool more = frees->group_count || process->leak_count || process->summary.errors;

	for (size_t i = 0; i < frees->group_count && i < DEFERRED_MAX; i++)
		print_deferred(out, &frees->groups[i], view->verbose);
	if (frees->group_count > DEFERRED_MAX)
		fprintf(out, "\nAnd %s more places released memory that was not freed; --format "
			"json lists all\n", NUMBER(frees->group_count - DEFERRED_MAX));
	if ((frees->peak_bytes || frees->longest.kind) &&
	    (view->verbose || (more && frees->longest_wait_ns >= WAIT_NS)))
		print_waits(out, frees, view->verbose);
}

static json_t *block_json(const struct report_deferred *deferred)
{
	return JSON_OBJECT(
		{ "kind", json_text(deferred->kind) },
		{ "bytes", json_number(deferred->bytes) },
		{ "address", JSON_IF(deferred->address, json_address(deferred->address)) },
		{ "released", json_event(&deferred->released) },
		{ "allocated", json_allocation(&deferred->allocated) });
}

static json_t *holders_json(const struct report_holder *first)
{
	json_t *ret = json_array();

	for (const struct report_holder *holder = first; holder; holder = holder->next)
		json_array_append_new(ret, JSON_OBJECT(
			{ "what", json_text(holder->what) },
			{ "kind", json_text(holder->kind) },
			{ "address", json_address(holder->address) },
			{ "allocated", json_allocation(&holder->allocated) }));
	return ret;
}

static json_t *group_json(const void *group)
{
	static const char *const reasons[] = {
		[REPORT_DEFERRED_UNKNOWN] = "unknown",
		[REPORT_DEFERRED_PART] = "part",
		[REPORT_DEFERRED_USER_EVENT] = "user-event",
	};
	const struct report_deferred *deferred = group;
	bool waits = deferred->reason == REPORT_DEFERRED_USER_EVENT;
	json_t *ret = block_json(deferred);

	JSON_ADD(ret,
		 { "blocks", json_number(deferred->blocks) },
		 { "reason", json_string(reasons[deferred->reason]) },
		 { "command", JSON_IF(waits, json_event(&deferred->command)) },
		 { "user_event", JSON_IF(waits, json_event(&deferred->event)) },
		 { "pattern", JSON_IF(deferred->pattern, json_text(deferred->pattern)) },
		 { "held_by", holders_json(deferred->holders) });
	return ret;
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_deferred_frees *frees = &view->process->deferred;

	json_set(object, "released", JSON_OBJECT(
		{ "peak_bytes", json_number(frees->peak_bytes) },
		{ "peak_ns", json_number(frees->peak_ns) },
		{ "longest_wait_ns", json_number(frees->longest_wait_ns) },
		{ "longest", frees->longest.kind ? block_json(&frees->longest) : json_null() },
		{ "timeline", JSON_LIST(frees->samples, frees->sample_count, json_sample) },
		{ "held_blocks", json_number(frees->deferred_blocks) },
		{ "held_bytes", json_number(frees->deferred_bytes) },
		{ "held", JSON_LIST(frees->groups, frees->group_count, group_json) }));
}

/* ---- gate ---- */

static void add_stuck(struct judgement *judgement, const struct report_process *p,
		      const struct report_deferred *deferred)
{
	judgement_reason(judgement, "%" PRIu64 " block%s, %s of %s released, but held by a command "
			 "that waits for a user event that was never set, created at %s",
			 deferred->blocks, plural(deferred->blocks), EXACT_SIZE(deferred->bytes),
			 PROCESS(p), PLACE(deferred->event.stack));
}

/* Memory that waits for a user event that was never set makes the gate fail. Memory without a known
 * reason does so only on request, because the driver may free it later. If a sub-buffer keeps the
 * memory allocated, the sub-buffer itself is a leak. */
static void add_reasons(struct judgement *judgement, const struct judge_input *input,
			const struct report_process *p)
{
	uint64_t blocks = 0, bytes = 0;
	size_t stuck = 0;

	for (size_t i = 0; !input->leaks_unwanted && i < p->deferred.group_count; i++) {
		const struct report_deferred *deferred = &p->deferred.groups[i];

		if (report_deferred_fails(deferred)) {
			if (stuck++ < JUDGED_MAX)
				add_stuck(judgement, p, deferred);
		} else if (deferred->reason == REPORT_DEFERRED_UNKNOWN && !deferred->pattern) {
			blocks = add_bounded(blocks, deferred->blocks);
			bytes = add_bounded(bytes, deferred->bytes);
		}
	}
	if (stuck > JUDGED_MAX)
		judgement_reason(judgement, "memory released at %zu more places is held by a "
				 "command that waits for a user event that was never set",
				 stuck - JUDGED_MAX);
	if (blocks && input->count_deferred)
		judgement_reason(judgement, "%" PRIu64 " block%s, %s of %s released, but not freed "
				 "for an unknown reason", blocks, plural(blocks), EXACT_SIZE(bytes),
				 PROCESS(p));
}

const struct subject subject_deferred = {
	.build = build, .finding = print_finding, .wrong_if = PART(deferred.group_count),
	.json = add_json, .judge = add_reasons,
};
