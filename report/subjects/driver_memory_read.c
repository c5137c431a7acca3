/* SPDX-License-Identifier: MIT
 *
 * Reads devices, and calls that increase the driver's own memory. A call explains a growth if it
 * was on the same device and ran between the two samples, at least in part.
 *
 * Also reads what such calls took, by cause. An object that has ended may have returned its memory.
 * gpuleak does not measure that. So a call site with such objects explains nothing of the driver's
 * present memory, apart from a primary context: see explained_by().
 */
#include "report/subjects/common.h"

#include "ledger/shared.h"
#include "report/model/model_driver_memory.h"

static const char no_bytes[16];

static const char *uuid_text(struct report_arena *arena, const uint8_t u[16])
{
	return arena_printf(arena,
			    "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
			    "%02x%02x%02x%02x%02x%02x",
			    u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10],
			    u[11], u[12], u[13], u[14], u[15]);
}

static struct report_device read_device(struct builder *b, const struct ledger_device *record)
{
	struct report_device ret = {
		.ordinal = record->ordinal, .name = build_text(b, record->name),
		.shares_memory = record->flags & LEDGER_DEVICE_SHARES_MEMORY,
	};

	if (ret.name && !*ret.name)
		ret.name = NULL;
	if (memcmp(record->uuid, no_bytes, sizeof(record->uuid)) != 0)
		ret.uuid = uuid_text(b->arena, record->uuid);
	if (record->bus_id[0])
		ret.bus_id = arena_text(b->arena, record->bus_id, sizeof(record->bus_id));
	return ret;
}

static struct report_device *find_device(const struct report_process *process, int ordinal)
{
	for (size_t i = 0; i < process->device_count; i++)
		if (process->devices[i].ordinal == ordinal)
			return &process->devices[i];
	return NULL;
}

bool report_shares_memory(const struct report_process *process, int ordinal)
{
	const struct report_device *device = find_device(process, ordinal);

	return device && device->shares_memory;
}

/* Inserts DEVICE into the list, which is ordered by ordinal. */
static void sort_in(struct report_process *process, struct report_device device)
{
	size_t at = process->device_count++;

	for (; at > 0 && process->devices[at - 1].ordinal > device.ordinal; at--)
		process->devices[at] = process->devices[at - 1];
	process->devices[at] = device;
}

static void read_devices(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_device *record;

	process->devices = arena_alloc(b->arena, DRIVER_MEMORY_DEVICES * sizeof(*process->devices));
	while (process->device_count < DRIVER_MEMORY_DEVICES &&
	       (record = ledger_next_device(b->view, &walk)))
		if (record->ordinal >= 0 && record->ordinal < DRIVER_MEMORY_DEVICES &&
		    !find_device(process, record->ordinal))
			sort_in(process, read_device(b, record));
}

static struct report_driver_call read_call(struct builder *b,
					   const struct ledger_driver_growth *record)
{
	return (struct report_driver_call){
		.site = build_call(b, record->api, record->device, record->stack),
		.began_ns = record->began_ns,
		.ended_ns = record->ended_ns,
		.free_after = record->free_units * LEDGER_FREE_UNIT,
	};
}

static void read_calls(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_driver_growth *record;

	while (process->driver_call_count < LEDGER_DRIVER_GROWTHS_MAX &&
	       (record = ledger_next_driver_growth(b->view, &walk)))
		*ARENA_ADD(b->arena, process->driver_calls, process->driver_call_count) =
			read_call(b, record);
}

static void build_devices(struct builder *b)
{
	read_devices(b);
	b->process->driver_calls_made = ledger_header(b->view)->marks;
	if (b->process->device_count)
		read_calls(b);
}

static void attribute_growth(const struct report_process *process, struct report_device *device)
{
	const struct driver_memory_growth *growth = &device->series->growth;

	uint64_t last_ns = 0;

	device->growth_call = NULL;
	device->growth_call_count = 0;
	for (size_t i = 0; growth->bytes && i < process->driver_call_count; i++) {
		const struct report_driver_call *call = &process->driver_calls[i];

		last_ns = call->began_ns > last_ns ? call->began_ns : last_ns;
		if (call->began_ns > growth->to_ns || call->ended_ns < growth->from_ns ||
		    (call->site->device >= 0 && call->site->device != device->ordinal))
			continue;
		device->growth_call_count++;
		if (!device->growth_call || call->began_ns < device->growth_call->began_ns)
			device->growth_call = call;
	}
	device->growth_calls_lost = growth->bytes && !device->growth_call &&
				  process->driver_calls_made > process->driver_call_count &&
				  growth->to_ns > last_ns;
}

static void add_figure(struct report_driver_cost *cost, uint64_t bytes)
{
	if (bytes > (uint64_t)(INT64_MAX - cost->bytes))
		return;
	cost->bytes += (int64_t)bytes;
	cost->measured++;
}

/* Adds what the first context took, which CALL created. gpuleak could not read the free memory
 * inside the process before this call, so FREE_BEFORE comes from outside of the process. */
static void add_first_context(struct report_process *process, const struct report_driver_call *call,
			      uint64_t free_before)
{
	for (size_t i = 0; i < process->driver_cost_count; i++) {
		struct report_driver_cost *cost = &process->driver_costs[i];

		if (cost->site != call->site || cost->measured == cost->calls)
			continue;
		add_figure(cost, free_before - call->free_after);
		return;
	}
}

/* Returns true if BYTES, a difference of free memory, is plausible: NVML counts about as much for
 * the process. A larger difference means that NVML and the driver define "free" differently. */
static bool is_possible(const struct driver_memory_series *series, uint64_t bytes)
{
	uint64_t reported = series->peak_reported;

	return bytes <= reported + reported / 16;
}

static void explain_first_context(struct report_process *process, int ordinal,
				  const struct driver_memory_series *series)
{
	uint64_t before = series->free_before;

	for (size_t i = 0; i < process->driver_call_count; i++) {
		struct report_driver_call *call = &process->driver_calls[i];

		if (call->site->device != ordinal || !call->free_after)
			continue;
		if (before > call->free_after && is_possible(series, before - call->free_after))
			add_first_context(process, call, before);
		call->free_after = 0; /* the next call of this function must not add it again */
		return;
	}
}

void report_process_set_driver_memory(struct report_process *process, int ordinal,
				      const struct driver_memory_series *series)
{
	struct report_device *device = find_device(process, ordinal);
	struct driver_memory_series *copy;

	if (!device || !series->taken || series->count > DRIVER_MEMORY_SAMPLES)
		return;
	copy = arena_alloc(process->arena, sizeof(*copy));
	*copy = *series;
	driver_memory_series_end(copy);
	device->series = copy;
	explain_first_context(process, ordinal, copy);
	attribute_growth(process, device);
}

/* ---- which calls were measured alone ---- */

/* Returns the cost that CALL is a part of, or NULL if that is not on device ORDINAL. */
static struct report_driver_cost *cost_of(const struct report_cost_call *call, int ordinal)
{
	return call->cost && call->cost->site->device == ordinal ? call->cost : NULL;
}

static void take_back(struct report_driver_cost *cost, uint64_t calls, uint64_t bytes)
{
	cost->measured -= calls < cost->measured ? calls : cost->measured;
	cost->bytes -= bytes < (uint64_t)cost->bytes ? (int64_t)bytes : cost->bytes;
	if (!cost->measured)
		cost->bytes = 0;
}

/* The driver's figure before the first context is that of the whole device, too. */
static void judge_first_context(struct report_process *process, struct report_driver_cost *cost,
				uint32_t verdict, uint64_t bytes)
{
	if (verdict == COST_ALONE)
		return;
	for (size_t i = 0; i < process->driver_call_count; i++)
		if (process->driver_calls[i].site->device == cost->site->device)
			process->driver_calls[i].free_after = 0;
	if (verdict == COST_OF_PROCESS)
		add_figure(cost, bytes);
}

/* Takes back the calls without a record, unless nothing ever disturbed. */
static void judge_unrecorded(struct report_process *process, struct report_driver_cost *cost)
{
	uint64_t calls = 0, bytes = 0;

	EACH_ITEM(process->cost_calls, process->cost_call_count, call) {
		if (call->cost != cost || call->is_first_context)
			continue;
		calls++;
		bytes = add_bounded(bytes, call->bytes);
	}
	if (cost->measured > calls)
		take_back(cost, cost->measured - calls,
			  (uint64_t)cost->bytes > bytes ? (uint64_t)cost->bytes - bytes : 0);
}

void report_process_judge_costs(struct report_process *process, int ordinal,
				const struct cost_verdicts *verdicts)
{
	for (size_t i = 0; i < process->driver_cost_count && verdicts->disturbed; i++)
		if (process->driver_costs[i].site->device == ordinal)
			judge_unrecorded(process, &process->driver_costs[i]);
	for (size_t i = 0; i < process->cost_call_count; i++) {
		const struct report_cost_call *call = &process->cost_calls[i];
		struct report_driver_cost *cost = cost_of(call, ordinal);
		uint32_t verdict = verdicts->call[i].verdict;

		if (!cost)
			continue;
		if (call->is_first_context) {
			judge_first_context(process, cost, verdict, verdicts->call[i].bytes);
			continue;
		}
		if (verdict == COST_ALONE)
			continue;
		take_back(cost, 1, call->bytes);
		if (verdict == COST_OF_PROCESS)
			add_figure(cost, verdicts->call[i].bytes);
	}
}

bool driver_memory_is_behind(const struct report_process *process, int ordinal,
			     const struct driver_memory_series *series)
{
	for (size_t i = 0; i < process->cost_call_count; i++)
		if (process->cost_calls[i].ended_ns > series->last.at_ns &&
		    cost_of(&process->cost_calls[i], ordinal))
			return true;
	return false;
}

/* ---- what the calls took ---- */

/* How many objects the calls of an api and a stack created, on any device. */
struct cost_site {
	struct site_entry entry;
	uint64_t created, live;
};

static const char *const limits[] = {
	"stack limit", "printf limit", "malloc heap limit",
};

static const char *cause_of(const char *api, uint32_t limit)
{
	static const struct {
		const char *prefix, *cause;
	} causes[] = {
		{ "cuCtxCreate", "context" }, { "cuGreenCtxCreate", "green context" },
		{ "cuDevicePrimaryCtxRetain", "context" },
		{ "cuModuleLoad", "module" }, { "cuLibraryLoad", "library" },
		{ "cuFuncLoad", "function" }, { "cuKernelGetFunction", "function" },
		{ "cuLaunch", "first launch" }, { "cuGraphInstantiate", "graph" },
		{ "cuStreamCreate", "stream" }, { "cuGreenCtxStreamCreate", "stream" },
	};

	if (limit == LEDGER_COST_LOCAL_MEMORY)
		return "local memory";
	if (limit)
		return limit <= sizeof(limits) / sizeof(limits[0]) ? limits[limit - 1]
								   : "other limit";
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (strncmp(api, causes[i].prefix, strlen(causes[i].prefix)) == 0)
			return causes[i].cause;
	return "other call";
}

static struct cost_site *site_of(struct site_list *sites, const struct report_site *of)
{
	struct report_site key = *of;

	key.kind = build_unknown;
	key.device = -1;
	return site_list_get(sites, intern_equal_site(sites->b, &key));
}

/* Counts the objects of each call site, and how many of these still exist. */
static void count_objects(struct builder *b, struct site_list *sites)
{
	LEDGER_EACH(site, record, b->view) {
		struct cost_site *site;

		if (!ledger_site_is_object(b->view, record))
			continue;
		site = site_of(sites, &intern_site(b, record)->site);
		site->created = add_bounded(site->created, record->allocs);
	}
	for (size_t i = 0; i < b->object_count; i++)
		site_of(sites, &intern_site_of_block(b, b->objects[i]->site)->site)->live++;
}

static struct report_driver_cost read_cost(struct builder *b,
					   const struct ledger_driver_cost *record)
{
	struct report_driver_cost ret = {
		.site = build_call(b, record->api, record->device, record->stack),
		.measured = shared_load_acquire(record->measured),
		.bytes = record->bytes,
	};

	ret.cause = cause_of(ret.site->api, record->limit);
	if (ret.bytes < 0) /* from an older writer: other processes returned memory meanwhile */
		ret.bytes = ret.measured = 0;
	ret.calls = record->calls > ret.measured ? record->calls : ret.measured;
	return ret;
}

static int compare_costs(const void *left, const void *right)
{
	const struct report_driver_cost *a = left, *b = right;

	return compare_ints(a->site->device, b->site->device) ?: strcmp(a->cause, b->cause)
	       ?: (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* Returns the cost with the call site and cause of COST, or NULL. */
static struct report_driver_cost *find_cost(const struct report_process *process,
					    const struct report_driver_cost *cost)
{
	for (size_t i = 0; i < process->driver_cost_count; i++)
		if (process->driver_costs[i].site == cost->site &&
		    strcmp(process->driver_costs[i].cause, cost->cause) == 0)
			return &process->driver_costs[i];
	return NULL;
}

/* Reads the costs. Adds up records of one stack: they differ in frames of Python's interpreter,
 * which do not distinguish stacks (build_stack.c). */
static void read_costs(struct builder *b)
{
	struct report_process *process = b->process;
	const struct ledger_driver_cost *record;
	struct ledger_walk walk = { 0 };

	for (size_t i = 0; i < LEDGER_DRIVER_COSTS_MAX; i++) {
		struct report_driver_cost cost, *sum;

		record = ledger_next_driver_cost(b->view, &walk);
		if (!record)
			return;
		cost = read_cost(b, record);
		sum = find_cost(process, &cost);
		if (!sum) {
			*ARENA_ADD(b->arena, process->driver_costs, process->driver_cost_count) =
				cost;
			continue;
		}
		if (__builtin_add_overflow(sum->bytes, cost.bytes, &sum->bytes))
			sum->bytes = INT64_MAX;
		sum->calls = add_bounded(sum->calls, cost.calls);
		sum->measured = add_bounded(sum->measured, cost.measured);
	}
}

static void read_cost_calls(struct builder *b)
{
	struct report_process *process = b->process;
	const struct ledger_cost_call *record;
	struct ledger_walk walk = { 0 };

	while (process->cost_call_count < LEDGER_COST_CALLS_MAX &&
	       (record = ledger_next_cost_call(b->view, &walk))) {
		const struct ledger_driver_cost *of = ledger_driver_cost(b->view, record->cost);
		struct report_driver_cost cost;

		if (of)
			cost = read_cost(b, of);
		*ARENA_ADD(b->arena, process->cost_calls, process->cost_call_count) =
			(struct report_cost_call){
				.cost = of ? find_cost(process, &cost) : NULL,
				.ended_ns = record->ended_ns, .bytes = record->bytes,
				.is_first_context = record->flags & LEDGER_COST_FIRST_CONTEXT,
			};
	}
}

static void set_ended(struct builder *b)
{
	struct site_list sites = site_list(b, sizeof(struct cost_site));

	count_objects(b, &sites);
	for (size_t i = 0; i < b->process->driver_cost_count; i++) {
		struct report_driver_cost *cost = &b->process->driver_costs[i];
		const struct cost_site *site = site_of(&sites, cost->site);

		if (site->created > site->live)
			cost->ended = site->created - site->live;
	}
}

static void build_costs(struct builder *b)
{
	struct report_process *process = b->process;

	read_costs(b);
	if (!process->driver_cost_count)
		return;
	set_ended(b);
	SORT(process->driver_costs, process->driver_cost_count, compare_costs);
	read_cost_calls(b);
}

/* Returns how many bytes COST explains: all if none of its objects ended, else 0. Primary contexts
 * are different: while the process has memory on a device, the device has one of them, even if it
 * has ended when the process ended. So one of them always counts. */
static int64_t explained_by(const struct report_driver_cost *cost)
{
	if (!cost->ended)
		return cost->bytes;
	if (!cost->measured || strcmp(cost->site->api, "cuDevicePrimaryCtxRetain") != 0)
		return 0;
	return cost->bytes / (int64_t)cost->measured;
}

uint64_t driver_memory_explained(const struct report_process *process, int ordinal)
{
	int64_t sum = 0;

	EACH_ITEM(process->driver_costs, process->driver_cost_count, cost) {
		if (cost->site->device == ordinal &&
		    __builtin_add_overflow(sum, explained_by(cost), &sum))
			return 0;
	}
	return sum > 0 ? (uint64_t)sum : 0;
}

void build_driver_memory(struct builder *b)
{
	build_devices(b);
	build_costs(b);
}
