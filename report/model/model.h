/* SPDX-License-Identifier: MIT
 *
 * The contents of a report, independent of formats: one struct report_process per ledger, and
 * the struct report that sums them up. Must not read files, print, or judge.
 */
#ifndef GPULEAK_REPORT_MODEL_H
#define GPULEAK_REPORT_MODEL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/model/model_coverage.h"
#include "report/symbols/frame.h"

struct loaded_ledger;
struct report_device;
struct report_kind;
struct report_growth;
struct report_mark;
struct report_module;
struct report_pools;
struct report_site;
struct suppressions;
struct symbolizer;

enum report_op {
	REPORT_CREATE,
	REPORT_RETAIN,
	REPORT_RELEASE,
};

/* One event in the life of a handle. */
struct report_reference {
	enum report_op op;
	const char *api; /* NULL unknown */
	uint64_t time_ns;
	const struct report_stack *stack; /* never NULL */
	int partner; /* index of the event that took or gave back the same reference, -1 none */
	int guess;   /* the partner may be another */
};

/* In order; the first one is its creation. */
struct report_history {
	uint32_t references; /* left */
	struct report_reference *events;
	size_t count;
	uint64_t left_out; /* pairs of retain and release between creation and the rest */
	int complete;      /* 0: events are missing besides those */
};

/* One past call. */
struct report_event {
	const char *api;                  /* NULL: nothing is known of this call */
	uint64_t bytes;                   /* of the block it allocated; 0 for any other call */
	const struct report_stack *stack; /* never NULL */
};

/* Why released memory that is mapped stays with the driver. */
struct report_mapping {
	struct report_event mapped; /* the oldest mapping that was not unmapped */
	struct report_event released;
};

#define REPORT_IGNORED "gpuleak_ignore()"

/* Live blocks of one (api, kind, device, stack) and, if they were released while they were
 * mapped, of one place where they were mapped and one where they were released. */
struct report_leak {
	const char *api;
	const char *kind;
	int device; /* -1 unknown */
	int is_object; /* no memory: never among the leaks */
	int ignored;   /* by the program, with gpuleak_ignore(): never among the leaks */
	uint32_t references; /* of the block with most of them */
	uint64_t bytes;
	uint64_t blocks;
	const struct report_stack *stack; /* never NULL; count 0 = not recorded */
	/* Of the block with the most references left; NULL if that was never retained. */
	const struct report_history *history;
	const char *pattern; /* that suppressed it, or REPORT_IGNORED; NULL = nothing did */
	uint64_t fingerprint; /* read from a report; 0: none, see report_leak_fingerprint() */
	const char *cache; /* the cache that has the memory, "PyTorch caching allocator", or NULL */
	const struct report_mapping *mapping; /* NULL: the blocks were not released */
};

#define REPORT_NO_ANSWER INT_MIN /* the process ended inside the call, or it answers nothing */

struct report_error {
	const char *type; /* "double-free" ... */
	const char *api;  /* the wrong call */
	const char *kind; /* of the block, NULL unknown */
	int device;
	int result;       /* what the driver answered; REPORT_NO_ANSWER */
	uint64_t address; /* as passed */
	uint64_t block_address; /* of the block below, 0 unknown */
	uint64_t block_bytes;
	int other_range; /* the right call for the block, given a range that is not the block's: */
	uint64_t asked_bytes;
	const struct report_stack *stack;
	struct report_event allocated;
	struct report_event freed;
	/* The block that had the same address before that one. If it was freed twice, its
	 * second free is `freed`: that makes `freed` the candidate for the culprit. */
	struct report_event earlier_allocated;
	struct report_event earlier_freed;
};

/* Why the memory of a released block is still there, if the recorded calls prove a reason. */
enum report_deferred_reason {
	REPORT_DEFERRED_UNKNOWN,
	REPORT_DEFERRED_PART, /* a sub-buffer or an image of it still exists: see the holders */
	REPORT_DEFERRED_USER_EVENT, /* a command uses it that waits for a user event that was
				     * never set */
};

/* An object that keeps the memory of a released block allocated. */
struct report_holder {
	const char *what; /* "sub-buffer", "image", "kernel" */
	const char *kind;
	uint64_t address;
	struct report_event allocated;
	const struct report_holder *next;
};

/* Deferred frees: blocks whose last reference was released and whose memory was still allocated
 * when the ledger ended. One group per kind, calls, reason and holders. */
struct report_deferred {
	const char *kind; /* NULL: there was no such block */
	uint64_t blocks;
	uint64_t bytes;
	uint64_t address; /* of one of them, as is the time */
	uint64_t released_ns;
	struct report_event released;
	struct report_event allocated;
	enum report_deferred_reason reason;
	struct report_event event;   /* of a user event: where it was made ... */
	struct report_event command; /* ... and the command that waits for it */
	const struct report_holder *holders; /* NULL: none that we know of */
	int ignored;         /* by the program, with gpuleak_ignore() */
	const char *pattern; /* that suppressed it, or REPORT_IGNORED; NULL = nothing did */
};

struct report_sample {
	uint64_t time_ns;
	uint64_t bytes;
};

/* All deferred frees of a process. */
struct report_deferred_frees {
	uint64_t peak_bytes;
	uint64_t peak_ns;
	uint64_t longest_wait_ns;
	struct report_deferred longest; /* without holders */
	struct report_sample *samples;
	size_t sample_count;
	struct report_deferred
		*groups; /* largest first; mapped ones are leaks, and not among them */
	size_t group_count;
	uint64_t deferred_blocks;
	uint64_t deferred_bytes;
};

/* Live bytes over time: of one kind of memory on one device, or of all of it (kind NULL). */
struct report_series {
	const char *kind;
	int device; /* -1 unknown */
	struct report_sample *samples; /* as the ledger has them, in its order */
	size_t count;
};

struct report_timeline {
	uint64_t end_ns; /* of the process; 0: it still runs, or its end was not recorded */
	uint64_t peak_ns;
	struct report_series total;
	/* All at the same times. They have fewer samples than the total. */
	struct report_series *parts;
	size_t part_count;
};

enum report_ended {
	REPORT_UNKNOWN, /* ended without a record: killed */
	REPORT_RUNNING,
	REPORT_EXIT,
	REPORT__EXIT,
	REPORT_SIGNAL,
	REPORT_EXEC,
};

struct report_summary {
	uint64_t leaked_bytes; /* without suppressed blocks */
	uint64_t leaked_blocks;
	uint64_t suppressed_bytes; /* including blocks that the program ignores */
	uint64_t suppressed_blocks;
	uint64_t cached_bytes; /* held by a framework's cache: not a leak */
	uint64_t cached_blocks;
	uint64_t errors; /* including errors that were counted but not recorded */
	uint64_t allocated_bytes;
	uint64_t allocated_blocks;
	uint64_t freed_blocks; /* including late frees */
	uint64_t peak_bytes;   /* of several processes: the sum of their peaks */
	uint64_t with_context_blocks;
	uint64_t with_context_bytes;
	uint64_t deferred_blocks; /* deferred frees: neither freed nor leaked */
	uint64_t late_blocks; /* freed after the driver had shut down */
	uint64_t left_out_blocks; /* live, but excluded by struct load_choice */
	uint64_t left_out_bytes;
	uint64_t younger_blocks; /* live, but younger than --older */
	uint64_t younger_bytes;
};

/* Everything in it is owned by it, except frames: those are the symbolizer's, which must
 * live longer. Lists are ordered: leaks and suppressed by bytes, largest first, errors in
 * the order in which they happened. */
struct report_process {
	int pid;
	const char *const *command; /* NULL-terminated; may be empty */
	size_t command_count;
	const char *exe; /* NULL unknown */
	const char *host;
	const char *program; /* last part of exe or command[0]; "?" if neither is known */
	int ranked; /* it is one of a parallel job: */
	int rank;
	int ranks; /* how many there are; 0 unknown */
	const char *rank_variable; /* the variable that gave the rank: "RANK" */
	const char *ledger;  /* name of the ledger */
	uint64_t start_real_ns; /* of its first GPU call */

	enum report_ended ended;
	int status; /* exit status for EXIT and _EXIT, signal number for SIGNAL, else 0 */

	struct report_summary summary;
	struct report_leak *leaks;
	size_t leak_count;
	struct report_leak *suppressed;
	size_t suppressed_count;
	struct report_leak *cached; /* of a framework's cache: neither leaks nor suppressed */
	size_t cached_count;
	struct report_error *errors;
	size_t error_count;
	struct report_deferred_frees deferred;
	struct report_timeline timeline;
	/* Objects that were not released. Their kinds begin with "object/", and they have 0
	 * bytes. */
	struct report_leak *objects;
	size_t object_count;
	struct report_device *devices; /* see model_driver_memory.h, like the next */
	size_t device_count;
	struct report_mark *marks;
	size_t mark_count;
	uint64_t marks_made; /* those without a record included */
	struct report_kind *kinds; /* see model_sites.h */
	size_t kind_count;
	struct report_site *sites; /* likewise; none unless the ledger's all_sites was set */
	size_t site_count;
	struct report_module *modules; /* likewise */
	size_t module_count;
	const struct report_growth *growth; /* see growth_rule.h; NULL: no step was marked */
	const struct report_pools *pools; /* see model_pool.h; NULL: no pool, and no limit met */
	const char *driver_memory_why; /* why no device has figures, static; NULL: the driver was
					 * not queried */

	struct report_coverage coverage;

	/* Suppressions from the program's __lsan_default_suppressions(), or NULL. */
	struct suppressions *program_suppressions;

	/* Sentences about what was not recorded, not readable, or is unreliable. */
	const char *const *notes;
	size_t note_count;
	/* 1: allocations, frees or errors may be missing, so that "no leaks" is not proven.
	 * A gate must not pass. The notes say what is missing. */
	int incomplete;

	struct report_arena *arena;
};

/* Builds the model of LEDGER. Counts matches in SUPPRESSIONS, which may be NULL. Looks up in /proc
 * if a process that the ledger calls running still runs. 0 with *RET to be destroyed by the caller,
 * or -ENOMEM. */
int report_process_build(const struct loaded_ledger *ledger, struct symbolizer *symbolizer,
			 struct suppressions *suppressions, struct report_process **ret);

void report_process_destroy(struct report_process *process); /* NULL is fine */

/* Returns true if DEFERRED fails the gate: only the application could free it, and it is not
 * reported as a leak. */
bool report_deferred_fails(const struct report_deferred *deferred);

/* Sets how the process ended, for a caller that waited for it. */
void report_process_set_ended(struct report_process *process, enum report_ended ended, int status);

/* The word of DESIGN's JSON: "exit", "_exit", "signal", "exec", "running", "unknown". */
const char *report_ended_word(enum report_ended ended);

/* Returns the frame to blame: the innermost of the application, else the innermost of a framework,
 * else the innermost of all; NULL for an empty stack. */
const struct report_frame *report_stack_culprit(const struct report_stack *stack);

struct report {
	struct report_process **processes;
	size_t count;
	struct report_summary summary; /* totals */
	char **notes; /* about the whole report, for example a ledger that could not be read */
	size_t note_count;
	int incomplete; /* one of the processes is, or a ledger was left out */
	int verbose; /* in text, list coverage by module */
	const struct suppressions *suppressions; /* for the table of suppressions used; or NULL */
};

/* A report starts as { 0 }, with suppressions set if there are any. Adding hands PROCESS
 * over, also on error (then it is destroyed). 0 or -ENOMEM. */
int report_add_process(struct report *report, struct report_process *process);

/* Copies TEXT, a sentence without a newline, to the notes. 0 or -ENOMEM. */
int report_add_note(struct report *report, const char *text);

/* Sorts the processes independently of how they were found: by rank, then those without a rank, by
 * host, pid and start. */
void report_sort(struct report *report);

/* Destroys what was added; the suppressions are the caller's. */
void report_finish(struct report *report);

#endif
