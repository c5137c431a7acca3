/* SPDX-License-Identifier: MIT
 *
 * Reads the frames of Python and other languages of a ledger and combines them with native
 * frames: replaces each call of Python's evaluation loop by the Python frames that it ran.
 * Recognizes the loop and the interpreter by names of functions and files. Must not open files.
 */

#include "report/model/builder.h"
#include "report/symbols/symbolize.h"

struct python_location {
	uintptr_t key[5];
	struct symbol_location public;
	struct report_frame frame;
};

/* ---- reading ---- */

/* Returns the only location with this function, file and line, so that callers may compare
 * pointers. */
static const struct symbol_location *intern_location(struct builder *b,
						     const struct report_frame *frame)
{
	/* Strings are interned, so pointers can be compared. */
	const uintptr_t key[] = { (uintptr_t)frame->function, (uintptr_t)frame->file, frame->line,
				  frame->waiting, frame->language };
	struct python_location *location = table_intern(b->arena, &b->python_locations, key,
							sizeof(key), sizeof(*location));

	location->frame = *frame;
	location->public = (struct symbol_location){ &location->frame, 1 };
	return &location->public;
}

/* Reads the function that REF refers to, without a line. */
static const struct report_frame *read_code(struct builder *b, uint32_t ref)
{
	static const struct report_frame unknown = { .language = FRAME_PYTHON };
	const struct ref_node *known = table_find_ref(&b->code_refs, ref);
	const struct ledger_code *code = known ? NULL : ledger_code(b->view, ref);
	const struct report_frame *ret = known ? known->value : &unknown;
	struct report_frame *frame;

	if (known || ref == 0)
		return ret;
	if (code) {
		ret = frame = arena_alloc(b->arena, sizeof(*frame));
		*frame = unknown;
		frame->function = build_text(b, code->function);
		frame->file = build_text(b, code->file);
	} else {
		b->bad_refs++;
	}
	table_add_ref(b->arena, &b->code_refs, ref, ret);
	return ret;
}

/* Returns true if CODE is the frame that CPython 3.13 itself adds around an __init__ that it calls
 * without a C function. */
static bool is_around_init(const struct report_frame *code)
{
	return code->function && code->file && strcmp(code->function, "__init__") == 0 &&
	       strcmp(code->file, "__init__") == 0;
}

/* Returns NULL if RECORD, of a chain with FLAGS, is not a frame of the program. */
static const struct symbol_location *
read_frame(struct builder *b, const struct ledger_python_frame *record, unsigned int flags)
{
	static const enum frame_language languages[] = { FRAME_PYTHON, FRAME_JAVA, FRAME_RUBY,
							 FRAME_PHP };
	const struct report_frame *code = read_code(b, record->code);
	struct report_frame frame;

	if (is_around_init(code) && !(record->line & LEDGER_PYTHON_ENTRY))
		return NULL;
	frame = *code;
	frame.line = frame.file ? LEDGER_PYTHON_LINE(record->line) : 0;
	frame.waiting = (flags & LEDGER_PYTHON_WAITING) != 0;
	frame.language = languages[LEDGER_PYTHON_LANGUAGE(flags) / LEDGER_PYTHON_JAVA];
	return intern_location(b, &frame);
}

struct python_frames build_python(struct builder *b, uint32_t ref)
{
	const struct ledger_python *python = ref ? ledger_python(b->view, ref) : NULL;
	size_t count = python ? python->frames : 0;
	struct python_frames ret = { 0 };

	if (ref && (!python || count > b->frames_left)) {
		b->bad_refs++;
		return ret;
	}
	if (count == 0)
		return ret;
	b->frames_left -= count;
	ret.frames = arena_alloc(b->arena, count * sizeof(ret.frames[0]));
	ret.entry = arena_alloc(b->arena, count);
	ret.waiting = (python->flags & LEDGER_PYTHON_WAITING) != 0;
	ret.whole = LEDGER_PYTHON_LANGUAGE(python->flags) != 0;
	for (size_t i = 0; i < count; i++) {
		ret.entry[ret.count] = (python->frame[i].line & LEDGER_PYTHON_ENTRY) != 0;
		ret.frames[ret.count] = read_frame(b, &python->frame[i], python->flags);
		ret.count += ret.frames[ret.count] != NULL;
	}
	ret.cut = (python->flags & LEDGER_PYTHON_CUT) != 0;
	return ret;
}

/* ---- recognizing the interpreter ---- */

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns the outermost frame of LOCATION, the only one that is not inlined. */
static const struct report_frame *whole(const struct symbol_location *location)
{
	return &location->frames[location->count - 1];
}

/* Returns true for the evaluation loop. Compilers split it into parts with suffixes: ".cold",
 * ".lto_priv.0". */
static bool is_loop(const struct report_frame *frame)
{
	static const char name[] = "_PyEval_EvalFrameDefault";

	return frame->function && starts_with(frame->function, name) &&
	       (frame->function[sizeof(name) - 1] == '\0' ||
		frame->function[sizeof(name) - 1] == '.');
}

/* Returns true for a function that implements one bytecode instruction and jumps to the next one
 * (Python 3.14 built with clang). In the stack it replaces the loop or is called by it. */
static bool is_instruction(const struct report_frame *frame)
{
	return frame->function && starts_with(frame->function, "_TAIL_CALL_");
}

bool build_is_interpreter_file(const char *module)
{
	const char *name = base_name(module);

	return starts_with(name, "libpython") ||
	       (starts_with(name, "python") && !strstr(name, ".so")) ||
	       strstr(module, "/lib-dynload/") != NULL || starts_with(name, "libffi.so");
}

/* Returns true for names of the interpreter's functions, which a program may contain if it is
 * linked with an interpreter. */
static bool is_interpreter_function(const char *function)
{
	return starts_with(function, "_Py") ||
	       (starts_with(function, "Py") && function[2] >= 'A' && function[2] <= 'Z');
}

void build_python_roles(struct report_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct report_frame *frame = &frames[i];

		if (frame->language == FRAME_NATIVE && frame->role == FRAME_APPLICATION &&
		    ((frame->module && build_is_interpreter_file(frame->module)) ||
		     (frame->function && is_interpreter_function(frame->function)))) {
			frame->role = FRAME_INTERPRETER;
			frame->code = FRAME_OWN;
		}
	}
}

/* ---- combining the frames ---- */

struct weave {
	const struct symbol_location *const *native;
	const uint64_t *loops;
	size_t count;
	const struct python_frames *python;
	size_t used; /* number of Python frames already written */
	const struct symbol_location **ret;
	size_t written;
};

static void weave_put(struct weave *w, const struct symbol_location *location)
{
	w->ret[w->written++] = location;
}

/* Writes the Python frames that one call of the loop ran. */
static void put_call(struct weave *w)
{
	const struct python_frames *python = w->python;

	while (w->used < python->count) {
		size_t i = w->used++;

		weave_put(w, python->frames[i]);
		if (python->entry[i])
			return;
	}
}

static void put_rest(struct weave *w)
{
	while (w->used < w->python->count)
		put_call(w);
}

/* Returns how many native frames from index I on form one call of the loop; 0: none. */
static size_t loop_at(const struct weave *w, size_t i)
{
	size_t end = i;

	if (w->loops)
		return w->loops[i / 64] >> i % 64 & 1;
	if (is_instruction(whole(w->native[i]))) {
		while (end < w->count && is_instruction(whole(w->native[end])))
			end++;
		if (end == w->count || !is_loop(whole(w->native[end])))
			return end - i;
	}
	return is_loop(whole(w->native[end])) ? end + 1 - i : 0;
}

static size_t count_loops(const struct weave *w)
{
	size_t loops = 0, length;

	for (size_t i = 0; i < w->count; i += length ? length : 1) {
		length = loop_at(w, i);
		loops += length != 0;
	}
	return loops;
}

static size_t count_calls(const struct python_frames *python)
{
	size_t calls = 0;

	for (size_t i = 0; i < python->count; i++)
		calls += python->entry[i] || i + 1 == python->count;
	return calls;
}

static bool is_interpreter(const struct report_frame *frame)
{
	return (frame->module && build_is_interpreter_file(frame->module) &&
		!strstr(frame->module, "/lib-dynload/") &&
		!starts_with(base_name(frame->module), "libffi")) ||
	       (frame->function && is_interpreter_function(frame->function));
}

/* Writes all Python frames where the interpreter's frames begin, because the evaluation loop cannot
 * be found, for example in a stripped interpreter. */
static void weave_roughly(struct weave *w)
{
	for (size_t i = 0; i < w->count; i++) {
		if (w->used == 0 && is_interpreter(whole(w->native[i])))
			put_rest(w);
		weave_put(w, w->native[i]);
	}
	put_rest(w);
}

/* Returns true if FRAME is the interpreter's of LANGUAGE, or has no module, like the code of Java
 * and what other interpreters compile at run time. */
static bool is_interpreter_of(enum frame_language language, const struct report_frame *frame)
{
	const char *stem = language == FRAME_RUBY ? "ruby" : "php";
	const char *name = frame->module ? base_name(frame->module) : "";

	if (!frame->module || language == FRAME_JAVA || language == FRAME_PYTHON)
		return !frame->module;
	return (starts_with(name, "lib") && starts_with(name + strlen("lib"), stem)) ||
	       (starts_with(name, stem) && !strstr(name, ".so"));
}

/* Writes the native frames up to the first one of the interpreter, and then all frames of its
 * language. The native frames of Java itself depend on what was compiled when, and code that was
 * compiled with optimization keeps no frame pointers, so the frames beyond are not reliable. */
static void weave_whole(struct weave *w)
{
	enum frame_language language = whole(w->python->frames[0])->language;

	for (size_t i = 0; i < w->count && !is_interpreter_of(language, whole(w->native[i])); i++)
		weave_put(w, w->native[i]);
	put_rest(w);
}

/* Works from the innermost frame outwards, because missing frames of both kinds are outer frames. A
 * call of the loop without Python frames belongs to another interpreter and is copied. */
size_t build_weave(const struct native_frames *native, const struct python_frames *python,
		   const struct symbol_location **ret)
{
	struct weave w = { .native = native->frames, .loops = native->loops,
			   .count = native->count, .python = python, .ret = ret };
	size_t length;

	if (python->whole && python->count) {
		weave_whole(&w);
		return w.written;
	}
	if (python->waiting) {
		for (size_t i = 0; i < w.count; i++)
			weave_put(&w, w.native[i]);
		put_rest(&w);
		return w.written;
	}
	if (python->count && !native->cut && count_loops(&w) < count_calls(python)) {
		weave_roughly(&w);
		return w.written;
	}
	for (size_t i = 0; i < w.count; i += length ? length : 1) {
		length = loop_at(&w, i);
		if (length && w.used < python->count)
			put_call(&w);
		else
			for (size_t part = 0; part < (length ? length : 1); part++)
				weave_put(&w, w.native[i + part]);
	}
	put_rest(&w);
	return w.written;
}
