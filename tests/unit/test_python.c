/* SPDX-License-Identifier: MIT
 *
 * Line tables of CPython, honest and not; the place of Python frames among native ones; and a
 * ledger that tells of Python, then with lies in it.
 * Links: test_python.c ledger_builder.c ledger_reported.c python_lines.c, report_dep,
 * cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/model/builder.h"
#include "ledger_reported.h"
#include "report/model/model.h"
#include "interpose/stack/python.h"
#include "report/symbols/symbolize.h"

/* ---- lines ---- */

static void test_lines(void **state)
{
	static const uint8_t lnotab[] = { 6, 1, 4, 2, 10, 0xff };
	static const uint8_t lines[] = { 6, 1, 4, 0x80, 10, 0xfe };
	/* one line on, 2 units; no line, 1; three back by a long entry, 4; no columns, +70, 1 */
	static const uint8_t locations[] = { 0x80 | 11 << 3 | 1, 0, 5, 0x80 | 15 << 3,
					     0x80 | 14 << 3 | 3, 7, 0, 1, 1,
					     0x80 | 13 << 3, 0x40 | (140 & 63), 140 >> 6 };

	(void)state;
	assert_int_equal(python_line(PYTHON_LNOTAB, lnotab, sizeof(lnotab), 10, 5), 10);
	assert_int_equal(python_line(PYTHON_LNOTAB, lnotab, sizeof(lnotab), 10, 6), 11);
	assert_int_equal(python_line(PYTHON_LNOTAB, lnotab, sizeof(lnotab), 10, 10), 13);
	assert_int_equal(python_line(PYTHON_LNOTAB, lnotab, sizeof(lnotab), 10, 99), 12);
	assert_int_equal(python_line(PYTHON_LNOTAB, lnotab, sizeof(lnotab), 10, -1), 10);
	assert_int_equal(python_line(PYTHON_LINES, lines, sizeof(lines), 10, 5), 11);
	assert_int_equal(python_line(PYTHON_LINES, lines, sizeof(lines), 10, 6), 0);
	assert_int_equal(python_line(PYTHON_LINES, lines, sizeof(lines), 10, 19), 9);
	assert_int_equal(python_line(PYTHON_LINES, lines, sizeof(lines), 10, 20), 0);
	assert_int_equal(python_line(PYTHON_LOCATIONS, locations, sizeof(locations), 10, 0), 11);
	assert_int_equal(python_line(PYTHON_LOCATIONS, locations, sizeof(locations), 10, 4), 0);
	assert_int_equal(python_line(PYTHON_LOCATIONS, locations, sizeof(locations), 10, 6), 8);
	assert_int_equal(python_line(PYTHON_LOCATIONS, locations, sizeof(locations), 10, 14), 78);
	assert_int_equal(python_line(PYTHON_LOCATIONS, locations, sizeof(locations), 10, 16), 0);
	assert_int_equal(python_line(PYTHON_LOCATIONS, locations, sizeof(locations), 10, -2), 10);
	assert_int_equal(python_line(PYTHON_LOCATIONS, NULL, 0, 10, 2), 0);
}

/* Any bytes: nothing is read past their end, which sanitizers see. */
static void test_any_table(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t size = (size_t)(round % 40);
		uint8_t *table = malloc(size ? size : 1);

		assert_non_null(table);
		for (size_t i = 0; i < size; i++)
			table[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
		for (int kind = PYTHON_LNOTAB; kind <= PYTHON_LOCATIONS; kind++)
			for (int64_t at = -2; at < 300; at += 7)
				python_line((enum python_table)kind, table, size, round, at);
		free(table);
	}
}

/* ---- weaving ---- */

#define NATIVE_MAX 16

/* Letters for frames: native E evaluation loop, C its cold part, T an instruction of its own,
 * i the interpreter's other functions, n others, * after one that is marked as a loop; Python
 * 0-9, | ends a call of the loop. A chain that begins with J is one of Java, whose native frames
 * (x) have no module. */
static struct report_frame frame_for(char letter)
{
	static const char *const names[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };
	struct report_frame frame = { .module = "/usr/bin/python3.11" };

	if (letter >= '0' && letter <= '9') {
		frame.language = FRAME_PYTHON;
		frame.function = names[letter - '0'];
	} else if (letter == 'n' || letter == 'x') {
		frame.module = letter == 'n' ? "/lib/other.so" : NULL;
	} else {
		frame.function = letter == 'E' ? "_PyEval_EvalFrameDefault"
			       : letter == 'C' ? "_PyEval_EvalFrameDefault.cold"
			       : letter == 'T' ? "_TAIL_CALL_CALL.llvm.1" : "_PyObject_Call";
	}
	return frame;
}

static void woven(const char *native, const char *python, const char *expected)
{
	struct report_frame frames[2 * NATIVE_MAX];
	struct symbol_location locations[2 * NATIVE_MAX];
	const struct symbol_location *natives[NATIVE_MAX], *pythons[NATIVE_MAX];
	const struct symbol_location *ret[2 * NATIVE_MAX];
	unsigned char entry[NATIVE_MAX] = { 0 };
	struct python_frames chain = { pythons, entry, 0, 0 };
	size_t used = 0, count = 0, written;
	uint64_t loops = 0;
	int cut = 0, marked = 0;

	for (; *native; native++) {
		if (*native == '+') {
			cut = 1;
			continue;
		}
		if (*native == '*') {
			loops |= 1ull << (count - 1);
			marked = 1;
			continue;
		}
		frames[used] = frame_for(*native);
		locations[used] = (struct symbol_location){ &frames[used], 1 };
		natives[count++] = &locations[used++];
	}
	for (; *python; python++) {
		if (*python == 'J') {
			chain.whole = true;
			continue;
		}
		if (*python == '|') {
			entry[chain.count - 1] = 1;
			continue;
		}
		frames[used] = frame_for(*python);
		locations[used] = (struct symbol_location){ &frames[used], 1 };
		pythons[chain.count++] = &locations[used++];
	}
	written = build_weave(&(struct native_frames){ natives, marked ? &loops : NULL, count,
						       cut }, &chain, ret);
	assert_int_equal(written, strlen(expected));
	for (size_t i = 0; i < written; i++) {
		struct report_frame wanted = frame_for(expected[i]);

		if (wanted.language == FRAME_PYTHON)
			assert_string_equal(ret[i]->frames[0].function, wanted.function);
		else
			assert_true(ret[i]->frames[0].language == FRAME_NATIVE &&
				    ret[i]->frames[0].function == wanted.function);
	}
}

static void test_weave(void **state)
{
	(void)state;
	woven("nnxxnxn", "J012", "nn012");
	woven("nn+", "J012", "nn012");
	woven("x", "J0", "0");
	woven("nEn", "1|", "n1n");
	woven("nEiEn", "1|2|", "n1i2n");
	woven("nEnCn", "12|345|", "n12n345n");
	woven("nTTiTEn", "1|2|", "n1i2n"); /* each instruction a function of its own */
	woven("nEnEn", "1|", "n1nEn"); /* the outer one is another interpreter's */
	woven("nE+", "1|2|3|", "n123"); /* the native stack was cut */
	woven("nEn", "12", "n12n"); /* Python's was */
	woven("niin", "1|2|", "n12iin"); /* stripped: where the interpreter begins */
	woven("niEin", "1|2|", "n12iEin"); /* one of two loops can be told */
	woven("ni*ni*En", "12|3|", "n12n3En"); /* stripped, and marked */
	woven("ni*+", "12|3|", "n123");
	woven("nn", "1|", "nn1");
	woven("", "1|2|", "12");
	woven("nEn", "", "nEn");
}

static void test_roles(void **state)
{
	struct report_frame frames[] = {
		{ .function = "cuMemAlloc", .module = "/app" },
		{ .module = "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311.so" },
		{ .function = "alloc", .file = "a.py", .language = FRAME_PYTHON },
		{ .function = "_PyEval_Vector", .module = "/opt/app-with-python" },
		{ .function = "Pyramid", .module = "/opt/app-with-python" },
		{ .module = "/usr/lib/libpython3.9.so.1.0" },
		{ .module = "/x/python-module.so" },
	};
	static const enum frame_role roles[] = {
		FRAME_APPLICATION, FRAME_INTERPRETER, FRAME_APPLICATION, FRAME_INTERPRETER,
		FRAME_APPLICATION, FRAME_INTERPRETER, FRAME_APPLICATION,
	};

	(void)state;
	build_python_roles(frames, sizeof(frames) / sizeof(frames[0]));
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
		assert_int_equal(frames[i].role, roles[i]);
}

/* ---- ledgers ---- */

struct fixture {
	struct ledger_builder builder;
	struct reported reported;
};

static const struct report_process *build(struct fixture *fixture)
{
	return reported_begin(&fixture->reported, &fixture->builder);
}

static void end(struct fixture *fixture)
{
	reported_finish(&fixture->reported);
	builder_finish(&fixture->builder);
}

/* Blocks of two stacks that differ in nothing but a line of Python. */
static uint32_t begin(struct fixture *fixture)
{
	static const uint64_t pcs[] = { 0x2001, 0x2101 };
	uint32_t codes[2], lines[2] = { 7, 20 | LEDGER_PYTHON_ENTRY };
	uint32_t stack, second, row;

	memset(fixture, 0, sizeof(*fixture));
	builder_init(&fixture->builder);
	builder_module(&fixture->builder, "/usr/bin/python3.11", 0x1000, 0x9000, 0x1000, 0);
	codes[0] = builder_code(&fixture->builder, "inner", "/a.py");
	codes[1] = builder_code(&fixture->builder, "outer", "/b.py");
	stack = builder_python_stack(&fixture->builder, pcs, 2, codes, lines, 2);
	second = builder_python_stack(&fixture->builder, pcs, 2, codes, lines, 2);
	row = builder_row(&fixture->builder, "cuMemAlloc_v2", "device", 0, stack, 1, 100);
	builder_block(&fixture->builder, row, 0x100000, 100);
	row = builder_row(&fixture->builder, "cuMemAlloc_v2", "device", 0, second, 1, 100);
	builder_block(&fixture->builder, row, 0x200000, 100); /* written twice: merged */
	lines[0] = 8;
	second = builder_python_stack(&fixture->builder, pcs, 2, codes, lines, 2);
	row = builder_row(&fixture->builder, "cuMemAlloc_v2", "device", 0, second, 1, 100);
	builder_block(&fixture->builder, row, 0x300000, 10);
	return stack;
}

static void test_ledger(void **state)
{
	const struct report_frame *frame;
	const struct report_process *process;
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	process = build(&fixture);
	assert_int_equal(process->leak_count, 2);
	assert_int_equal(process->leaks[0].blocks, 2);
	assert_int_equal(process->leaks[0].site->stack->count, 4);
	/* Without symbols: before the first frame of the interpreter. */
	frame = process->leaks[0].site->stack->frames;
	assert_string_equal(frame->function, "inner");
	assert_string_equal(frame->file, "/a.py");
	assert_int_equal(frame->line, 7);
	assert_int_equal(frame->language, FRAME_PYTHON);
	assert_null(frame->module);
	assert_int_equal(frame[1].line, 20);
	assert_int_equal(frame[2].role, FRAME_INTERPRETER);
	assert_ptr_equal(report_stack_culprit(process->leaks[0].site->stack), frame);
	assert_int_equal(process->leaks[1].site->stack->frames[0].line, 8);
	assert_false(process->incomplete);
	end(&fixture);
}

static void test_lies(void **state)
{
	const struct report_process *process;
	struct fixture fixture;

	(void)state;
	for (int lie = 0; lie < 6; lie++) {
		uint32_t ref = begin(&fixture);
		struct ledger_stack *stack = builder_at(&fixture.builder, ref);
		struct ledger_python *python = builder_at(&fixture.builder, stack->python);
		struct ledger_code *code = builder_at(&fixture.builder, python->frame[0].code);

		if (lie == 0)
			python->frames = UINT16_MAX;
		else if (lie == 1)
			stack->python = UINT32_MAX;
		else if (lie == 2)
			stack->python = ref;
		else if (lie == 3)
			python->frame[0].code = stack->python;
		else if (lie == 4)
			code->function = UINT32_MAX;
		else
			python->frames = LEDGER_FRAMES_MAX;
		process = build(&fixture);
		assert_true(process->incomplete);
		assert_true(process->leak_count >= 1);
		end(&fixture);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_any_table),
		cmocka_unit_test(test_weave),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_ledger),
		cmocka_unit_test(test_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
