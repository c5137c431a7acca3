/* SPDX-License-Identifier: MIT
 *
 * The state and the shared steps of building a report_process from a ledger. Only files of model/,
 * subjects/ and top/ include this header. It includes what they all need. Not thread-safe: a
 * builder belongs to one thread.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "report/model/model.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"
#include "ledger/reader.h"

struct build_ranges;
struct build_site;

struct builder {
	const struct loaded_ledger *ledger;
	const struct ledger_view *view;   /* of `ledger` */
	const struct load_choice *choice; /* of `ledger` */
	uint64_t chunks; /* bit n: the ledger has a chunk of type n */
	uint64_t built;  /* bit n: subject_build() has begun with row n */
	struct symbolizer *symbolizer;
	struct pattern_file *suppressions; /* may be NULL */
	struct report_process *process;
	struct report_arena *arena;
	struct table texts, stacks, sites;            /* keyed by content */
	struct table groups; /* keyed by call site and mapping */
	struct table text_refs, site_refs; /* keyed by ref; the values are ref_nodes */
	struct table known_frames; /* see rules_apply() */
	const char *managed; /* see managed_modules() */
	const char *script; /* see struct report_stack */
	bool managed_known;
	bool has_heaps, heaps_mixed; /* see build_heaps() */
	struct build_ranges *ranges; /* NULL: not needed yet */
	struct table code_refs, python_locations;     /* keyed by ref; keyed by content */
	struct table stack_code_refs, stack_codes;    /* keyed by ref; keyed by content */
	/* struct ledger_mapped, ledger_event_wait and ledger_ipc (of opened memory), keyed by the
	 * ref of their block */
	struct table mapped_refs, wait_refs, import_refs;
	struct table mappings;               /* keyed by content */
	struct stack_module *modules;
	size_t module_count;
	struct symbol_module *jit; /* of the code outside of all modules; NULL: not needed yet */
	struct group *first_group;
	/* What build_groups() finds in its walk over all blocks, so that no other step repeats it:
	 * the live objects, and the deferred frees. */
	const struct ledger_block **objects, **deferred;
	size_t object_count, deferred_count;
	/* Refs may overlap, so a damaged ledger could refer to a huge number of frames and bytes of
	 * text. A valid ledger refers to at most as many as it has bytes. These limits decrease
	 * with each use. */
	uint64_t frames_left, letters_left;
	uint64_t bad_refs;
	uint64_t lost_blocks; /* blocks whose call site cannot be read */
	/* remark about the suppressions that the program itself has, or NULL */
	const char *program_note;
	unsigned int site_lists; /* number of struct site_list */
	struct lives *lives; /* see lives_build() */
	/* the report excludes blocks allocated after this time, because of --older */
	uint64_t born_before_ns;
	/* true: the report excludes all blocks, because the process is younger than --older */
	bool none_old;
};

/* Creates an empty process with its own arena, which the builder uses, too. The caller destroys the
 * process with report_process_destroy(). */
void build_start(struct builder *b, const struct loaded_ledger *ledger,
		 struct symbolizer *symbolizer);

/* Runs the steps below. The subjects of report/subjects/ read the rest. */
void build_shared(struct builder *b);

/* ---- steps: each fills in a part of the process; build.c lists what it needs ---- */

/* Fills in pid, command, host and program. */
void build_identity(struct builder *b);
/* Reads the program's rank and, if the ledger's loader chose them, the program's own
 * suppressions. */
void build_program(struct builder *b);
/* Reads the module map. */
void build_modules(struct builder *b);
/* Computes born_before_ns from loaded_ledger.older_ns. */
void build_age(struct builder *b);
/* Reads the records that explain why released memory is still allocated. */
void build_reasons(struct builder *b);
/* Groups the selected blocks by call site. Adds the other blocks to the sums of blocks
 * left out. Lists objects and deferred frees. */
void build_groups(struct builder *b);
/* Fills in report_site.heap. */
void build_heaps(struct builder *b);
/* Divides the bytes of the groups among suballocations: fills in report_leak.used_bytes and
 * build_site.places. */
void build_division(struct builder *b);
/* Builds the reference history of each group. */
void build_group_histories(struct builder *b);
/* Fills in how the process ended. */
void build_ended(struct builder *b);
/* Sums up the counters of all call sites. */
void build_sums(struct builder *b);
/* Moves each group into one of the process's lists (leaks, suppressed, cached, objects) and sorts
 * the lists. Counts what each pattern of the suppressions matched. */
void classify_groups(struct builder *b);
/* Fills in report_leak.keeps_bytes of the groups, whose patterns and caches are known. */
void build_keeps(struct builder *b);
/* If loaded_ledger.all_sites is set, fills in the process's modules and call sites. Sites are
 * ordered by live bytes, then by allocated bytes, largest first. Looks up the symbols of every
 * site. */
void build_sites(struct builder *b);

/* ---- blocks ---- */

/* Returns the next call site of memory, or NULL. */
const struct ledger_site *build_next_site(const struct builder *b, struct ledger_walk *walk);
/* Returns the block with NAME (see ledger_block_name()), or NULL if its slot was reused. */
const struct ledger_block *build_named_block(const struct builder *b, uint64_t name);
/* Returns the record of BLOCK in TABLE, one of mapped_refs, wait_refs and import_refs, or NULL. */
const void *build_reason(const struct builder *b, const struct table *table,
			 const struct ledger_block *block);
/* Returns the pattern that suppresses BLOCKS and BYTES that were allocated at STACK, and counts
 * them there. Returns NULL if no pattern matches. */
const char *build_suppress(struct builder *b, const struct report_stack *stack, uint64_t blocks,
			   uint64_t bytes);
/* Returns the time at which the process ended, or that of now if it still runs. */
uint64_t build_now(const struct builder *b);
/* Returns true if BLOCK is younger than --older allows. */
bool build_is_young(const struct builder *b, const struct ledger_block *block);
/* Returns true if the choice of blocks and --older select BLOCK, which may be a suballocation. */
bool build_is_selected(const struct builder *b, const struct ledger_block *block);
/* Returns the group of BLOCK, which is live and selected. */
struct report_leak *build_group_of(struct builder *b, const struct ledger_block *block);
/* Returns the group of SITE if it has selected live blocks that the program does not ignore, else
 * NULL. */
struct report_leak *build_known_group(const struct build_site *site);
/* For SORT(). Orders leaks or holders by size, largest first. Ties are decided only by data that
 * is equal in every run: not by the position in the ledger, and by the address of a frame only if
 * the frame has no module. */
int build_compare_leaks(const void *left, const void *right);
int build_compare_stacks(const struct report_stack *a, const struct report_stack *b);
/* Adds the name of BLOCK, if it has one, to those of LEAK. */
void build_add_name(struct builder *b, struct report_leak *leak, const struct ledger_block *block);
/* Adds the address of BLOCK to the list of LEAK. */
void build_add_address(struct builder *b, struct report_leak *leak,
		       const struct ledger_block *block);
/* Returns the history of BLOCK, a record of the view, or NULL if no history was recorded. */
const struct report_history *build_history(struct builder *b, const struct ledger_block *block);
/* Returns the call that released the last reference to BLOCK, and stores its time in *RET_NS. */
struct report_event build_release(struct builder *b, const struct ledger_block *block,
				  uint64_t *ret_ns);
/* Returns the interned mapping of BLOCK, which was released while it was mapped. */
const struct report_mapping *build_mapping(struct builder *b, const struct ledger_block *block);
/* Returns true if observations of KIND describe the program and not its coverage. */
bool build_is_of_program(const char *kind);
/* Returns the samples of all chunks of TYPE. */
struct report_sample *build_samples(struct builder *b, enum ledger_chunk_type type,
				    size_t *ret_count);

/* ---- subjects that are built here ---- */

void build_suballocations(struct builder *b);
/* Returns the fragmentation at the refusal RECORD, or NULL if it is not known. RECORD NULL: at the
 * end. */
const struct report_fragmentations *build_fragmentations(struct builder *b,
							 const struct ledger_out_of_memory *record);

/* ---- strings, stacks and call sites ---- */

/* Returns the ref of RECORD, which is in the view. */
uint32_t build_ref(const struct builder *b, const void *record);

/* Returns the interned string that REF refers to. If there is none, build_text() returns NULL, and
 * build_name() returns build_unknown. */
const char *build_text(struct builder *b, uint32_t ref);
const char *build_name(struct builder *b, uint32_t ref);
extern const char build_unknown[];

/* Returns the interned stack that REF refers to, or &build_no_stack if there is none. */
const struct report_stack *build_stack(struct builder *b, uint32_t ref);
extern const struct report_stack build_no_stack;
/* Returns what identifies the stack that REF refers to: its native code and its Python lines. Equal
 * stacks have the same pointer, also if their modules lie at other addresses. NULL: there is no
 * stack. Looks up no symbols. */
struct stack_code *build_stack_code(struct builder *b, uint32_t ref);
/* Returns the call of the refs API and STACK. BYTES is the size of the block that it allocated. */
struct report_event build_event(struct builder *b, uint32_t api, uint32_t stack, uint64_t bytes);

/* Returns why the file of module I was not used, or NULL. */
const char *build_module_problem(const struct builder *b, size_t i);

/* A call site. Each thread has its own records of it in the ledger. */
struct build_site {
	/* Must be first: a leak's site is one of these. The stack is NULL before look_up_site(). */
	struct report_site site;
	bool is_object;
	const void *stack_id;    /* the stack or, before look_up_site(), its struct stack_code */
	uint32_t stack_ref;      /* before look_up_site() */
	struct build_site *same; /* what look_up_site() returned, or NULL */
	struct site_entry *entries;
	struct report_places *places; /* of its live suballocations; NULL: not divided */
	uint64_t ended; /* blocks; see report_leak.freed_blocks */
	uint64_t heap_blocks; /* for build_heaps() */
	/* its live blocks; [1]: those that the program ignores. NULL: none */
	struct group *groups[2];
};

/* Returns the only call site with the API, kind, device and stack of RECORD. RECORD NULL: these are
 * unknown. Looks up the symbols of the stack. */
struct build_site *intern_site(struct builder *b, const struct ledger_site *record);
/* Returns the call site of the record REF, which belongs to a block. */
struct build_site *intern_site_of_block(struct builder *b, uint32_t ref);
/* Returns the only call site that equals KEY, whose strings and stack are interned. */
struct build_site *intern_equal_site(struct builder *b, const struct report_site *key);
/* Returns what stands for all of KIND on DEVICE: a call site whose call and stack are unknown. */
struct build_site *intern_kind(struct builder *b, const char *kind, int device);
/* Returns the call site of a call that has no kind. The refs are those of a record. */
const struct report_site *build_call(struct builder *b, uint32_t api, int device, uint32_t stack);

/* Like intern_site(), but looks up no symbols, for steps that list only a few of all call sites.
 * look_up_site() then returns the site with symbols. It is the same site for two of these if a
 * compiler repeated the code of a line. */
struct build_site *intern_code_site(struct builder *b, const struct ledger_site *record);
struct build_site *look_up_site(struct builder *b, struct build_site *site);

/* Return the number of the range in which RECORD, in the view, allocates (0: none), the record of a
 * range (NULL: none), its name behind those of the ranges that enclose it. With --by range the
 * last one returns words for the range of RECORD, which are the same for two records in one range;
 * otherwise NULL. */
uint16_t build_range_number(const struct builder *b, const struct ledger_site *record);
const struct ledger_range *build_range(struct builder *b, uint32_t number);
const char *build_range_path(struct builder *b, const struct ledger_range *record);
const char *build_range_of(struct builder *b, const struct ledger_site *record);

/* What a step adds up by call site. An element begins with a struct site_entry. */
struct site_list {
	struct builder *b;
	size_t size; /* of an element */
	unsigned int number;
	struct site_entry *first;
	size_t count;
};
struct site_entry {
	struct build_site *site;
	unsigned int list; /* number of its list */
	struct site_entry *next;  /* of the list: the last added element is the first */
	struct site_entry *other; /* in another list, of the same site */
};
/* EACH_SITE(&list, element) { ... } visits the elements of a list. */
#define EACH_SITE(list, name)                                                                     \
	for ((name) = (void *)(list)->first; name; (name) = (void *)(name)->entry.next)

/* Returns an empty list of elements of SIZE bytes. */
struct site_list site_list(struct builder *b, size_t size);
/* Returns the element of SITE. A new one is zeroed. */
void *site_list_get(struct site_list *list, struct build_site *site);
/* Adds one more element of SITE, which site_list_get() does not return. */
void *site_list_add(struct site_list *list, struct build_site *site);

/* ---- Python frames ---- */

/* A chain of frames of Python or another language, see build_python.c. */
struct python_frames {
	const struct symbol_location **frames; /* innermost first; each location has one frame */
	unsigned char *entry; /* per frame: 1 if a new call of the evaluation loop began with it */
	size_t count;
	bool cut;
	bool waiting; /* they belong to another thread: see LEDGER_PYTHON_WAITING */
	bool whole;   /* all that the thread has: see LEDGER_PYTHON_LANGUAGE */
};

/* Returns the Python frames that REF refers to, or an empty chain if there are none. */
struct python_frames build_python(struct builder *b, uint32_t ref);

struct native_frames {
	const struct symbol_location *const *frames; /* innermost first */
	/* bit mask of the frames that are calls of the evaluation loop; NULL: recognize them by
	 * function names */
	const uint64_t *loops;
	size_t count;
	bool cut;
};

/* Writes a combined stack to RET: the frames of NATIVE, with each call of Python's evaluation loop
 * replaced by those frames of PYTHON which that call ran. The frames of a waiting thread come after
 * all others. Frames of Java come after all native frames. RET has room for all frames of both.
 * Returns the number of frames written. */
size_t build_weave(const struct native_frames *native, const struct python_frames *python,
		   const struct symbol_location **ret);

/* Returns true for the interpreter's own file, and for modules of the standard library that only
 * forward calls, such as ctypes. */
bool build_is_interpreter_file(const char *module);

/* Gives the role FRAME_INTERPRETER to the interpreter's own frames among the COUNT FRAMES of a
 * stack with Python frames. */
void build_python_roles(struct report_frame *frames, size_t count);
