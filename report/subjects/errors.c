/* SPDX-License-Identifier: MIT
 *
 * Invalid frees, and the accesses that the guard found: the call, the block, the earlier frees.
 * Must state only what the ledger proves. An address may have been given to another block before a
 * wrong free: then it prints this as a possible cause.
 */
#include "report/subjects/common.h"

#include <inttypes.h>

#include "report/describe/kinds.h"
#include "report/subjects/figures.h"
#include "report/symbols/symbolize.h"
#include "report/util/text_buffer.h"

#define ERRORS_MAX 1000 /* different errors; JSON has all */

static struct report_event read_event(struct builder *b, const struct ledger_event *event,
				      uint64_t bytes)
{
	return build_event(b, event->api, event->stack, bytes);
}

static const struct {
	const char *type, *words;
	bool is_access;
} error_types[] = {
	{ "double-free", "double free", false },
	{ "invalid-free", "invalid free", false },
	{ "interior-free", "interior free", false },
	{ "mismatched-free", "mismatched free", false },
	{ "free-after-context", "free after its context", false },
	{ "freed-while-mapped", "reservation freed while it is mapped", false },
	{ "copy-out-of-bounds", "copy out of bounds", true },
	{ "copy-after-free", "copy after the free", true },
	{ "write-out-of-bounds", "write out of bounds", true },
	{ "write-after-free", "write after the free", true },
	{ "access-fault", "access to unmapped memory", true },
};
#define TYPES (sizeof(error_types) / sizeof(error_types[0]))

static bool is_access(const char *type)
{
	for (size_t i = 0; i < TYPES; i++)
		if (strcmp(type, error_types[i].type) == 0)
			return error_types[i].is_access;
	return false;
}

static bool is_fault(const char *type)
{
	return type && strcmp(type, "access-fault") == 0;
}

/* Returns the name of a kernel, or NULL. */
static const char *kernel_of(struct builder *b, uint32_t ref)
{
	const char *name = build_text(b, ref);

	return name && b->symbolizer ? symbolizer_demangled(b->symbolizer, name) : name;
}

/* Returns what the ledger has at REF, or NULL. */
static const struct report_overwrite *read_overwrite(struct builder *b, uint64_t ref)
{
	const struct ledger_overwrite *record = ledger_overwrite(b->view, (uint32_t)ref);
	struct report_overwrite *ret;

	if (!record)
		return NULL;
	ret = arena_alloc(b->arena, sizeof(*ret));
	*ret = (struct report_overwrite){ .record = *record };
	if (ret->record.bytes > sizeof(record->found))
		ret->record.bytes = sizeof(record->found);
	for (size_t i = 0; i < LEDGER_SUSPECTS_MAX && record->suspect[i].count; i++) {
		ret->call[i] = build_event(b, record->suspect[i].api, record->suspect[i].stack, 0);
		ret->kernel[i] = kernel_of(b, record->suspect[i].kernel);
		ret->suspects = i + 1;
	}
	return ret;
}

static struct report_error read_error(struct builder *b, const struct ledger_error *record)
{
	const char *type = record->type ? build_name(b, record->type) : "access-fault";
	static const struct ledger_event none;
	const bool fault = is_fault(type), wrote = strncmp(type, "write-", strlen("write-")) == 0;

	return (struct report_error){
		.type = type,
		.api = build_name(b, record->api),
		.kind = build_text(b, record->kind),
		.device = record->device,
		.result = record->result == LEDGER_NO_ANSWER ? REPORT_NO_ANSWER : record->result,
		.address = record->address,
		.block_address = record->block_address,
		.block_bytes = record->block_bytes,
		.other_range = (record->flags & LEDGER_ERROR_OTHER_RANGE) != 0,
		.asked_bytes = record->asked_bytes,
		.is_access = is_access(type),
		.is_read = (record->flags & LEDGER_ERROR_READ) != 0,
		.is_before = (record->flags & LEDGER_ERROR_BEFORE) != 0,
		.is_proven = (record->flags & LEDGER_ERROR_PROVEN) != 0,
		.is_likely = (record->flags & LEDGER_ERROR_LIKELY) != 0,
		.count = record->count ? record->count : 1,
		.stack = build_stack(b, record->stack),
		.allocated = read_event(b, &record->allocated, record->block_bytes),
		.freed = read_event(b, &record->freed, 0),
		.kernel = fault ? kernel_of(b, record->earlier_allocated.api) : NULL,
		.overwrite = wrote ? read_overwrite(b, record->earlier_bytes) : NULL,
		.earlier_allocated = read_event(b, fault ? &none : &record->earlier_allocated,
						wrote ? 0 : record->earlier_bytes),
		.earlier_freed = read_event(b, &record->earlier_freed, 0),
	};
}

static void build(struct builder *b)
{
	struct report_process *process = b->process;
	size_t fault = SIZE_MAX; /* the error whose suspects follow */

	LEDGER_EACH(error, record, b->view) {
		struct report_error *of = fault < process->error_count ? &process->errors[fault]
									: NULL;

		if (record->type) { /* 0: a suspect, or the writer withdrew the record */
			*ARENA_ADD(b->arena, process->errors, process->error_count) =
				read_error(b, record);
			if (is_fault(process->errors[process->error_count - 1].type))
				fault = process->error_count - 1;
		} else if (of && record->flags & LEDGER_ERROR_SUSPECT) {
			*ARENA_ADD(b->arena, of->suspects, of->suspect_count) =
				read_error(b, record);
		}
	}
	if (process->summary.errors < process->error_count)
		process->summary.errors = process->error_count;
}

const char *error_words(const char *type)
{
	for (size_t i = 0; i < TYPES; i++)
		if (strcmp(type, error_types[i].type) == 0)
			return error_types[i].words;
	return type;
}

#define PREFIX_CUDART "cuda"
#define PREFIX_CUDA "cu"
#define PREFIX_OPENCL "cl"

const char *result_name(const char *api, int result)
{
	static const struct {
		const char *prefix, *name;
		int number;
	} rows[] = {
#define RESULT(api, name, number) { PREFIX_##api, #name, number },
#include "report/describe/result_names.def"
#undef RESULT
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].number == result &&
		    strncmp(api, rows[i].prefix, strlen(rows[i].prefix)) == 0)
			return rows[i].name;
	return NULL;
}

/* Returns how many bytes of the reservation that ERROR freed are mapped; 0 for other errors. */
static uint64_t mapped_bytes(const struct report_error *error)
{
	return strcmp(error->type, "freed-while-mapped") == 0 ? error->asked_bytes : 0;
}

void describe_error_words(FILE *out, const struct report_error *error, bool whole)
{
	if (!mapped_bytes(error)) {
		print_escaped(out, error_words(error->type));
		return;
	}
	fprintf(out, "reservation freed while %s of it is mapped at ", SIZE(mapped_bytes(error)));
	describe_place(out, error->allocated.stack, whole);
}

void describe_error_briefly(FILE *out, const struct report_error *error, bool whole)
{
	describe_error_words(out, error, whole);
	if (mapped_bytes(error)) {
		eprintf(out, ", by %s", error->api);
	} else {
		fprintf(out, " of 0x%" PRIx64, error->address);
	}
	fputs(" at ", out);
	describe_place(out, error->stack, whole);
	/* The second free may be correct, so name the first free: it may be the wrong one. */
	if (error->freed.api && error->freed.stack) {
		fputs(", already freed by ", out);
		describe_place(out, error->freed.stack, whole);
	}
}

/* Prints "4,096 bytes (4.0 KiB) of device memory". */
static void print_block_size(FILE *out, const struct report_error *error)
{
	fputs(EXACT_SIZE(error->block_bytes), out);
	if (error->kind)
		eprintf(out, " of %s", kind_words(error->kind));
}

static void print_call(FILE *out, const struct report_error *error, const char *what)
{
	eprintf(out, "%s %s", error->api, what);
}

/* Returns true if describe_error_cause() describes the block. */
static bool tells_of_block(const struct report_error *error)
{
	return strcmp(error->type, "interior-free") == 0 && error->block_bytes;
}

static bool is_object(const struct report_error *error)
{
	return error->kind && strncmp(error->kind, "object/", strlen("object/")) == 0;
}

static void print_result(FILE *out, const struct report_error *error)
{
	const char *name = result_name(error->api, error->result);

	if (name)
		fprintf(out, " (the driver returned %s (%d))", name, error->result);
	else
		fprintf(out, " (the driver returned %d)", error->result);
}

/* Returns the bytes of ERROR's access that lie outside its block. */
static uint64_t bytes_outside(const struct report_error *error)
{
	uint64_t end = add_bounded(error->address, error->asked_bytes);
	uint64_t block_end = add_bounded(error->block_address, error->block_bytes);

	return less(error->block_address, error->address) +
	       less(end, error->address > block_end ? error->address : block_end);
}

/* Prints "48 bytes behind its end", or "from its byte 4 on" inside the block. */
static void print_distance(FILE *out, const struct report_error *error)
{
	uint64_t block_end = add_bounded(error->block_address, error->block_bytes);

	if (error->is_before || error->address < error->block_address)
		fprintf(out, "%s before its begin",
			COUNT(less(error->block_address, error->address), "byte"));
	else if (error->address < block_end)
		fprintf(out, "from its byte %s on", NUMBER(error->address - error->block_address));
	else if (error->address > block_end)
		fprintf(out, "%s behind its end", COUNT(error->address - block_end, "byte"));
	else
		fputs("from its end on", out);
}

static void print_hex(FILE *out, const uint8_t *bytes, size_t count, const char *between)
{
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%02x", i ? between : "", bytes[i]);
}

static void print_bytes(FILE *out, const struct ledger_overwrite *overwrite)
{
	fputs(": wanted ", out);
	print_hex(out, overwrite->wanted, overwrite->bytes, " ");
	fputs(", found ", out);
	print_hex(out, overwrite->found, overwrite->bytes, " ");
}

/* Prints what the access of ERROR, which the guard found, did. */
static void print_access(FILE *out, const struct report_error *error)
{
	const bool copied = strncmp(error->type, "copy", strlen("copy")) == 0;
	/* The free of a framework's suballocation has no record. */
	const bool freed = strstr(error->type, "-after-free") != NULL;

	if (!copied && strncmp(error->type, "write", strlen("write")) == 0) {
		print_call(out, error, "found ");
		fprintf(out, "%s overwritten", COUNT(error->asked_bytes, "byte"));
	} else {
		print_call(out, error, copied ? error->is_read ? "read " : "wrote "
					      : "may have accessed memory");
		if (copied)
			fputs(COUNT(error->asked_bytes, "byte"), out);
	}
	if (freed) {
		fputs(" in a block that had been freed", out);
		if (!copied && error->block_bytes) {
			fputs(", ", out);
			print_distance(out, error);
		}
	} else if (copied && error->block_bytes) {
		fprintf(out, ", %s of them outside the block of %s bytes at 0x%" PRIx64,
			NUMBER(bytes_outside(error)), NUMBER(error->block_bytes),
			error->block_address);
	} else if (error->block_bytes) {
		fputs(" of a block, ", out);
		print_distance(out, error);
	}
	if (error->overwrite)
		print_bytes(out, &error->overwrite->record);
}

/* Prints which launch of an illegal address is suspect, and why. */
static void print_fault(FILE *out, const struct report_error *error)
{
	const bool inside = error->address - error->block_address < error->block_bytes;

	if (!error->block_bytes) {
		print_call(out, error, "returned the error of an earlier access. No launch since "
				       "the last wait was given the address of a guarded block");
		return;
	}
	print_call(out, error, "launched ");
	eprintf(out, "%s", error->kernel ? error->kernel : "a kernel");
	fputs(error->is_proven ? ", which accessed unmapped memory. It got an address "
			       : " with an address ", out);
	if (error->freed.api) {
		fputs("in a block that had been freed", out);
	} else if (inside) {
		fprintf(out, "in a block, %s before its end",
			COUNT(error->block_address + error->block_bytes - error->address, "byte"));
	} else {
		fputs("beside a block, ", out);
		print_distance(out, error);
	}
}

/* Prints the first sentence: what this call did. */
void describe_error_cause(FILE *out, const struct report_error *error)
{
	if (is_fault(error->type)) {
		print_fault(out, error);
		return;
	}
	if (error->is_access) {
		print_access(out, error);
		if (error->result == REPORT_NO_ANSWER)
			return;
	} else if (strcmp(error->type, "double-free") == 0) {
		print_call(out, error,
			   is_object(error)
				   ? "was given an object that had been released for the last time"
				   : "was given a block that had been freed already");
	} else if (strcmp(error->type, "invalid-free") == 0) {
		print_call(out, error, "was given an address that no allocation returned");
	} else if (tells_of_block(error)) {
		print_call(out, error, "was given an address ");
		fprintf(out, "%s bytes into a block of ",
			NUMBER(error->address - error->block_address));
		print_block_size(out, error);
		fprintf(out, " at 0x%" PRIx64, error->block_address);
	} else if (strcmp(error->type, "mismatched-free") == 0 && error->other_range) {
		print_call(out, error, "was given a range of ");
		fprintf(out, "%s bytes, which is not the range of this block",
			NUMBER(error->asked_bytes));
		if (error->block_bytes)
			fprintf(out, " of %s bytes", NUMBER(error->block_bytes));
	} else if (strcmp(error->type, "mismatched-free") == 0) {
		print_call(out, error, "is not the call that frees this block");
	} else if (mapped_bytes(error)) {
		print_call(out, error, "needs cuMemUnmap of all mappings in the reservation first");
	} else if (strcmp(error->type, "free-after-context") == 0) {
		print_call(out, error,
			   "was given a block that its context's destruction had freed");
	} else {
		print_call(out, error, "was an invalid call here");
	}
	if (error->result == REPORT_NO_ANSWER)
		fputs(" (the driver returned no result)", out);
	else if (error->result)
		print_result(out, error);
	else
		fputs(" (the driver returned success)", out);
}

void describe_event(FILE *out, const char *before, const struct report_event *event,
		    const char *after, bool whole)
{
	if (!event->api && event->stack->count == 0)
		return;
	fprintf(out, "  %s ", before);
	if (event->api)
		print_escaped(out, event->api);
	else
		fputs("an unknown call", out);
	fprintf(out, "%s:\n", after);
	describe_stack(out, event->stack, whole);
}

/* Prints the previous block with the same address. Either this block was freed twice and the second
 * free hit the new block, or the frees are as recorded. The ledger does not prove which. */
static void print_earlier(FILE *out, const struct report_error *error, bool whole)
{
	describe_event(out, "The block was freed by", &error->freed, " at (possible cause)", whole);
	fputs("  An earlier block", out);
	if (error->earlier_allocated.bytes)
		fprintf(out, " of %s", EXACT_SIZE(error->earlier_allocated.bytes));
	fputs(" had the same address.\n  If the possible cause meant to free the earlier block, "
	      "it freed that block twice and this\n  block by mistake. Otherwise the call above is "
	      "the double free.\n", out);
	describe_event(out, "The earlier block was allocated by", &error->earlier_allocated, " at",
		    whole);
	describe_event(out, "The earlier block was freed by", &error->earlier_freed, " at", whole);
}

static void print_suspect(FILE *out, const struct report_error *suspect, bool whole)
{
	fputs("  Or ", out);
	print_fault(out, suspect);
	fputs(", at ", out);
	describe_place(out, suspect->stack, whole);
	fputs("; the block was allocated at ", out);
	describe_place(out, suspect->allocated.stack, whole);
	fputc('\n', out);
}

/* Prints what else may have made the access of ERROR. */
static void print_suspects(FILE *out, const struct report_error *error, bool whole)
{
	for (size_t i = 0; i < error->suspect_count; i++)
		print_suspect(out, &error->suspects[i], whole);
}

/* Prints describe_error_words() with a capital letter. */
static void print_heading(FILE *out, const struct report_error *error, bool whole)
{
	FREE_AT_END char *words = PRINTED(to, describe_error_words(to, error, whole));

	if (words[0] >= 'a' && words[0] <= 'z')
		words[0] = (char)(words[0] - 'a' + 'A');
	fputs(words, out);
}

/* Prints "fill(int*) by cuLaunchKernel, 3 times, given an address of the block". */
static void print_writer(FILE *out, const struct report_overwrite *overwrite, size_t i)
{
	const struct ledger_suspect *suspect = &overwrite->record.suspect[i];

	if (overwrite->kernel[i])
		eprintf(out, "%s by ", overwrite->kernel[i]);
	eprintf(out, "%s", overwrite->call[i].api ? overwrite->call[i].api : "an unknown call");
	if (suspect->count > 1)
		fprintf(out, ", %s times", NUMBER(suspect->count));
	fputs(suspect->given ? ", given an address of the block, at " : ", at ", out);
}

static void print_writers(FILE *out, const struct report_overwrite *overwrite, bool whole)
{
	uint64_t others = overwrite->record.calls;

	if (!others) {
		fputs("  No launch or copy was recorded since the last check without an error.\n",
		      out);
		return;
	}
	fprintf(out, "  Since the last check without an error, %s may have written it:\n",
		COUNT(others, "call"));
	for (size_t i = 0; i < overwrite->suspects; i++) {
		fputs("    ", out);
		print_writer(out, overwrite, i);
		describe_place_and_caller(out, overwrite->call[i].stack, whole);
		fputc('\n', out);
		others = less(others, overwrite->record.suspect[i].count);
	}
	if (others)
		fprintf(out, "    and %s more\n", NUMBER(others));
}

void describe_error(FILE *out, const struct error_group *group, bool whole)
{
	const struct report_error *error = group->error;

	print_heading(out, error, whole);
	if (!mapped_bytes(error) && error->address)
		fprintf(out, " of 0x%" PRIx64, error->address);
	if (group->count > 1)
		fprintf(out, " (%s times with the same stacks)", NUMBER(group->count));
	if (error->is_likely)
		fputs(" (likely)", out);
	fputs(": ", out);
	describe_error_cause(out, error);
	fputs(", at:\n", out);
	describe_stack(out, error->stack, whole);
	if (is_object(error)) {
		eprintf(out, "  The object was an %s.\n", kind_words(error->kind));
	} else if (error->block_bytes && !tells_of_block(error) && !mapped_bytes(error)) {
		fputs("  The block had ", out);
		print_block_size(out, error);
		fputs(".\n", out);
	}
	describe_event(out,
		       is_object(error)	  ? "The object was created by"
		    : mapped_bytes(error) ? "It was mapped by"
					  : "The block was allocated by",
		    &error->allocated, " at", whole);
	if (error->earlier_freed.api || error->earlier_freed.stack->count)
		print_earlier(out, error, whole);
	else
		describe_event(out,
			    is_object(error)   ? "The object was last released by"
			    : error->is_access ? "The block was freed by"
					       : "The block was first freed by",
			    &error->freed, " at", whole);
	print_suspects(out, error, whole);
	if (error->overwrite)
		print_writers(out, error->overwrite, whole);
}

/* Strings and stacks are interned, so pointers can be compared. */
#define ERROR_KEY(error)                                                                          \
	{ (uintptr_t)(error)->type, (uintptr_t)(error)->api, (uintptr_t)(error)->result,          \
	  (error)->other_range, (error)->asked_bytes, (uintptr_t)(error)->stack,                  \
	  (uintptr_t)(error)->allocated.stack, (uintptr_t)(error)->freed.stack,                   \
	  (uintptr_t)(error)->earlier_allocated.stack, (uintptr_t)(error)->earlier_freed.stack }

struct keyed_group {
	uintptr_t key[10];
	struct error_group public;
};

struct error_group *error_groups(const struct report_process *process,
				 struct report_arena *arena)
{
	struct error_group *first = NULL, **end = &first;
	struct table table = { 0 };

	EACH_ITEM(process->errors, process->error_count, error) {
		struct keyed_group *group =
			table_intern(arena, &table, (uintptr_t[])ERROR_KEY(error),
				     sizeof(group->key), sizeof(*group));

		group->public.count += error->is_access ? error->count : 1;
		if (!group->public.error) {
			group->public.error = error;
			*end = &group->public;
			end = &group->public.next;
		}
	}
	return first;
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	AT_END(arena_finish) struct report_arena arena = { 0 };
	struct error_group *groups = error_groups(view->process, &arena);
	size_t shown = 0;

	for (; groups && shown < ERRORS_MAX; groups = groups->next, shown++) {
		fputc('\n', out);
		describe_error(out, groups, view->verbose);
	}
	if (groups)
		fputs("\nAnd more errors; --format json lists all\n", out);
}

/* ---- JSON ---- */

static json_t *earlier_json(const struct report_error *error)
{
	const struct report_event *allocated = &error->earlier_allocated;

	return JSON_OBJECT(
		{ "allocated", JSON_OBJECT(
			{ "api", json_text(allocated->api) },
			{ "bytes", json_number(allocated->bytes) },
			{ "stack", json_stack(allocated->stack) }) },
		{ "freed", json_event(&error->earlier_freed) });
}

static json_t *suspect_json(const void *item, const struct subject_view *view)
{
	const struct report_error *suspect = item;

	(void)view;
	return JSON_OBJECT(
		{ "api", json_text(suspect->api) },
		{ "kernel", json_text(suspect->kernel) },
		{ "address", json_address(suspect->address) },
		{ "stack", json_stack(suspect->stack) },
		{ "block_address", json_address(suspect->block_address) },
		{ "allocated", json_allocation(&suspect->allocated) },
		{ "freed", json_event(&suspect->freed) });
}

static json_t *writers_json(const struct report_overwrite *overwrite)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < overwrite->suspects; i++)
		json_array_append_new(ret, JSON_OBJECT(
			{ "api", json_text(overwrite->call[i].api) },
			{ "kernel", JSON_IF(overwrite->kernel[i],
					    json_text(overwrite->kernel[i])) },
			{ "count", json_number(overwrite->record.suspect[i].count) },
			{ "given_address", json_boolean(overwrite->record.suspect[i].given) },
			{ "stack", json_stack(overwrite->call[i].stack) }));
	return ret;
}

static json_t *error_json(const void *item, const struct subject_view *view)
{
	const struct report_error *error = item;
	bool has_earlier = error->earlier_freed.api || error->earlier_freed.stack->count;
	const struct report_overwrite *overwrite = error->overwrite;
#define OVERWRITE(value) JSON_IF(overwrite, value)

	return JSON_OBJECT(
		{ "type", json_text(error->type) },
		{ "api", json_text(error->api) },
		{ "address", json_address(error->address) },
		{ "stack", json_stack(error->stack) },
		{ "allocated", json_allocation(&error->allocated) },
		{ "freed", json_event(&error->freed) },
		{ "earlier", JSON_IF(has_earlier, earlier_json(error)) },
		{ "culprit_candidate", JSON_IF(has_earlier, json_string("freed")) },
		{ "result", error->result == REPORT_NO_ANSWER ? json_null()
							      : json_integer(error->result) },
		{ "result_name", json_text(result_name(error->api, error->result)) },
		{ "block_address", JSON_IF(error->block_address,
					   json_address(error->block_address)) },
		{ "asked_bytes", JSON_IF(error->other_range, json_number(error->asked_bytes)) },
		{ "access", JSON_IF(error->is_access && !is_fault(error->type),
				    json_string(error->is_read ? "read" : "write")) },
		{ "accessed_bytes", JSON_IF(error->is_access && !is_fault(error->type),
					    json_number(error->asked_bytes)) },
		{ "certainty", JSON_IF(error->is_proven || error->is_likely,
				       json_string(error->is_proven ? "proven" : "likely")) },
		{ "kernel", JSON_IF(error->kernel, json_text(error->kernel)) },
		{ "other_suspects", JSON_IF(is_fault(error->type),
					    JSON_LIST_FOR(view, error->suspects,
							  error->suspect_count, suspect_json)) },
		{ "count", JSON_IF(error->is_access, json_number(error->count)) },
		{ "mapped_bytes", JSON_IF(strcmp(error->type, "freed-while-mapped") == 0,
					  json_number(error->asked_bytes)) },
		{ "told", JSON_IF(view->has_words,
				  JSON_PRINTED(to, describe_error_cause(to, error))) },
		{ "words", JSON_IF(view->has_words,
				   JSON_PRINTED(to, describe_error_words(to, error, false))) },
		{ "wanted_bytes", OVERWRITE(JSON_PRINTED(to, print_hex(
			to, overwrite->record.wanted, overwrite->record.bytes, ""))) },
		{ "found_bytes", OVERWRITE(JSON_PRINTED(to, print_hex(
			to, overwrite->record.found, overwrite->record.bytes, ""))) },
		{ "calls_since_check", OVERWRITE(json_number(overwrite->record.calls)) },
		{ "suspects", OVERWRITE(writers_json(overwrite)) });
}

/* ---- metrics ---- */

#define TYPES_MAX 20

/* Number of errors of one known type. A damaged ledger may have any type. */
struct counted {
	const char *type;
	uint64_t count;
};

static size_t count_types(const struct report_process *process, struct counted counted[TYPES_MAX])
{
	size_t types = 0;

	for (size_t i = 0; i < process->error_count; i++) {
		const char *type = process->errors[i].type;
		size_t at = 0;

		if (error_words(type) == type)
			continue;
		while (at < types && strcmp(counted[at].type, type) != 0)
			at++;
		if (at == TYPES_MAX)
			continue;
		if (at == types)
			counted[types++] = (struct counted){ type, 0 };
		counted[at].count++;
	}
	return types;
}

static void print_metrics(FILE *out, const struct report *report,
			  const struct findings *findings)
{
	static const char name[] = "gpuleak_errors_total";

	(void)findings;
	metric_family(out, name, NULL, "Invalid frees and accesses, by type.");
	for (size_t i = 0; i < metric_processes(report); i++) {
		const struct report_process *process = report->processes[i];
		struct counted counted[TYPES_MAX];
		size_t types = count_types(process, counted);
		uint64_t known = 0;

		for (size_t at = 0; at < types; at++) {
			metric_begin(out, name, report, i);
			metric_label(out, "type", counted[at].type);
			metric_end(out, counted[at].count);
			known += counted[at].count;
		}
		/* Invalid frees without a record, or of a type that has no series above. Written
		 * even if there are 0, so that the set of series does not change. */
		metric_begin(out, name, report, i);
		metric_label(out, "type", "other");
		metric_end(out, process->summary.errors > known ? process->summary.errors - known
								: 0);
	}
}

const struct subject subject_errors = {
	.build = build, .chunks = CHUNK_BIT(ERRORS), .only_if = PART(summary.errors),
	.has_keys_always = true, .finding = print_finding, .wrong_if = PART(summary.errors),
	LIST("errors", errors, error_count, .of_view = error_json), .metrics = print_metrics,
};
