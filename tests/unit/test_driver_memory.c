/* SPDX-License-Identifier: MIT
 *
 * What the driver holds for itself: what counts as tracked, what is kept of samples, which
 * call explains a growth, and the words for it. Also from ledgers that lie.
 * Links: test_driver_memory.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "ledger_reported.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"
#include "report/subjects/formats.h"
#include "report/subjects/subject.h"

#define S 1000000000ull
#define MIB ((uint64_t)1 << 20)

struct fixture {
	struct reported reported;
	struct report_process *process;
};

static void begin(struct fixture *fixture, struct ledger_builder *builder)
{
	fixture->process = reported_begin(&fixture->reported, builder);
}

static void end(struct fixture *fixture, struct ledger_builder *builder)
{
	reported_finish(&fixture->reported);
	builder_finish(builder);
}

static void add_device(struct ledger_builder *builder, int ordinal, const char *name)
{
	struct ledger_device device = { .ordinal = ordinal, .bus_id = "0000:01:00.0" };

	device.name = builder_string(builder, name);
	for (int i = 0; i < 16; i++)
		device.uuid[i] = (uint8_t)(i * 17);
	builder_device(builder, &device);
}

static uint32_t add_driver_growth(struct ledger_builder *builder, const char *api, int device,
				  uint64_t began, uint64_t ended)
{
	struct ledger_driver_growth mark = { .began_ns = began,
					     .ended_ns = ended,
					     .device = device };

	mark.api = builder_string(builder, api);
	return builder_driver_growth(builder, &mark);
}

static struct driver_memory_sample sample_of(uint64_t at, uint64_t tracked, uint64_t held)
{
	return (struct driver_memory_sample){ .at_ns = at,
					      .tracked = tracked * MIB,
					      .reported = held * MIB };
}

static void add(struct driver_memory_series *series, uint64_t at, uint64_t tracked, uint64_t held)
{
	struct driver_memory_sample sample = sample_of(at, tracked, held);

	driver_memory_series_add(series, &sample, 1);
}

/* ---- what is tracked ---- */

static void kinds(void **state)
{
	static const struct { const char *kind; int device, counts;
	} rows[] = {
		{ "device", 0, 1 },
		{ "stream-ordered", 0, 1 },
		{ "array", 0, 1 },
		{ "vmm-handle", 0, 1 },
		{ "graph", 0, 1 },
		{ "managed", 0, 1 },
		{ "pinned", 0, 0 },
		{ "registered", 0, 0 },
		{ "mempool", 0, 0 },
		{ "vmm-mapping", 0, 1 },
		{ "vmm-reservation", 0, 0 },
		{ "ipc", 0, 0 },
		{ "external", 0, 0 },
		{ "cl-buffer", -1, 0 },
		{ "devices", 0, 0 },
		{ "device", -1, 0 },
		{ "device", DRIVER_MEMORY_DEVICES, 0 },
		{ "device", 63, 1 },
	};
	struct ledger_builder builder;
	struct tracked_memory tracked;
	struct ledger_view view;
	uint64_t wanted[2] = { 0, 0 };

	(void)state;
	builder_init(&builder);
	builder_begin_balances(&builder, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t row = builder_row(&builder, "cuMemAlloc_v2", rows[i].kind, rows[i].device,
					   0, 2, 0);

		builder_balance(&builder, row)->bytes = 1ull << i;
		if (rows[i].counts)
			wanted[rows[i].device == 63] += 1ull << i;
	}
	assert_int_equal(ledger_view(builder.bytes, builder.size, &view), LEDGER_OK);
	track_memory(&view, &tracked);
	assert_int_equal(tracked.bytes[0], wanted[0]);
	assert_int_equal(tracked.managed[0], 1 << 5);
	assert_int_equal(tracked.bytes[63], wanted[1]);
	assert_int_equal(tracked.bytes[1], 0);
	builder_finish(&builder);
}

/* Balances of two threads, a negative sum, a call site without balances, whose block counts; and
 * two with MORE. */
static uint64_t tracked_with(uint64_t more)
{
	struct ledger_builder builder;
	struct tracked_memory tracked;
	struct ledger_view view;

	builder_init(&builder);
	builder_block(&builder, builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 1, 0), 4096,
		      1);
	builder_begin_balances(&builder, 0);
	for (int i = 0; i < 4; i++) {
		uint32_t row = builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 4, 0);
		const uint64_t own[] = { 5, (uint64_t)-7, more, more };

		builder_balance(&builder, row)->bytes = own[i];
		builder_others_balance(&builder, row)->bytes = i ? 0 : (uint64_t)-2;
	}
	assert_int_equal(ledger_view(builder.bytes, builder.size, &view), LEDGER_OK);
	track_memory(&view, &tracked);
	builder_finish(&builder);
	return tracked.bytes[0];
}

static void balances_and_lies(void **state)
{
	(void)state;
	assert_int_equal(tracked_with(0), 4);
	assert_int_equal(tracked_with(64), 132);
	assert_int_equal(tracked_with(INT64_MAX), UINT64_MAX); /* and does not start over */
}

/* ---- samples ---- */

static void largest_growth(void **state)
{
	struct driver_memory_series series = { 0 };
	struct driver_memory_sample unsteady = sample_of(5 * S, 0, 9000);

	(void)state;
	add(&series, 1 * S, 0, 500);   /* +500 since the start */
	add(&series, 2 * S, 100, 600); /* as much more is tracked */
	add(&series, 3 * S, 100, 1300); /* +700 */
	add(&series, 4 * S, 0, 1300);  /* +100: what was freed the driver keeps */
	driver_memory_series_add(&series, &unsteady,
				 0); /* an allocation came between the two numbers */
	add(&series, 6 * S, 0, 1300);
	add(&series, 7 * S, 2000, 1300); /* more than is held */
	add(&series, 8 * S, 1300, 1300);
	driver_memory_series_end(&series);
	assert_int_equal(series.growth.bytes, 700 * MIB);
	assert_int_equal(series.growth.from_ns, 2 * S);
	assert_int_equal(series.growth.to_ns, 3 * S);
	assert_int_equal(series.highest.at_ns, 8 * S); /* of the steady ones */
	assert_int_equal(series.peak_reported, 9000 * MIB);
	assert_int_equal(series.last.at_ns, 8 * S);
	assert_int_equal(series.taken, 8);
	assert_int_equal(series.count, 8);
}

/* The driver has the memory before the call returns, and so before it is tracked. */
static void call_not_returned(void **state)
{
	struct driver_memory_series series = { 0 };

	(void)state;
	add(&series, 1 * S, 0, 500);
	add(&series, 2 * S, 0, 500);
	add(&series, 3 * S, 0, 70000);
	add(&series, 4 * S, 69500, 70000);
	add(&series, 5 * S, 69500, 139500); /* the last one */
	driver_memory_series_end(&series);
	assert_int_equal(series.growth.bytes, 500 * MIB);
	assert_int_equal(series.highest.at_ns, 4 * S);
	assert_int_equal(series.peak_reported, 139500 * MIB);
	assert_int_equal(series.count, 5);
}

static void never_steady(void **state)
{
	struct driver_memory_series series = { 0 };
	struct driver_memory_sample samples[] = { sample_of(1, 5, 70), sample_of(2, 5, 90),
						  sample_of(3, 5, 80) };

	(void)state;
	for (size_t i = 0; i < 3; i++)
		driver_memory_series_add(&series, &samples[i], 0);
	assert_int_equal(series.highest.at_ns, 2);
	assert_int_equal(series.growth.bytes, 0);
	add(&series, 4, 5, 10);
	driver_memory_series_end(&series);
	assert_int_equal(series.highest.at_ns, 4);
	assert_int_equal(series.peak_reported, 90 * MIB);
	assert_int_equal(series.growth.bytes, 5 * MIB);
}

static void never_less_than_nothing(void **state)
{
	struct driver_memory_sample sample = sample_of(0, 100, 40);

	(void)state;
	assert_int_equal(driver_part(&sample), 0);
	assert_int_equal(driver_part_at_most(&sample), 0);
	sample.managed = 70 * MIB;
	assert_int_equal(driver_part(&sample), 0);
	assert_int_equal(driver_part_at_most(&sample), 10 * MIB);
}

static void thinned(void **state)
{
	struct driver_memory_series series = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		add(&series, i, 0, i == 777 || i == 778 ? 5000 : 10);
	assert_int_equal(series.taken, 100000);
	assert_uint_in_range(series.count, DRIVER_MEMORY_SAMPLES / 2, DRIVER_MEMORY_SAMPLES);
	for (uint32_t i = 0; i < series.count; i++)
		assert_int_equal(series.samples[i].at_ns, i * series.every);
	assert_int_equal(series.samples[0].at_ns, 0);
	assert_int_equal(series.highest.at_ns, 777); /* thinning takes nothing of these */
	assert_int_equal(series.growth.bytes, 4990 * MIB);
	assert_int_equal(series.growth.to_ns, 777);
}

/* ---- which call ---- */

static void attributed(void **state)
{
	struct driver_memory_series series = { 0 };
	struct ledger_builder builder;
	struct report_device *device;
	struct fixture fixture;

	(void)state;
	builder_init(&builder);
	add_device(&builder, 0, "GPU");
	add_driver_growth(&builder, "cuBefore", 0, 0, 2 * S - 1);
	add_driver_growth(&builder, "cuLater", -1, 2 * S + 500, 2 * S + 600);
	add_driver_growth(&builder, "cuElsewhere", 1, 2 * S, 3 * S);
	add_driver_growth(&builder, "cuAcross", 0, 2 * S - 10,
			  2 * S + 10); /* began before the sample */
	add_driver_growth(&builder, "cuAfter", 0, 3 * S + 1, 4 * S);
	begin(&fixture, &builder);
	add(&series, 2 * S, 0, 10);
	add(&series, 3 * S, 0, 500);
	add(&series, 4 * S, 0, 500);
	report_process_set_driver_memory(fixture.process, 1, &series);
	assert_null(fixture.process->devices[0].series);
	report_process_set_driver_memory(fixture.process, 0, &series);
	device = &fixture.process->devices[0];
	assert_int_equal(device->growth_call_count, 2);
	assert_string_equal(device->growth_call->site->api, "cuAcross");
	assert_string_equal(device->uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
	end(&fixture, &builder);
}

static char *line_of(const struct report_process *process)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	subject_driver_memory.details(out, &(struct subject_view){ .process = process,
								   .is_wrong = true });
	fclose(out);
	return text;
}

static void words(void **state)
{
	struct driver_memory_series series = { .source = DRIVER_MEMORY_NVML_DEVICE };
	struct driver_memory_sample managed = { 3 * S, 300 * MIB, 100 * MIB, 700 * MIB };
	struct ledger_builder builder;
	struct fixture fixture;
	char *text;

	(void)state;
	builder_init(&builder);
	add_device(&builder, 0, "a\x1b[31m");
	add_driver_growth(&builder, "cuModuleLoad", 0, 2500000000ull, 2600000000ull);
	add_driver_growth(&builder, "cuModuleLoad", 0, 2550000000ull, 2600000000ull);
	begin(&fixture, &builder);
	text = line_of(fixture.process);
	assert_string_equal(text, ""); /* nobody asked */
	free(text);
	add(&series, 2 * S, 0, 10);
	driver_memory_series_add(&series, &managed, 1);
	managed.at_ns += S / 2;
	managed.reported -= MIB;
	driver_memory_series_add(&series, &managed, 1);
	report_process_set_driver_memory(fixture.process, 0, &series);
	text = line_of(fixture.process);
	assert_string_equal(
		text,
		"gpuleak: device 0 (a\\x1B[31m): 300.0 MiB tracked, 400.0 MiB to 500.0 MiB held "
		"by the driver itself (contexts, modules, local memory, unused pool memory) at "
		"its peak, at 3.00 s; that grew most (+390.0 MiB) between 2.00 s and 3.00 s, "
		"where cuModuleLoad was called at an unknown place (no stack was recorded), the "
		"first of 2 such calls; 100.0 MiB of what is tracked is managed memory, which the "
		"driver counts only where it lies on the device; the driver reports no figure for "
		"this process: shown is the increase since the start on the whole device, other "
		"processes included\n");
	free(text);
	end(&fixture, &builder);
}

/* ---- JSON ---- */

static json_t *json_of(const struct report *report)
{
	char *text = NULL;
	json_t *ret;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(print_json(report, NULL, out), 0);
	fclose(out);
	ret = json_loads(text, 0, NULL);
	assert_non_null(ret);
	free(text);
	return ret;
}

static void as_json(void **state)
{
	struct driver_memory_series series = { 0 };
	struct ledger_builder builder;
	struct fixture fixture;
	json_t *root, *device;

	(void)state;
	builder_init(&builder);
	add_device(&builder, 1, "\xff");
	add_device(&builder, 0, "GPU");
	begin(&fixture, &builder);
	root = json_of(&fixture.reported.report);
	assert_null(json_object_get(root, "devices"));
	json_decref(root);
	add(&series, 2 * S, 5, 10);
	report_process_set_driver_memory(fixture.process, 1, &series);
	root = json_of(&fixture.reported.report);
	assert_int_equal(json_array_size(json_object_get(root, "devices")), 1);
	device = json_array_get(json_object_get(root, "devices"), 0);
	assert_int_equal(json_integer_value(json_object_get(device, "device")), 1);
	assert_int_equal(json_integer_value(json_object_get(device, "held_bytes")), 10 * MIB);
	assert_int_equal(json_integer_value(json_object_get(device, "driver_bytes")), 5 * MIB);
	/* One sample tells of no growth. */
	assert_true(json_is_null(json_object_get(device, "grown_most")));
	json_decref(root);
	end(&fixture, &builder);
}

/* ---- ledgers that lie ---- */

static void lying_devices(void **state)
{
	struct ledger_device device = { .ordinal = 3 };
	struct driver_memory_series series = { 0 };
	struct ledger_builder builder;
	struct fixture fixture;

	(void)state;
	builder_init(&builder);
	add_device(&builder, -1, "x");
	add_device(&builder, DRIVER_MEMORY_DEVICES, "x");
	add_device(&builder, INT32_MIN, "x");
	add_device(&builder, 7, "first");
	add_device(&builder, 7, "second");
	device.name = UINT32_MAX;
	memset(device.bus_id, 'z', sizeof(device.bus_id)); /* has no end */
	builder_device(&builder, &device);
	for (int i = 0; i < 1000; i++)
		add_device(&builder, i % DRIVER_MEMORY_DEVICES, "again");
	begin(&fixture, &builder);
	assert_int_equal(fixture.process->device_count, DRIVER_MEMORY_DEVICES);
	for (size_t i = 0; i < fixture.process->device_count; i++)
		assert_int_equal(fixture.process->devices[i].ordinal, i);
	assert_string_equal(fixture.process->devices[7].name, "first");
	assert_null(fixture.process->devices[3].name);
	assert_null(fixture.process->devices[3].uuid);
	assert_string_equal(fixture.process->devices[3].bus_id, "zzzzzzzzzzzzzzzz");
	add(&series, S, 1, 2);
	series.count = DRIVER_MEMORY_SAMPLES + 1;
	report_process_set_driver_memory(fixture.process, 7, &series);
	assert_null(fixture.process->devices[7].series);
	end(&fixture, &builder);
}

static void lying_marks(void **state)
{
	struct ledger_driver_growth mark = { .began_ns = UINT64_MAX, .ended_ns = 0, .api = 12345,
				    .stack = UINT32_MAX, .device = INT32_MIN };
	struct driver_memory_series series = { 0 };
	struct ledger_builder builder;
	struct fixture fixture;
	char *text;

	(void)state;
	builder_init(&builder);
	builder_header(&builder)->marks = LEDGER_DRIVER_GROWTHS_MAX + 500;
	add_device(&builder, 0, "GPU");
	mark.began_ns = 0;
	for (unsigned int i = 0; i < LEDGER_DRIVER_GROWTHS_MAX + 500; i++)
		builder_driver_growth(&builder, &mark);
	begin(&fixture, &builder);
	assert_int_equal(fixture.process->driver_call_count, LEDGER_DRIVER_GROWTHS_MAX);
	assert_string_equal(fixture.process->driver_calls[0].site->api, "unknown");
	add(&series, 1, 0, 1);
	add(&series, 2, 0, 100);
	add(&series, 3, 0, 100);
	report_process_set_driver_memory(fixture.process, 0, &series);
	assert_int_equal(fixture.process->devices[0].growth_call_count, 0);
	text = line_of(fixture.process);
	assert_non_null(strstr(text, "that grew most (+99.0 MiB)"));
	assert_non_null(strstr(text, "but the ledger had no room for the calls of that time"));
	free(text);
	end(&fixture, &builder);
}

/* ---- for those who ask why ---- */

static char *verbose_line_of(const struct report_process *process)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	subject_driver_memory.details(out, &(struct subject_view){ .process = process,
								   .verbose = true });
	fclose(out);
	return text;
}

static void why_none(void **state)
{
	struct driver_memory_series series = { 0 };
	struct ledger_builder builder;
	struct fixture fixture;
	char *text;

	(void)state;
	builder_init(&builder);
	add_device(&builder, 0, "GPU");
	begin(&fixture, &builder);
	text = verbose_line_of(fixture.process);
	assert_string_equal(text, ""); /* nobody was asked */
	free(text);
	fixture.process->driver_memory_why = "no reason";
	text = line_of(fixture.process);
	assert_string_equal(text, "");
	free(text);
	text = verbose_line_of(fixture.process);
	assert_string_equal(text, "gpuleak: app (pid 4242): the driver's own memory is unknown: "
				  "no reason\n");
	free(text);
	add(&series, S, 1, 2);
	report_process_set_driver_memory(fixture.process, 0, &series);
	text = verbose_line_of(fixture.process);
	assert_string_equal(text, "gpuleak: device 0 (GPU): 1.0 MiB tracked, 1.0 MiB held by the "
				  "driver itself (contexts, modules, local memory, unused pool "
				  "memory) at 1.00 s\n");
	free(text);
	end(&fixture, &builder);
}

/* A module that was unloaded may have returned its memory, so its call site explains nothing. */
static void explained(void **state)
{
	struct ledger_driver_cost cost = { .calls = 2, .measured = 2, .bytes = 100 };
	struct ledger_builder builder;
	struct fixture fixture;
	uint32_t row, last;

	(void)state;
	for (int ended = 0; ended < 2; ended++) {
		builder_init(&builder);
		row = builder_row(&builder, "cuModuleLoadData", "object/module", 0, 0, 2, 0);
		cost.api = ((struct ledger_site *)builder_at(&builder, row))->api;
		builder_driver_cost(&builder, &cost);
		builder_block(&builder, row, 0x10, 0);
		last = builder_block(&builder, row, 0x20, 0);
		if (ended)
			((struct ledger_block *)builder_at(&builder, last))->state = 1u << 8;
		begin(&fixture, &builder);
		assert_int_equal(fixture.process->driver_cost_count, 1);
		assert_int_equal(fixture.process->driver_costs[0].ended, ended);
		assert_int_equal(driver_memory_explained(fixture.process, 0), ended ? 0 : 100);
		assert_int_equal(driver_memory_explained(fixture.process, 1), 0);
		end(&fixture, &builder);
	}
}

/* ---- single calls beside other processes ---- */

struct costs {
	struct ledger_builder builder;
	uint32_t cost;
	uint64_t bytes;
	struct ledger_view view;
	struct cost_judge judge;
	struct cost_verdicts verdicts;
	uint32_t calls;
};

static void begin_costs(struct costs *costs)
{
	struct ledger_driver_cost cost = { .calls = 9 };

	*costs = (struct costs){ .judge.last = { .known = true, .steady = true, .others = 100 } };
	builder_init(&costs->builder);
	add_device(&costs->builder, 0, "GPU");
	cost.api = builder_string(&costs->builder, "cuModuleLoadData");
	costs->cost = builder_driver_cost(&costs->builder, &cost);
}

/* Adds a measured call that took 1,000 bytes. Returns its number. */
static uint32_t add_call(struct costs *costs, uint64_t began, uint64_t ended)
{
	const struct ledger_cost_call call = { began, ended, 1000, costs->cost, 0 };
	struct ledger_driver_cost *cost = builder_at(&costs->builder, costs->cost);

	cost->measured++;
	cost->bytes += 1000;
	builder_cost_call(&costs->builder, &call);
	return costs->calls++;
}

/* A query that lasts one unit of time from BEGAN on. */
static void see(struct costs *costs, uint64_t began, uint64_t others, uint64_t part)
{
	const struct cost_sample sample = { began, began + 1, true, others, part, true };

	assert_int_equal(ledger_view(costs->builder.bytes, costs->builder.size, &costs->view),
			 LEDGER_OK);
	cost_judge_sample(&costs->judge, &costs->view, 0, &sample, &costs->verdicts);
}

static void is_judged(const struct costs *costs, uint32_t call, enum cost_verdict verdict,
		      uint64_t bytes)
{
	assert_int_equal(costs->verdicts.call[call].verdict, verdict);
	if (verdict == COST_OF_PROCESS)
		assert_int_equal(costs->verdicts.call[call].bytes, bytes);
}

static void judged_calls(void **state)
{
	static struct costs costs;
	uint32_t alone, figure, two[2], across, slow, unknown, pending;

	(void)state;
	begin_costs(&costs);
	see(&costs, 10, 100, 5);
	alone = add_call(&costs, 20, 30);
	see(&costs, 40, 100, 1005);
	is_judged(&costs, alone, COST_ALONE, 0);
	assert_false(costs.verdicts.disturbed);
	figure = add_call(&costs, 50, 60);
	see(&costs, 70, 200, 1905); /* another process grew: NVML's figures for this one count */
	is_judged(&costs, figure, COST_OF_PROCESS, 900);
	assert_true(costs.verdicts.disturbed);
	two[0] = add_call(&costs, 80, 85);
	two[1] = add_call(&costs, 86, 90);
	see(&costs, 95, 100, 9000);
	is_judged(&costs, two[0], COST_DISTURBED, 0);
	is_judged(&costs, two[1], COST_DISTURBED, 0);
	across = add_call(&costs, 94, 120); /* a sample was taken during the call */
	see(&costs, 110, 200, 9000);
	see(&costs, 130, 200, 9500);
	is_judged(&costs, across, COST_DISTURBED, 0);
	slow = add_call(&costs, 140, 300); /* the others changed, and changed back */
	see(&costs, 200, 7, 9500);
	see(&costs, 250, 200, 9500);
	see(&costs, 310, 200, 9900);
	is_judged(&costs, slow, COST_DISTURBED, 0);
	unknown = add_call(&costs, 320, 330);
	costs.judge.last.known = false;
	see(&costs, 340, 200, 9900);
	is_judged(&costs, unknown, COST_DISTURBED, 0);
	pending = add_call(&costs, 345, 350);
	see(&costs, 349, 200, 9900);
	is_judged(&costs, pending, COST_PENDING, 0);
	builder_finish(&costs.builder);
}

/* What counts, and that a sum is not compared with a sample from before its last call. */
static void judged_costs(void **state)
{
	struct driver_memory_series series = { 0 };
	static struct costs costs;
	struct report_process *process;
	struct fixture fixture;
	char *text;

	(void)state;
	begin_costs(&costs);
	add_call(&costs, 20, 30);
	add_call(&costs, 50, 60);
	add_call(&costs, 80, 90);
	begin(&fixture, &costs.builder);
	process = fixture.process;
	costs.verdicts.disturbed = true;
	costs.verdicts.call[0].verdict = COST_ALONE;
	costs.verdicts.call[1].verdict = COST_OF_PROCESS;
	costs.verdicts.call[1].bytes = 400;
	costs.verdicts.call[2].verdict = COST_DISTURBED;
	report_process_judge_costs(process, 0, &costs.verdicts);
	assert_int_equal(process->driver_costs[0].bytes, 1400);
	assert_int_equal(process->driver_costs[0].measured, 2);
	assert_int_equal(process->driver_costs[0].calls, 9);
	driver_memory_series_add(&series, &(struct driver_memory_sample){ 85, 0, 0, 1000 }, true);
	report_process_set_driver_memory(process, 0, &series);
	text = line_of(process);
	assert_non_null(strstr(text, "module 1.3 KiB in 2 of 9 calls\n"));
	free(text);
	process->devices[0].series = NULL;
	series.last.at_ns = 95;
	report_process_set_driver_memory(process, 0, &series);
	text = line_of(process);
	assert_non_null(strstr(text, "; the sum is 400 bytes more than NVML counts\n"));
	free(text);
	end(&fixture, &costs.builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(balances_and_lies),
		cmocka_unit_test(largest_growth),
		cmocka_unit_test(call_not_returned), cmocka_unit_test(never_steady),
		cmocka_unit_test(never_less_than_nothing),
		cmocka_unit_test(thinned),
		cmocka_unit_test(attributed),
		cmocka_unit_test(words),
		cmocka_unit_test(as_json),
		cmocka_unit_test(lying_devices),
		cmocka_unit_test(lying_marks),
		cmocka_unit_test(why_none),
		cmocka_unit_test(explained),
		cmocka_unit_test(judged_calls),
		cmocka_unit_test(judged_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
