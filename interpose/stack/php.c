/* SPDX-License-Identifier: MIT
 *
 * Reads PHP frames from the chain of `zend_execute_data`, of which zend_get_executed_lineno()
 * reports only the first. Two offsets differ between versions of PHP: they are found by comparing
 * with what PHP's own functions return. Calls nothing that allocates or locks.
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/dispatch/resolve.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/interpreters.h"
#include "interpose/stack/python.h"

/* in a zend_execute_data, since PHP 7.1 */
#define FRAME_OPLINE 0
#define FRAME_FUNCTION 24
#define FRAME_PREVIOUS 48
#define OPLINE_LINE 24 /* in a zend_op */
/* in a zend_function. Bit 0 of its type is set if it is written in C. */
#define FUNCTION_NAME 8
#define FUNCTION_CLASS 16
#define FUNCTION_FILE_MIN 64
#define FUNCTION_FILE_MAX 216
#define CLASS_NAME 8     /* in a zend_class_entry */
#define STRING_LETTERS 24 /* in a zend_string */
/* In the executor's globals the frame follows the top, the end, the address and the size of a page
 * of PHP's stack. */
#define GLOBALS_BYTES 1024
#define PAGE_BYTES (256u << 10)
#define FRAMES_MAX 4096 /* functions in C and PHP */
#define NAME_MAX_BYTES 1000 /* longer names of functions are cut */

/* A weak reference, like that of python.h. */
extern uint32_t zend_get_executed_lineno(void) __attribute__((weak));

static struct {
	uint32_t (*line)(void);
	const void *(*file)(void);
	/* the globals, or those of a thread, if PHP was built for threads */
	void *globals;
	char *(*thread)(void);
	const size_t *globals_in_thread;
} php;
static _Atomic unsigned int frame_at, file_at; /* the offsets; 0: not known yet */

static bool find(const char *path)
{
	php.line = (uint32_t(*)(void))resolve_in(path, "zend_get_executed_lineno");
	php.file = (const void *(*)(void))resolve_in(path, "zend_get_executed_filename_ex");
	php.globals = resolve_in(path, "executor_globals");
	php.thread = (char *(*)(void))resolve_in(path, "tsrm_get_ls_cache");
	php.globals_in_thread = resolve_in(path, "executor_globals_offset");
	return php.line && php.file && (php.globals || (php.thread && php.globals_in_thread));
}

/* Returns the globals of the calling thread, or 0 if it runs no PHP. A PHP that was not built for
 * threads is supported in a program's first thread. */
static uintptr_t find_globals(void)
{
	char *thread;

	if (php.globals)
		return syscall(SYS_gettid) == getpid() ? (uintptr_t)php.globals : 0;
	thread = php.thread();
	return thread ? (uintptr_t)thread + *php.globals_in_thread : 0;
}

/* Returns FRAME or the next outer frame whose function is written in PHP, or 0. */
static uintptr_t php_frame(uintptr_t frame, unsigned int *left)
{
	for (; python_plausible(frame) && (*left)--; frame = python_word(frame + FRAME_PREVIOUS)) {
		uintptr_t function = python_word(frame + FRAME_FUNCTION);

		if (python_plausible(function) && !(*(const uint8_t *)function & 1) &&
		    python_plausible(python_word(frame + FRAME_OPLINE)))
			return frame;
	}
	return 0;
}

static uint32_t line_of(uintptr_t frame)
{
	return *(const uint32_t *)(python_word(frame + FRAME_OPLINE) + OPLINE_LINE);
}

/* Returns the offset in FUNCTION of its file's name, if the function runs now; else 0. */
static unsigned int find_file(uintptr_t function)
{
	uintptr_t file = (uintptr_t)php.file();

	for (unsigned int at = FUNCTION_FILE_MIN; at <= FUNCTION_FILE_MAX; at += sizeof(file))
		if (file && python_word(function + at) == file)
			return at;
	return 0;
}

static bool find_offsets(uintptr_t globals)
{
	const uintptr_t *words = (const uintptr_t *)globals;

	for (unsigned int i = 3; i + 1 < GLOBALS_BYTES / sizeof(*words); i++) {
		unsigned int left = FRAMES_MAX, at;
		uintptr_t frame;

		if (words[i] != PAGE_BYTES || words[i - 2] - words[i - 1] != PAGE_BYTES)
			continue;
		frame = php_frame(words[i + 1], &left);
		at = frame && line_of(frame) == php.line()
			     ? find_file(python_word(frame + FRAME_FUNCTION))
			     : 0;
		if (!at)
			continue;
		atomic_store(&file_at, at);
		atomic_store(&frame_at, (i + 1) * (unsigned int)sizeof(*words));
		return true;
	}
	return false;
}

static const char *letters_of(uintptr_t string)
{
	return python_plausible(string) ? (const char *)string + STRING_LETTERS : NULL;
}

static struct code_text text_of(uintptr_t function)
{
	uintptr_t class = python_word(function + FUNCTION_CLASS);

	return (struct code_text){
		.file = letters_of(python_word(function + atomic_load(&file_at))),
		.class = python_plausible(class) ? letters_of(python_word(class + CLASS_NAME))
						 : NULL,
		.function = letters_of(python_word(function + FUNCTION_NAME)),
	};
}

static bool read_frames(const struct recorder *recorder, struct chain *ret)
{
	uintptr_t globals = find_globals(), frame;
	unsigned int left = FRAMES_MAX;

	if (!globals || (!atomic_load(&frame_at) && !find_offsets(globals)))
		return false;
	frame = php_frame(python_word(globals + atomic_load(&frame_at)), &left);
	while (frame && ret->count <= recorder->stack_depth) {
		uintptr_t function = python_word(frame + FRAME_FUNCTION);
		struct code_text text = text_of(function);

		chain_add(ret, function, line_of(frame), &text);
		frame = php_frame(python_word(frame + FRAME_PREVIOUS), &left);
	}
	return true;
}

static uint32_t name(struct recorder *recorder, const struct chain *chain, unsigned int i,
		     uint32_t *ret_line)
{
	struct code_text text = text_of(chain->frames[i].code);
	char joined[NAME_MAX_BYTES];

	*ret_line = (uint32_t)chain->frames[i].at;
	snprintf(joined, sizeof(joined), "%s%s%s", text.class ?: "", text.class ? "::" : "",
		 text.function ?: "{main}");
	return python_add_code(recorder, joined, text.file ?: "");
}

const struct interpreter interpreter_php = {
	.language = LEDGER_PYTHON_PHP,
	.library = "libphp",
	.linked = (void *)zend_get_executed_lineno,
	.find = find,
	.read = read_frames,
	.name = name,
};
