/* SPDX-License-Identifier: MIT
 *
 * The words of the text report for memory that is shared between processes: what programs cannot
 * show, or not often enough.
 * Links: test_ipc_text.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/subjects/subject_words.h"
#include "report/subjects/subject.h"
#include "report/model/model.h"
#include "report/model/model_ipc.h"

#define GROUPS 102

static const struct report_frame frames[] = {
	{ .function = "open_it", .file = "/x.c", .line = 1 },
	{ .function = "make", .file = "/x.c", .line = 2 },
	{ .function = "export_it", .file = "/x.c", .line = 3 },
	{ .function = "drop", .file = "/x.c", .line = 4 },
};
static const struct report_stack stacks[] = {
	{ .frames = &frames[0], .count = 1 }, { .frames = &frames[1], .count = 1 },
	{ .frames = &frames[2], .count = 1 }, { .frames = &frames[3], .count = 1 },
};
static const struct report_stack no_stack;

/* The owner's process frees what the worker's process has open, in GROUPS places. */
struct scene {
	struct report_process owner, worker;
	struct report_ipc owner_ipc, worker_ipc;
	struct report_shared groups[GROUPS];
	const struct report_shared *freed[GROUPS];
	struct report_site site; /* of `leak` */
	struct report_leak leak;
};

static void begin(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->owner = (struct report_process){ .program = "owner", .pid = 1, .ended = REPORT_EXIT,
					    .ipc = &s->owner_ipc };
	s->worker = (struct report_process){ .program = "worker", .pid = 2, .ended = REPORT_EXIT,
					     .ipc = &s->worker_ipc };
	for (size_t i = 0; i < GROUPS; i++) {
		s->groups[i] = (struct report_shared){
			.importer = &s->worker, .exporter = &s->owner,
			.state = REPORT_SHARED_FREED, .is_leak = true, .blocks = 1, .bytes = 4096,
			.opened = { "cuIpcOpenMemHandle", 0, &stacks[0] },
			.allocated = { "cuMemAlloc_v2", 0, &stacks[1] },
			.exported = { "cuIpcGetMemHandle", 0, &stacks[2] },
			.ended = { "cuMemFree_v2", 0, &stacks[3] },
		};
		s->freed[i] = &s->groups[i];
	}
	s->owner_ipc.freed = s->freed;
	s->owner_ipc.freed_count = 1;
	s->worker_ipc.shared = s->groups;
	s->worker_ipc.shared_count = 1;
	s->site = (struct report_site){ .api = s->groups[0].opened.api, .stack = &stacks[0] };
	s->leak.site = &s->site;
}

static char *text_of(const struct scene *s, bool of_owner)
{
	struct report_process *const processes[] = { (struct report_process *)&s->owner };
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	if (of_owner) {
		describe_freed_while_open(out, processes, 1, false);
		subject_ipc.finding(out, &(struct subject_view){ .process = &s->owner });
	} else {
		describe_owner_of_leak(out, &s->worker, &s->leak, false);
	}
	fclose(out);
	return text;
}

static void expect(const struct scene *s, bool of_owner, const char *part, bool is_there)
{
	char *text = text_of(s, of_owner);

	if ((strstr(text, part) != NULL) != is_there)
		fail_msg("%s\nhas%s: %s", text, is_there ? " not" : "", part);
	free(text);
}

/* ---- the process that freed the memory ---- */

static void freed(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	expect(&s, true, "4.0 KiB freed at drop (/x.c:4), still open in worker (pid 2) when it "
			 "ended (opened at open_it (/x.c:1))\n", true);
	expect(&s, true, ": 4,096 bytes (4.0 KiB) in 1 block, freed by cuMemFree_v2 at:\n", true);
	expect(&s, true,
	       "  still open in worker (pid 2) when it ended\n"
	       "  opened in that process by cuIpcOpenMemHandle at open_it (/x.c:1)\n"
	       "  allocated by cuMemAlloc_v2 at make (/x.c:2)\n"
	       "  exported by cuIpcGetMemHandle at export_it (/x.c:3)\n",
	       true);
	s.worker.ended = REPORT_SIGNAL;
	expect(&s, true, "  never closed by worker (pid 2), which was killed\n", true);
	s.worker.ended = REPORT_RUNNING;
	expect(&s, true, "  still open in worker (pid 2, still running)\n", true);
}

static void by_unknown_call(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	s.groups[0].ended = (struct report_event){ .stack = &no_stack };
	expect(&s, true, "4.0 KiB freed, still open in worker", true);
	expect(&s, true, "in 1 block; the call that freed it was not seen\n", true);
	expect(&s, false, "  the owner freed the memory by a call that was not seen\n", true);
}

static void many(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	s.owner_ipc.freed_count = 100;
	expect(&s, true, "more places", false);
	s.owner_ipc.freed_count = GROUPS;
	s.groups[GROUPS - 1].bytes = 8192;
	expect(&s, true, "8.0 KiB freed at drop", true);
	expect(&s, true, "And memory that was freed at 2 more places and is still open in another "
			 "process; --format json lists all\n", true);
	expect(&s, true, "8,192 bytes", false); /* is one of the two */
}

/* ---- the process that has it open ---- */

static void states(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	expect(&s, false,
	       "  Memory of owner (pid 1): 4,096 bytes (4.0 KiB) in 1 block\n"
	       "  the owner allocated the memory with cuMemAlloc_v2 at make (/x.c:2)\n"
	       "  the owner exported the memory with cuIpcGetMemHandle at export_it (/x.c:3)\n"
	       "  the owner freed the memory while this process had it open, with cuMemFree_v2 "
	       "at drop (/x.c:4)\n",
	       true);
	s.groups[0].state = REPORT_SHARED_FREED_AFTER;
	expect(&s, false,
	       "  the owner freed the memory after this process had ended, with cuMemFree_v2",
	       true);
	s.groups[0].state = REPORT_SHARED_ALLOCATED;
	expect(&s, false, "  the owner never freed the memory\n", true);
	s.owner.ended = REPORT_RUNNING;
	expect(&s, false, "  the owner has not freed the memory so far\n", true);
	s.groups[0].state = REPORT_SHARED_UNKNOWN;
	expect(&s, false, "  Memory of a process that is not in this report: 1 block\n", true);
	expect(&s, false, "owner", false);
}

/* Only the leak that opened the memory names its owner. */
static void other_leaks(void **state)
{
	const char *owner = "Memory of owner";
	struct scene s;

	(void)state;
	begin(&s);
	expect(&s, false, owner, true);
	s.site.stack = &stacks[1];
	expect(&s, false, owner, false);
	s.site.stack = &stacks[0];
	s.site.device = 1;
	expect(&s, false, owner, false);
	s.site.device = 0;
	s.site.api = "cuIpcOpenMemHandle_v2";
	expect(&s, false, owner, false);
	s.site.api = s.groups[0].opened.api;
	s.groups[0].is_leak = false; /* it is suppressed */
	expect(&s, false, owner, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(freed), cmocka_unit_test(by_unknown_call),
		cmocka_unit_test(many), cmocka_unit_test(states), cmocka_unit_test(other_leaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
