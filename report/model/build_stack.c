/* SPDX-License-Identifier: MIT
 *
 * Reads strings, modules and stacks of a ledger, each ref once. Limits the cost of overlapping
 * refs in a damaged ledger by the ledger's length.
 */
#include <unistd.h>

#include "report/model/builder.h"
#include "ledger/clock.h"
#include "report/load/load.h"
#include "report/symbols/jit_map.h"
#include "report/symbols/rule.h"
#include "report/symbols/rules.h"
#include "report/symbols/symbolize.h"
#include "report/symbols/code_range.h"
#include "report/util/path.h"

/* maximum number of modules checked for one address; a valid map needs only a few */
#define OVERLAPS_MAX 4096

struct stack_module {
	struct code_range code;
	const struct ledger_module *record;
	struct symbol_module *symbols; /* NULL until it is needed */
	bool is_interpreter; /* the file is Python's own; known once `symbols` is set */
};

/* The code that a stack of the ledger ran. */
struct stack_code {
	const struct report_stack *stack; /* NULL: its symbols were not looked up */
	struct python_frames python;
	const uint64_t *loops; /* see struct native_frames */
	bool cut;
	/* The native frames that distinguish stacks: see find_distinct(). */
	const struct symbol_place *distinct;
	size_t distinct_count;
	size_t place_count;
	struct symbol_place places[];
};

struct stack_node {
	/* must be first: a pointer to a stack is also one to its node */
	struct report_stack public;
	bool ran_python;
	size_t location_count;
	/* The frames that distinguish stacks, for hash and comparison: see find_distinct(). */
	const struct symbol_location *const *distinct;
	size_t distinct_count;
	const struct symbol_location *locations[];
};

const struct report_stack build_no_stack;

const char *build_text(struct builder *b, uint32_t ref)
{
	const struct ref_node *known = table_find_ref(&b->text_refs, ref);
	const char *bytes, *ret = NULL;
	uint32_t length = 0;

	if (known || ref == 0)
		return known ? known->value : NULL;
	bytes = ledger_string(b->view, ref, &length);
	if (!bytes || length > b->letters_left) {
		b->bad_refs++;
	} else {
		b->letters_left -= length;
		ret = arena_intern(b->arena, &b->texts, bytes, length);
	}
	table_add_ref(b->arena, &b->text_refs, ref, ret);
	return ret;
}

const char *build_name(struct builder *b, uint32_t ref)
{
	const char *text = build_text(b, ref);

	return text ? text : build_unknown;
}

uint32_t build_ref(const struct builder *b, const void *record)
{
	return (uint32_t)((size_t)((const uint8_t *)record - b->view->base) / LEDGER_REF_UNIT);
}

/* Orders modules by start, then the older one first. */
static int compare_modules(const void *left, const void *right)
{
	const struct ledger_module *a = ((const struct stack_module *)left)->record;
	const struct ledger_module *b = ((const struct stack_module *)right)->record;

	return compare_numbers(a->start, b->start) ?: compare_numbers(a->epoch, b->epoch)
	       ?: compare_numbers((uintptr_t)a, (uintptr_t)b);
}

/* Returns the module that contained ADDRESS at EPOCH, or NULL. Ignores LEDGER_MODULE_UNLOADED: a
 * caller's module was loaded when it made the call. */
static struct stack_module *find_module(struct builder *b, uint64_t address, uint32_t epoch)
{
	size_t at = code_ranges_until(b->modules, b->module_count, sizeof(*b->modules), address);
	struct stack_module *best = NULL;

	for (size_t looked = 0; at-- > 0 && b->modules[at].code.reach > address; looked++) {
		const struct ledger_module *record = b->modules[at].record;

		if (looked == OVERLAPS_MAX)
			break;
		if (record->end <= address || record->epoch > epoch)
			continue;
		if (!best || record->epoch > best->record->epoch)
			best = &b->modules[at];
	}
	return best;
}

static void open_symbols(struct builder *b, struct stack_module *module)
{
	const struct ledger_module *record = module->record;
	const char *path = build_text(b, record->path);
	uint32_t bytes = record->build_id_bytes;

	if (bytes > LEDGER_BUILD_ID_MAX)
		bytes = LEDGER_BUILD_ID_MAX;
	module->is_interpreter = path && build_is_interpreter_file(path);
	module->symbols = symbolizer_module(b->symbolizer, path ? path : "", record->build_id,
					    bytes);
}

/* Reads the names of functions that the ledger has. */
static void read_symbols(struct builder *b)
{
	struct table modules = { 0 }; /* struct stack_module, by the ref of its record */

	symbolizer_add_process(b->symbolizer, ledger_header(b->view)->pid);
	for (size_t i = 0; i < b->module_count; i++)
		table_add_ref(b->arena, &modules, build_ref(b, b->modules[i].record),
			      &b->modules[i]);
	LEDGER_EACH(symbol, symbol, b->view) {
		struct ref_node *node = table_find_ref(&modules, symbol->module);
		struct stack_module *module = node ? (struct stack_module *)node->value : NULL;
		const char *name = build_text(b, symbol->name);

		if (!module || !name)
			continue;
		if (!module->symbols)
			open_symbols(b, module);
		symbol_module_add(b->symbolizer, module->symbols, symbol->start, symbol->bytes,
				  name);
	}
}

/* Returns the script that the process's command names, or NULL. The word after an option of one
 * letter may be its value. */
static const char *find_script(const struct report_process *process)
{
	static const char ends[] = ".rb .php .lua .pl .exe .dll .js .mjs .R .jl ";

	for (size_t i = 1; i < process->command_count; i++) {
		const char *word = process->command[i], *before = process->command[i - 1];
		const char *end = strrchr(path_last(word), '.'), *at;

		if (end && (at = strstr(ends, end)) && at[strlen(end)] == ' ' && word[0] != '-' &&
		    !(before[0] == '-' && strlen(before) == 2))
			return path_last(word);
	}
	return NULL;
}

void build_modules(struct builder *b)
{
	LEDGER_EACH(module, record, b->view)
		*ARENA_ADD(b->arena, b->modules, b->module_count) = (struct stack_module){
			{ record->start, record->end }, record };
	SORT(b->modules, b->module_count, compare_modules);
	code_ranges_set_reach(b->modules, b->module_count, sizeof(*b->modules));
	read_symbols(b);
	b->script = find_script(b->process);
}

/* Returns the time at which the process began. A ledger of another host or boot has no such time
 * here, and no file of a JIT compiler is as new as the result then. */
static uint64_t began_ns(const struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	const uint64_t second = 1000000000u, ticks = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t ret = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) +
		       header->start_ticks * (second / ticks);

	return is_this_host(b->process->host) && ret < header->start_real_ns + second ? ret
										     : UINT64_MAX;
}

/* Returns what stands for code outside of all modules, or NULL if the process's runtime wrote no
 * names of it. */
static struct symbol_module *find_jit(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);

	if (!b->jit)
		b->jit = symbolizer_jit(b->symbolizer, &(struct jit_process){
			.pid = header->pid,
			.start_ticks = header->start_ticks,
			.owner = b->ledger->owner,
			.began_ns = began_ns(b),
			.ended_ns = header->end_mono_ns ? header->start_real_ns +
								  header->end_mono_ns -
								  header->start_mono_ns
							: 0,
			.cwd = build_text(b, header->cwd),
		});
	return symbol_module_is_named(b->jit) ? b->jit : NULL;
}

/* Returns the place of the call that returns to PC, and if it is in a file of the interpreter. */
static struct symbol_place find_place(struct builder *b, uint64_t pc, uint32_t epoch,
				      bool *ret_interpreter)
{
	/* A return address may be the first address of the next line, function or module. So use
	 * the address before it. */
	uint64_t call = pc ? pc - 1 : 0;
	struct stack_module *module = find_module(b, call, epoch);

	if (module && !module->symbols)
		open_symbols(b, module);
	*ret_interpreter = module && module->is_interpreter;
	return module ? (struct symbol_place){ module->symbols, call - module->record->bias }
		      : (struct symbol_place){ find_jit(b), call };
}

/* ---- the code of a stack ---- */

static bool same_code(const void *value, const void *key)
{
	const struct stack_code *a = value, *b = key;

	return a->distinct_count == b->distinct_count && a->python.count == b->python.count &&
	       a->cut == b->cut &&
	       memcmp(a->distinct, b->distinct, a->distinct_count * sizeof(a->distinct[0])) == 0 &&
	       (!a->python.count ||
		memcmp(a->python.frames, b->python.frames,
		       a->python.count * sizeof(a->python.frames[0])) == 0);
}

/* Returns the first code that was read and equals CODE. */
static struct stack_code *intern_code(struct builder *b, struct stack_code *code)
{
	struct stack_code *known;
	uint64_t hash = hash_bytes(code->distinct, code->distinct_count * sizeof(code->distinct[0]),
				   code->cut);

	if (code->python.count)
		hash = hash_bytes(code->python.frames,
				  code->python.count * sizeof(code->python.frames[0]), hash);
	known = table_find(&b->stack_codes, hash, same_code, code);
	if (!known)
		table_add(b->arena, &b->stack_codes, hash, code);
	return known ?: code;
}

/* Reads the native frames of STACK. CODE has room for twice as many. The interpreter specializes
 * its code at run time, so equal calls of Python can have different native frames in the
 * interpreter's own files. These frames do not distinguish stacks that have Python frames. */
static void read_places(struct builder *b, const struct ledger_stack *stack,
			struct stack_code *code)
{
	struct symbol_place *distinct = code->places + stack->frames;

	code->place_count = stack->frames;
	code->distinct = distinct;
	for (size_t i = 0; i < stack->frames; i++) {
		bool is_interpreter;

		code->places[i] = find_place(b, stack->pc[i], stack->epoch, &is_interpreter);
		if (!is_interpreter || !code->python.count)
			distinct[code->distinct_count++] = code->places[i];
	}
}

/* Returns the code of the stack REF, or NULL if it cannot be read. */
static struct stack_code *read_code(struct builder *b, uint32_t ref)
{
	const struct ledger_stack *stack = ledger_stack(b->view, ref);
	struct stack_code *code;

	if (!stack || stack->frames > b->frames_left) {
		b->bad_refs++;
		return NULL;
	}
	if (!stack->frames && !stack->python)
		return NULL;
	b->frames_left -= stack->frames;
	code = arena_alloc(b->arena,
			   sizeof(*code) + 2u * stack->frames * sizeof(code->places[0]));
	code->python = build_python(b, stack->python);
	read_places(b, stack, code);
	code->loops = ledger_stack_loops(b->view, ref);
	code->cut = (!code->python.whole && stack->flags & LEDGER_STACK_CUT) || code->python.cut;
	return intern_code(b, code);
}

struct stack_code *build_stack_code(struct builder *b, uint32_t ref)
{
	const struct ref_node *known = table_find_ref(&b->stack_code_refs, ref);
	struct stack_code *code;

	if (known || ref == 0)
		return known ? (struct stack_code *)known->value : NULL;
	code = read_code(b, ref);
	table_add_ref(b->arena, &b->stack_code_refs, ref, code);
	return code;
}

/* ---- stacks ---- */

static bool same_stack(const void *value, const void *key)
{
	const struct stack_node *a = value, *b = key;

	return a->distinct_count == b->distinct_count && a->public.cut == b->public.cut &&
	       memcmp(a->distinct, b->distinct, a->distinct_count * sizeof(a->distinct[0])) == 0;
}

/* Returns what a rule says about the modules of the process that run managed languages, or NULL. */
static const char *managed_modules(struct builder *b)
{
	for (size_t i = 0; !b->managed_known && i < b->module_count; i++) {
		const char *path = build_text(b, b->modules[i].record->path);

		if (path && !b->managed)
			b->managed = rules_managed(symbolizer_rules(b->symbolizer), path);
	}
	b->managed_known = true;
	return b->managed;
}

/* Returns the text for `partial` of NODE, or NULL. Where the frames of a managed language were
 * read, they take the place of its interpreter's. */
static const char *find_partial(struct builder *b, const struct stack_node *node)
{
	EACH_ITEM(node->public.frames, node->public.count, frame) {
		if (frame->interprets && !node->ran_python)
			return frame->interprets;
		if (!frame->function && !frame->module && frame->language == FRAME_NATIVE &&
		    managed_modules(b))
			return b->managed;
	}
	return NULL;
}

static void flatten(struct builder *b, struct stack_node *node)
{
	struct report_frame *frames;
	const struct rule *rule;
	size_t count = 0;

	for (size_t i = 0; i < node->location_count; i++)
		count += node->locations[i]->count;
	frames = arena_alloc(b->arena, count * sizeof(*frames));
	node->public.frames = frames;
	node->public.count = count;
	for (size_t i = 0; i < node->location_count; i++) {
		memcpy(frames, node->locations[i]->frames,
		       node->locations[i]->count * sizeof(*frames));
		frames += node->locations[i]->count;
	}
	rule = rules_apply(symbolizer_rules(b->symbolizer), &b->known_frames, b->arena,
			   frames - count, count);
	node->public.cache = rule && !rule->limit ? rule->name : NULL;
	node->public.pending = rule && rule->limit ? rule : NULL;
	node->public.partial = find_partial(b, node);
	node->public.script = b->script;
	if (node->ran_python)
		build_python_roles(frames - count, count);
}

/* Finds the frames that distinguish NODE from other stacks. The interpreter specializes its code at
 * run time, so equal calls can have different interpreter frames. These frames are shown, but do
 * not distinguish stacks. */
static void find_distinct(struct builder *b, struct stack_node *node)
{
	const struct report_frame *frame = node->public.frames;
	const struct symbol_location **distinct;
	size_t count = 0;

	distinct = arena_alloc(b->arena, (node->location_count + 1) * sizeof(*distinct));
	for (size_t i = 0; i < node->location_count; i++) {
		if (node->locations[i]->count && frame->role != FRAME_INTERPRETER)
			distinct[count++] = node->locations[i];
		frame += node->locations[i]->count;
	}
	node->distinct = distinct;
	node->distinct_count = count;
}

/* Returns the interned stack that equals NODE. If no such stack is interned yet, interns NODE. */
static const struct report_stack *intern_stack(struct builder *b, struct stack_node *node)
{
	const struct stack_node *known;
	uint64_t hash;

	node->distinct = node->locations;
	node->distinct_count = node->location_count;
	if (node->ran_python) {
		flatten(b, node);
		find_distinct(b, node);
	}
	hash = hash_bytes(node->distinct, node->distinct_count * sizeof(node->distinct[0]), 0);
	known = table_find(&b->stacks, hash, same_stack, node);
	if (known)
		return &known->public;
	if (!node->ran_python)
		flatten(b, node);
	table_add(b->arena, &b->stacks, hash, node);
	return &node->public;
}

static const struct report_stack *read_stack_with(struct builder *b, const struct stack_code *code,
						  bool names_starts)
{
	const struct symbol_location *native[LEDGER_FRAMES_MAX];
	size_t room = code->place_count + code->python.count;
	struct stack_node *node;

	node = arena_alloc(b->arena, sizeof(*node) + room * sizeof(node->locations[0]));
	symbolizer_locations(b->symbolizer, code->places, code->place_count, names_starts, native);
	node->public.cut = code->cut;
	node->ran_python = code->python.count != 0;
	node->location_count = build_weave(
		&(struct native_frames){ native, code->loops, code->place_count, code->cut },
		&code->python, node->locations);
	return intern_stack(b, node);
}

/* A line, a fingerprint and a pattern use the frames that start a thread only if the stack has no
 * frame of the application, or if other frames follow them. */
static const struct report_stack *read_stack(struct builder *b, const struct stack_code *code)
{
	const struct report_stack *ret;

	if (b->ledger->names_starts && !b->process->program_suppressions &&
	    !code->python.waiting && !code->python.whole) {
		ret = read_stack_with(b, code, true);
		for (size_t i = 0; i < ret->count; i++)
			if (ret->frames[i].role == FRAME_APPLICATION)
				return ret;
	}
	return read_stack_with(b, code, false);
}

const struct report_stack *build_stack(struct builder *b, uint32_t ref)
{
	struct stack_code *code = build_stack_code(b, ref);

	if (!code)
		return &build_no_stack;
	if (!code->stack)
		code->stack = read_stack(b, code);
	return code->stack;
}

struct report_event build_event(struct builder *b, uint32_t api, uint32_t stack, uint64_t bytes)
{
	struct report_event ret = { .api = build_text(b, api), .stack = build_stack(b, stack) };

	ret.bytes = ret.api ? bytes : 0;
	return ret;
}

const char *build_module_problem(const struct builder *b, size_t i)
{
	return b->modules[i].symbols ? symbol_module_problem(b->modules[i].symbols) : NULL;
}
