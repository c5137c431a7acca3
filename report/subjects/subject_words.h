/* SPDX-License-Identifier: MIT
 *
 * Words and JSON of one subject that another subject, the first line of the report or a list of
 * findings needs. Prints valid UTF-8 without control characters. WHOLE: see describe_stack.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ledger/format.h"
#include "report/model/model.h"

struct finding;
struct builder;
struct ranks;
struct report_suspect;
struct subject_view;

/* ---- process ---- */

/* Prints what processes with the sums SUM kept to which gpuleak attached. MOST is the largest such
 * finding; NULL: prints nothing. BRIEF: without the place. */
void describe_kept(FILE *out, const struct report_summary *sum, const struct finding *most,
		   bool brief, bool whole);

/* Prints how many blocks of COUNT PROCESSES were freed, and why the others are not leaks. */
void describe_fates(FILE *out, const struct report_summary *sum,
		    struct report_process *const *processes, size_t count);
/* If kernels did nothing in one of the PROCESSES, prints this at the beginning of a first line. */
void describe_no_gpu(FILE *out, struct report_process *const *processes, size_t count);
json_t *json_summary(const struct report_summary *sum);
/* Adds words of the text report about PROCESS to OBJECT, for the HTML page. */
void json_add_words(json_t *object, const struct report_process *process);

/* ---- leaks and suppressions ---- */

json_t *json_leak(const void *leak, const struct subject_view *view);
/* Prints all used suppressions, and the unused ones of the user's file. Unused suppressions of the
 * program itself are not printed, because they are intended for host memory. */
void describe_suppressions(FILE *out, const struct report *report);

/* Prints what did not happen to LEAK: "never freed", "never unregistered (cudaHostUnregister
 * missing)", "unmapped, but never released (cuMemRelease missing)"; RUNNING: "not freed so far". */
void describe_missing_call(FILE *out, const struct report_leak *leak, bool running);
bool is_same_missing_call(const struct report_leak *a, const struct report_leak *b);
/* Return what made the blocks of LEAK, "allocated" or "imported", and where. If LEAK has a mapping:
 * "mapped". */
const char *describe_made(const struct report_leak *leak);
const struct report_stack *describe_made_at(const struct report_leak *leak);
/* Prints BEFORE and "it keeps its released parent of 1.0 MiB, allocated at split (/abs/a.c:7)" for
 * a sub-buffer that keeps KEEPS bytes. Prints nothing for any other leak. */
void describe_parent(FILE *out, const char *before, const struct report_leak *leak,
		     uint64_t keeps, bool whole);
/* Returns true if an object that is destroyed at exit has memory of SITE, and the CUDA runtime is
 * linked statically. The destructor may run after the driver has ended. Then the runtime calls no
 * driver, and gpuleak does not see the free. */
bool may_be_freed_late(const struct report_site *site);
/* Prints BEFORE, " refused free at release (/abs/a.cu:4): CUDA_ERROR_NOT_PERMITTED", and AFTER.
 * Prints nothing if REFUSED is NULL. */
void describe_refused_free(FILE *out, const char *before, const struct report_refused_free *refused,
			   const char *after, bool whole);

/* Prints BEFORE and "2 frees came too late, when the driver had shut down (result), at ~Pool
 * (/abs/a.cu:4)", and returns true, if there are such frees. */
bool describe_late_frees(FILE *out, const char *before, const struct report_process *process,
			 bool whole);

/* Prints "; no release matches the retain at use (/abs/a.c:9)" and returns true if that is known.
 * HISTORY may be NULL. */
bool describe_lone_retain(FILE *out, const struct report_history *history, bool whole);
/* Prints the history of one of BLOCKS blocks, whose stack the caller has printed. */
void describe_history(FILE *out, const struct report_history *history, uint64_t blocks, bool whole);
json_t *json_history(const struct report_history *history);

/* Prints "  Kept after 4.00 s by:", and a line for each keeper. */
void describe_keepers(FILE *out, const struct report_keepers *keepers);
/* Returns how much of TEXT, of a keeper, names the variable and not the items that it keeps. */
size_t keeper_variable_length(const char *text);
/* Prints ", kept by list `losses` in main() (/abs/train.py:5)" for the first keeper with blocks.
 * Prints nothing if no keeper has blocks. KEEPERS may be NULL. */
void describe_first_keeper(FILE *out, const struct report_keepers *keepers);
json_t *json_keepers(const struct report_keepers *keepers);
json_t *json_keepers_time(const struct report_keepers *keepers); /* in seconds */

/* ---- memory that ended with its context ---- */

/* Prints the call that ended the context, and its stack. */
void describe_context_end(FILE *out, const struct report_context_end *end, bool whole);

/* ---- errors ---- */

/* Invalid frees of one type, with the same stacks. */
struct error_group {
	const struct report_error *error; /* the first error of the group */
	uint64_t count;
	struct error_group *next;
};

/* Returns the invalid frees of PROCESS in groups, in the order of their first errors, or NULL if
 * there are no errors. The groups are allocated from ARENA. */
struct error_group *error_groups(const struct report_process *process,
				 struct report_arena *arena);

/* Returns the words for an error type ("double free"). Returns an unknown type unchanged; it may
 * have any bytes. */
const char *error_words(const char *type);
/* Prints the words for ERROR's type, which for some types name a size and a place: "reservation
 * freed while 2.0 MiB of it is mapped at main (/abs/app.c:10)". */
void describe_error_words(FILE *out, const struct report_error *error, bool whole);
/* Prints "double free of 0x... at cleanup (/abs/app.c:40)", for the first line of a report. */
void describe_error_briefly(FILE *out, const struct report_error *error, bool whole);
/* Prints "cuMemFree_v2 was given a block that had been freed already (the driver returned
 * CUDA_ERROR_INVALID_VALUE (1))". */
void describe_error_cause(FILE *out, const struct report_error *error);
/* Returns the name of RESULT as in cuGetErrorName() or CL/cl.h, for example
 * "CUDA_ERROR_INVALID_VALUE". API is the call that returned it; its prefix selects CUDA or OpenCL.
 * Returns NULL if the code has no name. */
const char *result_name(const char *api, int result);
/* Prints BEFORE, the call and AFTER in a line, and the stack. Prints nothing if neither the call
 * nor the stack is known. */
void describe_event(FILE *out, const char *before, const struct report_event *event,
		    const char *after, bool whole);
/* Prints a group of errors with its stacks, in several lines. */
void describe_error(FILE *out, const struct error_group *group, bool whole);

/* ---- caches and objects ---- */

/* Prints ", 3 held by the PyTorch caching allocator (2.0 GiB)", the total of COUNT processes.
 * Prints nothing if no cache has memory. */
void describe_caches(FILE *out, struct report_process *const *processes, size_t count);

/* Prints BEFORE, and how many objects of each kind were not destroyed and where most of them were
 * made: GROWING, of the kinds that accumulate; else of the others. Prints nothing about single
 * contexts. */
void describe_objects(FILE *out, const struct report_process *process, bool growing,
		      const char *before);
/* Does the same for what no gate fails for: frees that came too late, and objects that do not
 * accumulate. */
void describe_left(FILE *out, const struct report_process *process, const char *before, bool whole);
/* Returns true if that is more than the few objects that libraries keep until exit: frees, or
 * several objects of one place. */
bool is_much_left(const struct report_process *process);
/* Returns the word of JSON for a kind of object: "stream" for "object/stream". */
const char *json_object_word(const char *kind);

/* ---- suballocations ---- */

/* build() of the subject of driver memory is in a file of its own. */
void build_driver_memory(struct builder *b);

/* The part of a block in a framework's cache that no suballocation uses. */
#define SUBALLOCATIONS_UNUSED "cached, unused"

/* Returns what the users of the pool CACHE call its suballocations: "tensor" for PyTorch's. Returns
 * "block" if CACHE is NULL, because the memory is in no pool, and if the pool is unknown. */
const char *suballocation_word(const char *cache);
/* Returns what users call one block or suballocation of LEAK: "tensor" or "block". */
const char *describe_unit(const struct report_leak *leak);
/* Returns "accumulating", "filled" or "constant"; NULL if it is not known. */
const char *suballocation_trend_word(enum report_trend trend);
/* Prints ", 2 per second" or ", 1.5 per minute". */
void describe_rate(FILE *out, double per_second);
/* Marks functions through which most leaks pass: see report_stack_wrapper(). */
void mark_wrappers(const struct report_process *process);
/* Marks functions that also allocated for callers that freed everything. */
void mark_shared_functions(struct builder *b);
/* Returns true if a call site accumulates and is not suppressed. */
bool process_accumulates(const struct report_process *process);

/* The live suballocations of one pool. */
struct suballocation_pool {
	const char *cache; /* NULL: unknown */
	uint64_t bytes, blocks;
	uint64_t accumulating; /* of `blocks`: those of call sites that accumulate */
};
#define SUBALLOCATION_POOLS_MAX 16

/* Sums up the live suballocations of PROCESS by pool. The last element sums up all pools beyond the
 * limit. Returns the number of pools. */
size_t suballocation_pools(const struct report_process *process,
			   struct suballocation_pool ret[SUBALLOCATION_POOLS_MAX]);

/* Prints "1,234 bytes (1.2 KiB) in 3 tensors". */
void describe_suballocations(FILE *out, const char *cache, uint64_t bytes, uint64_t blocks);
/* Prints whether the program kept the suballocations of ENTRY: "400 of 400 kept, 2 per second until
 * the loop ended", "filled up and stays", "constant". Prints nothing if it is not known. */
void describe_trend(FILE *out, const struct report_process *process,
		    const struct report_suballocations *entry);
/* Prints BEFORE and "12,288 bytes (12.0 KiB) in tensors, 2,084,864 bytes (1.9 MiB) cached, unused":
 * how the bytes of BLOCKS, which are in a cache, divide. Prints nothing if no suballocation is in
 * them. */
void describe_division(FILE *out, const struct report_leak *blocks, const char *before);
/* Prints the names that the program gave to the blocks of LEAK, as a line; or nothing. */
void describe_names(FILE *out, const struct report_leak *leak);
json_t *json_name(const void *item);
/* Prints "PyTorch caching allocator, device 0" for the pool of LIVE, or "device memory,
 * cuMemAlloc_v2, device 0" for a block that is in no pool. DEVICE -1: prints no device. */
void describe_pool(FILE *out, const struct report_leak *live, int device);
/* Prints BEFORE, one sentence about the suballocations that lie outside of all recorded blocks, at
 * least in part, and a newline. Prints nothing if PROCESS has no such suballocation. */
void describe_outside(FILE *out, const char *before, const struct report_process *process);

/* ---- peak and out of memory ---- */

/* Returns "device", "host" or "opencl". */
const char *peak_memory_word(const struct report_peak *peak);
/* Prints "device 0", "host memory" or "OpenCL device 0". */
void describe_peak_memory(FILE *out, const struct report_peak *peak);
/* Prints the moments of PROCESS that the user requested, and its notes. */
void describe_moments(FILE *out, const struct report_process *process, bool verbose);
/* Prints "peak 1000.0 MiB, of which 900.0 MiB by workspace (/abs/solver.c:41)", for the memory of
 * PROCESS with the largest peak. If PROCESS used several memories, names this one: "peak 1000.0 MiB
 * of device 0, of which ...". PROCESS must have a peak. */
void describe_peak(FILE *out, const struct report_process *process, bool whole);
/* Prints "1000.0 MiB of device 0: 900.0 MiB workspace (/abs/solver.c:41), 100.0 MiB weights
 * (/abs/solver.c:12)". */
void describe_peak_holders(FILE *out, const struct report_peak *peak, bool whole);

/* What the memory pools of the driver have reserved and do not use. */
struct parked_sum {
	uint64_t unused;
	size_t pools;
	const struct ledger_parked *most; /* the pool with most of it; NULL: no pool */
};
/* Adds up the pools of DEVICE (-1: of all devices) at the moment WHEN, of the request REFUSAL. */
struct parked_sum parked_sum_up(const struct report_process *process, enum ledger_parked_when when,
				uint64_t refusal, int device);
/* Prints BEFORE, "12.0 GiB unused in CUDA's default memory pool (release threshold 2^64-1):
 * cudaMemPoolTrimTo gives them back", and returns true. Prints nothing and returns false if SUM is
 * less than 1 MiB or less than a sixteenth of OF. */
bool describe_parked(FILE *out, const char *before, const struct parked_sum *sum, uint64_t of);

/* Returns what became of ENTRY. That depends on how PROCESS ended, see
 * docs/guides/out-of-memory.md. */
enum report_outcome report_outcome(const struct report_process *process,
				   const struct report_out_of_memory *entry);
/* Returns "recovered", "tolerated" or "final". */
const char *report_outcome_word(enum report_outcome outcome);

/* Returns the out-of-memory that ended PROCESS, or NULL. If there are several, the last one. */
const struct report_out_of_memory *report_final_out_of_memory(const struct report_process *process);

/* Returns the sample of driver memory that is nearest to ENTRY, or NULL if none is near. */
const struct driver_memory_sample *report_sample_near(const struct report_process *process,
						      const struct report_out_of_memory *entry);

/* Returns the bytes that the program requested. If a framework made the request, the framework
 * requests more than that from the driver. 0: unknown. */
uint64_t out_of_memory_wanted(const struct report_out_of_memory *entry);
/* Prints "2.0 GiB wanted at decode (/abs/serve.py:88); held: 61.0 GiB KV_cache (/abs/serve.py:40),
 * 3.1 GiB libnccl.so.2, 2.2 GiB driver". */
void describe_out_of_memory(FILE *out, const struct report_process *process,
			    const struct report_out_of_memory *entry, bool whole);
/* Prints "; out of memory 3 times, 1 of them recovered". Prints nothing if no request of the COUNT
 * PROCESSES was refused, or if one of the processes ended because of that. */
void describe_refusals(FILE *out, struct report_process *const *processes, size_t count);

/* ---- fragmentation at an out-of-memory ---- */

/* Prints "; would fit without fragmentation: expandable_segments:True frees 60.0 MiB". Prints
 * nothing if the request would not have fitted. */
void describe_fit(FILE *out, const struct report_out_of_memory *entry);
/* Prints the state at the refusal, which lines keep segments, and what helps. */
void describe_refused_fragmentation(FILE *out, const struct report_out_of_memory *entry,
				    bool whole);
void json_add_fragmentation(json_t *object, const struct report_out_of_memory *entry,
			    const struct subject_view *view);

/* ---- memory that is shared between processes ---- */

/* Prints "4.0 MiB freed at drop (/abs/owner.c:20), still open in worker (pid 4711), opened at
 * main (/abs/worker.c:30)" for the largest memory that one of PROCESSES freed while another process
 * had it open. Prints nothing if there is none. */
void describe_freed_while_open(FILE *out, struct report_process *const *processes, size_t count,
			       bool whole);
/* If LEAK is memory of another process that PROCESS has open, prints the process that it belongs
 * to. Prints nothing for any other leak. */
void describe_owner_of_leak(FILE *out, const struct report_process *process,
			    const struct report_leak *leak, bool whole);

/* ---- deferred frees ---- */

/* Returns true if DEFERRED fails the gate: only the application can cause the free, and no
 * suppression matches. The blocks are not reported as leaks. */
bool report_deferred_fails(const struct report_deferred *deferred);

/* Prints the stacks of the mapping and of the release. */
void describe_mapping(FILE *out, const struct report_leak *leak, bool whole);
/* Prints "12 released blocks, 1,024 bytes (1.0 KiB), held by a user event that was never set,
 * created at main (a.c:3)" for the deferred frees that make the gate fail
 * (report_deferred_fails()), and returns true. Prints nothing and returns false if PROCESS has no
 * such frees. */
bool describe_stuck(FILE *out, const struct report_process *process, bool whole);

/* ---- growth, coverage, notes ---- */

/* Prints "1.0 MiB per step (60.0 MiB per hour)". */
void describe_growth_rate(FILE *out, const struct report_suspect *suspect);

/* Returns observation I (from 0) of KIND, or NULL. */
const struct report_observation *coverage_observation(const struct report_coverage *coverage,
						      const char *kind, size_t i);

/* For an observation of modules that bypass gpuleak: a short name ("RTLD_DEEPBIND") and the reason.
 * coverage_reach() returns NULL for every other KIND. */
struct coverage_reach {
	const char *kind, *name, *reason;
};
const struct coverage_reach *coverage_reach(const char *kind);

/* Prints "coverage: CUDA intercepted via linked calls; not seen: libx.so (RTLD_DEEPBIND)". Prints
 * nothing if the ledger has no observations about coverage. */
void describe_coverage(FILE *out, const struct report_process *process);
/* Prints every route, module and function. */
void describe_all_coverage(FILE *out, const struct report_process *process);

void describe_notes(FILE *out, const char *const *notes, size_t count);
/* Prints one line about modules without debug information, if the place of a leak or an error is in
 * one. Prints another line about modules without unwind tables, if callers are missing in such a
 * stack for that reason. */
void describe_missing_debuginfo(FILE *out, const struct report *report);

/* ---- ranks of a parallel job ---- */

/* Prints how single ranks differ from the others, for the start of the report's first line: "only
 * rank 3 leaks 1.0 GiB at make (app.c:12); ". Prints nothing if no rank differs. */
void describe_odd_ranks(FILE *out, const struct ranks *ranks);
/* Prints the other sentences about ranks, one per line. */
void describe_more_odd_ranks(FILE *out, const struct ranks *ranks);
/* Prints the leaks, and the call sites that accumulate, that several ranks have: each of them
 * once. */
void describe_shared_leaks(FILE *out, const struct ranks *ranks, bool whole);
/* Returns the key "ranks". It is left out if REPORT is not about a job with at least two ranks. */
json_t *json_ranks(const struct report *report);
