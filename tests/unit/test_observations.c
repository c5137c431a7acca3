/* SPDX-License-Identifier: MIT
 *
 * Facts noted by many threads while another writes them down, against the recording half
 * itself: each is in the ledger once, with its count; when the table is full, what is lost
 * is said. Runs under TSan too.
 * Links: test_observations.c, interpose_recording, ledger_dep, cmocka, threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/dispatch/api.h"
#include "interpose/dispatch/observations.h"
#include "interpose/dispatch/variants.h"
#include "own_ledger.h"
#include "ledger/reader.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/write_observations.h"

#define THREADS 8
#define SUBJECTS 200
#define ROUNDS 50

static void subject_of(int i, char ret[16])
{
	snprintf(ret, 16, "cuSubject%03d", i);
}

static void *note(void *unused)
{
	char subject[16];

	(void)unused;
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < SUBJECTS; i++) {
			subject_of(i, subject);
			observation_record(OBSERVED_UNTRACKED, subject, i % 2 ? "/lib/a.so" : "",
					   i % 3 ? "one reason" : NULL);
		}
	return NULL;
}

static const char *text_of(const struct ledger_view *view, uint32_t ref, char *ret, size_t size)
{
	uint32_t length = 0;
	const char *bytes = ledger_string(view, ref, &length);

	assert_true(!bytes || length < size);
	memcpy(ret, bytes ? bytes : "", bytes ? length : 0);
	ret[bytes ? length : 0] = '\0';
	return ret;
}

static struct ledger_view view_of(struct recorder *recorder)
{
	struct ledger_view view;

	observations_write(recorder);
	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	return view;
}

static void test_threads(void **state)
{
	struct recorder *recorder = recorder_now();
	struct ledger_walk walk = { 0 };
	const struct ledger_observation *fact;
	pthread_t threads[THREADS];
	int seen[SUBJECTS] = { 0 };
	struct ledger_view view;
	char text[64];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, note, NULL), 0);
	for (int i = 0; i < 1000; i++)
		observations_write(recorder);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	observation_record(OBSERVED_DLSYM, "CUDA", NULL,
			   NULL); /* something new: counts are written again */
	view = view_of(recorder);
	while ((fact = ledger_next_observation(&view, &walk))) {
		int i;

		if (strcmp(text_of(&view, fact->kind, text, sizeof(text)), "untracked") != 0)
			continue;
		assert_int_equal(sscanf(text_of(&view, fact->subject, text, sizeof(text)),
					"cuSubject%d", &i), 1);
		assert_true(i >= 0 && i < SUBJECTS);
		seen[i]++;
		assert_int_equal(fact->count, THREADS * ROUNDS);
		if (i % 2)
			assert_string_equal(text_of(&view, fact->module, text, sizeof(text)),
					    "/lib/a.so");
		else
			assert_int_equal(fact->module, recorder->header->exe);
		assert_string_equal(text_of(&view, fact->detail, text, sizeof(text)),
				    i % 3 ? "one reason" : "");
	}
	for (int i = 0; i < SUBJECTS; i++)
		assert_int_equal(seen[i], 1);
}

/* Names of any length are cut, and told apart all the same. */
static void test_long(void **state)
{
	struct recorder *recorder = recorder_now();
	struct ledger_walk walk = { 0 };
	const struct ledger_observation *fact;
	struct ledger_view view;
	char name[4096], text[256];
	int x = 0, y = 0;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	observation_record(OBSERVED_DEEPBIND_OPEN, name, name, NULL);
	name[sizeof(name) - 2] = 'y';
	observation_record(OBSERVED_DEEPBIND_OPEN, name, name, NULL);
	view = view_of(recorder);
	while ((fact = ledger_next_observation(&view, &walk))) {
		if (strcmp(text_of(&view, fact->kind, text, sizeof(text)), "deepbind-open") != 0)
			continue;
		assert_int_equal(strlen(text_of(&view, fact->subject, text, sizeof(text))), 63);
		assert_int_equal(strlen(text_of(&view, fact->module, text, sizeof(text))), 191);
		x += text[190] == 'x';
		y += text[190] == 'y';
	}
	assert_int_equal(x, 1);
	assert_int_equal(y, 1);
}

static void test_full(void **state)
{
	struct recorder *recorder = recorder_now();
	struct ledger_walk walk = { 0 };
	const struct ledger_observation *fact;
	unsigned int lost = 0, all = 0;
	struct ledger_view view;
	char text[64];

	(void)state;
	for (int i = 0; i < 4 * OBSERVATIONS_MAX; i++) {
		snprintf(text, sizeof(text), "cuMany%d", i);
		observation_record(OBSERVED_UNCLASSED, text, "/lib/b.so", NULL);
	}
	view = view_of(recorder);
	while ((fact = ledger_next_observation(&view, &walk))) {
		all++;
		lost += strcmp(text_of(&view, fact->kind, text, sizeof(text)), "lost") == 0;
	}
	assert_int_equal(lost, 1);
	assert_uint_in_range(all, OBSERVATIONS_MAX / 2, OBSERVATIONS_MAX + 1);
}

/* A call has SLOTS real functions at most. A further one is given out as it is, and the ledger
 * counts it. */
static void test_too_many_variants(void **state)
{
	static char functions[SLOTS + 2];
	struct recorder *recorder = recorder_now();
	const uint64_t *count = &recorder->header->trouble[LEDGER_TROUBLE_UNKNOWN_VARIANTS];
	struct hook *hook = &hooks[HOOK_clCreateBuffer];

	(void)state;
	for (int i = 0; i < SLOTS; i++)
		assert_ptr_not_equal(slots_give(hook, &functions[i]), &functions[i]);
	observations_write(recorder);
	assert_int_equal(*count, 0);
	assert_ptr_equal(slots_give(hook, &functions[SLOTS]), &functions[SLOTS]);
	observations_write(recorder);
	assert_int_equal(*count, 1);
	assert_ptr_equal(slots_give(hook, &functions[SLOTS + 1]), &functions[SLOTS + 1]);
	observations_write(recorder);
	observations_write(recorder);
	assert_int_equal(*count, 2);
}

static void test_classes(void **state)
{
	const char *reason;

	(void)state;
	assert_int_equal(class_of("cuStreamGetPriority", &reason), CLASS_NO_MEMORY);
	assert_null(reason);
	assert_int_equal(class_of("cuArray3DGetDescriptor", &reason), CLASS_NO_MEMORY); /* first */
	assert_int_equal(class_of("clWaitForEvents", &reason), CLASS_NO_MEMORY);        /* last */
	assert_int_equal(class_of("cuCtxGetCurrent", &reason), CLASS_NO_MEMORY);        /* used */
	assert_int_equal(class_of("cuLinkCreate", &reason), CLASS_DRIVER);
	assert_non_null(reason);
	assert_int_equal(class_of("cuMemPoolTrimTo", &reason), CLASS_ALIAS);
	assert_int_equal(class_of("cuLogicalEndpointCreate", &reason), CLASS_GAP);
	assert_int_equal(class_of("cuModuleUnload_v2", &reason), CLASS_UNKNOWN);
	assert_int_equal(class_of("cuModuleUnloa", &reason), CLASS_UNKNOWN);
	assert_int_equal(class_of("cuX", &reason), CLASS_UNKNOWN);
	assert_int_equal(class_of("clX", &reason), CLASS_UNKNOWN);
	assert_null(reason);
}

static int make_recorder(void **state)
{
	(void)state;
	process_start();
	recorder_touch();
	return recorder_now() ? 0 : -1;
}

/* The ends of a process are not linked in: nobody else takes the file away. */
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_too_many_variants),
		cmocka_unit_test(test_classes),
	};

	return cmocka_run_group_tests(tests, make_recorder, remove_ledger);
}
