/* SPDX-License-Identifier: MIT
 *
 * Which processes of a run count as lost, for rosters of every kind, also such as only an
 * application that writes over the memory can make.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/ledgers/lost.h"

#define LEDGERS_MAX 4000

static struct roster roster;
static struct ledger_file files[LEDGERS_MAX];
static struct ledger_list list;
static char said[64][1024];
static size_t sentences;

static void found(void *data, const char *sentence)
{
	assert_ptr_equal(data, &roster);
	assert_true(sentences < 64);
	strncpy(said[sentences++], sentence, sizeof(said[0]) - 1);
}

static void find(size_t wanted)
{
	sentences = 0;
	memset(said, 0, sizeof(said));
	lost_find(&roster, &list, "/run", found, &roster);
	assert_int_equal(sentences, wanted);
}

static int start(void **state)
{
	(void)state;
	memset(&roster, 0, sizeof(roster));
	memset(files, 0, sizeof(files));
	list = (struct ledger_list){ .files = files };
	return 0;
}

/* A process of that number enters and, with LEDGER, leaves one. */
static struct roster_slot *enter(int pid, int ledger)
{
	struct roster_slot *slot = roster_enter(&roster, pid, 7, "app");

	if (ledger)
		files[list.count++] = (struct ledger_file){ .pid = pid, .start_ticks = 7 };
	return slot;
}

static void test_reasons(void **state)
{
	(void)state;
	find(0);
	roster_note(enter(1, 1), 0);
	enter(2, 1); /* killed when its ledger was complete */
	find(0);
	roster_note(enter(1, 0), 0); /* went on as another program, whose ledger is gone */
	enter(3, 0);
	roster_note(enter(4, 0), ENOSPC);
	find(3);
	assert_string_equal(said[0], "not recorded completely: app (pid 1): its ledger is no "
				     "longer in /run");
	assert_string_equal(said[1], "not recorded completely: app (pid 3): it ended before its "
				     "ledger in /run was complete");
	assert_string_equal(said[2], "not recorded completely: app (pid 4): no ledger could be "
				     "made in /run: No space left on device; set XDG_RUNTIME_DIR "
				     "to a directory of your own with free space");
}

static void test_more_than_slots(void **state)
{
	(void)state;
	for (int pid = 1; pid <= 3000; pid++)
		roster_note(enter(pid, 1), 0);
	find(0);
	for (int pid = 3001; pid <= 3005; pid++)
		assert_null(enter(pid, 0));
	find(1);
	assert_string_equal(said[0], "not recorded completely: 5 processes made GPU calls and left "
				     "no ledger in /run");
}

static void test_many_lost(void **state)
{
	(void)state;
	for (int pid = 1; pid <= 100; pid++)
		roster_note(enter(pid, 0), EACCES);
	find(21);
	assert_string_equal(said[20], "not recorded completely: 80 more processes made GPU calls "
				      "and left no ledger in /run");
}

static void test_bypassed(void **state)
{
	(void)state;
	for (unsigned int pid = 1; pid <= ROSTER_BYPASSES + 2; pid++)
		roster_bypass(&roster, (int)pid, "app",
			      pid == 2 ? "of a newer library" : "deepbind", "/lib/x.so");
	find(ROSTER_BYPASSES);
	assert_string_equal(said[0],
			    "not recorded completely: app (pid 1): its GPU calls were not "
			    "seen because of /lib/x.so: it was opened with RTLD_DEEPBIND and "
			    "calls the driver directly; GPULEAK_DEEPBIND=cover opens it without "
			    "that flag");
	assert_string_equal(
		said[ROSTER_BYPASSES - 1],
		"not recorded completely: the GPU calls of 2 more processes were not seen "
		"for such a reason");
}

static void test_anything(void **state)
{
	uint8_t *bytes = (uint8_t *)&roster;

	(void)state;
	srand(1);
	for (int turn = 0; turn < 200; turn++) {
		for (size_t i = 0; i < sizeof(roster); i++)
			bytes[i] = (uint8_t)(turn % 2 ? rand() : rand() % 4);
		sentences = 0;
		lost_find(&roster, &list, "/run", found, &roster);
		/* 22 on processes without a ledger, 17 on those that bypassed gpuleak */
		assert_true(sentences >= 1 && sentences <= 22 + ROSTER_BYPASSES + 1);
	}
}

static void test_joining(void **state)
{
	char text[ROSTER_TEXT_MAX], other[ROSTER_TEXT_MAX];
	struct roster *made, *joined;

	(void)state;
	assert_int_equal(lost_create_roster(&made, text), 0);
	joined = roster_join(text);
	assert_non_null(joined);
	assert_non_null(roster_enter(joined, 5, 6, "app"));
	assert_int_equal(made->begun, 1);
	assert_string_equal(made->slots[0].name, "app");
	strcpy(other, text);
	other[strlen(other) - 1] ^= 1; /* another key */
	assert_null(roster_join(other));
	assert_null(roster_join(NULL));
	assert_null(roster_join(""));
	assert_null(roster_join("-1:0"));
	assert_null(roster_enter(NULL, 1, 1, "app"));
	roster_note(NULL, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_reasons, start),
		cmocka_unit_test_setup(test_more_than_slots, start),
		cmocka_unit_test_setup(test_many_lost, start),
		cmocka_unit_test_setup(test_bypassed, start),
		cmocka_unit_test_setup(test_anything, start),
		cmocka_unit_test_setup(test_joining, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
