/* SPDX-License-Identifier: MIT
 *
 * Names of functions as their language writes them, and names that try to take the command's time.
 * Links: test_demangle.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/symbols/demangle.h"

struct example {
	const char *name;
	const char *shown;
	const char *old; /* NULL: as shown */
	bool is_ada;
};

static void check(const struct example *examples, size_t count)
{
	struct demangler demangler = { 0 };

	for (size_t i = 0; i < count; i++) {
		struct demangled names = demangle(&demangler, examples[i].name, examples[i].is_ada);

		assert_string_equal(names.name, examples[i].shown);
		if (examples[i].old)
			assert_string_equal(names.old_name, examples[i].old);
		else
			assert_null(names.old_name);
		free(names.name);
		free(names.old_name);
	}
}

#define CHECK(examples) check(examples, sizeof(examples) / sizeof(examples[0]))

static void test_without_libiberty(void **state)
{
	static const struct example examples[] = {
		{ "main", "main" },
		{ "my__helper", "my__helper" },
		{ "_ZN4pool4giveEi", "pool::give(int)" },
		{ "_ZN4pool4giveEi.part.0", "pool::give(int)" },
		{ "_ZN3app4step17h0123456789abcdefE", "app::step",
		  "app::step::h0123456789abcdef" },
		{ "__grid_MOD_allocate_all", "grid::allocate_all", "__grid_MOD_allocate_all" },
		{ "__grid_MOD_step.constprop.0", "grid::step", "__grid_MOD_step.constprop.0" },
		{ "__grid_MOD_", "__grid_MOD_" },
		{ "", "" },
	};

	(void)state;
	CHECK(examples);
}

static bool has_libiberty(void)
{
	struct demangler demangler = { 0 };
	struct demangled names = demangle(&demangler, "_ada_leak", false);
	bool ret = names.old_name != NULL;

	free(names.name);
	free(names.old_name);
	return ret;
}

static void test_with_libiberty(void **state)
{
	static const struct example examples[] = {
		{ "_RNvCs1234_3app4step", "app::step", "_RNvCs1234_3app4step" },
		{ "_RNCNvC3app4main0B3_", "app::main::{closure#0}", "_RNCNvC3app4main0B3_" },
		{ "_ZN4core3ptr32drop_in_place$LT$app..Buffer$GT$17h0123456789abcdefE.llvm.77",
		  "core::ptr::drop_in_place<app::Buffer>",
		  "core::ptr::drop_in_place$LT$app..Buffer$GT$::h0123456789abcdef" },
		{ "_D3app4stepFiZv", "app.step(int)", "_D3app4stepFiZv" },
		{ "_Dmain", "D main", "_Dmain" },
		{ "_ada_leak", "leak", "_ada_leak" },
		{ "grid__step", "grid.step", "grid__step", true },
		{ "main", "main", NULL, true },
	};

	(void)state;
	if (!has_libiberty())
		skip();
	CHECK(examples);
}

/* Writes the reference to byte AT of a name of Rust, which counts from after "_R". */
static void add_reference(char *name, size_t at)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char *to = name + strlen(name);

	*to++ = 'B';
	if (at > 62)
		*to++ = digits[(at - 1) / 62];
	*to++ = digits[(at - 1) % 62];
	strcpy(to, "_");
}

/* Each type of the first name, and each part of the second, doubles the one before it. The third
 * name nests 8,000 pointers. */
static void test_hostile(void **state)
{
	char names[3][8192] = { "_RINvC1a1f", "_D1aFS", "" };
	struct demangler demangler = { 0 };
	size_t first, last = strlen(names[0]) - 2;

	(void)state;
	strcat(names[0], "TllE");
	for (unsigned int i = 0; i < 60; i++) {
		first = last;
		last = strlen(names[0]) - 2;
		strcat(names[0], "T");
		add_reference(names[0], first);
		add_reference(names[0], first);
		strcat(names[0], "E");
	}
	strcat(names[0], "E");
	for (unsigned int i = 0; i < 500; i++)
		strcat(names[1], "QaQb");
	memset(names[2], 'P', sizeof(names[2]) - 1);
	memcpy(names[2], "_D1aF", 5);
	for (size_t i = 0; i < 3; i++) {
		struct demangled found = demangle(&demangler, names[i], false);

		assert_string_equal(found.name, names[i]);
		assert_null(found.old_name);
		free(found.name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_libiberty),
		cmocka_unit_test(test_with_libiberty),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests_name("demangle", tests, NULL, NULL);
}
