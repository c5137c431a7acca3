/* SPDX-License-Identifier: MIT
 *
 * Two frees of one block at one moment, answered by the driver in every order, against the
 * recording half itself (interpose_recording, ledger_dep, cmocka, threads): one block ends, one
 * error is told, of the call that was refused, and nothing is left over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/block/blocks.h"
#include "own_ledger.h"
#include "ledger/reader.h"
#include "interpose/block/free_race.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/stack/unwinder.h"

enum { ADDRESS = 0x7000, BYTES = 640, INVALID = 1, RACES = 2000 };

/* Each thread has calls of its own, as wrappers have. */
static __thread struct call made = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY };
static __thread struct call pinned = { &hooks[HOOK_cuMemAllocHost_v2], NULL, SPACE_MEMORY };
static __thread struct call freed = { &hooks[HOOK_cuMemFree_v2], NULL, SPACE_MEMORY };
static __thread struct call freed_async = { &hooks[HOOK_cuMemFreeAsync], NULL, SPACE_MEMORY };

struct figures {
	int64_t live;
	uint64_t errors, unknown, refused, stale;
};

static struct figures figures(void)
{
	const struct ledger_header *header = recorder_now()->header;

	return (struct figures){
		live_bytes_total(recorder_now()), header->errors,
		header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES],
		header->trouble[LEDGER_TROUBLE_REFUSED_FREES],
		header->trouble[LEDGER_TROUBLE_STALE_BLOCKS],
	};
}

static void changed_by(const struct figures *before, struct figures by)
{
	struct figures now = figures();

	assert_int_equal(now.live - before->live, by.live);
	assert_int_equal(now.errors - before->errors, by.errors);
	assert_int_equal(now.unknown - before->unknown, by.unknown);
	assert_int_equal(now.refused - before->refused, by.refused);
	assert_int_equal(now.stale - before->stale, by.stale);
}

/* The newest error is a double free by LOSER of what WINNER freed. */
static void newest_error_is(const struct call *loser, const struct call *winner)
{
	struct recorder *recorder = recorder_now();
	const struct ledger_error *error = NULL, *next;
	const struct ledger_string *type;
	struct ledger_walk walk = { 0, 0 };
	struct ledger_view view;

	ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view);
	while ((next = ledger_next_error(&view, &walk)))
		error = next;
	assert_non_null(error);
	type = ledger_at(&recorder->writer, error->type);
	assert_int_equal(type->length, strlen("double-free"));
	assert_memory_equal(type->bytes, "double-free", type->length);
	assert_int_equal(error->api, recorder_name_ref(recorder, loser->hook));
	assert_int_equal(error->freed.api, recorder_name_ref(recorder, winner->hook));
	assert_int_equal(error->allocated.api, recorder_name_ref(recorder, made.hook));
	assert_int_equal(error->block_bytes, BYTES);
	assert_int_equal(error->result, INVALID);
}

/* FIRST took the block out of the table, SECOND found it gone. */
static void begin(struct freeing *first, struct freeing *second)
{
	record_made(&made, ADDRESS, BYTES, 1, 0, 0);
	record_freeing(&freed, ADDRESS, first);
	record_freeing(&freed_async, ADDRESS, second);
	assert_non_null(first->block);
	assert_null(second->block);
}

static void test_first_wins(void **state)
{
	struct figures before = figures();
	struct freeing first, second;

	(void)state;
	begin(&first, &second);
	record_freed(&freed, &first, OUTCOME_DONE, 0);
	record_freed(&freed_async, &second, OUTCOME_INVALID, INVALID);
	changed_by(&before, (struct figures){ .errors = 1 });
	newest_error_is(&freed_async, &freed);

	before = figures();
	begin(&first, &second);
	record_freed(&freed_async, &second, OUTCOME_INVALID, INVALID);
	record_freed(&freed, &first, OUTCOME_DONE, 0);
	changed_by(&before, (struct figures){ .errors = 1 });
	newest_error_is(&freed_async, &freed);
}

static void test_second_wins(void **state)
{
	struct figures before = figures();
	struct freeing first, second;

	(void)state;
	begin(&first, &second);
	record_freed(&freed_async, &second, OUTCOME_DONE, 0);
	record_freed(&freed, &first, OUTCOME_INVALID, INVALID);
	changed_by(&before, (struct figures){ .errors = 1 });
	newest_error_is(&freed, &freed_async);
}

/* The refused call is back first: for a moment the block seems to be there. */
static void test_second_wins_later(void **state)
{
	struct figures before = figures();
	struct freeing first, second;

	(void)state;
	begin(&first, &second);
	record_freed(&freed, &first, OUTCOME_INVALID, INVALID);
	changed_by(&before, (struct figures){ .live = BYTES, .refused = 1 });
	record_freed(&freed_async, &second, OUTCOME_DONE, 0);
	changed_by(&before, (struct figures){ .errors = 1 });
	newest_error_is(&freed, &freed_async);
}

/* The driver hands the address out again before the refused call is back. */
static void test_handed_out_again(void **state)
{
	struct figures before = figures();
	struct freeing first, second;

	(void)state;
	begin(&first, &second);
	record_freed(&freed_async, &second, OUTCOME_DONE, 0);
	record_made(&made, ADDRESS, 100, 1, 0, 0);
	record_freed(&freed, &first, OUTCOME_INVALID, INVALID);
	changed_by(&before, (struct figures){ .live = 100, .errors = 1 });
	newest_error_is(&freed, &freed_async);
	record_freeing(&freed, ADDRESS, &first);
	record_freed(&freed, &first, OUTCOME_DONE, 0);
	changed_by(&before, (struct figures){ .errors = 1 });
}

/* No reason of ours: the block stays, and what is said of it is as if there had been one call. */
static void test_both_refused(void **state)
{
	struct figures before = figures();
	struct freeing first, second;

	(void)state;
	record_made(&pinned, ADDRESS, BYTES, 1, 0, 0);
	record_freeing(&freed, ADDRESS, &first);
	record_freeing(&freed, ADDRESS, &second);
	record_freed(&freed, &first, OUTCOME_INVALID, INVALID); /* a call for another kind */
	record_freed(&freed, &second, OUTCOME_INVALID, INVALID);
	changed_by(&before, (struct figures){ .live = BYTES, .errors = 2 });

	/* The call for another kind, and beside it the right one, which was later. */
	before = figures();
	record_freeing(&freed, ADDRESS, &first);
	record_freeing(&freed_async, ADDRESS, &second);
	record_freed(&freed, &first, OUTCOME_INVALID, INVALID);
	record_freed(&freed_async, &second, OUTCOME_DONE, 0);
	changed_by(&before, (struct figures){ .live = -BYTES, .errors = 1 });
}

/* The coarse clock's tick, several times. */
static void ticks(void)
{
	usleep(20000);
}

/* Memory whose making nobody saw was at an address that we knew: no free of what comes there later
 * is blamed on that. */
static void test_unknown(void **state)
{
	struct figures before = figures();
	struct freeing freeing;

	(void)state;
	for (int i = 0; i < 2 * FREE_RACES_MAX; i++) {
		record_freeing(&freed, ADDRESS, &freeing);
		assert_null(freeing.block);
		record_freed(&freed, &freeing, OUTCOME_DONE, 0);
		if (i == FREE_RACES_MAX + FREE_RACES_MAX / 2)
			ticks();
	}
	changed_by(&before, (struct figures){ .unknown = 2 * FREE_RACES_MAX });
	ticks();
	record_made(&made, ADDRESS, BYTES, 1, 0, 0);
	record_freeing(&freed, ADDRESS, &freeing);
	record_freed(&freed, &freeing, OUTCOME_INVALID, INVALID);
	changed_by(&before, (struct figures){ .live = BYTES, .unknown = 2 * FREE_RACES_MAX,
					      .refused = 1 });
	record_freeing(&freed, ADDRESS, &freeing);
	record_freed(&freed, &freeing, OUTCOME_DONE, 0);
	changed_by(&before, (struct figures){ .unknown = 2 * FREE_RACES_MAX, .refused = 1 });
}

/* More at one moment than are told apart: nothing is lost but that. Each of the first has a place
 * of its own; which one goes by the age of what the test before left there. */
static void test_many(void **state)
{
	struct figures before = figures();
	struct freeing first, others[FREE_RACES_MAX + 8];
	bool taken[FREE_RACES_MAX + 1] = { false };

	(void)state;
	record_made(&made, ADDRESS, BYTES, 1, 0, 0);
	record_freeing(&freed, ADDRESS, &first);
	for (int i = 0; i < FREE_RACES_MAX + 8; i++) {
		record_freeing(&freed, ADDRESS, &others[i]);
		if (i >= FREE_RACES_MAX) {
			assert_int_equal(others[i].race, 0);
			continue;
		}
		assert_uint_in_range(others[i].race, 1, FREE_RACES_MAX);
		assert_false(taken[others[i].race]);
		taken[others[i].race] = true;
	}
	record_freed(&freed, &first, OUTCOME_DONE, 0);
	for (int i = 0; i < FREE_RACES_MAX + 8; i++)
		record_freed(&freed, &others[i], OUTCOME_INVALID, INVALID);
	changed_by(&before, (struct figures){ .errors = FREE_RACES_MAX + 8 });
}

/* ---- by threads ---- */

static pthread_barrier_t line;
static _Atomic bool there;
static _Atomic int ended;

static void *race(void *number)
{
	struct freeing freeing;

	for (int i = 0; i < RACES; i++) {
		if (number) {
			record_made(&made, ADDRESS, BYTES, 1, 0, 0);
			atomic_store(&there, true);
		}
		pthread_barrier_wait(&line);
		record_freeing(&freed, ADDRESS, &freeing);
		if (i % 3 == (number ? 0 : 1))
			sched_yield();
		if (atomic_exchange(&there, false)) /* a driver */
			record_freed(&freed, &freeing, OUTCOME_DONE, 0);
		else
			record_freed(&freed, &freeing, OUTCOME_INVALID, INVALID);
		pthread_barrier_wait(&line);
	}
	atomic_fetch_add(&ended, 1);
	for (;;)
		pause(); /* see test_storm.c */
	return NULL;
}

static void test_threads(void **state)
{
	struct figures before = figures();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_barrier_init(&line, NULL, 2), 0);
	for (uintptr_t i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, race, (void *)i), 0);
		pthread_detach(thread);
	}
	while (atomic_load(&ended) < 2)
		usleep(1000);
	changed_by(&before, (struct figures){ .errors = RACES });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_wins),
		cmocka_unit_test(test_second_wins),
		cmocka_unit_test(test_second_wins_later),
		cmocka_unit_test(test_handed_out_again),
		cmocka_unit_test(test_both_refused),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_threads),
	};

	setenv("GPULEAK_STACK_DEPTH", "16", 1);
	process_start();
	unwinder_load(); /* see test_storm.c */
	recorder_touch();
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
