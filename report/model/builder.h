/* SPDX-License-Identifier: MIT
 *
 * The state and the steps of building a report_process from a ledger. Only the files of model/
 * include it. build.c calls the steps in their order.
 */
#ifndef GPULEAK_REPORT_BUILD_H
#define GPULEAK_REPORT_BUILD_H

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
	struct table known_frames; /* what the rules say, by the frame's names */
	struct table code_refs, python_locations;     /* by ref, by content */
	struct table mapped_refs, wait_refs; /* records of a block, by its ref */
	struct table mappings;               /* by content */
	struct table ignored_row_refs; /* the same for blocks that the program ignores */
	struct stack_module *modules;
	size_t module_count;
	struct group *first_group;
	size_t group_count;
	/* Refs may overlap, so a small ledger could speak of a huge number of frames and
	 * letters. An honest one has no more of them than bytes. */
	uint64_t frames_left, letters_left;
	uint64_t bad_refs;
	uint64_t lost_blocks; /* whose row is unreadable */
	const char *program_note; /* about its own suppressions; NULL: nothing to say */
	uint64_t born_before_ns; /* blocks made later are left out */
	int none_old;            /* all are: the process itself is younger */
};

/* An empty process with an arena of its own, to be destroyed as any; and the end of the tables.
 * 0 or -ENOMEM. */
int build_start(struct builder *b, const struct loaded_ledger *ledger,
		struct symbolizer *symbolizer);
void build_finish(struct builder *b);

/* Who the process is; NAME is the ledger's. 0 or -ENOMEM. */
int build_identity(struct builder *b, const char *name);
/* Which blocks are too young to be told of: see loaded_ledger.older_ns. After build_identity(). */
void build_age(struct builder *b, uint64_t older_ns);
int build_is_young(const struct builder *b, const struct ledger_block *block);

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

/* What keeps growing from step to step. 0 or -ENOMEM. */
int build_growth(struct builder *b, struct suppressions *suppressions);
/* How it ended. */
void build_ended(struct builder *b);

/* What a ref of the ledger turned out to be. */
struct ref_node {
	uint32_t ref;
	const void *value;
};

/* What TABLE knows of REF, or NULL; and how it learns. 0 or -ENOMEM. */
struct ref_node *build_find_ref(const struct table *table, uint32_t ref);
int build_add_ref(struct builder *b, struct table *table, uint32_t ref, const void *value);

/* The string that REF names, interned; *RET is NULL if it names none. 0 or -ENOMEM. */
int build_text(struct builder *b, uint32_t ref, const char **ret);

/* What stands for a string that could not be read. */
extern const char build_unknown[];

/* The stack that REF names, interned: build_no_stack if it names none. 0 or -ENOMEM. */
int build_stack(struct builder *b, uint32_t ref, const struct report_stack **ret);
extern const struct report_stack build_no_stack;

/* Sets the roles of the COUNT FRAMES of a stack, whose strings are interned, and *RET_CACHE to
 * the name of the cache whose memory it took, NULL if nobody's. 0 or -ENOMEM. */
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
	const uint64_t *loops; /* a bit for each that is a call of the evaluation loop; NULL: go by
				* their names */
	size_t count;
	int cut;
};

/* Replaces in NATIVE the evaluation loop by the frames of PYTHON that it ran, and writes the
 * result to RET, which has room for all of both. Returns how many those are. */
size_t build_weave(const struct native_frames *native, const struct python_frames *python,
		   const struct symbol_location **ret);

/* Says of the COUNT frames which ones are the interpreter's own: of a stack that ran Python. */
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
/* Reads the chunks that say why released memory is still there. 0 or -ENOMEM. */
int build_reasons(struct builder *b);

/* What was released and not freed. 0 or -ENOMEM. */
int build_deferred(struct builder *b);

/* The program's rank, and its own suppressions if they are wanted. 0 or -ENOMEM. */
int build_program(struct builder *b, int with_suppressions);
/* Whether facts of KIND are for it, and none of coverage's. */
int build_is_of_program(const char *kind);

/* Live bytes over time. 0 or -ENOMEM. */
int build_timeline(struct builder *b);
/* The samples of all chunks of TYPE. 0 or -ENOMEM. */
int build_samples(struct builder *b, enum ledger_chunk_type type, struct report_sample **ret,
		  size_t *ret_count);

/* Fills in the notes and says whether all is there; after everything else. 0 or -ENOMEM. */
int build_notes(struct builder *b, const struct loaded_ledger *ledger);

#endif
