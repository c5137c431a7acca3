/* SPDX-License-Identifier: MIT
 *
 * The state and the steps of building a report_process from a ledger. Only the files of model/
 * include it. build.c calls the steps in their order.
 */
#ifndef GPULEAK_REPORT_BUILD_H
#define GPULEAK_REPORT_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/model/model.h"
#include "report/util/report_arena.h"
#include "ledger/reader.h"

struct group;
struct load_choice;
struct loaded_ledger;
struct stack_module;
struct symbol_location;

struct builder {
	const struct ledger_view *view;
	struct symbolizer *symbolizer;
	struct report_process *process;
	struct report_arena *arena;
	struct table texts, stacks, groups;           /* by content */
	struct table text_refs, stack_refs, row_refs; /* ref_node by ref */
	struct table known_frames; /* result of the rules, by the frame's names */
	struct table code_refs, python_locations;     /* by ref, by content */
	struct table mapped_refs, wait_refs; /* records of a block, by its ref */
	struct table mappings;               /* by content */
	struct table ignored_row_refs; /* the same for blocks that the program ignores */
	struct stack_module *modules;
	size_t module_count;
	struct group *first_group;
	size_t group_count;
	/* Refs may overlap, so a damaged ledger could refer to a huge number of frames and bytes of
	 * text. A valid ledger refers to no more of them than it has bytes. */
	uint64_t frames_left, letters_left;
	uint64_t bad_refs;
	uint64_t lost_blocks; /* blocks whose call site is unreadable */
	const char *program_note; /* note about the program's own suppressions, or NULL */
	uint64_t born_before_ns; /* blocks made later are left out */
	int none_old;            /* all are: the process itself is younger */
};

/* build_start() makes an empty process with its own arena, to be destroyed with
 * report_process_destroy(). build_finish() frees the tables. 0 or -ENOMEM. */
int build_start(struct builder *b, const struct loaded_ledger *ledger,
		struct symbolizer *symbolizer);
void build_finish(struct builder *b);

/* Fills in pid, command, host and program. NAME is the ledger's name. 0 or -ENOMEM. */
int build_identity(struct builder *b, const char *name);
/* Computes from when on blocks are too young for the report: see loaded_ledger.older_ns. After
 * build_identity(). */
void build_age(struct builder *b, uint64_t older_ns);
bool build_is_young(const struct builder *b, const struct ledger_block *block);

/* Groups the blocks that CHOICE selects; adds the others to the sums of blocks left out.
 * 0 or -ENOMEM. */
int build_groups(struct builder *b, const struct load_choice *choice);
/* Builds the reference history of each group. After build_groups(). 0 or -ENOMEM. */
int build_group_histories(struct builder *b);
/* Adds up the counters of all call sites. After build_groups() and build_deferred(). */
void build_sums(struct builder *b);
/* Moves each group into the process's list of leaks, suppressed ones, cached memory or objects,
 * and sorts the lists. Counts in SUPPRESSIONS what each pattern matched. 0 or -ENOMEM. */
int classify_groups(struct builder *b, struct suppressions *suppressions);
/* Finds the pattern that suppresses each deferred free. 0 or -ENOMEM. */
int classify_deferred(struct builder *b, struct suppressions *suppressions);

/* Fills in the process's devices and the calls that made the driver's memory grow.
 * 0 or -ENOMEM. */
int build_driver_memory(struct builder *b);
/* Reads the record of pools. Without a record the process has no pools. 0 or -ENOMEM. */
int build_pools(struct builder *b);
/* Fills in the process's kinds of memory, ordered by kind and device. After
 * classify_groups(). 0 or -ENOMEM. */
int build_kinds(struct builder *b);
/* Fills in the process's modules and its call sites, ordered by live bytes and then by allocated
 * bytes, largest first. Looks up the symbols of every call site. After classify_groups().
 * 0 or -ENOMEM. */
int build_sites(struct builder *b);
/* Reads the observations about coverage. 0 or -ENOMEM. */
int build_coverage(struct builder *b);

/* Finds the call sites that keep growing from step to step. 0 or -ENOMEM. */
int build_growth(struct builder *b, struct suppressions *suppressions);
/* Fills in how the process ended. */
void build_ended(struct builder *b);

/* The value that a ref of the ledger was resolved to. */
struct ref_node {
	uint32_t ref;
	const void *value;
};

/* Returns the node of REF in TABLE, or NULL. build_add_ref() adds one: 0 or -ENOMEM. */
struct ref_node *build_find_ref(const struct table *table, uint32_t ref);
int build_add_ref(struct builder *b, struct table *table, uint32_t ref, const void *value);

/* The string that REF names, interned; *RET is NULL if it names none. 0 or -ENOMEM. */
int build_text(struct builder *b, uint32_t ref, const char **ret);

/* Replaces a string that could not be read. */
extern const char build_unknown[];

/* The stack that REF names, interned: build_no_stack if it names none. 0 or -ENOMEM. */
int build_stack(struct builder *b, uint32_t ref, const struct report_stack **ret);
extern const struct report_stack build_no_stack;

/* Sets the roles of the COUNT FRAMES of a stack, whose strings are interned. Sets *RET_CACHE to the
 * name of the cache that took the memory, or to NULL. 0 or -ENOMEM. */
int build_roles(struct builder *b, struct report_frame *frames, size_t count,
		const char **ret_cache);
/* A row of Python frames, see build_python.c. */
struct python_frames {
	const struct symbol_location **frames; /* innermost first, one frame each */
	unsigned char *entry; /* of each: the evaluation loop was called for it */
	size_t count;
	int cut;
};

/* The Python frames that REF names; none if it names none. 0 or -ENOMEM. */
int build_python(struct builder *b, uint32_t ref, struct python_frames *ret);

struct native_frames {
	const struct symbol_location *const *frames; /* innermost first */
	const uint64_t *loops; /* one bit per frame: it calls the evaluation loop; NULL: use
				* names instead */
	size_t count;
	int cut;
};

/* Replaces in NATIVE the evaluation loop by the frames of PYTHON that it ran, and writes the
 * result to RET, which has room for all of both. Returns how many those are. */
size_t build_weave(const struct native_frames *native, const struct python_frames *python,
		   const struct symbol_location **ret);

/* Marks the interpreter's frames among the COUNT FRAMES of a stack that ran Python. */
void build_python_roles(struct report_frame *frames, size_t count);

/* Reads the module map; before the first stack. 0 or -ENOMEM. */
int build_modules(struct builder *b);

/* Why the I-th module's file was not used, or NULL. */
const char *build_module_problem(const struct builder *b, size_t i);

/* The history of BLOCK, a record of the view; *RET stays if it has none. 0 or -ENOMEM. */
int build_history(struct builder *b, const struct ledger_block *block,
		  const struct report_history **ret);

/* Where BLOCK was released for the last time, and *RET_NS when. 0 or -ENOMEM. */
int build_release(struct builder *b, const struct ledger_block *block, struct report_event *ret,
		  uint64_t *ret_ns);
/* The mapping of BLOCK, which was released while it was mapped; interned. 0 or -ENOMEM. */
int build_mapping(struct builder *b, const struct ledger_block *block,
		  const struct report_mapping **ret);
/* Reads the records that explain why released memory is still allocated. 0 or -ENOMEM. */
int build_reasons(struct builder *b);

/* Fills in the deferred frees. 0 or -ENOMEM. */
int build_deferred(struct builder *b);

/* Reads the program's rank, and its own suppressions if WITH_SUPPRESSIONS is set. 0 or -ENOMEM. */
int build_program(struct builder *b, int with_suppressions);
/* Returns true if observations of KIND describe the program and not its coverage. */
bool build_is_of_program(const char *kind);

/* Reads the samples of live bytes. 0 or -ENOMEM. */
int build_timeline(struct builder *b);
/* The samples of all chunks of TYPE. 0 or -ENOMEM. */
int build_samples(struct builder *b, enum ledger_chunk_type type, struct report_sample **ret,
		  size_t *ret_count);

/* Fills in the notes and sets process->incomplete. The last step. 0 or -ENOMEM. */
int build_notes(struct builder *b, const struct loaded_ledger *ledger);

#endif
