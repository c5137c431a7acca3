/* SPDX-License-Identifier: MIT
 *
 * The bytes of a ledger file: what the traced process writes into a shared mapping and
 * what every reader may rely on. docs/developers/ledger-format.md is the same in prose. Owns layout
 * and meaning, nothing else; must not include anything of interpose/ or report/.
 *
 * Bump LEDGER_VERSION for any change that an older reader would misread, and
 * LEDGER_READER_MIN with it. New chunk types and new fields in reserved space need no
 * bump: a reader skips chunk types that it does not know and ignores reserved bytes.
 *
 * The file is a row of chunks of LEDGER_CHUNK bytes. Chunk 0 holds the header; every
 * other chunk begins with struct ledger_chunk and holds records of one type. Nothing
 * ever moves. References between records are file offsets divided by 8 ("ref", 32 bits,
 * 0 = none), so a file may be up to 32 GiB. All numbers are in the byte order of the
 * machine that wrote them (LEDGER_BYTE_ORDER tells).
 *
 * Consistency: a record is written whole before it is published (release store of its
 * state, of the chunk's `used`, or of the header's `chunks`); a reader loads those with
 * acquire and may look at any moment, also at a file whose writer died half-way.
 */
#ifndef GPULEAK_LEDGER_FORMAT_H
#define GPULEAK_LEDGER_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define LEDGER_MAGIC "GPULEAK\n"
#define LEDGER_VERSION 1u
#define LEDGER_READER_MIN 1u /* oldest reader version that understands what we write */
#define LEDGER_BYTE_ORDER 0x01020304u
#define LEDGER_CHUNK 16384u
#define LEDGER_CHUNKS_MAX (1u << 21) /* 32 GiB: what a 32-bit ref reaches */
#define LEDGER_FRAMES_MAX 256u
#define LEDGER_STRING_MAX 4096u /* longer ones are cut when written */
#define LEDGER_BUILD_ID_MAX 32u
#define LEDGER_REF_UNIT 8u

/* How the process ended, as it recorded itself. If the ledger says RUNNING and the process does not
 * exist, it was killed; only its parent knows how. */
enum ledger_ended {
	LEDGER_RUNNING = 0,
	LEDGER_EXIT = 1,  /* exit(), return from main, quick_exit() */
	LEDGER__EXIT = 2, /* _exit(), _Exit() */
	LEDGER_EXEC = 3,  /* replaced itself by exec */
};

/* What could not be recorded. Counters in the header, so that they can be counted when
 * there is no room for anything else. X(NAME, text that follows the number in a report) */
#define LEDGER_TROUBLES(X)                                                                  \
	X(UNRECORDED_BLOCKS, "allocations were not recorded: the ledger could not grow")    \
	X(UNRECORDED_BYTES, "bytes of allocations were not recorded: the ledger could not grow") \
	X(UNRECORDED_STACKS, "stacks were not recorded: the ledger could not grow")         \
	X(UNRECORDED_ERRORS, "errors were counted but not itemized: the error table is full") \
	X(NO_UNWINDER, "libunwind.so.8 could not be loaded: no stacks")                     \
	X(REENTERED, "calls from a signal handler interrupted gpuleak and were not recorded") \
	X(STALE_BLOCKS, "blocks were freed by a call that gpuleak did not see: "            \
			"their address was allocated again")                                \
	X(UNKNOWN_FREES, "frees succeeded on memory whose allocation gpuleak did not see")  \
	X(REFUSED_FREES, "frees of live blocks failed in the driver") \
	X(UNKNOWN_VARIANTS, "driver functions of a version that gpuleak does not know "     \
			    "were looked up: calls of them are not seen")                   \
	X(MEMORY_ONLY, "the ledger file could not be created or kept: recorded in memory only") \
	X(UNRECORDED_MAPPINGS, "mappings of OpenCL memory were not recorded: the ledger could "  \
			       "not grow")  \
	X(ABANDONED, "calls were not recorded: a thread left gpuleak by longjmp, an exception or " \
		     "cancellation in the middle of its work, and recording stopped")

enum ledger_trouble {
#define X(name, text) LEDGER_TROUBLE_##name,
	LEDGER_TROUBLES(X)
#undef X
	LEDGER_TROUBLE_COUNT
};
#define LEDGER_TROUBLE_SLOTS 32

/* A block whose memory was freed some time after its last reference. */
struct ledger_wait {
	uint64_t ns;
	uint64_t bytes;
	uint32_t row;   /* the call that made it */
	uint32_t api;   /* the last release: refs */
	uint32_t stack;
	uint32_t reserved;
};

/* Chunk 0. Fields up to `chunks` are written before the file gets its name. */
struct ledger_header {
	char magic[8];
	uint32_t version;
	uint32_t reader_min;
	uint32_t byte_order;
	uint32_t chunk_bytes; /* LEDGER_CHUNK */
	uint32_t header_bytes;
	uint32_t stack_depth; /* GPULEAK_STACK_DEPTH in force */
	int32_t pid;
	int32_t ppid;
	uint64_t start_ticks;   /* field 22 of /proc/PID/stat: identifies the process if the pid
				 * is reused */
	uint64_t start_real_ns; /* CLOCK_REALTIME of the first GPU call */
	uint64_t start_mono_ns; /* CLOCK_MONOTONIC then: what times below count from */
	uint32_t host;          /* refs to strings */
	uint32_t exe;           /* absolute path of the program */
	uint32_t cwd;
	uint32_t command;       /* ref to a string of the arguments, each ended by NUL */

	uint32_t chunks;        /* chunks in use, this one included; release/acquire */
	uint32_t ended;         /* enum ledger_ended */
	int32_t status;         /* exit status; meaningful when ended is EXIT or _EXIT */
	uint32_t first_call;    /* 1: the process made a GPU call (always 1 in this version) */
	uint64_t end_mono_ns;
	uint64_t peak_bytes;    /* most bytes live at one moment */
	uint64_t peak_mono_ns;
	uint64_t errors;        /* error records plus UNRECORDED_ERRORS */
	uint64_t trouble[LEDGER_TROUBLE_SLOTS];
	uint32_t reserved[16];

	/* Blocks in LEDGER_BLOCK_RELEASED. */
	uint64_t released_peak_bytes; /* of those that anything waited for */
	uint64_t released_peak_ns;
	uint32_t longest_wait; /* 1 or 2: that one of `waits` counts; 0: nothing waited */
	uint32_t released_reserved;
	struct ledger_wait waits[2];
	uint64_t marks;         /* calls that make the driver hold more; not all have a record */
};
/* Size of the first version's header. Fields that a shorter header lacks are zero. */
#define LEDGER_HEADER_BYTES_MIN offsetof(struct ledger_header, released_peak_bytes)

enum ledger_chunk_type {
	LEDGER_CHUNK_BLOCKS = 1,
	LEDGER_CHUNK_ROWS = 2,
	LEDGER_CHUNK_STACKS = 3,
	LEDGER_CHUNK_STRINGS = 4,
	LEDGER_CHUNK_MODULES = 5,
	LEDGER_CHUNK_ERRORS = 6,
	LEDGER_CHUNK_TIMELINE = 7,
	LEDGER_CHUNK_HISTORIES = 8,
	LEDGER_CHUNK_FACTS = 9,
	LEDGER_CHUNK_MARKS = 10,
	LEDGER_CHUNK_RELEASED = 11,
	LEDGER_CHUNK_HELD = 12, /* devices whose memory the driver can report */
	LEDGER_CHUNK_HOLDS = 13,
	LEDGER_CHUNK_POOLS = 14, /* one record: struct ledger_pools */
	LEDGER_CHUNK_CODES = 15,
	LEDGER_CHUNK_PYTHON = 16,
	LEDGER_CHUNK_PARTS = 24, /* struct ledger_parts, then struct ledger_moment, one chunk */
	LEDGER_CHUNK_STEPS = 20,
	LEDGER_CHUNK_GROWTH = 21,
	LEDGER_CHUNK_MAPPED = 22,
	LEDGER_CHUNK_EVENT_WAITS = 23,
};

/* Start of every chunk but the first. Records follow it at offset 64. `used` is the
 * number of bytes after the chunk's start that hold published data (64 = empty); for
 * BLOCKS it covers the whole table and each block's state says whether it counts. */
struct ledger_chunk {
	uint32_t type;
	uint32_t used; /* release/acquire */
	uint32_t reserved[14];
};

/* One live block; 64 bytes, one cache line. */
enum ledger_block_state {
	LEDGER_BLOCK_UNUSED = 0,
	LEDGER_BLOCK_LIVE = 1,
	LEDGER_BLOCK_FREEING = 2, /* the driver is at it: live if the process ended here */
	/* Its last reference was released, but its memory is still allocated. Not live; the last
	 * event of its history is the release. */
	LEDGER_BLOCK_RELEASED = 3,
};
#define LEDGER_BLOCK_STATE(word) ((word) & 0xffu)
/* A reader copies the block and uses the copy only if `state` did not change in between: its upper
 * 24 bits count the uses of the slot. */
struct ledger_block {
	uint32_t state;      /* use count << 8 | enum ledger_block_state; release/acquire */
	uint32_t row;        /* ref to the struct ledger_row of its call site */
	uint64_t address;    /* device address, or the handle */
	uint64_t bytes;      /* of virtual memory: may pass to another block, and back */
	uint64_t context;    /* the driver's context handle, 0 = unknown */
	uint64_t time_ns;    /* since start_mono_ns, resolution of the coarse clock (1-4 ms) */
	uint32_t references; /* reference count of a handle; 1 for plain memory */
	uint32_t thread;     /* kernel thread id of the allocating thread, 0 = not recorded */
	uint64_t parent;     /* address of the block that a sub-buffer is part of, 0 = none */
	uint32_t history;    /* ref to a struct ledger_history, 0 = never retained */
	union {
		uint32_t marked;     /* LEDGER_BLOCK_IGNORED, LEDGER_BLOCK_MARK(): see there */
		uint32_t next_spare; /* of a slot not in use, the writer's: links them */
	};
};
/* The program called gpuleak_ignore() for the block. Set at any time. */
#define LEDGER_BLOCK_IGNORED 0x80000000u
/* The application has mapped the block's memory and not unmapped it: a struct ledger_mapped
 * has its name. Set and cleared at any time. */
#define LEDGER_BLOCK_MAPPED 0x40000000u
/* How often the process had called gpuleak_mark() when it made the block, plus 1: the exact
 * order of blocks and marks, for which the clock is too coarse. 0: an older writer's. */
#define LEDGER_BLOCK_MARK(word) ((word) & 0x3fffffffu)

/* A block with these two words counts as not freed. Memory that was released while it is
 * mapped does: only the application can end the mapping. */
static inline int ledger_block_is_live(uint32_t state, uint32_t marked)
{
	state = LEDGER_BLOCK_STATE(state);
	return state == LEDGER_BLOCK_LIVE || state == LEDGER_BLOCK_FREEING ||
	       (state == LEDGER_BLOCK_RELEASED && (marked & LEDGER_BLOCK_MAPPED));
}

/* The name of a block is the use count of its slot << 32 | ref. A name with another use count than
 * the slot's belongs to a freed block. */
static inline uint64_t ledger_block_name(uint32_t state, uint32_t ref)
{
	return (uint64_t)(state >> 8) << 32 | ref;
}

/* Retains and releases of a live handle; the block's row has its creation. An event is valid if its
 * bit in `kept` is set, so a matched pair can be removed in one store. `order` is the order of
 * events; it never restarts, also if the history is reused for another block. */
enum ledger_reference_op {
	LEDGER_RETAIN = 1,
	LEDGER_RELEASE = 2,
};
struct ledger_reference {
	uint32_t order; /* 0 while it is being written */
	uint32_t op;    /* enum ledger_reference_op */
	uint32_t api;   /* refs to a string and a struct ledger_stack */
	uint32_t stack;
	uint64_t time_ns;
};
#define LEDGER_HISTORY_EVENTS 31u
struct ledger_history {
	uint64_t kept;  /* pairs left out << 32 | bit n: event n counts; release/acquire */
	uint32_t block; /* ref to the struct ledger_block that the history belongs to; 0: unused */
	uint32_t lost;  /* retains that found no room */
	uint32_t order; /* the writer's: of the last event */
	uint32_t next_spare;
	struct ledger_reference events[LEDGER_HISTORY_EVENTS];
};

/* The arguments of a kernel, which keep blocks allocated. A block's name is use count << 32 | ref
 * of its slot; a name with another use count belongs to a freed block. 0: none. */
#define LEDGER_HOLDS_ARGUMENTS 31u
struct ledger_holds {
	uint64_t holder;
	uint64_t held[LEDGER_HOLDS_ARGUMENTS]; /* by number of the argument */
};

/* The mappings of one block that the application has not ended. */
struct ledger_mapped {
	uint64_t block; /* its name; 0: the record is not in use; release/acquire */
	uint64_t time_ns; /* of the oldest mapping, as are the next two */
	uint32_t api;     /* refs to a string and a struct ledger_stack */
	uint32_t stack;
	uint32_t count;   /* mappings */
	uint32_t reserved;
};

/* A command that uses a block's memory cannot run before the application sets a user event,
 * which it has not done. */
struct ledger_event_wait {
	uint64_t block; /* its name; 0: the record is not in use; release/acquire */
	uint64_t time_ns; /* of the command, as are the next two */
	uint32_t api;     /* refs to a string and a struct ledger_stack */
	uint32_t stack;
	uint32_t event_api; /* where the user event was made */
	uint32_t event_stack;
};

/* Rows of kinds that begin so are no memory: no leaks, not counted, but explained. */
#define LEDGER_KIND_OBJECT "object/"

/* Counters of one call site (stack, api, kind, device); 64 bytes. Several rows may have the same
 * key (one per thread): readers add them up. allocs and bytes only grow. The number of frees is
 * allocs - with_context - late - unseen - the live blocks of this row. */
struct ledger_row {
	uint32_t stack;  /* ref to a struct ledger_stack, 0 = none recorded */
	uint32_t api;    /* ref to a string: the call's name */
	uint32_t kind;   /* ref to a string: DESIGN's kinds */
	int32_t device;  /* ordinal; -1 unknown */
	uint64_t allocs;
	uint64_t bytes;
	uint64_t with_context;       /* blocks that were freed with their context */
	uint64_t with_context_bytes;
	uint64_t late;               /* freed after the driver shut down or the context died */
	uint64_t unseen;             /* blocks that ended by a call gpuleak did not see */
};

/* A call stack, innermost return address first; 8-byte aligned, one after the other. */
#define LEDGER_STACK_CUT 1u /* deeper than stack_depth: outer frames are missing */
/* Behind the pcs there is a bit for each of them, in whole words: it is a call of Python's
 * evaluation loop that ran some of the frames in `python`. */
#define LEDGER_STACK_LOOPS 2u
#define LEDGER_STACK_LOOP_WORDS(frames) (((frames) + 63u) / 64u)
struct ledger_stack {
	uint32_t hash;
	uint16_t frames;
	uint16_t flags;
	uint32_t epoch; /* of the module map, see below */
	uint32_t python; /* ref to a struct ledger_python: what ran in the same thread; 0 = none */
	uint64_t pc[];
};

/* A function of Python: a code object, by what people call it. */
struct ledger_code {
	uint32_t function; /* refs to strings: its qualified name where there is one, its file */
	uint32_t file;
	uint32_t first_line;
	uint32_t reserved;
};

/* A chain of Python frames, innermost first, one after the other as stacks are. */
#define LEDGER_PYTHON_CUT 1u /* deeper than stack_depth: outer frames are missing */
#define LEDGER_PYTHON_ENTRY 0x80000000u
#define LEDGER_PYTHON_LINE(word) ((word) & ~LEDGER_PYTHON_ENTRY)
struct ledger_python_frame {
	uint32_t code; /* ref to a struct ledger_code, 0 = there was no room */
	uint32_t line; /* 0 unknown; | LEDGER_PYTHON_ENTRY: the evaluation loop was called for
			* it, and what is further out is another call of the loop */
};
struct ledger_python {
	uint32_t hash;
	uint16_t frames;
	uint16_t flags;
	struct ledger_python_frame frame[];
};

/* UTF-8 by intention, any bytes in fact. Rounded up to 8 bytes. Not NUL-terminated by contract. */
struct ledger_string {
	uint32_t length;
	char bytes[];
};

/* A module that was mapped at some time. A pc belongs to the module whose range contains it and
 * whose epoch is the largest that is not above the stack's. */
#define LEDGER_MODULE_UNLOADED 1u
struct ledger_module {
	uint64_t start; /* lowest and one past the highest address of its segments */
	uint64_t end;
	uint64_t bias;  /* address in memory minus address in the file's symbol table */
	uint32_t path;  /* ref to a string */
	uint32_t epoch;
	uint32_t flags;
	uint32_t build_id_bytes;
	uint8_t build_id[LEDGER_BUILD_ID_MAX];
	uint64_t reserved[2];
};

/* A free that should not have been. Refs are 0 where nothing is known. */
struct ledger_event { /* one past call */
	uint32_t api;
	uint32_t stack;
	uint64_t time_ns;
};
/* The process ended inside the call, or the call answers nothing. */
#define LEDGER_NO_ANSWER INT32_MIN
struct ledger_error {
	uint32_t type;    /* ref to a string: DESIGN's error types; 0: taken back, no error */
	uint32_t api;     /* the wrong call */
	uint32_t stack;
	int32_t result;   /* what the driver answered (0 = success), LEDGER_NO_ANSWER */
	uint64_t address; /* as passed */
	uint64_t time_ns;
	uint64_t block_address; /* of the block of `allocated` */
	uint64_t block_bytes;
	struct ledger_event allocated; /* the block that was freed wrongly: made here ... */
	struct ledger_event freed;     /* ... and first freed here */
	/* The block that had the same address before that one: when `freed` frees it a second
	 * time, the driver takes the next owner's block and calls it a success. */
	struct ledger_event earlier_allocated;
	struct ledger_event earlier_freed;
	uint64_t earlier_bytes;
	uint32_t kind;    /* ref to a string, of the block */
	int32_t device;
	uint64_t asked_bytes; /* with OTHER_RANGE: of the range that the call was given */
	uint32_t flags;
	uint32_t reserved;
};
/* The call was the right one for the block, and its range was not the block's. */
#define LEDGER_ERROR_OTHER_RANGE 1u

#define LEDGER_FACTS_MAX 4096u /* no writer writes more, no reader reads more */
/* How the process reached the drivers, and what gpuleak could not see there: see
 * docs/developers/ledger-format.md for the words. Unused refs are 0. */
struct ledger_fact {
	uint32_t kind;    /* ref to a string: "linked", "untracked", "deepbind" ... */
	uint32_t subject; /* ref to a string: an API, a function, a file */
	uint32_t module;  /* ref to a string: path of the module */
	uint32_t detail;  /* ref to a string: the reason */
	uint32_t count;   /* how often; may be a little behind */
	uint32_t reserved[3];
};

/* Facts of another sort, about the program itself. RANK: its number in a parallel job is the
 * subject, in decimal; module is the variable that said so, count the job's size (0 unknown).
 * LSAN: subject is part number `count` (from 1) of the text that the program's
 * __lsan_default_suppressions() returned; the last one has a detail if the text was longer. */
#define LEDGER_FACT_RANK "rank"
#define LEDGER_FACT_LSAN "lsan-suppressions"
#define LEDGER_LSAN_PARTS_MAX 16u

/* Live bytes over time (TIMELINE), or deferred ones (RELEASED), at most one chunk of each. A full
 * chunk drops every second sample and doubles the interval. */
struct ledger_sample {
	uint64_t time_ns;
	uint64_t live_bytes;
};
#define LEDGER_SAMPLES_MAX ((LEDGER_CHUNK - 64u) / sizeof(struct ledger_sample))

/* The same by kind of memory and device, at fewer times, because each sample walks over all blocks.
 * Thinned likewise. The last column has the kinds without their own column: kind 0. */
#define LEDGER_COLUMNS 15u
struct ledger_parts {
	uint32_t columns; /* in use, never fewer later; release/acquire */
	uint32_t reserved;
	struct ledger_column {
		uint32_t kind;  /* ref to a string, as in a row */
		int32_t device;
	} column[LEDGER_COLUMNS];
};
struct ledger_moment {
	uint64_t time_ns;
	uint64_t live_bytes[LEDGER_COLUMNS]; /* by column; 0 where it was not in use yet */
};
/* A step that the program or a signal marked, and the live memory then. The last LEDGER_STEPS_MAX,
 * in one chunk; records are reused. `number` is 0 while a record is written: a reader uses a record
 * if two reads find the same number. */
#define LEDGER_STEP_LABEL 32u
struct ledger_step {
	uint64_t time_ns; /* of the fine clock */
	uint64_t live_bytes;
	uint64_t live_blocks;
	uint32_t number; /* from 1; release/acquire, after all sites of that step */
	uint32_t lost;   /* sites so far that found no room for a struct ledger_growth */
	char label[LEDGER_STEP_LABEL]; /* any bytes; ends at a NUL or here */
};
#define LEDGER_STEPS_MAX ((LEDGER_CHUNK - 64u) / sizeof(struct ledger_step))

/* The live memory of one (stack, api, kind, device) at each of the last steps: step n is at[n %
 * LEDGER_GROWTH_STEPS] if its `step` is n. Before first_step it had none. */
#define LEDGER_GROWTH_STEPS 16u
struct ledger_growth_at {
	uint32_t step; /* 0 while it is written; as `number` above */
	uint32_t blocks;
	uint64_t bytes;
};
struct ledger_growth {
	uint32_t stack; /* as in a row */
	uint32_t api;
	uint32_t kind;
	int32_t device;
	uint32_t first_step;
	uint32_t reserved[3];
	struct ledger_growth_at at[LEDGER_GROWTH_STEPS];
};
#define LEDGER_GROWTH_MAX 8192u /* sites */

/* A call after which the driver itself holds more device memory (a context, a module, a
 * limit): succeeded, between these times. At most LEDGER_MARKS_MAX of them. */
struct ledger_mark {
	uint64_t began_ns;
	uint64_t ended_ns;
	uint32_t api;   /* refs, as in a row */
	uint32_t stack;
	int32_t device; /* ordinal; -1 unknown */
	uint32_t reserved;
};
#define LEDGER_MARKS_MAX 1020u /* two chunks */

/* A device that the process used, and its names: ordinals are the process's own
 * (CUDA_VISIBLE_DEVICES). All zero in `uuid` or `bus_id`: unknown. */
struct ledger_device {
	int32_t ordinal;
	uint32_t name;             /* ref to a string */
	uint8_t uuid[16];          /* of the whole GPU */
	uint8_t instance_uuid[16]; /* of the MIG instance; the same without MIG */
	char bus_id[16];           /* "0000:01:00.0", ended by NUL */
	uint64_t reserved;
};

_Static_assert(sizeof(struct ledger_mark) == 32, "layout is fixed");

/* Why a block or a call was left to the driver. X(NAME, text of the report) */
#define LEDGER_POOL_REASONS(X)                                                                \
	X(EXPORTED, "blocks were shared with others (IPC, dma-buf) and freed by the driver")    \
	X(SYNC_MEMOPS, "blocks had SYNC_MEMOPS or the like set and were freed by the driver")   \
	X(CAPTURE, "frees came while a stream was captured: reused once it ended")              \
	X(TOO_LARGE, "blocks were larger than the pool may keep")                               \
	X(NO_CONTEXT, "calls came where no context or a destroyed one was current")             \
	X(OUT_OF_ORDER, "calls came out of order or from inside the driver")                    \
	X(NO_MEMORY, "blocks had no room in the pool's own tables")                             \
	X(CALLBACK, "objects had a destructor callback")                                        \
	X(HOST_POINTER, "objects used or copied host memory, or were made with properties")     \
	X(SUB_OBJECTS, "objects had sub-buffers or images of them")                             \
	X(MAPPED, "objects were mapped when they were released")                                \
	X(SHARED_OBJECT, "objects were shared with another API or process")                     \
	X(QUEUES, "objects belonged to contexts with queues that can't be waited for cheaply")  \
	X(OTHER_KIND, "objects are of kinds that are not pooled")

enum ledger_pool_reason {
#define X(name, text) LEDGER_POOL_##name,
	LEDGER_POOL_REASONS(X)
#undef X
	LEDGER_POOL_REASON_COUNT
};

#define LEDGER_POOL_REASON_SLOTS 24

/* Counters of one pool: one per API, device and kind of memory. They only grow; counts of the hot
 * path are added every few calls, so they may be a little behind. */
struct ledger_pool {
	uint32_t api;   /* ref to "CUDA" or "OpenCL"; 0: this record is not in use */
	uint32_t kind;  /* ref to the blocks' kind: "device", "pinned", "cl-buffer" ... */
	int32_t device; /* -1 = not known or several */
	uint32_t mode;  /* enum option_pool in force: a driver too old for fast has strict */
	uint32_t off;   /* ref to a text, why it turned itself off; 0 = it did not */
	uint32_t backend; /* enum option_backend */
	uint64_t cached;        /* bytes now that are ready to be handed out again */
	uint64_t pending;       /* bytes now that the device may still be using */
	uint64_t reserved;      /* bytes now had from the driver: in use, cached, pending */
	uint64_t peak_reserved;
	uint64_t peak_used;     /* highest number of requested bytes in use */
	uint64_t hits;          /* allocations served without the driver */
	uint64_t native_allocs;
	uint64_t native_frees;  /* all, including those of trimmed blocks */
	uint64_t frees;         /* frees kept from the driver */
	uint64_t tickets;       /* events recorded to know when a block is clean */
	uint64_t shared_tickets; /* frees that needed no driver call */
	uint64_t waits;         /* frees that waited for the device, as the driver would have */
	uint64_t wait_ns;
	uint64_t trims;         /* times that blocks were given back */
	uint64_t trimmed;       /* blocks given back */
	uint64_t trimmed_bytes;
	uint64_t rescued;       /* allocations that succeeded after a trim */
	uint64_t waste;         /* bytes by which blocks in use are larger than requested */
	uint64_t reasons[LEDGER_POOL_REASON_SLOTS]; /* by enum ledger_pool_reason */
	uint64_t in_use; /* the writer's: what peak_used is the most of */
	uint64_t spare[2];
};

/* A call that was refused: by its name and from where; all 0: none was. */
struct ledger_refusal {
	uint32_t api; /* refs; api is written last */
	uint32_t stack;
};

#define LEDGER_POOLS_MAX 32u
struct ledger_pools {
	uint64_t limit; /* GPULEAK_LIMIT in bytes where it is the same for all devices, else 0 */
	uint64_t refused; /* allocations refused for it */
	uint64_t injected; /* allocations refused for GPULEAK_FAIL_AT */
	uint32_t mode;     /* requested enum option_pool */
	uint32_t backend;  /* requested enum option_backend */
	struct ledger_refusal first_refused;
	struct ledger_refusal first_injected;
	uint64_t reserved[2];
	struct ledger_pool pool[LEDGER_POOLS_MAX];
};
_Static_assert(LEDGER_POOL_REASON_COUNT <= LEDGER_POOL_REASON_SLOTS, "a slot for each reason");
_Static_assert(sizeof(struct ledger_pool) == 384, "layout is fixed");
_Static_assert(sizeof(struct ledger_pools) < LEDGER_CHUNK - 64, "one record in a chunk");
_Static_assert(sizeof(struct ledger_parts) == sizeof(struct ledger_moment), "one walk");
_Static_assert(sizeof(struct ledger_device) == 64, "layout is fixed");
_Static_assert(sizeof(struct ledger_code) == 16, "layout is fixed");
_Static_assert(sizeof(struct ledger_python) == 8, "layout is fixed");
_Static_assert(sizeof(struct ledger_step) == 64, "layout is fixed");
_Static_assert(sizeof(struct ledger_growth) == 288, "layout is fixed");
_Static_assert(sizeof(struct ledger_chunk) == 64, "records start at 64");
_Static_assert(sizeof(struct ledger_block) == 64, "one cache line");
_Static_assert(sizeof(struct ledger_row) == 64, "one cache line");
_Static_assert(sizeof(struct ledger_mapped) == 32, "layout is fixed");
_Static_assert(sizeof(struct ledger_event_wait) == 32, "layout is fixed");
_Static_assert(sizeof(struct ledger_holds) == 256, "layout is fixed");
_Static_assert(sizeof(struct ledger_history) == 768, "layout is fixed");
_Static_assert(sizeof(struct ledger_module) == 88, "layout is fixed");
_Static_assert(sizeof(struct ledger_error) == 144, "layout is fixed");
_Static_assert(sizeof(struct ledger_fact) == 32, "layout is fixed");
_Static_assert(sizeof(struct ledger_header) < LEDGER_CHUNK, "header fits its chunk");

#endif
