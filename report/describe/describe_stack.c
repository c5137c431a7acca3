/* SPDX-License-Identifier: MIT
 *
 * Prints frames, stacks, sizes and kinds of memory for the text report.
 */
#include "report/describe/describe_stack.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "report/describe/kinds.h"
#include "report/util/compare.h"
#include "report/util/escape.h"
#include "report/model/model.h"
#include "report/symbols/symbolize.h"
#include "report/util/number.h"
#include "report/util/path.h"
#include "report/util/short_name.h"

#define FOLDED_NAMES_MAX 4
#define FOLDED_NAME_MAX 80
#define UNFOLDED_MAX 3 /* frames of a stack without a frame of the application */
#define CELL_NAME_MAX 32
#define PACKAGES "-packages/" /* site-packages or dist-packages */

/* Writes "In [3]" for the file of a cell of IPython to RET and returns it. Returns a short path for
 * a cell of a notebook, else FILE. */
static const char *cell_name(const char *file, char ret[CELL_NAME_MAX])
{
	static const char input[] = "<ipython-input-";
	const char *at = strstr(file, "/ipykernel_");

	if (at && strrchr(file, '/') == strchr(at + 1, '/'))
		return at + 1;
	if (strncmp(file, input, sizeof(input) - 1) != 0)
		return file;
	at = file + sizeof(input) - 1;
	snprintf(ret, CELL_NAME_MAX, "In [%.*s]", (int)strspn(at, "0123456789"), at);
	return ret;
}

/* Prints "/abs/app.c:12". If the line is unknown, prints "/abs/app+0x1234", which addr2line
 * accepts. */
static void print_source(FILE *out, const struct report_frame *frame)
{
	char cell[CELL_NAME_MAX];

	if (frame->file && frame->line)
		eprintf(out, "%s:%u", cell_name(frame->file, cell), frame->line);
	else if (frame->file)
		print_escaped(out, frame->file);
	else if (frame->language != FRAME_NATIVE)
		fputs("no source", out);
	else
		eprintf(out, "%s%s0x%" PRIx64, frame->module ? frame->module : "",
			frame->module ? "+" : "", frame->offset);
}

static void print_function(FILE *out, const struct report_frame *frame, bool whole)
{
	if (!frame->function)
		fputs("???", out);
	else if (whole || frame->language != FRAME_NATIVE)
		print_escaped(out, frame->function);
	else
		print_escaped(out, short_name(frame->function, (char[SHORT_NAME_MAX]){ 0 }));
}

/* Returns true for functions that start a program or a thread. Frames outside of them are not
 * printed. */
static bool begins(const struct report_frame *frame)
{
	return frame->language == FRAME_NATIVE && symbol_is_start(frame->function, frame->module);
}

/* Returns the number of frames without the outermost frames that only start a program or a
 * thread. */
static size_t count_shown(const struct report_stack *stack)
{
	size_t count = stack->count;

	while (count > 0 && begins(&stack->frames[count - 1]))
		count--;
	return count ? count : stack->count;
}

static void print_frame(FILE *out, const struct report_stack *stack, size_t i, bool whole)
{
	const struct report_frame *frame = &stack->frames[i];

	fprintf(out, "    #%zu ", i);
	print_function(out, frame, whole);
	fputs(frame->file ? " " : " (", out);
	print_source(out, frame);
	fputs(frame->file ? "\n" : ")\n", out);
}

/* Returns the index of the first frame of the application from FROM on, or COUNT. */
static size_t next_own(const struct report_stack *stack, size_t from, size_t count)
{
	while (from < count && stack->frames[from].role != FRAME_APPLICATION)
		from++;
	return from;
}

/* Returns the index of the frame that the application called: the outermost frame from FROM to OWN
 * that is not the interpreter's. OWN is the index of the application's innermost frame from FROM
 * on, and larger than FROM. */
static size_t called(const struct report_stack *stack, size_t from, size_t own)
{
	size_t i = own;

	while (i > from && stack->frames[i - 1].role == FRAME_INTERPRETER)
		i--;
	return i > from ? i - 1 : own - 1;
}

/* Returns the name of the framework's thread if one of the frames from FROM to TO has it
 * (report_frame.thread), or NULL. */
static const char *thread_of(const struct report_stack *stack, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (stack->frames[i].thread)
			return stack->frames[i].thread;
	return NULL;
}

/* Writes the name that a frame has in a folded line. For a native frame that is the last component
 * of its module's path. For a Python frame it is the package in whose folder the file lies, or the
 * file name if the file is in no package. */
static void folded_name(const struct report_frame *frame, char ret[FOLDED_NAME_MAX])
{
	const char *path = frame->module ? frame->module : frame->file ? frame->file : "???";
	const char *package = frame->module ? NULL : strstr(path, PACKAGES);
	const char *slash = strrchr(path, '/');

	if (package)
		path = package + strlen(PACKAGES);
	else if (slash)
		path = slash + 1;
	snprintf(ret, FOLDED_NAME_MAX, "%.*s", (int)strcspn(path, "/"), path);
}

/* Prints " #4-#15 12 frames of libtorch_cuda.so, libc10_cuda.so, in PyTorch's autograd engine". */
static void print_fold(FILE *out, const struct report_stack *stack, size_t from, size_t to)
{
	char names[FOLDED_NAMES_MAX + 1][FOLDED_NAME_MAX];
	const char *thread = thread_of(stack, from, to);
	size_t count = 0;

	fprintf(out, "    #%zu-#%zu %zu frames of ", from, to - 1, to - from);
	for (size_t i = from; i < to && count <= FOLDED_NAMES_MAX; i++) {
		size_t known = 0;

		folded_name(&stack->frames[i], names[count]);
		while (strcmp(names[known], names[count]) != 0)
			known++;
		count += known == count;
	}
	for (size_t i = 0; i < count && i < FOLDED_NAMES_MAX; i++)
		eprintf(out, "%s%s", i ? ", " : "", names[i]);
	eprintf(out, "%s%s%s\n", count > FOLDED_NAMES_MAX ? " and others" : "",
		thread ? ", in " : "", thread ? thread : "");
}

static void print_frames(FILE *out, const struct report_stack *stack, size_t from, size_t to,
			 bool whole)
{
	for (size_t i = from; i < to; i++)
		print_frame(out, stack, i, whole);
}

/* Prints the frames from FROM to TO, which do not belong to the application. Folds them if there
 * are more than UNFOLDED. */
static void print_or_fold(FILE *out, const struct report_stack *stack, size_t from, size_t to,
			  size_t unfolded, bool whole)
{
	if (to > from + unfolded)
		print_fold(out, stack, from, to);
	else
		print_frames(out, stack, from, to, whole);
}

/* Prints the application's frames and the frames that they called directly, and folds the
 * others. OWN is the application's innermost frame. */
static void print_around_own(FILE *out, const struct report_stack *stack, size_t from, size_t own,
			     size_t to, bool whole)
{
	size_t next, shown;

	if (own > from) {
		shown = called(stack, from, own);
		print_or_fold(out, stack, from, shown, 1, whole);
		print_frame(out, stack, shown, whole);
		print_or_fold(out, stack, shown + 1, own, 1, whole);
	}
	while (own < to) {
		print_frame(out, stack, own, whole);
		next = next_own(stack, own + 1, to);
		print_or_fold(out, stack, own + 1, next, 1, whole);
		own = next;
	}
}

/* Prints frames of a part of the stack that has no frame of the application. Any of them may be
 * important, so a few are printed. */
static void print_foreign(FILE *out, const struct report_stack *stack, size_t from, size_t to,
			  bool whole)
{
	size_t shown = from;

	while (shown < to && stack->frames[shown].role != FRAME_FRAMEWORK)
		shown++;
	if (shown == to)
		shown = from;
	print_or_fold(out, stack, from, shown, UNFOLDED_MAX, whole);
	print_frame(out, stack, shown, whole);
	print_or_fold(out, stack, shown + 1, to, UNFOLDED_MAX, whole);
}

static void print_part(FILE *out, const struct report_stack *stack, size_t from, size_t to,
		       bool whole)
{
	size_t own = next_own(stack, from, to);

	if (from == to)
		return;
	if (whole)
		print_frames(out, stack, from, to, whole);
	else if (own < to)
		print_around_own(out, stack, from, own, to, whole);
	else
		print_foreign(out, stack, from, to, whole);
}

/* Returns the index of the first frame of the thread that waits for this stack's work, or COUNT if
 * there is none. */
static size_t first_waiting(const struct report_stack *stack, size_t count)
{
	size_t i = 0;

	while (i < count && !stack->frames[i].waiting)
		i++;
	return i;
}

void describe_stack(FILE *out, const struct report_stack *stack, bool whole)
{
	size_t count = count_shown(stack), waiting = first_waiting(stack, count);

	if (stack->count == 0) {
		fputs("    (no stack was recorded)\n", out);
		return;
	}
	print_part(out, stack, 0, waiting, whole);
	if (waiting < count)
		fputs("    the thread that started this work and waits for it:\n", out);
	print_part(out, stack, waiting, count, whole);
	if (stack->partial)
		fputs("    (stack ends in the interpreter: other functions may have the same "
		      "one)\n", out);
	if (stack->cut)
		fputs("    (outer frames were cut off: see GPULEAK_STACK_DEPTH)\n", out);
}

static bool lacks_line(const struct report_frame *frame)
{
	return frame->function && !frame->file && frame->module &&
	       frame->language == FRAME_NATIVE;
}

static bool is_own(const struct report_frame *frame)
{
	return frame->role == FRAME_APPLICATION && frame->code == FRAME_OWN;
}

/* Prints the function and its place. If the line is not known, the function with its module is
 * enough, because the stack has the address. HINT: what to do then. */
static void print_named(FILE *out, const struct report_frame *frame, bool whole, const char *hint)
{
	print_function(out, frame, whole);
	fputs(" (", out);
	if (lacks_line(frame))
		eprintf(out, "%s%s", frame->module, hint);
	else
		print_source(out, frame);
	fputc(')', out);
}

void describe_frame(FILE *out, const struct report_frame *frame, bool whole)
{
	print_named(out, frame, whole, "");
}

static bool is_nameless_code(const struct report_frame *frame)
{
	return !frame->function && !frame->module && frame->language == FRAME_NATIVE;
}

/* Returns the program or library that runs a script, if FRAME is the culprit of STACK only because
 * the script's own frames are missing, or NULL. */
static const char *interpreter_of(const struct report_stack *stack,
				  const struct report_frame *frame)
{
	if (!frame || (frame->role != FRAME_RUNTIME && frame->role != FRAME_INTERPRETER &&
		       !is_nameless_code(frame)))
		return NULL;
	for (size_t i = stack->count; i-- > 0;)
		if (stack->frames[i].role == FRAME_INTERPRETER && stack->frames[i].module)
			return path_last(stack->frames[i].module);
	return NULL;
}

/* Returns the name of FRAME's library, or of the Python package that has it, or NULL. Sets
 * *RET_LENGTH. */
static const char *library_of(const struct report_frame *frame, int *ret_length)
{
	const char *path = frame->module ?: frame->file ?: "", *name = strstr(path, PACKAGES);

	name = name ? name + strlen(PACKAGES)
		    : strstr(path_last(path), ".so") ? path_last(path) : NULL;
	*ret_length = name ? (int)strcspn(name, name == path_last(path) ? "" : "/.") : 0;
	return name;
}

const struct report_frame *report_stack_outside(const struct report_stack *stack,
						const struct report_frame *frame)
{
	int length;

	if (frame->role != FRAME_APPLICATION || !frame->module || !library_of(frame, &length))
		return frame;
	for (const struct report_frame *at = frame; at < stack->frames + stack->count; at++)
		if (is_own(at) && at->line && !is_same_text(at->module, frame->module))
			return at;
	return frame;
}

/* Prints " through libnppif.so.13" if a library allocates that the application's author did not
 * build. A script that calls a framework needs no name: its lines are calls that allocate. */
static void print_library(FILE *out, const struct report_stack *stack,
			  const struct report_frame *culprit)
{
	const struct report_frame *frame = stack->frames;
	const char *name;
	int length;

	while (frame < culprit &&
	       (frame->role == FRAME_RUNTIME || frame->role == FRAME_INTERPRETER))
		frame++;
	if (frame == culprit || (frame->line && frame->language == FRAME_NATIVE))
		return;
	name = library_of(frame, &length);
	if (name && (frame->code == FRAME_PACKAGE ||
		     (frame->role == FRAME_FRAMEWORK && culprit->language == FRAME_NATIVE)))
		eprintf(out, " through %.*s", length, name);
}

/* Prints the function through which CULPRIT allocates, or the library, and for which frame of the
 * application. */
static void print_ways(FILE *out, const struct report_stack *stack,
		       const struct report_frame *culprit, bool whole)
{
	const struct report_frame *wrapper = report_stack_wrapper(stack);
	const struct report_frame *caller = report_stack_outside(stack, culprit);

	if (wrapper) {
		fputs(" through ", out);
		print_function(out, wrapper, whole);
	} else {
		print_library(out, stack, culprit);
	}
	if (caller == culprit)
		return;
	eprintf(out, " in %s, for ", path_last(culprit->module));
	describe_frame(out, caller, whole);
}

/* Prints a place whose function is not known: "t.lua (line not known: Lua has no map of
 * functions)". INTERPRETER: see interpreter_of(). */
static void print_unknown(FILE *out, const struct report_stack *stack, const char *interpreter)
{
	const char *reason = stack->partial, *script = interpreter || reason ? stack->script : NULL;

	if (script)
		print_escaped(out, script);
	else if (interpreter)
		eprintf(out, "code that %s runs", interpreter);
	else
		fputs("code that was compiled at run time", out);
	if (script || reason)
		eprintf(out, " (line not known%s%s)", reason ? ": " : "", reason ?: "");
}

void describe_place(FILE *out, const struct report_stack *stack, bool whole)
{
	const struct report_frame *frame = report_stack_culprit(stack);
	const char *interpreter = interpreter_of(stack, frame);
	const char *thread = report_stack_thread(stack);

	if (!frame) {
		fputs("an unknown place (no stack was recorded)", out);
		return;
	}
	if (interpreter || is_nameless_code(frame)) {
		print_unknown(out, stack, interpreter);
		return;
	}
	if (frame->waiting)
		fputs("the backward pass of ", out);
	else if (thread)
		eprintf(out, "%s, ", thread);
	print_named(out, frame, whole, is_own(frame) ? ": compile with -g for its line" : "");
	print_ways(out, stack, frame, whole);
}

/* Returns the index of the caller of FRAME from FROM on that a line names, or COUNT: a frame of the
 * application's own code, or for a package any frame of the application. */
static size_t next_caller(const struct report_stack *stack, const struct report_frame *frame,
			  size_t from, size_t count)
{
	from = next_own(stack, from, count);
	while (from < count && frame->code != FRAME_PACKAGE &&
	       stack->frames[from].code == FRAME_PACKAGE)
		from = next_own(stack, from + 1, count);
	return from;
}

void describe_caller(FILE *out, const char *before, const struct report_stack *stack, bool whole)
{
	const struct report_frame *frame = report_stack_culprit(stack);
	size_t next, count = count_shown(stack);

	if (!frame || report_stack_thread(stack) || interpreter_of(stack, frame))
		return;
	frame = report_stack_outside(stack, frame);
	next = (size_t)(frame - stack->frames) + 1;
	if (frame->role == FRAME_APPLICATION)
		next = next_caller(stack, frame, next, count);
	if (next >= count)
		return;
	fputs(before, out);
	if (is_nameless_code(&stack->frames[next]))
		print_unknown(out, stack, NULL);
	else
		describe_frame(out, &stack->frames[next], whole);
}

void describe_place_and_caller(FILE *out, const struct report_stack *stack, bool whole)
{
	describe_place(out, stack, whole);
	describe_caller(out, ", called from ", stack, whole);
}

void describe_range(FILE *out, const struct report_site *site)
{
	if (site->range)
		eprintf(out, ", %s", site->range);
}

void describe_source(FILE *out, const char *kind, const char *api, int device)
{
	eprintf(out, " (%s, %s", kind_words(kind), api);
	if (device >= 0)
		fprintf(out, ", device %d", device);
	fputc(')', out);
}

void describe_kind(FILE *out, const char *kind)
{
	print_escaped(out, kind_words(kind));
}

void describe_process(FILE *out, const struct report_process *process)
{
	print_escaped(out, process->program);
	if (process->ranked)
		fprintf(out, " rank %d", process->rank);
	fprintf(out, " (pid %d", process->pid);
	if (process->ranked && process->host) /* in a parallel job a pid is not unique */
		eprintf(out, ", %s", process->host);
	fputs(process->ended == REPORT_RUNNING ? ", still running)" : ")", out);
}

void describe_attached(FILE *out, const struct report_process *process)
{
	const time_t began = process ? (time_t)(process->start_real_ns / 1000000000u) : 0;
	char clock[16] = "?";
	struct tm tm;

	if (!process || !process->attached)
		return;
	if (localtime_r(&began, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	fprintf(out, "gpuleak: attached %s for %s, ", clock, SECONDS(process->attached_ns));
	if (process->before_attach_bytes)
		fprintf(out, "%s allocated before (NVML), without stacks",
			SIZE(process->before_attach_bytes));
	else
		fputs("what was allocated before has no record", out);
	if (process->frees_before)
		fprintf(out, "; %s block%s of it freed", NUMBER(process->frees_before),
			plural(process->frees_before));
	fputs("; leaks are not judged\n", out);
}

void describe_ended(FILE *out, const struct report_process *process)
{
	static const char *const words[] = {
		[REPORT_UNKNOWN] = "killed (cause unknown)", [REPORT_RUNNING] = "still running",
		[REPORT_EXIT] = "exited with status ", [REPORT_SIGNAL] = "killed by signal ",
		[REPORT__EXIT] = "exited by _exit with status ",
		[REPORT_EXEC] = "replaced itself by exec",
	};
	const char *name = process->ended == REPORT_SIGNAL ? signal_name(process->status) : NULL;

	fputs(words[process->ended], out);
	if (process->ended == REPORT_EXIT || process->ended == REPORT__EXIT ||
	    process->ended == REPORT_SIGNAL)
		fprintf(out, "%d%s%s", process->status, name ? " SIG" : "", name ? name : "");
}
