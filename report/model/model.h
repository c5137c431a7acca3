/* SPDX-License-Identifier: MIT
 *
 * The contents of a report, independent of its format: one struct report_process per ledger, and
 * struct report with all of them and their sums. Must not read files, print, or decide the gate.
 * Not thread-safe. Sizes are in bytes. *_ns are nanoseconds since the process's first GPU call,
 * which created the ledger, unless a comment states otherwise.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"
#include "report/model/site.h"
#include "report/symbols/frame.h"

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
	/* index of the matching event (the retain of a release, or the reverse), -1 unmatched */
	int partner;
	bool guess;  /* the match is a guess: another event may be the right one */
};

/* The events of a handle in order. The first event is its creation. */
struct report_history {
	uint32_t references; /* reference count now */
	struct report_reference *events;
	size_t count;
	/* matched pairs of retain and release that were removed from the history */
	uint64_t left_out;
	bool complete; /* false: other events are missing, too */
};

/* One earlier call. */
struct report_event {
	const char *api;                  /* NULL: the call is unknown */
	/* size of the block that the call allocated; 0 for other calls */
	uint64_t bytes;
	const struct report_stack *stack; /* never NULL */
};

/* Why the driver cannot free a released block: the application still has it mapped. */
struct report_mapping {
	struct report_event mapped; /* the oldest mapping that was not unmapped */
	struct report_event released;
};

#define REPORT_IGNORED "gpuleak_ignore()"

/* The first addresses, or the handles, of blocks, in the order of the ledger. */
struct report_addresses {
	uint32_t site; /* ref of one of the call sites in the ledger that have the blocks */
	uint64_t *list;
	size_t count;
};

/* What keeps the live blocks of a call site, as the program's interpreter found it. */
struct report_keeper {
	uint64_t blocks; /* 0: `text` is a remark on the search */
	const char *text; /* "list `history` in __main__ (/abs/train.py:5)" */
};

struct report_keepers {
	uint64_t time_ns; /* when the interpreter searched */
	struct report_keeper *list;
	size_t count;
};

/* How the number of live suballocations, blocks or objects of a call site changed: see
 * accumulation_rule.h. */
enum report_trend {
	TREND_UNKNOWN,      /* too few calls, or a ledger without samples */
	TREND_CONSTANT,     /* the program frees what it allocates */
	TREND_FILLED,       /* their number grew and then stayed: weights, a cache that is full */
	TREND_ACCUMULATING, /* their number grew until the program or its loop ended */
};

/* Objects that are not memory, of a call site or of a kind. */
struct report_object_counts {
	uint64_t created;
	uint64_t destroyed;
	uint64_t with_context; /* ended with their context */
	enum report_trend trend; /* of a call site, as its objects show that are left */
	double per_second;       /* accumulating: 0: unknown */
};

struct report_object_kind {
	const char *kind; /* "object/stream" */
	uint64_t live;
	struct report_object_counts counts;
};

/* Live blocks of one call site. Blocks that were released while mapped are grouped by their mapping
 * and their release, too. */
struct report_leak {
	const struct report_site *site; /* never NULL; of objects only in the list of objects */
	bool ignored;  /* the program called gpuleak_ignore(); never in the list of leaks */
	uint32_t references; /* largest reference count of its blocks */
	uint64_t bytes;
	uint64_t blocks;
	uint32_t *threads; /* that allocated the blocks, up to the first one with two of them */
	size_t thread_count;
	/* what would come back if the blocks were freed: see build_keeps.c. Only in the process's
	 * own lists of memory */
	uint64_t keeps_bytes;
	uint64_t used_bytes; /* of `bytes`: in live suballocations, each byte once */
	/* History of the block with the largest reference count; NULL if that block was never
	 * retained. */
	const struct report_history *history;
	/* pattern of the suppression that matches; REPORT_IGNORED after gpuleak_ignore(); NULL if
	 * it is not suppressed */
	const char *pattern;
	/* the cache that allocated the memory, "PyTorch caching allocator", or NULL */
	const char *cache;
	const struct report_mapping *mapping; /* NULL: the blocks were not released */
	/* of its blocks; NULL unless struct load_choice requests them */
	struct report_addresses *addresses;
	struct report_object_counts *objects; /* counts of the call site; NULL: it is memory */
	/* what keeps the blocks; NULL: the ledger has no search for it */
	const struct report_keepers *keepers;
	/* a refused free of one of its blocks; NULL: the driver refused none */
	const struct report_refused_free *refused;
	/* blocks of its call site that were freed; 0 also if the report leaves blocks out */
	uint64_t freed_blocks;
	const struct report_site *parent; /* of a released buffer that one of its blocks keeps */
	bool unmapped; /* handles of physical memory: none of them is mapped any more */
	/* the first names that the program gave to its blocks (NVTX), each once */
	const char **names;
	size_t name_count;
};
#define LEAK_NAMES_MAX 16u

/* value of report_error.result: the process ended inside the call, or the call returns no result */
#define REPORT_NO_ANSWER INT_MIN

/* What a pattern showed, and the calls that may have written it. */
struct report_overwrite {
	struct ledger_overwrite record;
	struct report_event call[LEDGER_SUSPECTS_MAX];
	const char *kernel[LEDGER_SUSPECTS_MAX]; /* NULL: unknown, or no kernel */
	size_t suspects; /* how many of `record`, `call` and `kernel` are used */
};

struct report_error {
	const char *type; /* "double-free" ... */
	const char *api;  /* the invalid call */
	const char *kind; /* kind of the block, NULL unknown */
	int device;
	int result;       /* the driver's result, or REPORT_NO_ANSWER */
	uint64_t address; /* address as the call received it */
	uint64_t block_address; /* address of the block that was freed wrongly, 0 unknown */
	uint64_t block_bytes;
	/* the call was the right one for the block, but the range that it was given was not the
	 * range of the block */
	bool other_range;
	/* size of that range; of type "freed-while-mapped": bytes that are mapped; of an access:
	 * bytes of the accessed range, which begins at `address` */
	uint64_t asked_bytes;
	bool is_access;  /* a memory access that the guard found; not a free */
	const char *kernel; /* name of the suspect kernel, as the linker has it; or NULL */
	bool is_read, is_before, is_proven, is_likely; /* see LEDGER_ERROR_READ in format.h */
	uint64_t count;  /* of an access: how often it was found */
	const struct report_overwrite *overwrite; /* NULL: no pattern showed the error */
	const struct report_stack *stack;
	struct report_event allocated;
	struct report_event freed;
	/* The previous block with the same address. If that block was freed twice, `freed` is its
	 * second free, and therefore probably the wrong call. */
	struct report_event earlier_allocated;
	struct report_event earlier_freed;
	struct report_error *suspects; /* other launches that may have made the access */
	size_t suspect_count;
};

/* Why the memory of a released block is still allocated, if the recorded calls prove a reason. */
enum report_deferred_reason {
	REPORT_DEFERRED_UNKNOWN,
	/* a sub-buffer or an image of the block still exists: see `holders` */
	REPORT_DEFERRED_PART,
	/* a command that uses the block waits for a user event that was never set */
	REPORT_DEFERRED_USER_EVENT,
};

/* An object that keeps the memory of a released block allocated. */
struct report_holder {
	const char *what; /* "sub-buffer", "image", "kernel" */
	const char *kind;
	uint64_t address;
	struct report_event allocated;
	const struct report_holder *next;
};

/* A group of deferred frees: blocks whose last reference was released and whose memory was still
 * allocated when the ledger ended. Blocks with the same kind, calls, reason and holders form one
 * group. */
struct report_deferred {
	const char *kind; /* NULL: no free was deferred */
	uint64_t blocks;
	uint64_t bytes;
	uint64_t address; /* address and released_ns are those of one block of the group */
	uint64_t released_ns;
	struct report_event released;
	struct report_event allocated;
	enum report_deferred_reason reason;
	/* with REPORT_DEFERRED_USER_EVENT: the call that created the event ... */
	struct report_event event;
	struct report_event command; /* ... and the command that waits for the event */
	const struct report_holder *holders; /* NULL: no such object is known */
	bool ignored;         /* the program called gpuleak_ignore() for the blocks */
	/* pattern of the suppression that matches; REPORT_IGNORED after gpuleak_ignore(); NULL if
	 * it is not suppressed */
	const char *pattern;
};

struct report_sample {
	uint64_t time_ns;
	uint64_t bytes;
};

/* All deferred frees of a process. */
struct report_deferred_frees {
	uint64_t peak_bytes;
	uint64_t peak_ns;
	uint64_t longest_wait_ns; /* a duration */
	struct report_deferred longest; /* the block with the longest wait; without holders */
	struct report_sample *samples;
	size_t sample_count;
	/* by reason and stacks, largest first; without mapped blocks, which are leaks */
	struct report_deferred *groups;
	size_t group_count;
	uint64_t deferred_blocks;
	uint64_t deferred_bytes;
};

/* Live bytes over time: of one kind on one device, or of all memory (kind NULL). */
struct report_series {
	const char *kind;
	int device; /* -1 unknown */
	struct report_sample *samples; /* in the order of the ledger */
	size_t count;
};

struct report_timeline {
	uint64_t end_ns; /* when the process ended; 0: it still runs, or its end was not recorded */
	uint64_t peak_ns;
	struct report_series total;
	/* Series per kind and device. All have the same times, and fewer samples than the total. */
	struct report_series *parts;
	size_t part_count;
};

enum report_ended {
	REPORT_UNKNOWN, /* killed, so there is no record of its end */
	REPORT_RUNNING,
	REPORT_EXIT,
	REPORT__EXIT,
	REPORT_SIGNAL,
	REPORT_EXEC,
};

/* All members are uint64_t, because add_summary() adds them as an array. */
struct report_summary {
	uint64_t leaked_bytes; /* without suppressed blocks */
	uint64_t leaked_blocks;
	uint64_t keeps_bytes; /* of the leaks */
	uint64_t suppressed_bytes; /* including blocks that the program ignores */
	uint64_t suppressed_blocks;
	uint64_t cached_bytes; /* in a framework's cache: not a leak */
	uint64_t cached_blocks;
	uint64_t errors; /* including errors without a record */
	uint64_t allocated_bytes;
	uint64_t allocated_blocks;
	uint64_t freed_blocks; /* including those in late_blocks */
	uint64_t peak_bytes;   /* for several processes the sum of their peaks */
	uint64_t with_context_blocks;
	uint64_t with_context_bytes;
	uint64_t deferred_blocks; /* deferred frees: neither freed nor leaked */
	uint64_t ended_with_context_blocks; /* of these: without suppressed ones and caches */
	uint64_t ended_with_context_bytes;
	uint64_t refused_frees; /* of live blocks, including those after a shutdown */
	uint64_t late_blocks; /* freed after the driver had begun to shut down */
	uint64_t unseen_blocks; /* ended without a call that gpuleak saw */
	uint64_t left_out_blocks; /* live, but not selected by struct load_choice */
	uint64_t left_out_bytes;
	uint64_t younger_blocks; /* live, but younger than --older */
	uint64_t younger_bytes;
	/* what call sites of suballocations accumulated, without suppressed ones; in no other
	 * sum */
	uint64_t accumulating_blocks;
	uint64_t accumulating_bytes;
	uint64_t kept_blocks; /* not freed, of processes to which gpuleak attached */
	uint64_t kept_bytes;
};

/* The blocks of a call site that were freed after the driver had begun to shut down. */
struct report_late {
	const struct report_site *site; /* of the allocation */
	uint64_t blocks;
};

/* Blocks of one call site that were live when one call ended their context. */
struct report_context_end {
	struct report_leak lost; /* with its `pattern`, or else its `cache` */
	struct report_event ended; /* the call; without api: it is not known */
};

/* Frees at one place that the driver refused with one result, although their blocks of one call
 * site were live. */
struct report_refused_free {
	const char *api;
	int result;
	uint64_t count;
	uint64_t address; /* of the first free */
	const struct report_stack *stack; /* never NULL */
	struct report_event allocated;
	bool freed_later;    /* the blocks were freed later, as far as the ledger names them */
	bool after_shutdown; /* the driver had begun to shut down: the blocks count as freed */
	bool broken; /* an error had broken the context; all frees with this result */
};

/* How the application reaches the driver, as far as gpuleak saw it. For example, some modules are
 * linked with libcuda.so.1, or the application opened a file with RTLD_DEEPBIND. */
struct report_observation {
	const char *kind;    /* "linked", "deepbind" ... (docs/developers/ledger-format.md) */
	const char *subject; /* the API, function or file that it is about; "" if none */
	const char *detail;  /* the reason, or NULL */
	const char **modules;
	size_t module_count;
	uint64_t count;      /* number of occurrences, total of all modules */
	/* true: a module looked the function up by name. false: all modules that did so look up all
	 * functions, or are merely linked with it */
	bool asked_for;
};

struct report_coverage {
	struct report_observation *observations; /* ordered by kind, then by subject */
	size_t count;
	const char **gaps; /* sentences about what gpuleak did not intercept */
	size_t gap_count;
};

/* What a process allocated in one of its ranges (struct ledger_range), but not in the ranges inside
 * it: suballocations, and blocks except those of a cache that has suballocations. */
struct report_range {
	const char *name;   /* "serve/decode"; NULL: ranges that the table had no room for */
	const char *domain; /* NULL: the default domain */
	bool outside;       /* all ranges: `name` is NULL, and the peak is not known */
	uint64_t allocated_bytes, allocated_blocks;
	uint64_t freed_bytes;
	uint64_t left_bytes, left_blocks; /* not freed */
	uint64_t peak_bytes; /* FIGURE_UNKNOWN: only that of all blocks is recorded */
};

/* The report on one process. It owns all its contents except frames. The symbolizer owns the frames
 * and must live longer. Leaks and suppressed leaks are ordered by the bytes that they keep, largest
 * first. Errors are in the order in which they happened. */
struct report_process {
	int pid;
	const char *const *command; /* NULL-terminated; may be empty */
	size_t command_count;
	const char *exe; /* NULL unknown */
	const char *host;
	const char *program; /* last component of exe or command[0]; "?" if both are unknown */
	bool ranked; /* the process is one of a parallel job, with `rank` of `ranks` */
	int rank;
	int ranks; /* number of ranks; 0 unknown */
	const char *rank_variable; /* environment variable that has the rank: "RANK" */
	const char *ledger;  /* name of the ledger */
	uint32_t no_gpu;     /* enum ledger_no_gpu; 0: the process had a GPU */
	uint64_t start_real_ns; /* CLOCK_REALTIME of its first GPU call */

	enum report_ended ended;
	int status; /* exit status for EXIT and _EXIT, signal number for SIGNAL, else 0 */

	struct report_summary summary;
	struct report_leak *leaks;
	size_t leak_count;
	struct report_leak *suppressed;
	size_t suppressed_count;
	/* memory in a framework's cache: neither in `leaks` nor in `suppressed` */
	struct report_leak *cached;
	size_t cached_count;
	struct report_leak *kept; /* not `leaks`: gpuleak attached to the process */
	size_t kept_count;
	bool attached; /* while it ran: for attached_ns. Before it had this device memory (0:
			* not known), of which frees_before blocks were freed */
	uint64_t attached_ns, before_attach_bytes, frees_before;
	/* memory that ended with its context, largest first; in none of the lists above */
	struct report_context_end *context_ends;
	size_t context_end_count;
	/* see model_suballocations.h; largest first. They are in no other list and in no sum. */
	struct report_suballocations *suballocations;
	size_t suballocation_count;
	bool has_suballocations; /* at least one was recorded; it may have been freed */
	/* The ledger counted how many blocks of call sites were live over time. Of these call
	 * sites, the list above has those that accumulated and have no live blocks now: live blocks
	 * are leaks. */
	bool has_counted_blocks;
	/* call sites of suballocations whose trend is unknown, because the ledger has no usable
	 * samples of them */
	size_t unsampled_suballocations;
	struct report_error *errors;
	size_t error_count;
	/* See model_holders.h. One peak for each memory, the largest first. */
	struct report_peak *peaks;
	size_t peak_count;
	struct report_moment *moments; /* those that struct load_choice requests */
	/* moments that divide the trace, see loaded_ledger.moments. Each has all four sums: what
	 * was live at its end, and what changed in it */
	struct report_moment *grid;
	size_t grid_count;
	const struct lives *lives; /* NULL unless loaded_ledger.whole_trace is set */
	size_t moment_count;
	/* See model_holders.h. The list has the first and the last refused requests, in their
	 * order. `refused` is the number of all refused requests, `recovered` that of those that
	 * recovered. */
	struct report_out_of_memory *out_of_memory;
	size_t out_of_memory_count;
	uint64_t refused, recovered;
	struct report_deferred_frees deferred;
	/* in the order of the first of them */
	struct report_refused_free *refused_frees;
	size_t refused_free_count;
	/* see model_fragmentation.h; NULL: no cache that reports its suballocations has memory */
	const struct report_fragmentations *fragmentation;
	const struct ledger_guard *guard; /* NULL: the guard was off */
	struct report_range *ranges; /* those with the most left first; `outside` is the last */
	size_t range_count;
	struct ledger_parked *parked; /* each pool once for each moment; used_bytes are valid */
	size_t parked_count;
	/* blocks that were freed after the driver had begun to shut down */
	struct report_late *late;
	size_t late_count;
	struct report_timeline timeline;
	/* Objects that were not released. Their kinds begin with "object/", and they have 0
	 * bytes. */
	struct report_leak *objects;
	size_t object_count;
	/* all kinds of which at least one object was created, in the order of their names */
	struct report_object_kind *object_kinds;
	size_t object_kind_count;
	struct report_device *devices; /* see model_driver_memory.h, also for driver_calls */
	size_t device_count;
	struct report_driver_call *driver_calls;
	size_t driver_call_count;
	/* see model_driver_memory.h; ordered by device, cause and size */
	struct report_driver_cost *driver_costs;
	size_t driver_cost_count;
	struct report_cost_call *cost_calls; /* in the order of the ledger */
	size_t cost_call_count;
	/* calls that increase the driver's own memory, including those without a record */
	uint64_t driver_calls_made;
	struct report_kind *kinds;
	size_t kind_count;
	/* empty unless loaded_ledger.all_sites is set */
	struct report_site_sums *sites;
	size_t site_count;
	struct report_module *modules;
	size_t module_count;
	const struct report_growth *growth; /* see growth_rule.h; NULL: no step was marked */
	struct report_named_step *named_steps; /* see growth_rule.h */
	size_t named_step_count;
	/* see model_ipc.h; NULL: the process exported and opened nothing */
	struct report_ipc *ipc;
	/* see model_pool.h; NULL: there was no pool, and no limit was reached */
	const struct report_pools *pools;
	/* if no device has samples: the reason (static string); NULL: driver not queried */
	const char *driver_memory_why;

	struct report_coverage coverage;

	/* Suppressions from the program's __lsan_default_suppressions(), or NULL. */
	struct pattern_file *program_suppressions;

	/* Sentences about data that was not recorded, cannot be read, or is unreliable. */
	const char **notes;
	size_t note_count;
	/* true: allocations, frees or errors may be missing, so "no leaks" is not proven and the
	 * gate must fail. The notes describe what is missing. */
	bool incomplete;

	struct report_arena *arena;
};

void report_process_destroy(struct report_process *process); /* PROCESS may be NULL */

/* Returns true if LOST, memory that ended with its context, is a finding: it is neither suppressed
 * nor a cache's. */
static inline bool report_is_lost(const struct report_leak *lost)
{
	return !lost->pattern && !lost->cache;
}

/* Sets how the process ended, for a caller that waited for it. */
void report_process_set_ended(struct report_process *process, enum report_ended ended, int status);

/* Returns the word for the JSON report: "exit", "_exit", "signal", "exec", "running", "unknown". */
const char *report_ended_word(enum report_ended ended);

/* Returns the name of SIGNAL without "SIG", or NULL for a signal without a name. */
const char *signal_name(int signal);

/* Returns a number that call sites share whose stacks end in one line of the application, if their
 * kinds of memory and their devices are equal. */
uint64_t report_site_line(const struct report_site *site);

/* Returns the frame that a line names, or NULL for an empty stack: of the application's own code
 * the innermost line, else function; else the innermost line of a package or framework; else the
 * innermost frame of the application, of a package or framework, or of the stack. */
const struct report_frame *report_stack_culprit(const struct report_stack *stack);
/* Returns the function through which that frame allocates if most leaks pass through it, or NULL:
 * see report/subjects/holder_frames.c. */
const struct report_frame *report_stack_wrapper(const struct report_stack *stack);

/* Returns true if LEAK stands for suballocations, and not for blocks of a driver. */
bool report_is_suballocation(const struct report_leak *leak);

/* Returns the framework that reports by the call API that it ran out of memory, or NULL. */
const char *report_framework_of(const char *api);
/* Returns the name of the cache that has the memory of SITE, or NULL. */
const char *report_cache_of(const struct report_site *site);
/* Returns the name of the heap of NVTX that SITE's blocks are, or that they lie in; or NULL. */
const char *report_heap_of(const struct report_site *site);

/* Returns the name of the framework's thread that made the call, "PyTorch's autograd engine".
 * Returns NULL if the thread has no name, or if a frame of STACK belongs to the application. */
const char *report_stack_thread(const struct report_stack *stack);

/* A framework's cache that `gpuleak run --bypass-pools` switches off. The command fills the list;
 * ledgers do not contain it. */
struct report_bypass {
	const char *framework;  /* "CuPy" */
	const char *setting;    /* "VARIABLE=VALUE", or a call in Python */
	bool switched_off;      /* false: the user's setting or a problem prevents it */
	const char *found;      /* the user's value of the variable, which stays; NULL: none */
	const char *changes;    /* what is different for the program */
	int *pids; /* processes whose cache held memory at the end, although it was switched off */
	size_t pid_count;
};

struct report {
	struct report_process **processes;
	size_t count;
	struct report_summary summary; /* totals */
	/* remarks on the whole report, for example about a ledger that could not be read. One that
	 * states why a process is missing begins with REPORT_NOT_COMPLETE */
	char **notes;
#define REPORT_NOT_COMPLETE "not recorded completely: "
	size_t note_count;
	/* sentences about how the program was run; they do not mean that something is missing */
	char **remarks;
	size_t remark_count;
	bool incomplete; /* a process is incomplete, or a ledger was left out */
	/* the caller owns the list; NULL: no cache was switched off */
	const struct report_bypass *bypassed;
	size_t bypassed_count;
	bool verbose; /* the text report lists coverage by module */
	/* for the list of suppressions in use; may be NULL */
	const struct pattern_file *suppressions;
};

/* Returns the number of errors that are accesses, which the guard found. The other errors of the
 * sums are invalid frees. */
uint64_t report_accesses(const struct report *report);

/* Adds PROCESS to REPORT, which then owns it. A report starts as {0}, with `suppressions` set if
 * there are any. */
void report_add_process(struct report *report, struct report_process *process);

/* Copy TEXT, one sentence without a newline, to the notes or the remarks. */
void report_add_note(struct report *report, const char *text);
void report_add_remark(struct report *report, const char *text);

/* Sorts the processes in an order that does not depend on how they were found: first by rank; then
 * processes without a rank by host, pid and start. */
void report_sort(struct report *report);

/* Destroys all that was added. The caller keeps the suppressions. */
void report_finish(struct report *report);
