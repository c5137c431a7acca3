/* SPDX-License-Identifier: MIT
 *
 * Reads Ruby frames by rb_profile_frames(), which Ruby has for profilers: it allocates nothing and
 * may run at any time. So do the other functions that are called here. Supports Ruby 3.0 and later,
 * where each thread has its own frames, also without Ruby's global lock.
 *
 * While a thread is in a GPU call its frames do not change, and keep their functions alive. Fiddle
 * releases the global lock, so another thread may collect garbage meanwhile, and compaction moves
 * functions. So nothing is read during a collection, of which compaction is the last part: a thread
 * without the lock waits for its end, and the collecting thread itself has no frames of Ruby.
 */
#include "interpose/dispatch/resolve.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/interpreters.h"
#include "interpose/stack/python.h"
#include "ledger/nocancel.h"

#define RUBY_MAJOR_MIN 3
#define TYPE_MASK 0x1fu
#define TYPE_STRING 5u
#define NAP_NS 100000
#define NAPS_MAX 10000u /* about a second */
#define IMMEDIATE_MAX 4096u /* nil and other values without an object are below */

typedef uintptr_t value; /* VALUE */

/* A weak reference, like that of python.h. */
extern int rb_profile_frames(int start, int limit, value *ret, int *ret_lines)
	__attribute__((weak));

static struct {
	int (*thread_is_ruby)(void);
	int (*has_lock)(void);
	int (*during_gc)(void);
	int (*frames)(int start, int limit, value *ret, int *ret_lines);
	value (*path)(value frame), (*real_path)(value frame), (*label)(value frame);
	const char *(*letters)(volatile value *string);
} ruby;

static bool find(const char *path)
{
	const struct {
		const char *name;
		void *to;
	} wanted[] = {
		{ "ruby_native_thread_p", &ruby.thread_is_ruby },
		{ "ruby_thread_has_gvl_p", &ruby.has_lock },
		{ "rb_during_gc", &ruby.during_gc },
		{ "rb_profile_frames", &ruby.frames },
		{ "rb_profile_frame_path", &ruby.path },
		{ "rb_profile_frame_absolute_path", &ruby.real_path },
		{ "rb_profile_frame_label", &ruby.label },
		{ "rb_string_value_ptr", &ruby.letters },
	};
	const int *version = resolve_in(path, "ruby_api_version");

	if (!version || version[0] < RUBY_MAJOR_MIN)
		return false;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *function = resolve_in(path, wanted[i].name);

		if (!function)
			return false;
		*(void **)wanted[i].to = function;
	}
	return true;
}

/* Returns the letters of STRING, or NULL if it is nil. Strings of Ruby's code end with a NUL. */
static const char *letters_of(value string)
{
	if (string < IMMEDIATE_MAX || string % sizeof(string) ||
	    (*(const value *)string & TYPE_MASK) != TYPE_STRING)
		return NULL;
	return ruby.letters(&string);
}

/* A function that is written in C has no path. rb_profile_frame_absolute_path() would allocate a
 * string for it. Code of eval() has a path only. */
static struct code_text text_of(value frame)
{
	struct code_text ret = { .file = letters_of(ruby.path(frame)) };

	if (!ret.file)
		return ret;
	ret.file = letters_of(ruby.real_path(frame)) ?: ret.file;
	ret.function = letters_of(ruby.label(frame));
	return ret;
}

static bool read_frames(const struct recorder *recorder, struct chain *ret)
{
	value frames[LEDGER_FRAMES_MAX + 1];
	int lines[LEDGER_FRAMES_MAX + 1], count;

	if (!ruby.thread_is_ruby())
		return false;
	for (unsigned int naps = 0; ruby.during_gc(); naps++) {
		if (ruby.has_lock() || naps == NAPS_MAX)
			return false;
		nocancel_nanosleep(&(struct timespec){ .tv_nsec = NAP_NS });
	}
	count = ruby.frames(0, (int)recorder->stack_depth + 1, frames, lines);
	for (int i = 0; i < count; i++) {
		struct code_text text = text_of(frames[i]);

		if (text.file && lines[i] > 0)
			chain_add(ret, frames[i], lines[i], &text);
	}
	ret->cut = count > (int)recorder->stack_depth;
	return true;
}

static uint32_t name(struct recorder *recorder, const struct chain *chain, unsigned int i,
		     uint32_t *ret_line)
{
	struct code_text text = text_of(chain->frames[i].code);

	*ret_line = (uint32_t)chain->frames[i].at;
	return python_add_code(recorder, text.function ?: "?", text.file ?: "");
}

const struct interpreter interpreter_ruby = {
	.language = LEDGER_PYTHON_RUBY,
	.library = "libruby",
	.linked = (void *)rb_profile_frames,
	.find = find,
	.read = read_frames,
	.name = name,
};
