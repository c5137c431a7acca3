/* SPDX-License-Identifier: MIT
 *
 * Parts of a range against a model that is an array of owners: random programs of takes and
 * gives, where memory fails at times. Nothing overlaps, everything is found, and a range of
 * which everything was given back is one piece again. The arena is the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interpose/base/range_allocator.h"

#define UNITS_MAX 20000u
#define LIVE_MAX 4096u
#define STEPS 30000u
#define SEEDS 42u

/* ---- memory that may fail ---- */

static int64_t held_bytes;
static uint32_t fail_one_in; /* 0: never */

static uint32_t random_state;

static uint32_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

void *arena_take(struct arena *arena, size_t size)
{
	(void)arena;
	if (fail_one_in && next_random() % fail_one_in == 0)
		return NULL;
	held_bytes += (int64_t)size;
	return calloc(1, size);
}

void arena_give(struct arena *arena, void *memory, size_t size)
{
	(void)arena;
	held_bytes -= (int64_t)size;
	free(memory);
}

/* ---- the model ---- */

struct part {
	uint32_t first, units, node;
	uint64_t note;
};

static struct part live[LIVE_MAX];
static uint32_t lives;
static uint32_t owner[UNITS_MAX]; /* 0 or the part's number + 1, of a unit */
static uint32_t range_units, free_units;

static void start(uint32_t units)
{
	memset(owner, 0, sizeof(owner));
	range_units = free_units = units;
	lives = 0;
}

static void own(const struct part *part, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < part->units; i++) {
		assert_true(part->first + i < range_units);
		assert_int_equal(owner[part->first + i], from);
		owner[part->first + i] = to;
	}
}

static uint32_t rounded_up(uint32_t units)
{
	uint32_t power = 1;

	while (power < units)
		power *= 2;
	return power;
}

/* What is always found: an eighth more than was asked for, and the alignment. */
static uint32_t surely(uint32_t units, uint32_t align)
{
	uint64_t all = (uint64_t)units + align - 1;

	return (uint32_t)(all < 8 ? all : all + rounded_up((uint32_t)all) / 8);
}

static uint32_t longest_free(void)
{
	uint32_t longest = 0, run = 0;

	for (uint32_t i = 0; i < range_units; i++) {
		run = owner[i] ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	return longest;
}

static bool take(struct range_allocator *range, uint32_t units, uint32_t align)
{
	struct part part = { .units = units };
	uint32_t least = rounded_up(units) < align ? rounded_up(units) : align;
	bool may_fail = fail_one_in;

	part.first = range_allocate(range, units, align, &part.node);
	if (part.first == RANGE_NONE) {
		if (!may_fail)
			assert_true(longest_free() < surely(units, least));
		return false;
	}
	assert_int_equal(part.first % least, 0);
	assert_int_equal(*range_note(range, part.node), 0);
	part.note = *range_note(range, part.node) = (uint64_t)next_random() << 32 | units;
	own(&part, 0, lives + 1);
	live[lives++] = part;
	free_units -= units;
	return true;
}

static void give(struct range_allocator *range, uint32_t index)
{
	const struct part part = live[index];

	assert_int_equal(*range_note(range, part.node), part.note);
	range_free(range, part.node);
	own(&part, index + 1, 0);
	free_units += part.units;
	lives--;
	if (index == lives)
		return;
	live[index] = live[lives];
	own(&live[index], lives + 1, index + 1);
}

/* What is cut off is free again, and one with what lies behind it. */
static void cut(struct range_allocator *range, uint32_t index)
{
	struct part *part = &live[index], rest;
	uint32_t units;

	if (part->units == 1)
		return;
	units = 1 + next_random() % (part->units - 1);
	if (!range_shrink(range, part->node, units)) {
		assert_true(fail_one_in);
		return;
	}
	rest = (struct part){ .first = part->first + units, .units = part->units - units };
	own(&rest, index + 1, 0);
	free_units += rest.units;
	part->units = units;
	assert_int_equal(*range_note(range, part->node), part->note);
}

static void look_up(const struct range_allocator *range, uint32_t unit)
{
	uint32_t first, units, node;
	bool found = range_lookup(range, unit, &first, &units, &node);

	if (unit >= range_units || !owner[unit]) {
		assert_false(found);
		return;
	}
	assert_true(found);
	assert_int_equal(first, live[owner[unit] - 1].first);
	assert_int_equal(units, live[owner[unit] - 1].units);
	assert_int_equal(node, live[owner[unit] - 1].node);
}

static void check(struct range_allocator *range)
{
	uint32_t longest = longest_free(), largest = range_largest(range);

	assert_int_equal(range->free_units, free_units);
	assert_int_equal(range->free_units == range->units, lives == 0);
	assert_true(largest <= longest);
	assert_true(longest < 8 ? largest == longest : longest - largest <= longest / 8);
	for (int i = 0; i < 8; i++)
		look_up(range, next_random() % (range_units + 2));
}

/* All is one piece again, and may be had as one. */
static void give_all(struct range_allocator *range)
{
	uint32_t node;

	while (lives)
		give(range, next_random() % lives);
	assert_int_equal(range->free_units, range->units);
	assert_int_equal(range_largest(range), range_units);
	assert_int_equal(range_allocate(range, range_units, 1, &node), 0);
	assert_int_equal(range_largest(range), 0);
	range_free(range, node);
	assert_int_equal(range->free_units, range->units);
}

static uint32_t some_units(void)
{
	uint32_t most = range_units < 512 ? range_units : 512;

	switch (next_random() % 8) {
	case 0:
		return 1 + next_random() % range_units;
	case 1:
		return 1u << next_random() % 9;
	case 2:
		return 1 + next_random() % most;
	default:
		return 1 + next_random() % 9;
	}
}

/* The share of takes goes up and down, so that the range is full and empty in turn. */
static void run(uint32_t seed, uint32_t units)
{
	struct range_allocator range;

	random_state = seed * 2654435761u | 1;
	start(units);
	assert_true(range_init(&range, NULL, units));
	for (uint32_t step = 0; step < STEPS; step++) {
		if (lives < LIVE_MAX && next_random() % 16 < (step / 2000 % 2 ? 6 : 11))
			take(&range, some_units(), 1u << next_random() % 8);
		else if (lives)
			give(&range, next_random() % lives);
		if (lives && next_random() % 8 == 0)
			cut(&range, next_random() % lives);
		if (step % 64 == 0)
			check(&range);
		if (step % 7000 == 6999)
			give_all(&range);
	}
	give_all(&range);
	range_finish(&range);
	assert_int_equal(held_bytes, 0);
}

static void test_random(void **state)
{
	static const uint32_t ranges[] = { 1, 7, 64, 65, 4096, 4097, UNITS_MAX };

	(void)state;
	for (uint32_t seed = 1; seed <= SEEDS; seed++)
		run(seed, ranges[seed % (sizeof(ranges) / sizeof(ranges[0]))]);
}

/* A take without memory for it is as if it had not been tried; a give always works. */
static void test_no_memory(void **state)
{
	struct range_allocator range;
	uint32_t refused = 0;

	(void)state;
	random_state = 77;
	fail_one_in = 2;
	for (int i = 0; i < 200; i++) {
		start(UNITS_MAX);
		if (!range_init(&range, NULL, UNITS_MAX)) {
			assert_int_equal(held_bytes, 0);
			refused++;
			continue;
		}
		for (int step = 0; step < 400; step++) {
			if (lives < 300)
				refused += !take(&range, 1 + next_random() % 64, 1);
			else
				give(&range, next_random() % lives);
			if (lives && step % 3 == 0)
				cut(&range, next_random() % lives);
			if (step % 50 == 0)
				check(&range);
		}
		fail_one_in = 0;
		give_all(&range);
		fail_one_in = 2;
		range_finish(&range);
		assert_int_equal(held_bytes, 0);
	}
	fail_one_in = 0;
	assert_true(refused > 200);
}

/* Given as it is taken, unit by unit: every neighbour is taken, or none is. */
static void test_every_unit(void **state)
{
	struct range_allocator range;

	(void)state;
	random_state = 5;
	start(4096);
	assert_true(range_init(&range, NULL, range_units));
	while (take(&range, 1, 1))
		;
	assert_int_equal(lives, 4096);
	assert_int_equal(range_largest(&range), 0);
	for (uint32_t unit = 0; unit < range_units; unit++)
		look_up(&range, unit);
	give_all(&range);
	range_finish(&range);
}

/* Exact alignment, where the only room that is large enough does not begin at it. */
static void test_alignment(void **state)
{
	uint32_t node[3], first, units, found;
	struct range_allocator range;

	(void)state;
	assert_true(range_init(&range, NULL, 64));
	assert_int_equal(range_allocate(&range, 1, 64, &node[0]), 0);
	assert_int_equal(range_allocate(&range, 32, 64, &node[1]), 32);
	assert_int_equal(range_allocate(&range, 9, 16, &node[2]), 16);
	assert_int_equal(range_allocate(&range, 16, 16, &found), RANGE_NONE);
	assert_int_equal(range.free_units, 64 - 1 - 32 - 9);
	assert_false(range_lookup(&range, 15, &first, &units, &found));
	assert_true(range_lookup(&range, 24, &first, &units, &found));
	assert_int_equal(first, 16);
	assert_int_equal(units, 9);
	assert_int_equal(found, node[2]);
	assert_false(range_lookup(&range, 25, &first, &units, &found));
	for (int i = 0; i < 3; i++)
		range_free(&range, node[i]);
	range_free(&range, node[2]);
	assert_int_equal(range_largest(&range), 64);
	assert_int_equal(range_allocate(&range, 0, 1, &found), RANGE_NONE);
	assert_int_equal(range_allocate(&range, 65, 1, &found), RANGE_NONE);
	range_finish(&range);
	assert_int_equal(held_bytes, 0);
}

/* 2 TiB less one unit: both ends, the middle, and what is next to them. */
static void test_largest_range(void **state)
{
	const uint32_t all = UINT32_MAX, half = 1u << 31;
	uint32_t node[4], first, units, found;
	struct range_allocator range;

	(void)state;
	assert_true(range_init(&range, NULL, all));
	assert_int_equal(range_allocate(&range, half, half, &node[0]), 0);
	assert_int_equal(range_allocate(&range, 1u << 30, half, &node[1]), half);
	assert_int_equal(range_allocate(&range, (1u << 30) - 2, 1, &node[2]), half + (1u << 30));
	assert_int_equal(range_allocate(&range, 1, 1, &node[3]), all - 1);
	assert_int_equal(range.free_units, 0);
	assert_true(range_lookup(&range, all - 1, &first, &units, &found));
	assert_int_equal(found, node[3]);
	assert_true(range_lookup(&range, half - 1, &first, &units, &found));
	assert_int_equal(found, node[0]);
	assert_true(range_lookup(&range, all - 2, &first, &units, &found));
	assert_int_equal(first, half + (1u << 30));
	range_free(&range, node[2]);
	assert_false(range_lookup(&range, all - 2, &first, &units, &found));
	assert_true(range_lookup(&range, half, &first, &units, &found));
	assert_false(range_lookup(&range, all, &first, &units, &found));
	range_free(&range, node[0]);
	range_free(&range, node[3]);
	range_free(&range, node[1]);
	assert_int_equal(range_largest(&range), all);
	range_finish(&range);
	assert_int_equal(held_bytes, 0);
}

static double pair_ns(uint32_t parts)
{
	uint32_t *node = malloc(parts * sizeof(*node)), pairs = 200000, found;
	struct timespec from, to;
	struct range_allocator range;

	assert_true(range_init(&range, NULL, parts * 40));
	for (uint32_t i = 0; i < parts; i++)
		assert_true(range_allocate(&range, 1 + next_random() % 32, 1, &node[i]) !=
			    RANGE_NONE);
	/* Holes of all sizes beside parts that stay. */
	for (uint32_t i = 0; i < parts; i += 2)
		range_free(&range, node[i]);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (uint32_t i = 0; i < pairs; i++) {
		assert_true(range_allocate(&range, 1 + next_random() % 32, 1, &found) !=
			    RANGE_NONE);
		range_free(&range, found);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	range_finish(&range);
	free(node);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       pairs;
}

/* 4,000 times the parts: a walk of any of them would take 4,000 times as long. The rest is
 * caches and whatever else runs on the machine. */
static void test_constant_time(void **state)
{
	double few, many;

	(void)state;
	random_state = 9;
	few = pair_ns(100);
	many = pair_ns(400000);
	assert_true(many < few * 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_every_unit),
		cmocka_unit_test(test_alignment),
		cmocka_unit_test(test_largest_range),
		cmocka_unit_test(test_constant_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
