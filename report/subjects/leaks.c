/* SPDX-License-Identifier: MIT
 *
 * Leaks, largest first, each with its stack, the call that is missing, and the retains and
 * releases of a leaked handle. JSON has the same members for leaked, suppressed and cached memory.
 */
#include "report/subjects/common.h"

#include <ctype.h>

#include "report/subjects/figures.h"
#include "report/subjects/findings.h"
#include "report/symbols/rule.h"
#include "report/util/path.h"

#define LEAKS_MAX 1000 /* JSON has all leaks */
#define EVENTS_MAX 12 /* JSON has all events */

/* ---- the calls that retained and released a handle ---- */

static const char *const op_words[] = {
	[REPORT_CREATE] = "created", [REPORT_RETAIN] = "retained", [REPORT_RELEASE] = "released",
};

static void print_partner(FILE *out, const struct report_history *history,
			  const struct report_reference *event)
{
	const struct report_reference *partner;

	if (event->partner < 0)
		return;
	partner = &history->events[event->partner];
	if (partner->op == REPORT_CREATE)
		fputs(": matches the creation", out);
	else
		fprintf(out, ": matches retain %d", event->partner);
	if (event->guess)
		fputs(" (a best guess)", out);
}

static void print_event(FILE *out, const struct report_history *history, size_t number, bool whole)
{
	const struct report_reference *event = &history->events[number];
	const char *alone = !history->complete ? "no match known" : "UNMATCHED";

	fprintf(out, "    %zu %s", number, op_words[event->op]);
	if (event->op == REPORT_CREATE) { /* the caller printed its stack just before */
		fprintf(out, " as above%s%s\n", event->partner < 0 ? ": " : "",
			event->partner < 0 ? alone : "");
		return;
	}
	eprintf(out, " by %s", event->api ? event->api : "an unknown call");
	if (event->partner < 0) {
		fprintf(out, ": %s, at:\n", alone);
		describe_stack(out, event->stack, whole);
		return;
	}
	fputs(" at ", out);
	describe_place_and_caller(out, event->stack, whole);
	if (event->op == REPORT_RELEASE)
		print_partner(out, history, event);
	fputc('\n', out);
}

/* Prints all unmatched events, but only the latest matched ones if there are many. */
static void print_events(FILE *out, const struct report_history *history, bool whole)
{
	size_t from = history->count > EVENTS_MAX ? history->count - EVENTS_MAX : 0;
	size_t hidden = 0;

	for (size_t i = 0; i < history->count; i++) {
		int partner = history->events[i].partner;

		if (partner >= 0 && i > 0 && i < from && (size_t)partner < from)
			hidden++;
		else
			print_event(out, history, i, whole);
	}
	if (hidden)
		fprintf(out, "    (%zu matched events are not shown; --format json lists them)\n",
			hidden);
}

void describe_history(FILE *out, const struct report_history *history, uint64_t blocks, bool whole)
{
	fputs("  References", out);
	if (blocks > 1)
		fprintf(out, " of the block with the most references among %s blocks",
			NUMBER(blocks));
	fprintf(out, ": %s left\n", NUMBER(history->references));
	print_events(out, history, whole);
	if (history->left_out)
		fprintf(out, "    %s earlier retain/release pair%s not shown\n",
			NUMBER(history->left_out), plural(history->left_out));
	if (!history->complete)
		fputs("    (this list is incomplete: some calls were not recorded)\n", out);
}

bool describe_lone_retain(FILE *out, const struct report_history *history, bool whole)
{
	for (size_t i = 0; history && history->complete && i < history->count; i++) {
		const struct report_reference *event = &history->events[i];

		if (event->op != REPORT_RETAIN || event->partner >= 0)
			continue;
		fputs("; no release matches the retain at ", out);
		describe_place_and_caller(out, event->stack, whole);
		return true;
	}
	return false;
}

static json_t *reference_json(const void *item)
{
	static const char *const words[] = {
		[REPORT_CREATE] = "create",
		[REPORT_RETAIN] = "retain",
		[REPORT_RELEASE] = "release",
	};
	const struct report_reference *event = item;

	return JSON_OBJECT(
		{ "op", json_string(words[event->op]) },
		{ "api", json_text(event->api) },
		{ "time_ns", json_number(event->time_ns) },
		{ "stack", json_stack(event->stack) },
		{ "partner", event->partner < 0 ? json_null() : json_integer(event->partner) },
		{ "guess", JSON_IF(event->guess, json_true()) });
}

json_t *json_history(const struct report_history *history)
{
	json_t *unmatched = json_array();

	for (size_t i = 0; i < history->count; i++)
		if (history->events[i].partner < 0)
			json_array_append_new(unmatched, json_integer((json_int_t)i));
	return JSON_OBJECT(
		{ "references", json_number(history->references) },
		{ "events", JSON_LIST(history->events, history->count, reference_json) },
		{ "left_out", json_number(history->left_out) },
		{ "unpartnered", unmatched },
		{ "complete", json_boolean(history->complete) });
}

/* ---- the missing call ---- */

/* A kind and the beginning of the call that made the block, which may be empty; what that call and
 * its opposite do; the missing call, and that of programs that use the CUDA runtime. No call: a
 * plain free. The first row that matches is used. */
static const struct missing_call {
	const char *kind, *api, *made, *verb, *call, *runtime;
} missing_calls[] = {
#define ROW(kind, api, made, verb, call, runtime) { #kind, #api, #made, #verb, #call, #runtime },
	ROW(pinned, , allocated, freed, cuMemFreeHost, cudaFreeHost)
	ROW(registered, , registered, unregistered, cuMemHostUnregister, cudaHostUnregister)
	ROW(stream-ordered, , allocated, freed, cuMemFreeAsync, cudaFreeAsync)
	ROW(mempool, cuMemPoolImport, imported, destroyed, cuMemPoolDestroy, cudaMemPoolDestroy)
	ROW(mempool, , created, destroyed, cuMemPoolDestroy, cudaMemPoolDestroy)
	ROW(array, cuMipmapped, allocated, freed, cuMipmappedArrayDestroy, cudaFreeMipmappedArray)
	ROW(array, , allocated, freed, cuArrayDestroy, cudaFreeArray)
	ROW(vmm-handle, cuMemImport, imported, released, cuMemRelease, )
	ROW(vmm-handle, , allocated, released, cuMemRelease, )
	ROW(vmm-reservation, , reserved, freed, cuMemAddressFree, )
	ROW(vmm-mapping, cuMulticast, bound, unbound, cuMulticastUnbind, )
	ROW(vmm-mapping, , mapped, unmapped, cuMemUnmap, )
	ROW(ipc, cuMemPoolImport, imported, freed, cuMemFreeAsync, cudaFreeAsync)
	ROW(ipc, , opened, closed, cuIpcCloseMemHandle, cudaIpcCloseMemHandle)
	ROW(external, cuExternalMemoryGetMappedB, mapped, freed, cuMemFree, cudaFree)
	ROW(external, cuExternalMemoryGetMappedM, mapped, freed, cuMipmappedArrayDestroy,
	    cudaFreeMipmappedArray)
	ROW(external, , imported, destroyed, cuDestroyExternalMemory, cudaDestroyExternalMemory)
	ROW(cl-sub-buffer, , created, released, clReleaseMemObject, )
	ROW(cl-image, , created, released, clReleaseMemObject, )
	ROW(cl-pipe, , created, released, clReleaseMemObject, )
	ROW(cl-svm, clSVMAllocARM, allocated, freed, clSVMFreeARM, )
	ROW(cl-svm, , allocated, freed, clSVMFree, )
	ROW(cl-usm, , allocated, freed, clMemFreeINTEL, )
	ROW(, , allocated, freed, , )
#undef ROW
};

/* of an object that the program released while it was mapped */
static const struct missing_call mapped = {
	"", "", "mapped", "unmapped", "clEnqueueUnmapMemObject", "",
};

static const struct missing_call *missing_of(const struct report_leak *leak)
{
	const struct missing_call *row = missing_calls;

	while (*row->kind && (strcmp(row->kind, leak->site->kind) != 0 ||
			      strncmp(row->api, leak->site->api, strlen(row->api)) != 0))
		row++;
	return leak->mapping ? &mapped : row;
}

/* Returns the name of the missing call. It is the runtime's if one of its functions, "cudaMalloc",
 * made the block. Returns "" if a plain free is missing, and if the program tried to free it. */
static const char *call_of(const struct report_leak *leak)
{
	const struct report_stack *stack = leak->site->stack;
	const struct missing_call *missing = missing_of(leak);

	if (leak->refused || may_be_freed_late(leak->site))
		return "";
	for (size_t i = 0; i < stack->count && *missing->runtime; i++) {
		const char *function = stack->frames[i].function;

		if (function && strncmp(function, "cuda", 4) == 0 &&
		    isupper((unsigned char)function[4]))
			return missing->runtime;
	}
	return missing->call;
}

const char *describe_made(const struct report_leak *leak)
{
	return missing_of(leak)->made;
}

const struct report_stack *describe_made_at(const struct report_leak *leak)
{
	return leak->mapping ? leak->mapping->mapped.stack : leak->site->stack;
}

void describe_missing_call(FILE *out, const struct report_leak *leak, bool running)
{
	const struct missing_call *missing = missing_of(leak);
	bool is_import = strcmp(missing->made, "imported") == 0;

	fprintf(out, "%s%s%s%s%s", leak->mapping ? "released, but " : "",
		leak->unmapped ? "unmapped, but " : "", is_import ? "import " : "",
		running ? "not " : "never ", missing->verb);
	if (running)
		fputs(" so far", out);
	else if (*call_of(leak))
		fprintf(out, " (%s missing)", call_of(leak));
}

bool is_same_missing_call(const struct report_leak *a, const struct report_leak *b)
{
	return missing_of(a) == missing_of(b) && call_of(a) == call_of(b) &&
	       a->unmapped == b->unmapped;
}

void describe_parent(FILE *out, const char *before, const struct report_leak *leak,
		     uint64_t keeps, bool whole)
{
	if (!leak->parent)
		return;
	fprintf(out, leak->blocks == 1 ? "%sit keeps its released parent of %s, allocated at "
				       : "%sthey keep %s of released parents, allocated at ",
		before, SIZE(keeps));
	describe_place(out, leak->parent->stack, whole);
}

/* ---- leaks ---- */

static bool begins(const char *text, const char *prefix)
{
	return text && strncmp(text, prefix, strlen(prefix)) == 0;
}

bool may_be_freed_late(const struct report_site *site)
{
	bool is_static = false, is_object = site->in_static_object;

	EACH_ITEM(site->stack->frames, site->stack->count, frame) {
		is_static |= begins(frame->function, "cuda") && frame->module &&
			     !begins(path_last(frame->module), "libcudart");
		is_object |= begins(frame->function, "_GLOBAL__sub_I_") ||
			     begins(frame->function, "__static_initialization_and_destruction");
	}
	return is_static && is_object;
}

void describe_leak_place(FILE *out, const struct finding *finding, bool whole)
{
	const struct report_leak *leak = finding->leak;
	const struct report_stack *stack = describe_made_at(leak);
	bool is_most = leak->keeps_bytes >= finding->keeps / 2;

	describe_place(out, stack, whole);
	if (leak->blocks > 1 && leak->thread_count == finding->blocks)
		fputs(", one per thread", out);
	if (may_be_freed_late(leak->site))
		fputs("; perhaps freed by a destructor after the driver had shut down", out);
	else if (!leak->refused && !leak->keepers &&
		 !describe_lone_retain(out, leak->history, whole) && is_most)
		describe_caller(out, finding->parts ? ", mostly called from " : ", called from ",
				stack, whole);
	describe_refused_free(out, "; a", leak->refused, "", whole);
	describe_parent(out, "; ", leak, finding->keeps, whole);
	describe_first_keeper(out, leak->keepers);
}

/* Prints what may have become of blocks that only seem to leak. */
static void print_guesses(FILE *out, const struct report_site *site)
{
	if (may_be_freed_late(site))
		fputs("  Perhaps freed by a destructor after the driver had shut down: a CUDA "
		      "runtime that is\n  linked statically does not pass such a free on to the "
		      "driver.\n", out);
	if (site->stack->pending)
		eprintf(out, "  Perhaps held by the %s: gpuleak run --bypass-pools lets nothing "
			"pend\n", site->stack->pending->name);
}

static void print_leak(FILE *out, const struct finding *finding, bool whole)
{
	const struct report_process *process = finding->process;
	const struct report_leak *leak = finding->leak;

	fprintf(out, "%s%s in %s",
		process->attached		  ? "\nKept: "
		: process->ended == REPORT_RUNNING ? "\nNot freed so far: "
						   : "\nLeak of ",
		EXACT_SIZE(finding->bytes), COUNT(finding->blocks, "block"));
	if (finding->keeps > finding->bytes)
		fprintf(out, " that keep%s %s", finding->blocks == 1 ? "s" : "",
			EXACT_SIZE(finding->keeps));
	describe_source(out, leak->site->kind, leak->site->api, leak->site->device);
	describe_range(out, leak->site);
	if (*call_of(leak)) {
		fputs(", ", out);
		describe_missing_call(out, leak, process->ended == REPORT_RUNNING);
	}
	if (leak->mapping) {
		fputc('\n', out);
		describe_mapping(out, leak, whole);
		fputs("  Allocated at:\n", out);
	} else {
		fprintf(out, ", %s at:\n", describe_made(leak));
	}
	describe_stack(out, leak->site->stack, whole);
	if (leak->parent) {
		fputs("  Keeps a released parent that was allocated at:\n", out);
		describe_stack(out, leak->parent->stack, whole);
	}
	describe_names(out, leak);
	finding_parts(out, finding, whole);
	describe_refused_free(out, "  A", leak->refused, "\n", whole);
	print_guesses(out, leak->site);
	if (leak->history)
		describe_history(out, leak->history, leak->blocks, whole);
	if (leak->keepers)
		describe_keepers(out, leak->keepers);
	if (process->ipc)
		describe_owner_of_leak(out, process, leak, whole);
}

/* Prints the findings of CLASS, except those that the section about ranks prints. */
static void print_list(FILE *out, const struct subject_view *view, enum finding_class class)
{
	const char *word = class == FINDING_KEPT ? "place" : "leak";
	const struct finding *leak = NULL;
	uint64_t bytes = 0, blocks = 0;
	size_t shown = 0, shared = 0;

	while ((leak = findings_next(view->findings, view->process, class, leak))) {
		if (shown++ >= LEAKS_MAX) {
			bytes = add_bounded(bytes, leak->bytes);
			blocks = add_bounded(blocks, leak->blocks);
		} else if (finding_is_shared(leak, view->ranks)) {
			shared++;
		} else {
			print_leak(out, leak, view->verbose);
		}
	}
	if (shared)
		fprintf(out, "\nAnd %s that other ranks have, too: listed above\n",
			COUNT(shared, word));
	if (shown > LEAKS_MAX)
		fprintf(out, "\nAnd %s smaller %s%s: %s in %s; --format json lists all\n",
			NUMBER(shown - LEAKS_MAX), word, plural(shown - LEAKS_MAX),
			EXACT_SIZE(bytes), COUNT(blocks, "block"));
}

static void print_leaks(FILE *out, const struct subject_view *view)
{
	print_list(out, view, FINDING_LEAK);
}

static void print_kept(FILE *out, const struct subject_view *view)
{
	print_list(out, view, FINDING_KEPT);
}

/* Returns EVENT as json_event() does, with the frame to show if VIEW has words. */
static json_t *mapped_json(const struct report_event *event, const struct subject_view *view)
{
	json_t *ret = json_event(event);

	if (view->has_words && json_is_object(ret))
		json_set(ret, "site", json_site(event->stack));
	return ret;
}

json_t *json_leak(const void *item, const struct subject_view *view)
{
	const struct report_leak *leak = item;
	const struct report_mapping *mapping = leak->mapping;

	return JSON_OBJECT(
		{ "api", json_text(leak->site->api) },
		{ "kind", json_text(leak->site->kind) },
		{ "fingerprint", json_fingerprint(leak) },
		{ "fingerprint2", JSON_IF(!view->has_words, json_fingerprint2(leak)) },
		{ "partial", JSON_IF(leak->site->stack->partial, json_true()) },
		{ "device", json_integer(leak->site->device) },
		{ "bytes", json_number(leak->bytes) },
		{ "blocks", json_number(leak->blocks) },
		{ "keeps_bytes", json_number(leak->keeps_bytes) },
		{ "suballocated_bytes", JSON_IF(leak->used_bytes,
						json_number(leak->used_bytes)) },
		{ "stack", json_stack(leak->site->stack) },
		{ "range", JSON_IF(leak->site->range, json_text(leak->site->range)) },
		{ "names", JSON_LIST_IF_ANY(leak->names, leak->name_count, json_name) },
		{ "history", JSON_IF(leak->history, json_history(leak->history)) },
		{ "mapped", JSON_IF(mapping, mapped_json(&mapping->mapped, view)) },
		{ "released", JSON_IF(mapping, json_event(&mapping->released)) },
		{ "pattern", JSON_IF(leak->pattern, json_text(leak->pattern)) },
		{ "cache", JSON_IF(leak->cache, json_text(leak->cache)) },
		{ "ignored", JSON_IF(leak->ignored, json_true()) },
		{ "refused", JSON_IF(leak->refused, json_number((uint64_t)(
			leak->refused - view->process->refused_frees))) },
		{ "keepers", JSON_IF(leak->keepers, json_keepers(leak->keepers)) },
		{ "keepers_seconds", JSON_IF(leak->keepers, json_keepers_time(leak->keepers)) },
		{ "ledger_site", JSON_IF(leak->addresses, json_number(leak->addresses->site)) },
		{ "addresses", JSON_IF(leak->addresses, json_addresses(leak->addresses)) },
		{ "site", JSON_IF(view->has_words, json_site(leak->site->stack)) });
}

static void print_metrics(FILE *out, const struct report *report, const struct findings *findings)
{
	metric_sites(out, report, "gpuleak_site_leaked", "Leaked", "blocks",
		     &findings->all[findings_first(findings, FINDING_LEAK)],
		     findings->counts[FINDING_LEAK]);
}

static void mark_static_objects(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_observation *record;
	const struct ref_node *site;

	for (size_t i = 0; i < LEDGER_OBSERVATIONS_MAX &&
			   (record = ledger_next_observation(b->view, &walk)); i++) {
		const char *kind = build_text(b, record->kind);
		const char *ref = build_text(b, record->subject);

		if (kind && ref && strcmp(kind, LEDGER_OBSERVED_STATIC_OBJECT) == 0 &&
		    (site = table_find_ref(&b->site_refs, (uint32_t)strtoul(ref, NULL, 10))))
			((struct build_site *)site->value)->site.in_static_object = true;
	}
}

static void build(struct builder *b)
{
	mark_wrappers(b->process);
	mark_shared_functions(b);
	mark_static_objects(b);
}

const struct subject subject_leaks = {
	.build = build, .only_if = PART(leak_count), .has_keys_always = true,
	.finding = print_leaks, .wrong_if = PART(leak_count), .metrics = print_metrics,
	LIST("leaks", leaks, leak_count, .of_view = json_leak),
};

/* What a process kept to which gpuleak attached: it may free that later. */
const struct subject subject_kept = {
	.only_if = PART(kept_count), .finding = print_kept, .wrong_if = PART(kept_count),
	LIST("kept", kept, kept_count, .of_view = json_leak),
};
