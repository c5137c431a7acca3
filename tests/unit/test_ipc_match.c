/* SPDX-License-Identifier: MIT
 *
 * Which export an opened handle belongs to, over ledgers of several processes and hosts: what two
 * real processes on one machine cannot show. And which records of a ledger are read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ledger_reported.h"
#include "report/analyze/ipc_match.h"
#include "report/model/model.h"
#include "report/model/model_ipc.h"
#include "report/subjects/subject.h"
#include "report/util/report_arena.h"

#define ITEMS 4

static struct report report;

static int begin(void **state)
{
	(void)state;
	report = (struct report){ 0 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	report_finish(&report);
	return 0;
}

static struct report_process *process_on(const char *host, int pid)
{
	struct report_process *process = calloc(1, sizeof(*process));

	assert_non_null(process);
	process->arena = calloc(1, sizeof(*process->arena));
	assert_non_null(process->arena);
	process->host = host;
	process->pid = pid;
	process->program = process->ledger = "app";
	process->ended = REPORT_EXIT;
	process->ipc = arena_alloc(process->arena, sizeof(*process->ipc));
	process->ipc->exports = arena_alloc(process->arena, ITEMS * sizeof(struct report_export));
	process->ipc->opened = arena_alloc(process->arena, ITEMS * sizeof(struct report_opened));
	report_add_process(&report, process);
	return process;
}

static struct report_export *add_export(struct report_process *process, uint8_t handle,
					uint64_t time_ns, uint64_t bytes)
{
	struct report_export *export = &process->ipc->exports[process->ipc->export_count++];

	export->handle[63] = handle; /* the last byte counts, too */
	export->time_ns = time_ns;
	export->bytes = bytes;
	return export;
}

static void add_opened(struct report_process *process, uint8_t handle, uint64_t time_ns)
{
	struct report_opened *opened = &process->ipc->opened[process->ipc->opened_count++];

	opened->handle[63] = handle;
	opened->time_ns = time_ns;
	opened->references = 1;
	opened->is_leak = true;
}

static const struct report_shared *only_group(const struct report_process *process)
{
	ipc_match(&report);
	assert_int_equal(process->ipc->shared_count, 1);
	return &process->ipc->shared[0];
}

static void assert_unknown(const struct report_process *importer)
{
	const struct report_shared *group = only_group(importer);

	assert_int_equal(group->state, REPORT_SHARED_UNKNOWN);
	assert_null(group->exporter);
	assert_int_equal(group->bytes, 0);
}

static void test_all_bytes_count(void **state)
{
	struct report_process *owner = process_on("a", 1), *worker = process_on("a", 2);

	(void)state;
	add_export(owner, 1, 10, 100);
	add_export(owner, 3, 10, 300);
	add_opened(worker, 2, 20);
	assert_unknown(worker);
}

static void test_found(void **state)
{
	struct report_process *owner = process_on("a", 1), *worker = process_on("a", 2);
	const struct report_shared *group;

	(void)state;
	add_export(owner, 3, 10, 300);
	add_export(owner, 1, 10, 100);
	add_export(owner, 2, 10, 200);
	add_opened(worker, 2, 10); /* at the same tick */
	group = only_group(worker);
	assert_ptr_equal(group->exporter, owner);
	assert_int_equal(group->bytes, 200);
	assert_int_equal(group->state, REPORT_SHARED_ALLOCATED);
	assert_int_equal(owner->ipc->freed_count, 0);
}

static void test_opened_before(void **state)
{
	struct report_process *owner = process_on("a", 1), *worker = process_on("a", 2);

	(void)state;
	add_export(owner, 1, 21, 100);
	add_opened(worker, 1, 20);
	assert_unknown(worker);
}

/* Two runs of one program may give equal handles: the last one before the open is meant. */
static void test_last_before(void **state)
{
	struct report_process *first = process_on("a", 1), *second = process_on("a", 2);
	struct report_process *third = process_on("a", 3), *worker = process_on("a", 4);

	(void)state;
	add_export(third, 1, 30, 300);
	add_export(second, 1, 20, 200);
	add_export(first, 1, 10, 100);
	add_opened(worker, 1, 25);
	assert_ptr_equal(only_group(worker)->exporter, second);
}

static void test_own_host_first(void **state)
{
	struct report_process *other = process_on("a", 1), *own = process_on("b", 1);
	struct report_process *third = process_on("c", 1), *worker = process_on("b", 2);

	(void)state;
	add_export(other, 1, 15, 100);
	add_export(own, 1, 10, 200);
	add_export(third, 1, 15, 300);
	add_opened(worker, 1, 20);
	assert_ptr_equal(only_group(worker)->exporter, own);
}

/* A container has a host name of its own. */
static void test_other_host(void **state)
{
	struct report_process *owner = process_on("a", 1), *worker = process_on("b", 2);

	(void)state;
	add_export(owner, 1, 10, 100);
	add_opened(worker, 1, 20);
	assert_ptr_equal(only_group(worker)->exporter, owner);
}

static void test_two_other_hosts(void **state)
{
	struct report_process *first = process_on("a", 1), *second = process_on("c", 1);
	struct report_process *worker = process_on("b", 2);

	(void)state;
	add_export(first, 1, 10, 100);
	add_export(second, 1, 11, 100);
	add_opened(worker, 1, 20);
	assert_unknown(worker);
}

static void test_freed(void **state)
{
	struct report_process *owner = process_on("a", 1), *worker = process_on("a", 2);
	struct report_process *early = process_on("a", 3);
	struct report_export *export = add_export(owner, 1, 10, 100);

	(void)state;
	export->freed = true;
	export->freed_ns = 50;
	worker->ipc->ended_ns = 51;
	early->ipc->ended_ns = 49;
	add_opened(worker, 1, 20);
	add_opened(worker, 1, 21);
	add_opened(early, 1, 20);
	assert_int_equal(only_group(worker)->state, REPORT_SHARED_FREED);
	assert_int_equal(only_group(worker)->blocks, 2);
	assert_int_equal(only_group(worker)->bytes, 200);
	assert_int_equal(only_group(early)->state, REPORT_SHARED_FREED_AFTER);
	assert_int_equal(owner->ipc->freed_count, 1);
	assert_ptr_equal(owner->ipc->freed[0], only_group(worker));
}

/* Neither the time of the free nor that of the end is known: it counts as open. */
static void test_times_unknown(void **state)
{
	struct report_process *owner = process_on("a", 1), *worker = process_on("a", 2);
	struct report_export *export = add_export(owner, 1, 10, 100);

	(void)state;
	export->freed = true;
	add_opened(worker, 1, 20);
	assert_int_equal(only_group(worker)->state, REPORT_SHARED_FREED);
}

static void test_suppressed(void **state)
{
	struct report_process *owner = process_on("a", 1), *worker = process_on("a", 2);

	(void)state;
	add_export(owner, 1, 10, 100)->freed = true;
	add_opened(worker, 1, 20);
	worker->ipc->opened[0].is_leak = false;
	assert_int_equal(only_group(worker)->state, REPORT_SHARED_FREED);
	assert_int_equal(owner->ipc->freed_count, 0);
}

/* ---- records of a ledger ---- */

static uint32_t add_record(struct ledger_builder *builder, uint32_t row, uint64_t address,
			   uint32_t flags, uint64_t bytes)
{
	struct ledger_ipc record = { .site = row, .flags = flags, .bytes = bytes };

	record.block = (uint64_t)1 << 32 | builder_block(builder, row, address, bytes);
	return builder_ipc(builder, &record);
}

/* Reports the ledger of BUILDER, or only its block at ADDRESS if that is not 0. */
static const struct report_ipc *read_ipc(const struct ledger_builder *builder, uint64_t address,
					 struct loaded_ledger *ledger)
{
	struct report_process *process;

	reported_load(ledger, builder);
	ledger->choice.address = address;
	process = report_process_build(ledger, reported_symbolizer, NULL);
	report_add_process(&report, process);
	assert_non_null(process->ipc);
	return process->ipc;
}

/* The writer stores 0 as `block` while it changes a record, and after the memory was closed. */
static void test_records(void **state)
{
	struct ledger_builder builder;
	struct loaded_ledger ledger;
	const struct report_ipc *ipc;
	uint32_t opened, owned, changing;
	uint64_t pc = 0x1001;

	(void)state;
	builder_init(&builder);
	opened = builder_row(&builder, "cuIpcOpenMemHandle_v2", "ipc", 0,
			     builder_stack(&builder, &pc, 1, 0), 2, 0);
	owned = builder_row(&builder, "cuMemAlloc_v2", "device", 0,
			    builder_stack(&builder, &pc, 1, 0), 2, 8192);
	add_record(&builder, opened, 0x1000, LEDGER_IPC_OPENED, 0);
	add_record(&builder, opened, 0x2000, LEDGER_IPC_OPENED, 0);
	changing = add_record(&builder, opened, 0x3000, LEDGER_IPC_OPENED, 0);
	((struct ledger_ipc *)builder_at(&builder, changing))->block = 0;
	add_record(&builder, owned, 0x4000, 0, 4096);
	changing = add_record(&builder, owned, 0x5000, 0, 4096);
	((struct ledger_ipc *)builder_at(&builder, changing))->block = 0;
	ipc = read_ipc(&builder, 0, &ledger);
	assert_int_equal(ipc->opened_count, 2);
	assert_int_equal(ipc->export_count, 1);
	assert_false(ipc->exports[0].freed);
	loaded_ledger_finish(&ledger);
	/* a report on one block does not name the other one */
	ipc = read_ipc(&builder, 0x2000, &ledger);
	assert_int_equal(ipc->opened_count, 1);
	loaded_ledger_finish(&ledger);
	builder_finish(&builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_bytes_count, begin, end),
		cmocka_unit_test_setup_teardown(test_found, begin, end),
		cmocka_unit_test_setup_teardown(test_opened_before, begin, end),
		cmocka_unit_test_setup_teardown(test_last_before, begin, end),
		cmocka_unit_test_setup_teardown(test_own_host_first, begin, end),
		cmocka_unit_test_setup_teardown(test_other_host, begin, end),
		cmocka_unit_test_setup_teardown(test_two_other_hosts, begin, end),
		cmocka_unit_test_setup_teardown(test_freed, begin, end),
		cmocka_unit_test_setup_teardown(test_times_unknown, begin, end),
		cmocka_unit_test_setup_teardown(test_suppressed, begin, end),
		cmocka_unit_test_setup_teardown(test_records, begin, end),
	};

	return cmocka_run_group_tests(tests, reported_group_setup, reported_group_teardown);
}
