/* SPDX-License-Identifier: MIT
 *
 * Makes the recorder at the first GPU call. Maps the state of all folders in one piece, creates the
 * ledger, and writes the identity of the process into the ledger's header. Also defines the table
 * of upcalls. Must not decide when to report (exit.c).
 */
#include "interpose/process/start.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/base/fork_guard.h"
#include "interpose/base/message.h"
#include "interpose/base/arena.h"
#include "interpose/base/upcalls.h"
#include "interpose/block/block_ranges.h"
#include "interpose/block/blocks.h"
#include "interpose/recorder/context_ends.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/block/free_race.h"
#include "interpose/block/limit.h"
#include "interpose/pytorch/suballocations.h"
#include "interpose/refusal/out_of_memory.h"
#include "interpose/block/pool_counters.h"
#include "interpose/refusal/refused_frees.h"
#include "interpose/block/refcount_history.h"
#include "interpose/recorder/recorded_keepers.h"
#include "interpose/block/driver_growth.h"
#include "interpose/recorder/ipc.h"
#include "interpose/block/steps.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/wrappers/cuda_graph.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/cuda/physical.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/loader.h"
#include "interpose/guard/guard.h"
#include "interpose/nvtx/nvtx.h"
#include "interpose/opencl/kernel_args.h"
#include "interpose/opencl/user_events.h"
#include "interpose/process/reporter.h"
#include "interpose/recorder/named_ranges.h"
#include "interpose/recorder/write_observations.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/recorder/trace.h"
#include "interpose/stack/modules.h"
#include "interpose/stack/interpreters.h"
#include "interpose/stack/python.h"
#include "interpose/stack/capture.h"
#include "interpose/stack/intern.h"
#include "interpose/stack/stack_cache.h"
#include "interpose/stack/walk.h"
#include "ledger/error_text.h"
#include "ledger/process_stat.h"
#include "ledger/roster.h"

/* Bytes of address space. If RLIMIT_AS leaves fewer to the process, gpuleak records nothing, and
 * the application can use all of them. If it leaves more, the first GPU call uses at most about a
 * quarter of them for gpuleak. */
#define ADDRESS_SPACE_MIN ((uint64_t)16 << 20)
/* gpuleak uses at most 1/32 of the address space that RLIMIT_AS leaves for per-thread state. */
#define THREAD_STATES_SHARE 32u

/* The recorder and the state of all folders that have some. The mapping is zero-filled, and a page
 * of it takes memory only once it is written. */
struct recorder_state {
	struct recorder recorder;
#define PART(type, name) struct type name;
	RECORDER_PARTS(PART)
#undef PART
};

static uint32_t generations;
static pid_t started_pid; /* the process that the dynamic linker started */
static _Atomic bool bypass_noted;
static bool guard_ends_pool; /* GPULEAK_POOL names a pool that the guard has turned off */
static struct roster *roster; /* NULL: not started by `gpuleak run` */
void (*process_has_recorder)(struct recorder *recorder);
void (*process_stays_off)(void);
int process_only;

/* Returns true if this library was opened while the program runs, and not preloaded or linked. Then
 * it waits for an attachment, or for the OpenCL loader whose layer it is. */
static bool was_opened_later(void)
{
	const struct link_map *us = module_of((const void *)process_start);
	struct dlerror_state state;
	bool found;

	if (!us || !us->l_name || !us->l_name[0])
		return false;
	dlerror_take(&state);
	found = resolve_is_ours(lookup_real(RTLD_DEFAULT, "gpuleak_attach"));
	dlerror_give_back(&state);
	return !found;
}

void process_start(void)
{
	if (recorder_page)
		return;
	started_pid = getpid();
	config_read();
	recording_is_prepared = config.record == OPTION_SWITCH_OFF && !was_opened_later();
	if (recording_is_prepared || was_opened_later()) {
		config.pool = OPTION_POOL_OFF;
		config.guard = 0;
		atomic_store(&recording_is_off, true);
	}
	guard_ends_pool = config.guard && config.pool != OPTION_POOL_OFF;
	if (config.guard)
		config.pool = OPTION_POOL_OFF;
	hooks_guard();
	rank_read();
	atomic_store(&pool_on, config.pool != OPTION_POOL_OFF);
	limits_start();
	if (!nvtx_start(!atomic_load(&recording_is_off)))
		roster = roster_join(config_roster);
	if (roster)
		shared_add(roster->loaded, 1);
	recorder_make_page();
	fork_guard_start();
}

/* A forked child may not call the loader: another thread of its parent may have held the loader's
 * lock. */
void process_note_bypass(void)
{
	const struct observation *bypass;

	if (!roster || getpid() != started_pid || atomic_exchange(&bypass_noted, true))
		return;
	bypass = coverage_bypass();
	if (bypass)
		roster_bypass(roster, getpid(), program_invocation_short_name,
			      observation_kind_name(bypass->kind), bypass->module);
}

void process_count_started(int change)
{
	if (roster)
		shared_add(roster->started, (uint32_t)change);
}

bool process_is_of_run(void)
{
	return roster || config_roster;
}

static void connect(struct recorder_state *state)
{
	struct recorder *recorder = &state->recorder;

#define CONNECT(type, name) recorder->name = &state->name;
	RECORDER_PARTS(CONNECT)
#undef CONNECT
}

static uint64_t start_ticks(void)
{
	struct process_stat stat;

	return process_stat_read(0, &stat) < 0 ? 0 : stat.start_ticks;
}

static int fill_recorder(struct recorder *recorder, const char *suppressions)
{
	struct identity identity;
	struct ledger_header header = { 0 };
	int r;

	identity_read(&identity);
	recorder->pid = getpid();
	recorder->stack_depth = (unsigned int)config.stack_depth;
	header.pid = recorder->pid;
	header.ppid = getppid();
	header.start_ticks = start_ticks();
	header.start_real_ns = clock_ns(CLOCK_REALTIME);
	header.start_mono_ns = clock_ns(CLOCK_MONOTONIC);
	header.stack_depth = recorder->stack_depth;
	header.first_call = 1;
	header.attached = atomic_load(&apis_attached_hook) != NULL; /* a forked child */
	r = create_ledger(recorder, &identity, &header);
	if (r < 0)
		return r;
	recorder->header = recorder->writer.header;
	recorder->deferred->timeline.type = LEDGER_CHUNK_DEFERRED;
	recorder->parts->type = LEDGER_CHUNK_PARTS;
	recorder->header->host = recorder_add_text(recorder, identity.host);
	recorder->header->exe = recorder_add_text(recorder, identity.exe);
	recorder->header->cwd = recorder_add_text(recorder, identity.cwd);
	recorder->header->command = ledger_add_string(&recorder->writer, identity.command,
						      identity.command_length);
	pools_record_make(recorder);
	guard_start(recorder);
	trace_start(recorder);
	rank_write(recorder);
	lsan_write(recorder, suppressions);
	hooks_forget_refs();
	modules_refresh(recorder);
	return 0;
}

/* Bytes of each per-thread state. Behind the array of per-thread states lies an array of as many
 * stack caches. */
#define THREAD_BYTES (sizeof(struct thread_state) + sizeof(struct stack_cache))

/* Returns the number of per-thread states if LEFT bytes of address space are left. */
static unsigned int thread_states_for(uint64_t left)
{
	const uint64_t count = left / THREAD_STATES_SHARE / THREAD_BYTES;

	return count < THREAD_STATES ? (unsigned int)count : THREAD_STATES;
}

/* Returns 0, or -errno with nothing mapped. */
static int map_recorder(struct recorder **ret, const char *suppressions)
{
	const uint64_t left = ledger_address_space_left();
	const unsigned int count = thread_states_for(left);
	const size_t size =
		offsetof(struct recorder_state, thread_states.state) + count * THREAD_BYTES;
	struct recorder_state *state;
	int r;

	if (left < ADDRESS_SPACE_MIN)
		return -ENOMEM;
	state = pages_map(size);
	if (!state)
		return -errno;
	connect(state);
	state->thread_states.count = count;
	state->stacks.cache = (struct stack_cache *)&state->thread_states.state[count];
	r = fill_recorder(&state->recorder, suppressions);
	if (r < 0)
		munmap(state, size);
	else
		*ret = &state->recorder;
	return r;
}

/* Prints a line if a `gpuleak run` started this process and can see neither its ledger nor its
 * entry in the roster, for example in a container. */
static void warn_if_unseen(int error, const char *path)
{
	char pid[TEXT_NUMBER];

	if (!error || !config_roster || roster)
		return;
	say("gpuleak: not recorded completely: ", program_invocation_short_name, " (pid ",
	    text_number((uint64_t)getpid(), pid), "): no ledger could be made",
	    *path ? " at " : "", path, ": ", error_text(error),
	    "; `gpuleak run` cannot see this process, and its gate does not count it: start the "
	    "process with the /dev/shm and the IPC namespace of the run, or run gpuleak there\n",
	    NULL);
}

static void warn_about_pool(void)
{
	if (guard_ends_pool)
		say("gpuleak: GPULEAK_GUARD turns the pool off: GPULEAK_POOL is ignored\n", NULL);
	guard_ends_pool = false;
}

/* Locking: the caller holds recorder_page->making. */
static struct recorder *make(bool no_unwinder, const char *suppressions)
{
	struct roster_slot *slot = roster_enter(roster, getpid(), start_ticks(),
						program_invocation_short_name);
	struct recorder *recorder = NULL;
	int r = map_recorder(&recorder, suppressions);

	roster_note(slot, r < 0 ? -r : recorder->report->create_errno);
	warn_if_unseen(r < 0 ? -r : recorder->report->create_errno,
		       r < 0 ? "" : recorder->report->place);
	if (r < 0) {
		recorder_page->failed_pid = getpid();
		shared_store(recorder_page->impossible, -r);
		return NULL;
	}
	if (no_unwinder && recorder->stack_depth)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_NO_UNWINDER, 1);
	recorder->generation = ++generations;
	steps_name(recorder, recorder_page->step_name);
	shared_publish(recorder_page->recorder, recorder);
	no_gpu_write(recorder);
	config_warn();
	warn_about_pool();
	return recorder;
}

void process_release(struct recorder *recorder)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t size = offsetof(struct recorder_state, thread_states.state) +
			    recorder->thread_states->count * THREAD_BYTES;

	munmap(recorder->writer.base, recorder->writer.reserved_bytes);
	arena_release(&recorder->arena);
	munmap((char *)recorder + page, size - page);
	madvise(recorder, page, MADV_DONTNEED);
}

/* Returns true if this process records nothing now. Then its calls cost as little as possible. */
static bool stays_off(void)
{
	bool off = atomic_load(&recording_is_off);

	if (off && process_stays_off)
		process_stays_off();
	if (off || (process_only && process_only != getpid()))
		shared_publish(recorder_page->impossible, 1);
	return recorder_page->impossible;
}

static void get_or_make(void *data)
{
	struct recorder **ret = data, *recorder;
	const char *suppressions;
	bool made = false;
	bool no_unwinder;

	if (!recorder_page)
		process_start(); /* a GPU call from a constructor that ran before ours */
	*ret = NULL;
	if (stays_off())
		return;
	/* Before the lock, since these calls take the dynamic loader's lock. Another thread may
	 * hold that while its constructor makes a first GPU call, which waits for `making`. */
	no_unwinder = ledger_address_space_left() < ADDRESS_SPACE_MIN || walk_load() < 0;
	suppressions = lsan_ask();
	apis_libraries_changed();
	lock_take(&recorder_page->making);
	recorder = recorder_now();
	if (!recorder && !recorder_page->impossible) {
		recorder = make(no_unwinder, suppressions);
		made = recorder != NULL;
	}
	lock_give(&recorder_page->making);
	if (made) {
		python_look(recorder);
		interpreters_look();
	}
	if (made && process_has_recorder)
		process_has_recorder(recorder);
	*ret = recorder;
}

const struct upcalls upcalls = {
	.make_recorder = get_or_make,
	.stack_is_nested = stack_is_nested,
	.thread_joins = stack_cache_join,
	.counts_live = site_counts_live,
	.trace_range = trace_range,
	.nvtx_found = nvtx_found,
	.thread_ends_in_call = record_calls_end,
};
