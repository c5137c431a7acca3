/* SPDX-License-Identifier: MIT
 *
 * Makes the environment of a program that this process starts, and wraps posix_spawn(), which
 * starts one. exit.c has the wrappers of exec. Must not allocate, and must not write to memory
 * other than the caller's: it runs in vfork children and in signal handlers.
 */
#include "interpose/process/follow.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/base/export.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/process/start.h"
#include "ledger/run_environment.h"

#define ROWS_MAX 128u
/* A larger environment is handed on as it is. `gpuleak run` then finds the program by itself. */
#define BYTES_MAX ((size_t)128 << 10)

/* A variable that `gpuleak run` has set. */
struct follow_row {
	const char *text; /* NAME=VALUE, or NAME=ELEMENTS of a list */
	size_t name;      /* length of NAME */
	bool is_list;
	bool is_behind; /* the list's elements follow those of the application */
};

static struct follow_row rows[ROWS_MAX];
static unsigned int row_count;
static char store[65536]; /* texts of the rows */
static size_t stored;
static char library[PATH_MAX]; /* that `gpuleak run` preloads */

/* ---- start ---- */

static bool store_byte(char byte)
{
	if (stored == sizeof(store))
		return false;
	store[stored++] = byte;
	return true;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Stores WORD with its escapes replaced. Returns true if there was room. */
static bool store_word(const char *word, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		int high = -1, low = -1;

		if (word[i] == '%' && i + 2 < length) {
			high = hex_digit(word[i + 1]);
			low = hex_digit(word[i + 2]);
		}
		if (!store_byte(high < 0 || low < 0 ? word[i] : (char)(high * 16 + low)))
			return false;
		if (high >= 0 && low >= 0)
			i += 2;
	}
	return store_byte('\0');
}

/* Returns the variable NAME of this process as NAME=VALUE, or NULL. */
static const char *find_variable(const char *name, size_t length)
{
	for (char **variable = environ; *variable; variable++)
		if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=')
			return *variable;
	return NULL;
}

static struct follow_row *row_of(const char *name, size_t length)
{
	for (struct follow_row *row = rows; row < rows + row_count; row++)
		if (row->name == length && memcmp(row->text, name, length) == 0)
			return row;
	return NULL;
}

static void add_row(const char *word, size_t length)
{
	const char *equals = memchr(word, '=', length);
	struct follow_row *row = &rows[row_count];
	const size_t before = stored;
	const char *value;

	if (row_of(word, equals ? (size_t)(equals - word) : length))
		return; /* an outer `gpuleak run` has set it, too */
	*row = (struct follow_row){
		.text = store + stored,
		.name = equals ? (size_t)(equals - word) : length,
		.is_list = equals != NULL,
		.is_behind = length > 11 && memcmp(word, "LD_PRELOAD=", 11) == 0,
	};
	if (equals) {
		if (store_word(word, length))
			row_count++;
		else
			stored = before;
		return;
	}
	value = find_variable(word, length);
	if (!value || strlen(value) >= sizeof(store) - stored)
		return;
	strcpy(store + stored, value);
	stored += strlen(value) + 1;
	row_count++;
}

/* Stores the path of the library, which is the first element of LD_PRELOAD. */
static void find_library(void)
{
	const struct follow_row *row = row_of("LD_PRELOAD", 10);
	const char *path = row ? row->text + row->name + 1 : "";
	const size_t length = strcspn(path, ":");

	if (length < sizeof(library))
		memcpy(library, path, length);
}

void follow_start(void)
{
	const char *at = config_run;
	size_t length;

	if (!at || !environ || config.follow == OPTION_SWITCH_OFF)
		return;
	for (; *at && row_count < ROWS_MAX; at += length) {
		at += strspn(at, " ");
		length = strcspn(at, " ");
		if (length)
			add_row(at, length);
	}
	if (row_count < ROWS_MAX)
		add_row(RUN_ENVIRONMENT, strlen(RUN_ENVIRONMENT));
	find_library();
}

/* ---- an environment ---- */

/* Counts what an environment needs, and writes it if `pointers` and `text` are set. */
struct building {
	char **pointers;
	char *text;
	struct follow_size room, used;
	bool changed;
	bool found[ROWS_MAX];
};

static void add_pointer(struct building *b, const char *variable)
{
	if (b->pointers && b->used.pointers < b->room.pointers)
		b->pointers[b->used.pointers] = (char *)(uintptr_t)variable;
	b->used.pointers++;
}

static void add_text(struct building *b, const char *text, size_t length)
{
	if (b->text && b->used.text + length <= b->room.text)
		memcpy(b->text + b->used.text, text, length);
	b->used.text += length;
}

static bool has_element(const char *list, const char *separators, const char *element,
			size_t length)
{
	for (size_t n; *list; list += n + (list[n] != '\0')) {
		n = strcspn(list, separators);
		if (n == length && memcmp(list, element, n) == 0)
			return true;
	}
	return false;
}

/* Adds the elements of ROW that LIST lacks, separated by colons. Returns their number. B may be
 * NULL. */
static unsigned int add_missing(struct building *b, const struct follow_row *row, const char *list)
{
	const char *at = row->text + row->name + 1;
	unsigned int count = 0;

	for (size_t n; *at; at += n + (at[n] != '\0')) {
		n = strcspn(at, ":");
		/* the dynamic loader separates LD_PRELOAD by blanks, too */
		if (has_element(list, row->is_behind ? ": " : ":", at, n))
			continue;
		if (count++ && b)
			add_text(b, ":", 1);
		if (b)
			add_text(b, at, n);
	}
	return count;
}

/* Adds VARIABLE, which is ROW's list, with the elements that it lacks. */
static void add_list(struct building *b, const struct follow_row *row, const char *variable)
{
	const char *list = variable + row->name + 1;
	const size_t start = b->used.text;

	if (add_missing(NULL, row, list) == 0) {
		add_pointer(b, variable);
		return;
	}
	b->changed = true;
	add_text(b, row->text, row->name + 1);
	if (row->is_behind && *list) {
		add_text(b, list, strlen(list));
		add_text(b, ":", 1);
	}
	add_missing(b, row, list);
	if (!row->is_behind && *list) {
		add_text(b, ":", 1);
		add_text(b, list, strlen(list));
	}
	add_text(b, "", 1);
	add_pointer(b, b->text ? b->text + start : NULL);
}

/* Adds VARIABLE. If `gpuleak run` has set it, and the application has another value for it, that
 * value stays. */
static void add_variable(struct building *b, const char *variable)
{
	const struct follow_row *row = row_of(variable, strcspn(variable, "="));

	if (row)
		b->found[row - rows] = true;
	if (row && row->is_list && variable[row->name])
		add_list(b, row, variable);
	else
		add_pointer(b, variable);
}

/* Returns false if the environment stays as it is. */
static bool build(struct building *b, char *const envp[])
{
	for (char *const *variable = envp; variable && *variable; variable++) {
		if (strcmp(*variable, RUN_ENVIRONMENT_OFF) == 0)
			return false;
		add_variable(b, *variable);
	}
	for (unsigned int i = 0; i < row_count; i++) {
		if (b->found[i])
			continue;
		add_pointer(b, rows[i].text);
		b->changed = true;
	}
	add_pointer(b, NULL);
	return b->changed;
}

/* Returns false after chroot() or a change of the user: the loader would print an error. */
static bool library_is_readable(void)
{
	KEEP_ERRNO;

	return access(library, R_OK) == 0;
}

struct follow_size follow_measure(char *const envp[])
{
	struct building b = { 0 };

	if (row_count == 0 || !build(&b, envp) || !library_is_readable())
		return (struct follow_size){ 0 };
	b.used.bytes = b.used.pointers * sizeof(char *) + b.used.text;
	if (b.used.bytes > BYTES_MAX)
		b.used.bytes = 0;
	return b.used;
}

char **follow_write(char *const envp[], struct follow_size size, void *memory)
{
	struct building b = { .pointers = memory,
			      .text = (char *)memory + size.pointers * sizeof(char *),
			      .room = size };

	return build(&b, envp) && b.used.pointers == size.pointers && b.used.text == size.text
		       ? b.pointers
		       : NULL;
}

/* ---- posix_spawn ---- */

typedef int spawn_fn(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

/* Calls REAL with the environment FOLLOWED, or with ENVP if that is NULL or too long for the
 * kernel. */
static int spawn(spawn_fn *real, pid_t *pid, const char *file,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		 char *const argv[], char *const envp[], char **followed)
{
	int r = E2BIG;

	if (!real)
		return ENOSYS;
	if (followed)
		r = real(pid, file, actions, attributes, argv, followed);
	if (r == E2BIG)
		r = real(pid, file, actions, attributes, argv, envp);
	if (r == 0)
		process_count_started(1);
	return r;
}

#define SPAWN(name, search)                                                            \
	EXPORT int name(pid_t *restrict pid, const char *restrict file,                \
			const posix_spawn_file_actions_t *restrict actions,            \
			const posix_spawnattr_t *restrict attributes,                  \
			char *const argv[restrict], char *const envp[restrict])        \
	{                                                                              \
		static spawn_fn *real;                                                 \
		if (!real)                                                             \
			real = (spawn_fn *)resolve_next(#name);                        \
		return spawn(real, pid, file, actions, attributes, argv, envp,         \
			     FOLLOW(envp, file, search));                              \
	}

SPAWN(posix_spawn, PROGRAM_AT_PATH)
SPAWN(posix_spawnp, PROGRAM_IN_PATH)
