/* SPDX-License-Identifier: MIT
 *
 * Files that runtimes write for perf: their names, and files that are cut off, hostile, or of
 * another process. They are those of this process's pid.
 * Links: test_jit_map.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/symbols/jit_map.h"

static struct report_arena arena;
static const char *problem;
static char map_path[64], dump_path[64];

static void write_file(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static struct jit_map *read_at(uint64_t began_ns, uint64_t ended_ns)
{
	const struct jit_process process = { getpid(), 0, geteuid(), began_ns, ended_ns, NULL };

	return jit_map_read(&process, &arena, &problem);
}

static struct jit_map *read_map(const char *text)
{
	write_file(map_path, text, strlen(text));
	return read_at(0, 0);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(map_path, sizeof(map_path), "/tmp/perf-%d.map", getpid());
	snprintf(dump_path, sizeof(dump_path), "/tmp/jit-%d.dump", getpid());
	unlink(map_path);
	unlink(dump_path);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(map_path);
	unlink(dump_path);
	arena_finish(&arena);
	return 0;
}

static void check(struct jit_map *map, uint64_t address, const char *function, const char *file,
		  unsigned int line)
{
	struct jit_name name = jit_map_find(map, address);

	assert_string_equal(name.function, function);
	if (file)
		assert_string_equal(name.file, file);
	else
		assert_null(name.file);
	assert_int_equal(name.line, line);
	assert_null(name.earlier);
}

static void test_names(void **state)
{
	struct jit_map *map = read_map("1000 10 JS:*step /app/a b.js:3:15\n"
				       "1010 10 JS:~ /app/a.js:1:1\n"
				       "1020 10 JS:^cjs node:internal/modules:1105:10\n"
				       "1030 10 py::give:/app/a.py\n"
				       "1040 10 void [App] Pool::Give(int32)[OptimizedTier1]\n"
				       "1050 10 int32[] [App] Pool::List()\n"
				       "0x0000000000001060 0x10 int A.step(int)\n"
				       "1070 10 Builtin:Call\n"
				       "1080 10 JS:*odd\n"
				       "10a0 10 LazyCompile:~upload /app/a:b.js:8\n"
				       "10b0 10 LazyCompile:~load node:internal/modules:1190\n"
				       "10c0 10 Script:~ /app/a.js:8x\n");

	(void)state;
	assert_non_null(map);
	assert_null(problem);
	check(map, 0x1000, "step", "/app/a b.js", 3);
	check(map, 0x101f, "(anonymous)", "/app/a.js", 1);
	check(map, 0x1020, "cjs", "node:internal/modules", 1105);
	check(map, 0x1030, "py::give:/app/a.py", NULL, 0);
	check(map, 0x1040, "void [App] Pool::Give(int32)", NULL, 0);
	check(map, 0x1050, "int32[] [App] Pool::List()", NULL, 0);
	check(map, 0x1060, "int A.step(int)", NULL, 0);
	check(map, 0x1070, "Builtin:Call", NULL, 0);
	check(map, 0x1080, "JS:*odd", NULL, 0);
	check(map, 0x10a0, "upload", "/app/a:b.js", 8); /* Node 18 */
	check(map, 0x10b0, "load", "node:internal/modules", 1190);
	check(map, 0x10c0, "Script:~ /app/a.js:8x", NULL, 0);
	assert_null(jit_map_find(map, 0x1090).function);
	assert_null(jit_map_find(map, 0xfff).function);
	jit_map_destroy(map);
}

static void test_reused_address(void **state)
{
	struct jit_map *map = read_map("1000 100 first\n1040 10 inner\n1000 20 JS:~f /a.js:1:1\n"
				       "1000 20 JS:*f /a.js:1:1\n");
	struct jit_name name = jit_map_find(map, 0x1045);

	(void)state;
	assert_string_equal(name.function, "inner");
	assert_string_equal(name.earlier, "first");
	check(map, 0x1005, "f", "/a.js", 1);
	check(map, 0x1080, "first", NULL, 0);
	jit_map_destroy(map);
}

static void test_hostile(void **state)
{
	static const char broken[] = "\n\n \n1000\n1000 10\n1000  f\nx 10 f\n-1 10 f\n"
				     "1000 0 empty\nffffffffffffffff 10 over\n"
				     "11112222333344445 10 long\n2000 10 \x1b[31mred\x01\n"
				     "3000 10 cut off";
	size_t size = 3000000;
	char *huge = malloc(size);
	struct jit_map *map = read_map(broken);

	(void)state;
	check(map, 0x2000, "\x1b[31mred\x01", NULL, 0);
	assert_null(jit_map_find(map, 0x1000).function);
	assert_null(jit_map_find(map, 0x3000).function);
	jit_map_destroy(map);
	memset(huge, 'a', size);
	memcpy(huge, "1000 10 ", 8);
	huge[size - 1] = '\n';
	write_file(map_path, huge, size);
	map = read_at(0, 0);
	assert_int_equal(strlen(jit_map_find(map, 0x1000).function), 1000);
	jit_map_destroy(map);
	free(huge);
	assert_null(read_map(""));
	assert_non_null(strstr(problem, "has no names"));
}

/* More symbols cover one address than are worth looking at. */
static void test_many(void **state)
{
	FILE *file = fopen(map_path, "w");
	struct jit_map *map;

	(void)state;
	for (int i = 0; i < 1000001; i++)
		fprintf(file, "%x fffff f%d\n", 0x1000 + i / 100, i);
	fclose(file);
	map = read_at(0, 0);
	assert_non_null(strstr(problem, "too large"));
	for (int i = 0; i < 1000; i++)
		assert_non_null(jit_map_find(map, 0x9000).function);
	jit_map_destroy(map);
}

static void test_of_another(void **state)
{
	uint64_t now = (uint64_t)time(NULL) * 1000000000u;
	const struct jit_process other = { getpid(), 0, geteuid() + 1, 0, 0, NULL };
	char target[80];

	(void)state;
	jit_map_destroy(read_map("1000 10 f\n"));
	assert_null(problem);
	assert_null(read_at(now + 60000000000u, 0));
	assert_null(problem); /* left from an earlier process with this pid */
	assert_null(read_at(0, now - 60000000000u));
	assert_non_null(strstr(problem, "of another process or user"));
	assert_null(jit_map_read(&other, &arena, &problem));
	assert_non_null(strstr(problem, "of another process or user"));
	snprintf(target, sizeof(target), "%s.target", map_path);
	assert_int_equal(rename(map_path, target), 0);
	assert_int_equal(symlink(target, map_path), 0);
	assert_null(read_at(0, 0));
	assert_non_null(strstr(problem, "cannot be read"));
	unlink(target);
	unlink(map_path);
	assert_int_equal(mkfifo(map_path, 0600), 0);
	assert_null(read_at(0, 0));
	unlink(map_path);
	assert_null(read_at(0, 0));
	assert_null(problem);
}

/* A header, the code of "give" at 0x1000, its move to 0x2000, and a record that is cut off. */
static void test_dump(void **state)
{
	uint32_t words[64] = { 0x4a695444, 1, 40, 62, 0, (uint32_t)getpid() };
	const uint32_t load[] = { 0, 64, 0, 0, 0, 0, 0, 0, 0x1000, 0, 16, 0, 7, 0 };
	const uint32_t move[] = { 1, 64, 0, 0, 0, 0, 0, 0, 0x1000, 0, 0x2000, 0, 16, 0, 7, 0 };
	const uint32_t cut[] = { 0, 4000, 0, 0 };
	struct jit_map *map;

	(void)state;
	memcpy(words + 10, load, sizeof(load));
	memcpy((char *)words + 40 + sizeof(load), "give", 5);
	memcpy(words + 26, move, sizeof(move));
	memcpy(words + 42, cut, sizeof(cut));
	write_file(dump_path, words, 46 * sizeof(words[0]));
	map = read_at(0, 0);
	assert_non_null(map);
	assert_null(problem);
	check(map, 0x1008, "give", NULL, 0);
	assert_null(jit_map_find(map, 0x2008).function);
	jit_map_destroy(map);
	words[5]++;
	write_file(dump_path, words, 46 * sizeof(words[0]));
	assert_null(read_at(0, 0));
	assert_non_null(strstr(problem, "has no names"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_names), TEST(test_reused_address), TEST(test_hostile),
		TEST(test_many),  TEST(test_of_another),     TEST(test_dump),
	};

	return cmocka_run_group_tests_name("jit-map", tests, NULL, NULL);
}
