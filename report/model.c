/* SPDX-License-Identifier: MIT
 *
 * Builds the model of one process from its ledger. Follows every ref once, whatever the
 * ledger says: what can't be followed becomes an unknown and a note. No step costs more
 * than the ledger is long, times a logarithm.
 */
#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alive.h"
#include "load.h"
#include "number.h"
#include "pool.h"
#include "suppress.h"
#include "symbolize.h"

#define OVERLAPS_MAX 4096 /* modules looked at for one address; a real map has a handful */

struct module {
	const struct ledger_module *record;
	uint64_t reach; /* the largest end up to here, in order of start */
	struct symbol_module *symbols; /* NULL until used */
};

struct stack_node {
	struct report_stack public; /* first: a stack is its node */
	size_t location_count;
	const struct symbol_location *locations[];
};

/* What a ref of the ledger turned out to be. */
struct ref_node {
	uint32_t ref;
	const void *value;
};

struct group {
	struct report_leak leak;
	struct group *next;
};

struct builder {
	const struct ledger_view *view;
	struct symbolizer *symbolizer;
	struct report_process *process;
	struct pool *pool;
	struct table texts, stacks, groups;           /* by content */
	struct table text_refs, stack_refs, row_refs; /* ref_node by ref */
	struct module *modules;
	size_t module_count;
	struct group *first_group;
	size_t group_count;
	/* Refs may overlap, so a small ledger could speak of a huge number of frames and
	 * letters. An honest one has no more of them than bytes. */
	uint64_t frames_left, letters_left;
	uint64_t bad_refs;
	uint64_t lost_blocks; /* whose row is unreadable */
};

static const struct report_stack no_stack;

static int same_ref(const void *value, const void *key)
{
	return ((const struct ref_node *)value)->ref == *(const uint32_t *)key;
}

static int add_ref(struct builder *b, struct table *table, uint32_t ref, const void *value)
{
	struct ref_node *node = pool_alloc(b->pool, sizeof(*node));

	if (!node)
		return -ENOMEM;
	*node = (struct ref_node){ ref, value };
	return table_add(table, hash_number(ref, 0), node);
}

static struct ref_node *find_ref(const struct table *table, uint32_t ref)
{
	return table_find(table, hash_number(ref, 0), same_ref, &ref);
}

/* The string that REF names; *RET is NULL if it names none. */
static int text_at(struct builder *b, uint32_t ref, const char **ret)
{
	const struct ref_node *known = find_ref(&b->text_refs, ref);
	uint32_t length = 0;
	const char *bytes;

	*ret = known ? known->value : NULL;
	if (known || ref == 0)
		return 0;
	bytes = ledger_string(b->view, ref, &length);
	if (!bytes || length > b->letters_left) {
		b->bad_refs++;
	} else {
		b->letters_left -= length;
		*ret = pool_intern(b->pool, &b->texts, bytes, length);
		if (!*ret)
			return -ENOMEM;
	}
	return add_ref(b, &b->text_refs, ref, *ret);
}

/* By start; of equal ones the older first. */
static int compare_modules(const void *left, const void *right)
{
	const struct ledger_module *a = ((const struct module *)left)->record;
	const struct ledger_module *b = ((const struct module *)right)->record;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return a < b ? -1 : a > b;
}

static int list_modules(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_module *record;
	uint64_t reach = 0;
	size_t count = 0;

	while (ledger_next(b->view, &walk, LEDGER_CHUNK_MODULES, sizeof(*record)))
		count++;
	if (count == 0)
		return 0;
	b->modules = pool_alloc(b->pool, count * sizeof(*b->modules));
	if (!b->modules)
		return -ENOMEM;
	walk = (struct ledger_walk){ 0 };
	while (b->module_count < count &&
	       (record = ledger_next(b->view, &walk, LEDGER_CHUNK_MODULES, sizeof(*record))))
		b->modules[b->module_count++].record = record;
	qsort(b->modules, b->module_count, sizeof(*b->modules), compare_modules);
	for (size_t i = 0; i < b->module_count; i++) {
		if (b->modules[i].record->end > reach)
			reach = b->modules[i].record->end;
		b->modules[i].reach = reach;
	}
	return 0;
}

/* The module that held ADDRESS at EPOCH, or NULL. LEDGER_MODULE_UNLOADED is not asked:
 * who called from a module had it loaded. */
static struct module *find_module(struct builder *b, uint64_t address, uint32_t epoch)
{
	size_t low = 0, high = b->module_count;
	struct module *best = NULL;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (b->modules[middle].record->start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t looked = 0; low-- > 0 && b->modules[low].reach > address; looked++) {
		const struct ledger_module *record = b->modules[low].record;

		if (looked == OVERLAPS_MAX)
			break;
		if (record->end <= address || record->epoch > epoch)
			continue;
		if (!best || record->epoch > best->record->epoch)
			best = &b->modules[low];
	}
	return best;
}

static int open_symbols(struct builder *b, struct module *module)
{
	const struct ledger_module *record = module->record;
	uint32_t bytes = record->build_id_bytes;
	const char *path;
	int r = text_at(b, record->path, &path);

	if (r < 0)
		return r;
	if (bytes > LEDGER_BUILD_ID_MAX)
		bytes = LEDGER_BUILD_ID_MAX;
	return symbolizer_module(b->symbolizer, path ? path : "", record->build_id, bytes,
				 &module->symbols);
}

static int locate(struct builder *b, uint64_t pc, uint32_t epoch,
		  const struct symbol_location **ret)
{
	/* A return address may be the first of the next line, function or even module. */
	uint64_t call = pc ? pc - 1 : 0;
	struct module *module = find_module(b, call, epoch);
	int r;

	if (!module)
		return symbolizer_location(b->symbolizer, NULL, call, ret);
	if (!module->symbols) {
		r = open_symbols(b, module);
		if (r < 0)
			return r;
	}
	return symbolizer_location(b->symbolizer, module->symbols, call - module->record->bias,
				   ret);
}

static int same_stack(const void *value, const void *key)
{
	const struct stack_node *a = value, *b = key;

	return a->location_count == b->location_count && a->public.cut == b->public.cut &&
	       memcmp(a->locations, b->locations,
		      a->location_count * sizeof(a->locations[0])) == 0;
}

static int flatten(struct builder *b, struct stack_node *node)
{
	struct report_frame *frames;
	size_t count = 0;

	for (size_t i = 0; i < node->location_count; i++)
		count += node->locations[i]->count;
	frames = pool_alloc(b->pool, count * sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	node->public.frames = frames;
	node->public.count = count;
	for (size_t i = 0; i < node->location_count; i++) {
		memcpy(frames, node->locations[i]->frames,
		       node->locations[i]->count * sizeof(*frames));
		frames += node->locations[i]->count;
	}
	return 0;
}

/* The one stack of NODE's locations; NODE becomes it if it is new. */
static int intern_stack(struct builder *b, struct stack_node *node, const struct report_stack **ret)
{
	uint64_t hash = hash_bytes(node->locations,
				   node->location_count * sizeof(node->locations[0]), 0);
	const struct stack_node *known = table_find(&b->stacks, hash, same_stack, node);

	if (!known) {
		if (flatten(b, node) < 0 || table_add(&b->stacks, hash, node) < 0)
			return -ENOMEM;
		known = node;
	}
	*ret = &known->public;
	return 0;
}

static int read_stack(struct builder *b, const struct ledger_stack *stack,
		      const struct report_stack **ret)
{
	size_t count = stack->frames;
	struct stack_node *node = pool_alloc(b->pool,
					     sizeof(*node) + count * sizeof(node->locations[0]));

	if (!node)
		return -ENOMEM;
	node->public.cut = stack->flags & LEDGER_STACK_CUT ? 1 : 0;
	node->location_count = count;
	for (size_t i = 0; i < count; i++)
		if (locate(b, stack->pc[i], stack->epoch, &node->locations[i]) < 0)
			return -ENOMEM;
	return intern_stack(b, node, ret);
}

/* The stack that REF names, an empty one if it names none. */
static int stack_at(struct builder *b, uint32_t ref, const struct report_stack **ret)
{
	const struct ref_node *known = find_ref(&b->stack_refs, ref);
	const struct ledger_stack *stack;
	int r = 0;

	*ret = known ? known->value : &no_stack;
	if (known || ref == 0)
		return 0;
	stack = ledger_stack(b->view, ref);
	if (!stack || stack->frames > b->frames_left) {
		b->bad_refs++;
	} else if (stack->frames) {
		b->frames_left -= stack->frames;
		r = read_stack(b, stack, ret);
	}
	return r < 0 ? r : add_ref(b, &b->stack_refs, ref, *ret);
}

static int same_group(const void *value, const void *key)
{
	const struct report_leak *a = &((const struct group *)value)->leak, *b = key;

	/* Strings and stacks are interned. */
	return a->api == b->api && a->kind == b->kind && a->device == b->device &&
	       a->stack == b->stack;
}

static int find_group(struct builder *b, const struct report_leak *key, struct group **ret)
{
	uint64_t hash = hash_number((uintptr_t)key->stack, hash_number((uintptr_t)key->api, 0));
	struct group *group;

	hash = hash_number((uint64_t)key->device, hash_number((uintptr_t)key->kind, hash));
	group = table_find(&b->groups, hash, same_group, key);
	if (!group) {
		group = pool_alloc(b->pool, sizeof(*group));
		if (!group || table_add(&b->groups, hash, group) < 0)
			return -ENOMEM;
		group->leak = *key;
		group->next = b->first_group;
		b->first_group = group;
		b->group_count++;
	}
	*ret = group;
	return 0;
}

/* The group of the blocks whose row is REF. */
static int group_at(struct builder *b, uint32_t ref, struct group **ret)
{
	static const char unknown[] = "unknown";
	struct report_leak key = { .device = -1, .stack = &no_stack };
	const struct ref_node *known = find_ref(&b->row_refs, ref);
	const struct ledger_row *row;
	int r = 0;

	if (known) {
		*ret = (struct group *)known->value;
		return 0;
	}
	row = ledger_row(b->view, ref);
	if (row) {
		key.device = row->device;
		r = text_at(b, row->api, &key.api);
		if (r == 0)
			r = text_at(b, row->kind, &key.kind);
		if (r == 0)
			r = stack_at(b, row->stack, &key.stack);
	}
	if (!key.api)
		key.api = unknown;
	if (!key.kind)
		key.kind = unknown;
	if (r == 0)
		r = find_group(b, &key, ret);
	return r < 0 ? r : add_ref(b, &b->row_refs, ref, *ret);
}

static int read_blocks(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while ((block = ledger_next(b->view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block)))) {
		uint32_t state = LEDGER_BLOCK_STATE(block->state);
		struct group *group = NULL;
		int r;

		/* A free that was under way when the process ended did not happen. */
		if (state != LEDGER_BLOCK_LIVE && state != LEDGER_BLOCK_FREEING)
			continue;
		r = group_at(b, block->row, &group);
		if (r < 0)
			return r;
		if (!ledger_row(b->view, block->row))
			b->lost_blocks++;
		group->leak.blocks++;
		group->leak.bytes = add_bounded(group->leak.bytes, block->bytes);
	}
	return 0;
}

static void read_rows(struct builder *b)
{
	struct report_summary *sum = &b->process->summary;
	uint64_t ended = 0, live = 0;
	struct ledger_walk walk = { 0 };
	const struct ledger_row *row;

	while ((row = ledger_next(b->view, &walk, LEDGER_CHUNK_ROWS, sizeof(*row)))) {
		sum->allocated_blocks = add_bounded(sum->allocated_blocks, row->allocs);
		sum->allocated_bytes = add_bounded(sum->allocated_bytes, row->bytes);
		sum->with_context_blocks = add_bounded(sum->with_context_blocks,
						       row->with_context);
		sum->with_context_bytes = add_bounded(sum->with_context_bytes,
						      row->with_context_bytes);
		sum->late_blocks = add_bounded(sum->late_blocks, row->late);
		ended = add_bounded(ended, add_bounded(row->with_context, row->unseen));
	}
	for (const struct group *group = b->first_group; group; group = group->next)
		live = add_bounded(live, group->leak.blocks);
	ended = add_bounded(ended, live);
	sum->freed_blocks = sum->allocated_blocks > ended ? sum->allocated_blocks - ended : 0;
	sum->peak_bytes = ledger_header(b->view)->peak_bytes;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_stacks(const struct report_stack *a, const struct report_stack *b)
{
	size_t count = a->count < b->count ? a->count : b->count;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		r = compare_texts(a->frames[i].module, b->frames[i].module);
		if (r == 0)
			r = compare_numbers(a->frames[i].offset, b->frames[i].offset);
	}
	if (r == 0)
		r = compare_numbers(a->count, b->count);
	return r ? r : compare_numbers((uint64_t)a->cut, (uint64_t)b->cut);
}

/* Largest first. Nothing that differs from run to run decides: not the place in the
 * ledger, and not an address as long as it has a module. */
static int compare_leaks(const void *left, const void *right)
{
	const struct report_leak *a = left, *b = right;
	int r = compare_numbers(b->bytes, a->bytes);

	if (r == 0)
		r = compare_numbers(b->blocks, a->blocks);
	if (r == 0)
		r = strcmp(a->api, b->api);
	if (r == 0)
		r = strcmp(a->kind, b->kind);
	if (r == 0)
		r = a->device < b->device ? -1 : a->device > b->device;
	return r ? r : compare_stacks(a->stack, b->stack);
}

static void sort_leaks(struct report_leak *leaks, size_t count)
{
	if (count)
		qsort(leaks, count, sizeof(*leaks), compare_leaks);
}

/* Sorts every group into leaks or, if a pattern matches its stack, suppressed ones. */
static int judge_groups(struct builder *b, struct suppressions *suppressions)
{
	struct report_process *process = b->process;
	struct report_summary *sum = &process->summary;

	process->leaks = pool_alloc(b->pool, b->group_count * sizeof(*process->leaks));
	process->suppressed = pool_alloc(b->pool, b->group_count * sizeof(*process->suppressed));
	if (!process->leaks || !process->suppressed)
		return -ENOMEM;
	for (struct group *group = b->first_group; group; group = group->next) {
		struct report_leak *leak = &group->leak;
		int index = suppressions_match(suppressions, leak->stack->frames,
					       leak->stack->count);

		if (index < 0) {
			sum->leaked_blocks = add_bounded(sum->leaked_blocks, leak->blocks);
			sum->leaked_bytes = add_bounded(sum->leaked_bytes, leak->bytes);
			process->leaks[process->leak_count++] = *leak;
			continue;
		}
		suppressions_count(suppressions, index, leak->blocks, leak->bytes);
		leak->pattern = pool_printf(b->pool, "%s",
					    suppressions_use(suppressions, (size_t)index).pattern);
		if (!leak->pattern)
			return -ENOMEM;
		sum->suppressed_blocks = add_bounded(sum->suppressed_blocks, leak->blocks);
		sum->suppressed_bytes = add_bounded(sum->suppressed_bytes, leak->bytes);
		process->suppressed[process->suppressed_count++] = *leak;
	}
	sort_leaks(process->leaks, process->leak_count);
	sort_leaks(process->suppressed, process->suppressed_count);
	return 0;
}

static int read_event(struct builder *b, const struct ledger_event *event, uint64_t bytes,
		      struct report_event *ret)
{
	int r = text_at(b, event->api, &ret->api);

	ret->bytes = ret->api ? bytes : 0;
	return r < 0 ? r : stack_at(b, event->stack, &ret->stack);
}

static int read_error(struct builder *b, const struct ledger_error *record,
		      struct report_error *ret)
{
	int r = text_at(b, record->type, &ret->type);

	if (r == 0)
		r = text_at(b, record->api, &ret->api);
	if (r == 0)
		r = text_at(b, record->kind, &ret->kind);
	if (r == 0)
		r = stack_at(b, record->stack, &ret->stack);
	if (r == 0)
		r = read_event(b, &record->allocated, record->block_bytes, &ret->allocated);
	if (r == 0)
		r = read_event(b, &record->freed, 0, &ret->freed);
	if (r == 0)
		r = read_event(b, &record->earlier_allocated, record->earlier_bytes,
			       &ret->earlier_allocated);
	if (r == 0)
		r = read_event(b, &record->earlier_freed, 0, &ret->earlier_freed);
	if (!ret->type)
		ret->type = "unknown";
	if (!ret->api)
		ret->api = "unknown";
	ret->device = record->device;
	ret->result = record->result;
	ret->address = record->address;
	ret->block_address = record->block_address;
	ret->block_bytes = record->block_bytes;
	return r;
}

static int read_errors(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_error *record;
	size_t count = 0;
	int r = 0;

	while (ledger_next(b->view, &walk, LEDGER_CHUNK_ERRORS, sizeof(*record)))
		count++;
	process->errors = pool_alloc(b->pool, count * sizeof(*process->errors));
	if (!process->errors)
		return -ENOMEM;
	walk = (struct ledger_walk){ 0 };
	while (r == 0 && process->error_count < count &&
	       (record = ledger_next(b->view, &walk, LEDGER_CHUNK_ERRORS, sizeof(*record))))
		r = read_error(b, record, &process->errors[process->error_count++]);
	process->summary.errors = ledger_header(b->view)->errors;
	if (process->summary.errors < process->error_count)
		process->summary.errors = process->error_count;
	return r;
}

static int read_command(struct builder *b)
{
	uint32_t length = 0;
	const char *bytes = ledger_string(b->view, ledger_header(b->view)->command, &length);
	const char *end = bytes + length;
	size_t count = 0;
	const char **words;

	words = pool_alloc(b->pool, (length + 1) * sizeof(*words));
	if (!words)
		return -ENOMEM;
	while (bytes && bytes < end) {
		size_t word = strnlen(bytes, (size_t)(end - bytes));

		words[count] = pool_text(b->pool, bytes, word);
		if (!words[count++])
			return -ENOMEM;
		bytes += word + 1;
	}
	b->process->command = words;
	b->process->command_count = count;
	return 0;
}

static int read_identity(struct builder *b, const char *name)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_process *process = b->process;
	const char *path, *slash;
	int r = read_command(b);

	if (r == 0)
		r = text_at(b, header->exe, &process->exe);
	if (r == 0)
		r = text_at(b, header->host, &process->host);
	if (r < 0)
		return r;
	process->pid = header->pid;
	process->start_real_ns = header->start_real_ns;
	path = process->exe ? process->exe : process->command_count ? process->command[0] : "?";
	slash = strrchr(path, '/');
	process->program = slash && slash[1] ? slash + 1 : path;
	process->ledger = pool_printf(b->pool, "%s", name);
	return process->ledger ? 0 : -ENOMEM;
}

static void read_ended(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_process *process = b->process;

	switch (header->ended) {
	case LEDGER_EXIT:
		report_process_set_ended(process, REPORT_EXIT, header->status);
		break;
	case LEDGER__EXIT:
		report_process_set_ended(process, REPORT__EXIT, header->status);
		break;
	case LEDGER_EXEC:
		report_process_set_ended(process, REPORT_EXEC, 0);
		break;
	case LEDGER_RUNNING:
		report_process_set_ended(process,
					 process_alive(header->pid, header->start_ticks,
						       process->host)
						 ? REPORT_RUNNING
						 : REPORT_UNKNOWN, 0);
		break;
	default:
		report_process_set_ended(process, REPORT_UNKNOWN, 0);
	}
}

struct notes {
	const char **items;
	size_t count, room;
};

static int add_note(struct notes *notes, const char *text)
{
	if (!text)
		return -ENOMEM;
	if (notes->count == notes->room) {
		size_t room = notes->room ? notes->room * 2 : 16;
		const char **grown = reallocarray(notes->items, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		notes->items = grown;
		notes->room = room;
	}
	notes->items[notes->count++] = text;
	return 0;
}

static const char *const trouble_texts[LEDGER_TROUBLE_COUNT] = {
#define X(name, text) [LEDGER_TROUBLE_##name] = text,
	LEDGER_TROUBLES(X)
#undef X
};

/* Whether leaks or errors may be missing because of it. */
static int trouble_is_incomplete(unsigned int which)
{
	switch (which) {
	case LEDGER_TROUBLE_UNRECORDED_BLOCKS:
	case LEDGER_TROUBLE_UNRECORDED_BYTES:
	case LEDGER_TROUBLE_UNRECORDED_ERRORS:
	case LEDGER_TROUBLE_REENTERED:
	case LEDGER_TROUBLE_UNKNOWN_VARIANTS:
		return 1;
	}
	return which >= LEDGER_TROUBLE_COUNT; /* a newer writer's: nobody knows */
}

/* Whether its number says something; otherwise the text says it all. */
static int trouble_is_counted(unsigned int which)
{
	return which != LEDGER_TROUBLE_NO_UNWINDER && which != LEDGER_TROUBLE_MEMORY_ONLY;
}

static int note_troubles(struct builder *b, struct notes *notes)
{
	const struct ledger_header *header = ledger_header(b->view);
	int r = 0;

	for (unsigned int i = 0; i < LEDGER_TROUBLE_SLOTS && r == 0; i++) {
		char number[NUMBER_MAX];

		if (header->trouble[i] == 0)
			continue;
		if (trouble_is_incomplete(i))
			b->process->incomplete = 1;
		format_number(header->trouble[i], number);
		if (i >= LEDGER_TROUBLE_COUNT)
			r = add_note(notes, pool_printf(b->pool, "%s times trouble number %u, which "
							"a newer gpuleak can explain", number, i));
		else if (trouble_is_counted(i))
			r = add_note(notes, pool_printf(b->pool, "%s %s", number, trouble_texts[i]));
		else
			r = add_note(notes, trouble_texts[i]);
	}
	return r;
}

static int note_damage(struct builder *b, const struct loaded_ledger *ledger, struct notes *notes)
{
	uint32_t bad_chunks = 0;
	int r = 0;

	for (uint32_t i = 1; i < b->view->chunks; i++)
		bad_chunks += !ledger_chunk(b->view, i);
	if (b->view->cut)
		r = add_note(notes, pool_printf(b->pool, "the ledger is cut short: only %u of its %u "
						"chunks are there", b->view->chunks,
						ledger_header(b->view)->chunks));
	if (r == 0 && bad_chunks)
		r = add_note(notes, pool_printf(b->pool, "the ledger is damaged: %u chunks are "
						"unreadable", bad_chunks));
	if (r == 0 && b->bad_refs + b->lost_blocks)
		r = add_note(notes, pool_printf(b->pool, "the ledger is damaged: %llu names and stacks "
						"are unreadable, and so are the calls that made "
						"%llu blocks", (unsigned long long)b->bad_refs,
						(unsigned long long)b->lost_blocks));
	if (b->view->cut || bad_chunks || b->bad_refs || b->lost_blocks)
		b->process->incomplete = 1;
	if (r == 0 && ledger->unsettled)
		r = add_note(notes, pool_printf(b->pool, "%llu blocks changed while the ledger was "
						"read and are left out",
						(unsigned long long)ledger->unsettled));
	return r;
}

static int compare_note_texts(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int note_modules(struct builder *b, struct notes *notes)
{
	size_t first = notes->count, kept;
	int r = 0;

	for (size_t i = 0; i < b->module_count && r == 0; i++)
		if (b->modules[i].symbols && symbol_module_problem(b->modules[i].symbols))
			r = add_note(notes, symbol_module_problem(b->modules[i].symbols));
	if (r < 0 || notes->count == first)
		return r;
	qsort(notes->items + first, notes->count - first, sizeof(*notes->items), compare_note_texts);
	kept = first + 1;
	for (size_t i = first + 1; i < notes->count; i++)
		if (strcmp(notes->items[i], notes->items[kept - 1]) != 0)
			notes->items[kept++] = notes->items[i];
	notes->count = kept;
	return 0;
}

static int make_notes(struct builder *b, const struct loaded_ledger *ledger)
{
	struct notes notes = { 0 };
	const char **copy;
	int r = note_damage(b, ledger, &notes);

	if (r == 0)
		r = note_troubles(b, &notes);
	if (r == 0)
		r = note_modules(b, &notes);
	if (r == 0 && notes.count) {
		copy = pool_alloc(b->pool, notes.count * sizeof(*copy));
		if (copy)
			memcpy(copy, notes.items, notes.count * sizeof(*copy));
		b->process->notes = copy;
		b->process->note_count = copy ? notes.count : 0;
		r = copy ? 0 : -ENOMEM;
	}
	free(notes.items);
	return r;
}

static int build(struct builder *b, const struct loaded_ledger *ledger,
		 struct suppressions *suppressions)
{
	int r = read_identity(b, ledger->name);

	if (r == 0)
		r = list_modules(b);
	if (r == 0)
		r = read_blocks(b);
	if (r == 0)
		r = read_errors(b);
	if (r < 0)
		return r;
	read_ended(b);
	read_rows(b);
	r = judge_groups(b, suppressions);
	return r < 0 ? r : make_notes(b, ledger);
}

int report_process_build(const struct loaded_ledger *ledger, struct symbolizer *symbolizer,
			 struct suppressions *suppressions, struct report_process **ret)
{
	struct builder b = { .view = &ledger->view, .symbolizer = symbolizer,
			     .frames_left = ledger->view.bytes / sizeof(uint64_t),
			     .letters_left = ledger->view.bytes };
	int r;

	b.process = calloc(1, sizeof(*b.process));
	b.pool = calloc(1, sizeof(*b.pool));
	if (!b.process || !b.pool) {
		free(b.process);
		free(b.pool);
		return -ENOMEM;
	}
	b.process->pool = b.pool;
	r = build(&b, ledger, suppressions);
	table_finish(&b.texts);
	table_finish(&b.stacks);
	table_finish(&b.groups);
	table_finish(&b.text_refs);
	table_finish(&b.stack_refs);
	table_finish(&b.row_refs);
	if (r < 0)
		report_process_destroy(b.process);
	else
		*ret = b.process;
	return r;
}

void report_process_destroy(struct report_process *process)
{
	if (!process)
		return;
	pool_finish(process->pool);
	free(process->pool);
	free(process);
}
