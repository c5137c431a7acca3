/* SPDX-License-Identifier: MIT
 *
 * A program that pretends to have an interpreter in it: of a version that nobody knows, or with
 * frames that make no sense. fake VERSION SHAPE; one allocation stays, and whatever is read of
 * the interpreter must not take the program down.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PYTHON_NONE (-1)
#define EXPORTED __attribute__((visibility("default"), used))

int cuInit(unsigned int flags);
int cuDeviceGet(int *ret, int ordinal);
int cuDevicePrimaryCtxRetain(void **ret, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(uint64_t *ret, size_t bytes);

struct row {
	int minor, frame, inner, previous, code, at, owner, entry;
	int first_line, filename, name, lines, bytecode, version, ascii;
};
static const struct row rows[] = {
#define NONE PYTHON_NONE
#define PYTHON(minor, frame, inner, previous, code, at, owner, entry, table, first_line, filename, \
	       name, lines, bytecode, version, ascii, compact, interpreters)                       \
	{ minor, frame, inner, previous, code, at, owner, entry, first_line, filename, name,       \
	  lines, bytecode, version, ascii },
#include "interpose/stack/python_offsets.def"
};

#define NEWEST (rows[sizeof(rows) / sizeof(rows[0]) - 1])

/* Where the table of the newest row has which offset. */
static const struct { int minor; size_t field; unsigned int place; } own[] = {
#define PYTHON(...)
#define PYTHON_OWN(minor, field, place) { minor, offsetof(struct row, field), place },
#include "interpose/stack/python_offsets.def"
};

static const char *version;
static char *thread;
static int ending, instruction;

EXPORTED char PyCode_Type[512], PyUnicode_Type[512], PyBytes_Type[512];
EXPORTED char _PyRuntime[1024];

EXPORTED const char *Py_GetVersion(void);
EXPORTED void *PyGILState_GetThisThreadState(void);
EXPORTED int _Py_IsFinalizing(void);
EXPORTED void *PyInterpreterState_Head(void);
EXPORTED void *PyInterpreterState_Next(void *interpreter);
EXPORTED int PyUnstable_InterpreterFrame_GetLasti(void *frame);

const char *Py_GetVersion(void)
{
	return version;
}

void *PyGILState_GetThisThreadState(void)
{
	return thread;
}

int _Py_IsFinalizing(void)
{
	return ending;
}

void *PyInterpreterState_Head(void)
{
	return PyCode_Type;
}

void *PyInterpreterState_Next(void *interpreter)
{
	(void)interpreter;
	return NULL;
}

int PyUnstable_InterpreterFrame_GetLasti(void *frame)
{
	(void)frame;
	return instruction;
}

static char *object(const void *type)
{
	char *ret = calloc(1, 8192);

	if (!ret)
		abort();
	memcpy(ret + 8, &type, sizeof(type));
	return ret;
}

static void put(char *at, int offset, const void *pointer)
{
	memcpy(at + offset, &pointer, sizeof(pointer));
}

static char *text(const struct row *row, const char *letters)
{
	char *ret = object(PyUnicode_Type);
	uint64_t length = strlen(letters), no_hash = UINT64_MAX;
	uint32_t state = 1 << 2 | 0x60;

	memcpy(ret + 16, &length, sizeof(length));
	memcpy(ret + 24, &no_hash, sizeof(no_hash));
	memcpy(ret + 32, &state, sizeof(state));
	memcpy(ret + row->ascii, letters, length);
	return ret;
}

/* A frame as it should be: one function of one name. */
static char *frame_of(const struct row *row, char **ret_code)
{
	char *code = object(PyCode_Type), *frame = object(NULL), *lines = object(PyBytes_Type);

	put(code, row->filename, text(row, "fake.py"));
	put(code, row->name, text(row, "pretend"));
	put(code, row->lines, lines);
	code[row->first_line] = 7;
	put(frame, row->code, code);
	if (row->bytecode != PYTHON_NONE)
		put(frame, row->at, code + row->bytecode - 2); /* before the first instruction */
	else
		memset(frame + row->at, 0xff, 4);
	*ret_code = code;
	return frame;
}

static void shape_text(char *string, uint64_t length, uint32_t state)
{
	uint64_t no_hash = UINT64_MAX;

	memcpy(string + 16, &length, sizeof(length));
	memcpy(string + 24, &no_hash, sizeof(no_hash));
	memcpy(string + 32, &state, sizeof(state));
	memset(string + 40, 0xff, 4096);
}

static void make(const struct row *row, const char *shape)
{
	static void *inner[8];
	char *code, *frame = frame_of(row, &code), *other;
	uint64_t huge = UINT64_MAX / 2;

	thread = object(NULL);
	if (row->inner == PYTHON_NONE) {
		put(thread, row->frame, frame);
	} else {
		put(thread, row->frame, inner);
		put((char *)inner, row->inner, frame);
	}
	if (strcmp(shape, "no-thread") == 0)
		thread = NULL;
	else if (strcmp(shape, "garbage") == 0)
		memset(thread, 0x41, 4096);
	else if (strcmp(shape, "odd") == 0)
		memset(code + 8, 0x10, 8); /* no code object */
	else if (strcmp(shape, "unaligned") == 0)
		put(frame, row->code, code + 4);
	else if (strcmp(shape, "cycle") == 0)
		put(frame, row->previous, frame);
	else if (strcmp(shape, "shims") == 0 && row->owner != PYTHON_NONE)
		frame[row->owner] = 3, put(frame, row->previous, frame);
	else if (strcmp(shape, "no-names") == 0)
		put(code, row->name, NULL), put(code, row->filename, code + 1);
	else if (strcmp(shape, "long-name") == 0)
		shape_text(other = object(PyUnicode_Type), 1000, 4 << 2 | 0x20),
			put(code, row->name, other);
	else if (strcmp(shape, "no-lines") == 0)
		put(code, row->lines, PyCode_Type);
	else if (strcmp(shape, "huge-lines") == 0)
		other = object(PyBytes_Type), memcpy(other + 16, &huge, 8),
			put(code, row->lines, other);
	else if (strcmp(shape, "ending") == 0)
		ending = 1;
}

/* A version that nobody knows, with a table of its own: right, or wrong as SHAPE says. */
static void make_newer(int minor, const char *shape)
{
	const uint64_t words[] = { (uint64_t)(3 << 8 | minor) << 16, 0 }, units = 3, size = 2;
	const struct row *row = &NEWEST;
	char *code, *frame = frame_of(row, &code), *lines = object(PyBytes_Type);

	memcpy(_PyRuntime, "xdebugpy", 8);
	memcpy(_PyRuntime + 8, words, sizeof(words));
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		uint64_t value = 0;

		memcpy(&value, (const char *)row + own[i].field, sizeof(int));
		if (own[i].minor == row->minor)
			memcpy(_PyRuntime + own[i].place, &value, sizeof(value));
	}
	thread = object(NULL);
	put(thread, row->frame, frame);
	/* Two entries of two units and of one: the line of the first is one further. */
	memcpy(lines + 16, &size, sizeof(size));
	lines[32] = (char)(0x80 | 11 << 3 | 1);
	lines[33] = (char)(0x80 | 10 << 3);
	put(code, row->lines, lines);
	memcpy(code + 16, &units, sizeof(units));
	put(frame, row->at, code + row->bytecode + 2);
	instruction = 2;
	if (strcmp(shape, "newer-instruction") == 0)
		instruction = 4;
	else if (strcmp(shape, "newer-lines") == 0)
		code[16] = 4;
	else if (strcmp(shape, "newer-name") == 0)
		put(code, row->name, code);
	else if (strcmp(shape, "newer-unmapped") == 0)
		put(frame, row->previous, (char *)0x1000000);
	else if (strcmp(shape, "newer-shifted") == 0)
		memmove(_PyRuntime + 200, _PyRuntime + 192, 560);
	else if (strcmp(shape, "newer-later") == 0)
		put(thread, row->frame, NULL);
}

int main(int argc, char **argv)
{
	const char *shape = argc > 2 ? argv[2] : "good";
	void *context;
	uint64_t address;
	int device, minor = -1;

	version = argc > 1 ? argv[1] : "3.11.0 (fake)";
	sscanf(version, "3.%d", &minor);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].minor == minor)
			make(&rows[i], shape);
	if (strncmp(shape, "newer", 5) == 0)
		make_newer(minor, shape);
	if (strcmp(shape, "cookie") == 0)
		memcpy(_PyRuntime, "xdebugpy", 8);
	if (strcmp(shape, "free-threaded") == 0) {
		uint64_t words[] = { (uint64_t)(3 << 8 | minor) << 16, 1 };

		memcpy(_PyRuntime, "xdebugpy", 8);
		memcpy(_PyRuntime + 8, words, sizeof(words));
	}
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context))
		return 1;
	for (int i = 0; i < 3; i++)
		if (cuMemAlloc_v2(&address, 1000))
			return 1;
	return 0;
}
