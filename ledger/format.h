/* SPDX-License-Identifier: MIT
 *
 * The layout of a ledger file. The traced process writes it into a shared mapping, and readers
 * may rely on it. docs/developers/ledger-format.md describes the same in prose. This header has
 * only layout and meaning, and must not include headers of interpose/ or report/.
 *
 * Increase LEDGER_VERSION and LEDGER_READER_MIN for a change that an older reader would misread.
 * New chunk types and new fields in reserved space do not need this, because a reader skips
 * unknown chunk types and ignores reserved bytes.
 *
 * The file is an array of chunks of LEDGER_CHUNK bytes. Chunk 0 has the header. Every other
 * chunk begins with struct ledger_chunk and has records of one type. Records never move. A
 * record refers to another by its file offset divided by 8 (a "ref": 32 bits, 0 = none), so a
 * file can be up to 32 GiB. All numbers have the byte order of the machine that wrote them (see
 * LEDGER_BYTE_ORDER). Times end in _ns and are nanoseconds since start_mono_ns, unless a comment
 * states otherwise. Sizes are in bytes.
 *
 * Consistency: the writer completes a record before it publishes it. To publish, it stores the
 * record's state, the chunk's `used`, or the header's `chunks` with release order. A reader
 * loads these with acquire order. It may read at any moment, also a file whose writer was
 * killed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_MAGIC "GPULEAK\n"
#define LEDGER_VERSION 2u
#define LEDGER_READER_MIN 1u /* oldest reader version that understands this format */
/* LEDGER_READER_MIN of a ledger whose call sites in chunks of type SITES may have a series. A
 * reader of version 1 would read their field `series` as the upper half of `late`. */
#define LEDGER_READER_MIN_SERIES 2u
#define LEDGER_BYTE_ORDER 0x01020304u
#define LEDGER_CHUNK 16384u
#define LEDGER_CHUNKS_MAX (1u << 21) /* 32 GiB: the range of a 32-bit ref */
#define LEDGER_FRAMES_MAX 256u
#define LEDGER_STRING_MAX 4096u /* the writer cuts longer strings */
#define LEDGER_BUILD_ID_MAX 32u
#define LEDGER_REF_UNIT 8u

/* How the process ended, as the process itself recorded it. If the ledger has RUNNING and the
 * process does not exist, the process was killed. Then only its parent knows its status. */
enum ledger_ended {
	LEDGER_RUNNING = 0,
	LEDGER_EXIT = 1,  /* exit(), return from main, quick_exit() */
	LEDGER__EXIT = 2, /* _exit(), _Exit() */
	LEDGER_EXEC = 3,  /* exec replaced the program */
	/* `gpuleak attach` ended the recording; the process goes on, and end_mono_ns is that
	 * moment */
	LEDGER_DETACHED = 4,
};

/* Events that could not be recorded. They are counted in the header, because it needs no new room.
 * X(NAME, text that follows the number in a report) */
#define LEDGER_TROUBLES(X)                                                                  \
	X(UNRECORDED_BLOCKS, "allocations were not recorded: the ledger could not grow")    \
	X(UNRECORDED_BYTES, "bytes of allocations were not recorded: the ledger could not grow") \
	X(UNRECORDED_STACKS, "stacks were not recorded: the ledger could not grow")         \
	X(UNRECORDED_ERRORS, "invalid frees were counted but not recorded: their table is full") \
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
		     "cancellation in the middle of its work, and recording stopped")     \
	X(UNRECORDED_SUBALLOCATIONS, "suballocations were not recorded: the ledger could not "   \
				     "grow")                                                \
	X(STALE_SUBALLOCATIONS, "suballocations were reported at an address that was not free")  \
	X(UNKNOWN_SUBALLOCATION_FREES, "suballocations were freed whose allocation gpuleak did " \
				       "not see")                                           \
	X(UNKNOWN_REPORTERS, "libraries report their suballocations by a function that gpuleak " \
			     "does not know: only the driver's blocks are recorded")        \
	X(REPORTS_NOT_PASSED_ON, "reports of suballocations were not passed on to the "          \
				 "framework: gpuleak did not see its library being loaded")  \
	X(UNRECORDED_REFUSALS, "allocations that ran out of memory were counted but not "        \
			       "recorded: the ledger could not grow")                       \
	X(UNRECORDED_IPC, "IPC handles of memory were not recorded: the ledger could not grow") \
	X(NESTED_STACKS, "calls of nested signal handlers were recorded without a stack") \
	X(UNWINDER_LOCKED, "calls were recorded without a stack: when the process was forked, "  \
			   "another thread held a lock of libunwind")                       \
	X(UNMATCHED_RANGES, "NVTX ranges were ended that their thread, or the program, had not " \
			    "begun: they changed nothing")                                  \
	X(DEEP_RANGES, "NVTX ranges were begun inside 31 others (perhaps a range is never "      \
		       "ended): their memory counts for the outer ones")                    \
	X(OTHER_RANGES, "NVTX ranges had no room in the table of ranges: their memory counts for " \
			"\"other\"")                                                        \
	X(BAD_HEAPS, "NVTX memory heaps were registered twice, in no GPU memory that gpuleak "   \
		     "recorded, or beyond the room of its table")                           \
	X(BAD_REGIONS, "NVTX memory regions lie in no heap that gpuleak recorded, or not wholly " \
		       "in theirs: they were not recorded")                                     \
	X(UNCHANGED_WORDS, "parts of memory could not be read or changed by the attachment (a "   \
		"limit, or a filter of system calls): calls through them were not recorded")     \
	X(WORDS_LEFT, "parts of memory could not be changed back when the attachment ended: "    \
		"calls through them still pass gpuleak, which records nothing")

enum ledger_trouble {
#define X(name, text) LEDGER_TROUBLE_##name,
	LEDGER_TROUBLES(X)
#undef X
	LEDGER_TROUBLE_COUNT
};
#define LEDGER_TROUBLE_SLOTS 32

/* One block whose memory was freed later than its last reference was released (a deferred free). */
struct ledger_wait {
	uint64_t ns;
	uint64_t bytes;
	uint32_t site;   /* ref to the struct ledger_site of the call that created the block */
	/* refs to the name and the stack of the call that released the last reference */
	uint32_t api;
	uint32_t stack;
	uint32_t reserved;
};

/* Chunk 0. The writer fills in the fields up to `chunks` before it gives the file its name. */
struct ledger_header {
	char magic[8];
	uint32_t version;
	uint32_t reader_min;
	uint32_t byte_order;
	uint32_t chunk_bytes; /* LEDGER_CHUNK */
	uint32_t header_bytes;
	uint32_t stack_depth; /* GPULEAK_STACK_DEPTH in effect: maximum frames per stack */
	int32_t pid;
	int32_t ppid; /* pid of the parent process at the first GPU call; no reader uses it yet */
	/* field 22 of /proc/PID/stat: identifies the process if the pid is reused */
	uint64_t start_ticks;
	uint64_t start_real_ns; /* CLOCK_REALTIME of the first GPU call */
	/* CLOCK_MONOTONIC at that moment. Times in records count from here. */
	uint64_t start_mono_ns;
	uint32_t host;          /* refs to strings: this and the next three */
	uint32_t exe;           /* absolute path of the program */
	uint32_t cwd;
	uint32_t command;       /* the arguments, each with a final NUL */

	uint32_t chunks;        /* chunks in use, including this one; release/acquire */
	uint32_t ended;         /* enum ledger_ended */
	int32_t status;         /* exit status; meaningful when ended is EXIT or _EXIT */
	/* Always 1: a process without a GPU call has no ledger. No reader uses it. Writers keep it,
	 * so that the fields after it keep their place. */
	uint32_t first_call;
	uint64_t end_mono_ns;   /* CLOCK_MONOTONIC at the end; 0 if not recorded */
	uint64_t peak_bytes;    /* peak of live bytes */
	uint64_t peak_mono_ns;  /* time of the peak; counts from start_mono_ns, as in records */
	uint64_t errors;        /* error records plus UNRECORDED_ERRORS */
	uint64_t trouble[LEDGER_TROUBLE_SLOTS];
	uint32_t no_gpu; /* enum ledger_no_gpu; 0 also if an older writer made the ledger */
	/* 1: recording began by an attachment to the running process, at start_real_ns. Blocks of
	 * the process that are older have no record. */
	uint32_t attached;
	uint32_t reserved[14];

	/* Deferred frees: blocks in LEDGER_BLOCK_RELEASED. */
	uint64_t released_peak_bytes; /* peak of the bytes of deferred frees */
	uint64_t released_peak_ns;
	/* 1 or 2: the longest wait is waits[longest_wait - 1]; 0: no free was deferred */
	uint32_t longest_wait;
	uint32_t released_reserved;
	struct ledger_wait waits[2];
	/* calls that make the driver use more device memory, including those without a record */
	uint64_t marks;
	/* Number of suballocations, and of other blocks with a series, that were allocated. For
	 * each thread of the process the number may be 0.1 % too low. */
	uint64_t suballocated;
	/* `refused`: allocations that were refused because memory was short, including those
	 * without a record. `recovered`: those of them after which the same thread allocated as
	 * much or more. */
	uint64_t refused;
	uint64_t recovered;
	/* exports of freed blocks whose record (struct ledger_ipc) was reused */
	uint64_t exports_dropped;
	/* The next two only if `attached`. Device memory that the process had before, in bytes; 0:
	 * not known. */
	uint64_t before_attach_bytes;
	uint64_t frees_before;    /* successful frees of memory that has no record */
	/* The ring of the trace: number of its first chunk, 0: no trace; number of its chunks, a
	 * power of two; number of events so far, including those that were overwritten. */
	uint32_t trace_first;
	uint32_t trace_chunks;
	uint64_t traced;
};
/* Size of the header in the first version. If a header is shorter than the struct, the missing
 * fields are zero. */
#define LEDGER_HEADER_BYTES_MIN offsetof(struct ledger_header, released_peak_bytes)

enum ledger_chunk_type {
#define CHUNK(NAME, number, name, type, bytes) LEDGER_CHUNK_##NAME = number,
#define CHUNK_OWN CHUNK
#define CHUNK_MIXED(NAME, number) LEDGER_CHUNK_##NAME = number,
#include "ledger/chunks.def"
	LEDGER_CHUNK_TYPES, /* one more than the last type */
};

/* The start of every chunk except the first. Records begin at offset 64. `used` is the size of the
 * chunk's published bytes, including this struct (64 = no records). In a chunk of BLOCKS it covers
 * all slots, and the state of a slot shows if it has a block. */
struct ledger_chunk {
	uint32_t type;
	uint32_t used; /* release/acquire */
	uint32_t reserved[14];
};

/* The states of a block slot. */
enum ledger_block_state {
	LEDGER_BLOCK_UNUSED = 0,
	LEDGER_BLOCK_LIVE = 1,
	/* The driver is freeing the block. If the process ended in the middle of that, the block
	 * counts as live. */
	LEDGER_BLOCK_FREEING = 2,
	/* Deferred free: the last reference was released, but the memory is still allocated. The
	 * block is not live. The release is the last event of its history. */
	LEDGER_BLOCK_RELEASED = 3,
};
#define LEDGER_BLOCK_STATE(word) ((word) & 0xffu)
/* One slot for a block; 64 bytes, one cache line. The upper 24 bits of `state` count how often the
 * slot was used. A reader copies the slot, and uses the copy only if `state` did not change
 * meanwhile. */
struct ledger_block {
	uint32_t state;      /* use count << 8 | enum ledger_block_state; release/acquire */
	uint32_t site;        /* ref to the struct ledger_site of its call site */
	uint64_t address;    /* device address, or the driver's handle */
	/* Size. If several blocks stand for the same physical memory (a handle and its mappings),
	 * only one of them has the bytes, and the others have 0. Which one it is may change. */
	uint64_t bytes;
	uint64_t context;    /* the driver's context handle, 0 = unknown */
	uint64_t time_ns;    /* allocation time; resolution of the coarse clock (1-4 ms) */
	uint32_t references; /* reference count of a handle; 1 for plain memory */
	uint32_t thread;     /* kernel thread id of the allocating thread, 0 = not recorded */
	/* Of a sub-buffer: the address of the buffer that it belongs to. Of a vmm-mapping: the
	 * handle of its physical memory, if the mapping covers all of that memory. Else 0. */
	uint64_t parent;
	/* ref to a struct ledger_history, 0 = never retained. Of a suballocation and of CUDA's
	 * linear memory: ref to a string, the name that the program gave it (NVTX) */
	uint32_t history;
	union {
		/* LEDGER_BLOCK_IGNORED, LEDGER_BLOCK_MAPPED, LEDGER_BLOCK_CAPTURED,
		 * LEDGER_BLOCK_MARK() */
		uint32_t marked;
		uint32_t next_spare; /* only for the writer: links unused slots */
	};
};
/* The program called gpuleak_ignore() for the block. May change at any time. */
#define LEDGER_BLOCK_IGNORED 0x80000000u
/* The application has mapped the block's memory and not unmapped it. A struct ledger_mapped
 * identifies the block. May change at any time. */
#define LEDGER_BLOCK_MAPPED 0x40000000u
/* A stream of the process was being captured when the block was allocated. */
#define LEDGER_BLOCK_CAPTURED 0x20000000u
/* The number of gpuleak_mark() calls before the allocation, plus 1. This orders blocks and marks
 * exactly; the clock is too coarse. 0: an older writer made the block. */
#define LEDGER_BLOCK_MARK(word) ((word) & 0x1fffffffu)

/* Returns true if a block with these two words is not freed. A deferred free counts as not freed
 * while the application has it mapped, because only the application can unmap it. */
static inline bool ledger_block_is_live(uint32_t state, uint32_t marked)
{
	state = LEDGER_BLOCK_STATE(state);
	return state == LEDGER_BLOCK_LIVE || state == LEDGER_BLOCK_FREEING ||
	       (state == LEDGER_BLOCK_RELEASED && (marked & LEDGER_BLOCK_MAPPED));
}

/* Returns true for a deferred free that does not count as live. */
static inline bool ledger_block_is_deferred(uint32_t state, uint32_t marked)
{
	return LEDGER_BLOCK_STATE(state) == LEDGER_BLOCK_RELEASED &&
	       !(marked & LEDGER_BLOCK_MAPPED);
}

/* The blocks that are not counted as live everywhere. DEFERRED: a deferred free, except while the
 * application has the block mapped. IGNORED: any other block with LEDGER_BLOCK_IGNORED. */
enum ledger_hidden {
	LEDGER_HIDDEN_DEFERRED,
	LEDGER_HIDDEN_IGNORED,
	LEDGER_HIDDEN_NOT,
};
static inline enum ledger_hidden ledger_block_hidden(uint32_t state, uint32_t marked)
{
	if (LEDGER_BLOCK_STATE(state) == LEDGER_BLOCK_RELEASED && !(marked & LEDGER_BLOCK_MAPPED))
		return LEDGER_HIDDEN_DEFERRED;
	return marked & LEDGER_BLOCK_IGNORED ? LEDGER_HIDDEN_IGNORED : LEDGER_HIDDEN_NOT;
}

/* Returns the name of a block: use count of its slot << 32 | ref. If the use count of a name
 * differs from the slot's, the named block was freed. */
static inline uint64_t ledger_block_name(uint32_t state, uint32_t ref)
{
	return (uint64_t)(state >> 8) << 32 | ref;
}

/* Frees that the driver refused although their block was live: those of blocks of one call site, at
 * one place, with one result. BROKEN: after an error because of which each call in the context
 * fails; all such frees with one result share a record, which describes the first one. LATE: after
 * the driver had begun to shut down. The blocks of both count as freed. */
#define LEDGER_REFUSED_FREE_BROKEN 1u
#define LEDGER_REFUSED_FREE_LATE 2u
#define LEDGER_REFUSED_FREE_BLOCKS 4u
#define LEDGER_REFUSED_FREES_MAX 370u /* two chunks */
struct ledger_refused_free {
	uint64_t count;
	uint64_t address; /* of the first free, like the next two */
	uint64_t bytes;
	uint64_t time_ns;
	/* names of blocks, see ledger_block_name(); 0: none. A block that is not freed later stays,
	 * unless there are more than these. Empty with BROKEN and LATE. */
	uint64_t block[LEDGER_REFUSED_FREE_BLOCKS];
	uint32_t site; /* ref to the struct ledger_site of the blocks */
	uint32_t api, stack; /* refs to the name and the stack of the free */
	int32_t result; /* of the driver */
	uint32_t flags;
	uint32_t reserved;
};

/* What a memory pool of the driver had when it was last read at such a moment. `began` and `done`
 * are used as in struct ledger_named_step. POOL 0 is the default pool of the device (-1: none). */
enum ledger_parked_when { LEDGER_PARKED_EXIT, LEDGER_PARKED_PEAK, LEDGER_PARKED_REFUSAL,
			  LEDGER_PARKED_MOMENTS };
#define LEDGER_PARKED_MAX 765u /* records: three chunks */
struct ledger_parked {
	uint32_t done;
	int32_t device;
	uint64_t pool, reserved_bytes, used_bytes; /* used_bytes: at most reserved_bytes */
	uint64_t threshold; /* so many bytes stay reserved without being used */
	uint64_t time_ns, refusal; /* number of the refused request; else 0 */
	uint32_t when, began; /* enum ledger_parked_when */
};

/* The retains and releases of one live handle. Its creation is in the block's call site. Event n is
 * valid if bit n of `kept` is set, so one store can remove a matched pair. `order` gives the
 * sequence of events. It continues when the history is reused for another block. */
enum ledger_reference_op {
	LEDGER_RETAIN = 1,
	LEDGER_RELEASE = 2,
};
struct ledger_reference {
	uint32_t order; /* 0 while it is being written */
	uint32_t op;    /* enum ledger_reference_op */
	uint32_t api, stack; /* refs to the name and the stack of the call */
	uint64_t time_ns;
};
#define LEDGER_HISTORY_EVENTS 31u
struct ledger_history {
	uint64_t kept;  /* removed pairs << 32 | bit n: event n is valid; release/acquire */
	uint32_t block; /* ref to the block of this history; 0: the history is unused */
	uint32_t lost;  /* number of retains that had no room */
	uint32_t order; /* only for the writer: order of the last event */
	uint32_t next_spare;
	struct ledger_reference events[LEDGER_HISTORY_EVENTS];
};

/* The blocks that are arguments of one kernel. The kernel keeps their memory allocated. `kernel`
 * and the elements of `arg` are names (see ledger_block_name()); 0: none. */
#define LEDGER_KERNEL_ARGS_MAX 31u
struct ledger_kernel_args {
	uint64_t kernel;
	uint64_t arg[LEDGER_KERNEL_ARGS_MAX]; /* by argument number */
};

/* The mappings of one block that the application has not ended. */
struct ledger_mapped {
	uint64_t block; /* name of the block; 0: the record is unused; release/acquire */
	uint64_t time_ns; /* of the oldest mapping, like the next two */
	uint32_t api, stack; /* refs to the name and the stack of the call */
	uint32_t count;   /* number of mappings */
	uint32_t reserved;
};

/* A command that uses a block's memory and waits for a user event that was not set. */
struct ledger_event_wait {
	uint64_t block; /* name of the block; 0: the record is unused; release/acquire */
	uint64_t time_ns; /* of the command, like the next two */
	uint32_t api, stack; /* refs to the name and the stack of the call */
	uint32_t event_api, event_stack; /* refs: the call that created the user event */
};

/* A block that is shared between processes: one that this process exported (cuIpcGetMemHandle), or
 * memory of another process that this process opened (cuIpcOpenMemHandle). Both sides have the same
 * handle. The record of opened memory is reused when the memory is closed. The record of an export
 * stays when its block is freed: another process may still have the memory open. Only the last
 * LEDGER_EXPORTS_FREED_MAX of these are kept.
 *
 * `block` is 0 while the writer changes a record. A reader uses a copy only if `block` and `flags`
 * are the same before and after. */
#define LEDGER_IPC_HANDLE 64u
#define LEDGER_IPC_OPENED 1u /* else: exported */
#define LEDGER_IPC_FREED 2u  /* an export: the fields freed_* are valid. Stored after them */
#define LEDGER_IPC_IMPORTED 4u /* opened in another way: `address` is the memory's own handle */
#define LEDGER_EXPORTS_FREED_MAX 4096u
struct ledger_ipc {
	uint64_t block;   /* name of the block; 0: unused; release/acquire */
	uint64_t address; /* of the block */
	uint64_t bytes;   /* of an exported block; of opened memory; 0 unknown */
	uint64_t time_ns; /* when the handle was returned or opened, in ns of CLOCK_MONOTONIC
			   * since the ledger's start */
	uint64_t freed_ns; /* when the driver had freed the block */
	uint32_t flags; /* release/acquire */
	uint32_t site;  /* ref to the call site that made the block */
	uint32_t api, stack; /* refs: name and stack of the call that returned the handle */
	uint32_t freed_api; /* the same of the call that ended the block */
	uint32_t freed_stack;
	uint8_t handle[LEDGER_IPC_HANDLE];
};

/* Prefix of the kinds that are not memory. These blocks are neither leaks nor counted as memory,
 * but the report lists them. */
#define LEDGER_KIND_OBJECT "object/"

#define LEDGER_KIND_SUBALLOCATION "suballocation"
#define LEDGER_KIND_VIRTUAL "vmm-" /* prefix of the kinds of virtual memory */

/* Counters of one call site (stack, api, kind, device). Several records may have the same key (one
 * per thread), and readers add them up. allocs and bytes only increase. Number of frees = allocs -
 * with_context - late - unseen - live blocks of this record. */
struct ledger_site {
	uint32_t stack;  /* ref to a struct ledger_stack, 0 = none recorded */
	uint32_t api;    /* ref to a string: the call's name */
	uint32_t kind;   /* ref to a string: a kind of kinds.def */
	int32_t device;  /* ordinal; -1 unknown */
	uint64_t allocs;
	uint64_t bytes;
	uint64_t with_context;       /* blocks that the driver freed with their context */
	uint64_t with_context_bytes;
	/* blocks freed after the driver began to shut down, or after their context was destroyed */
	uint32_t late;
	uint32_t series;             /* ref to a struct ledger_live_series; 0 = none */
	/* blocks that ended by a call that gpuleak did not intercept */
	uint64_t unseen;
};

/* Memory of one call site that was live when its context was destroyed or reset, by the call that
 * ended the context. The blocks are in `with_context` of the call site, too, which has more of them
 * than all its records if there were too many, and in ledgers of older writers. */
#define LEDGER_CONTEXT_END_IGNORED 1u /* of `flags`: blocks with LEDGER_BLOCK_IGNORED */
#define LEDGER_CONTEXT_ENDS_MAX 8160u /* 16 chunks */
struct ledger_context_end {
	uint64_t blocks;
	uint64_t bytes;
	uint32_t site;  /* ref to the struct ledger_site */
	uint32_t flags;
	uint32_t api, stack; /* refs to the name and the stack of the call that ended the context */
};

/* The memories that gpuleak counts separately: each device, and host memory. */
enum ledger_memory {
	LEDGER_MEMORY_NONE = 0,   /* a block takes no memory, or it is not known where */
	LEDGER_MEMORY_DEVICE = 1, /* CUDA's device memory */
	LEDGER_MEMORY_HOST = 2,   /* host memory that CUDA locks */
	LEDGER_MEMORY_OPENCL = 3,
};

/* The peak of one memory. The record's number (from 1) is its place in the chunk. `number` counts
 * the peaks that were noted. The last one is at[number % 2]; the writer fills in the other element
 * before it increases `number`. */
#define LEDGER_MEMORIES_MAX 31u
struct ledger_peak_at {
	uint64_t bytes;              /* live in blocks */
	uint64_t suballocated_bytes; /* of these: in suballocations */
	uint64_t time_ns;
	/* A later peak was noted only if it was larger by more than this. */
	uint64_t unnoted_bytes;
};
struct ledger_peak {
	uint32_t number; /* 0: none; release/acquire */
	uint32_t memory; /* enum ledger_memory */
	int32_t device;  /* ordinal; -1 unknown, or host memory */
	uint32_t reserved;
	struct ledger_peak_at at[2];
};

/* What one call site had live at the peak of its memory. Nothing is written at a peak. Instead the
 * first change after the peak copies `bytes` and `blocks`, as they are before that change, to
 * `peak_bytes` and `peak_blocks`, and the peak's number to `peak`. A reader wants the amounts at
 * the last peak, number N. If `peak` is N, they are `peak_bytes` and `peak_blocks`. If `peak` is
 * smaller than N, the call site has not changed since peak N, and they are `bytes` and `blocks`.
 *
 * Record n of a chunk of call sites has two balances, which must be added: record n of the chunk
 * before (BALANCES), which only the thread of the call site changes, and record n of the chunk
 * before that (OTHERS_BALANCES), which all other threads change. So a single balance may be
 * negative (modulo 2^64 and 2^32). All threads change the first balance of a call site of
 * suballocations, one after the other. Older writers wrote no such chunks. ledger_site_live() reads
 * both. */
struct ledger_balance {
	uint64_t bytes; /* of blocks whose slot is not unused */
	uint64_t peak_bytes;
	uint32_t blocks;
	uint32_t peak_blocks;
	uint32_t peak;   /* number of the peak that peak_bytes belongs to; 0: none */
	uint32_t memory; /* number of the struct ledger_peak; 0: none */
	uint16_t thread_state; /* only for the writer: which threads change BALANCES */
	/* `number` of the struct ledger_range in which the call site allocates; 0: outside ranges.
	 * Equal in both balances. Older writers always wrote 0. */
	uint16_t range;
	uint32_t busy;         /* only for the writer: 1 while a thread stores peak_* */
	/* by enum ledger_hidden: those of `bytes` and `blocks` of both balances. Only in
	 * OTHERS_BALANCES, and not for suballocations */
	uint64_t hidden_bytes[LEDGER_HIDDEN_NOT];
	uint32_t hidden_blocks[LEDGER_HIDDEN_NOT];
};

/* A range of the program (NVTX) in which memory was allocated, or which encloses such a range.
 * Records are written when the first call site allocates in the range, or when the range begins and
 * there is a trace, in no order. A call site
 * that allocates in several ranges has a record (struct ledger_site) for each. */
#define LEDGER_RANGE_OTHER 4095u /* stands for all ranges for which the table had no room */
enum ledger_range_memory {
	LEDGER_RANGE_BLOCKS, LEDGER_RANGE_SUBALLOCATIONS, LEDGER_RANGE_MEMORIES
};
struct ledger_range {
	uint32_t number; /* from 1; at most LEDGER_RANGE_OTHER */
	uint32_t parent; /* number of the range that encloses it; 0: none */
	uint32_t name;   /* refs to strings; the domain is 0 for the default domain */
	uint32_t domain;
	uint32_t owner;  /* only for the writer: the thread state that changes `own` */
	uint32_t reserved;
	/* by enum ledger_range_memory. What is live is own + others, modulo 2^64. If several
	 * threads allocate at the same moment, a peak may be too low. */
	struct ledger_range_live {
		uint64_t own, others, peak;
	} live[LEDGER_RANGE_MEMORIES];
};

/* Blocks of one call site that the program has registered as heaps of its own allocator (NVTX). The
 * suballocations in them have the call LEDGER_HEAP_CALL followed by the name. */
#define LEDGER_HEAP_CALL "nvtxMemRegionsRegister: "
struct ledger_heaps {
	uint32_t site; /* ref to the struct ledger_site of the blocks */
	uint32_t name; /* ref to a string */
	uint64_t blocks; /* that were registered; each counts once */
};

/* How many suballocations or other blocks of one call site were live in the course of the process.
 *
 * Time is divided into windows. The unit is an allocation of a block with a series anywhere in the
 * process: a free takes no time, and neither does waiting. Each window lasts 1 << shift
 * allocations, and there are at most LEDGER_WINDOWS windows. When there is no room for a new one,
 * each pair of windows becomes one. ledger/live_series.h has the functions of the writer and of
 * readers.
 *
 * An amount of memory is one word, so that one instruction changes it: the number of blocks, and
 * their bytes in units. `allocated` and `freed` may overflow; their difference is correct
 * nevertheless. */
#define LEDGER_WINDOWS 32u
#define LEDGER_AMOUNT_UNIT 512u
#define LEDGER_AMOUNT_UNIT_BITS 36u
#define LEDGER_AMOUNT_BLOCKS(amount) ((amount) >> LEDGER_AMOUNT_UNIT_BITS)
#define LEDGER_AMOUNT_BYTES(amount) \
	(((amount) & (((uint64_t)1 << LEDGER_AMOUNT_UNIT_BITS) - 1)) * LEDGER_AMOUNT_UNIT)
struct ledger_window {
	uint64_t low;  /* the smallest amount that was live in the window */
	uint64_t high; /* the largest amount */
	uint32_t allocs; /* lower half of the site's `allocs` when the window began */
	/* time of the first call of the site in the window: ns >> LEDGER_WINDOW_TIME_BITS, plus 1;
	 * 0: there was no call */
	uint32_t time;
};
#define LEDGER_WINDOW_TIME_BITS 22u /* 4 ms, as the coarse clock: 32 bits last for 208 days */
struct ledger_live_series {
	/* Equal to `began`, except while the writer changes the series. A reader must not use a
	 * series whose numbers differ. */
	uint32_t done;
	uint32_t shift;
	uint32_t current; /* index of the window that has begun; the earlier ones are complete */
	uint32_t reserved;
	uint64_t until;   /* the number of allocations at which this window ends */
	uint64_t allocated; /* amounts; what is live now is their difference */
	uint64_t freed;
	uint64_t low;     /* the smallest amount that was live in this window */
	uint64_t high;    /* the largest amount */
	struct ledger_window window[LEDGER_WINDOWS]; /* `low` and `high` of complete windows */
	uint32_t began;
	uint32_t last_reserved;
};

/* The trace: with GPULEAK_TRACE, the last events of the process in a ring. The chunks of the ring
 * (TRACE) follow each other, see struct ledger_header. Event n (from 1) is record i % e of chunk
 * i / e % trace_chunks of the ring, where i is n - 1 and e is LEDGER_TRACE_EVENTS.
 *
 * A thread that writes an event waits for no other thread, so the process may end before the event
 * is complete, or the ring may overtake the thread. A reader uses an event only if it has the
 * expected number and a correct `check`.
 *
 * Threads read the clock before they take a number, so times may be slightly out of order. */
enum ledger_trace_kind {
	LEDGER_TRACE_ALLOCATED = 1, /* a block or a suballocation; `ref`: its call site */
	LEDGER_TRACE_FREED = 2,
	/* A block begins and ceases to count the bytes of memory that it shares with another block
	 * (see `bytes` of struct ledger_block). `bytes` is the number of these. */
	LEDGER_TRACE_BYTES_TAKEN = 3,
	LEDGER_TRACE_BYTES_GIVEN = 4,
	LEDGER_TRACE_STEP = 5, /* `address`: number of the step; `bytes`: live bytes */
	/* `ref`: stack of the call; `address`: ref of its name; `bytes`: requested */
	LEDGER_TRACE_OUT_OF_MEMORY = 6,
	/* `ref`: number of a struct ledger_range; `bytes`: a number that stands for its domain.
	 * `address`: of a range that any thread may end, a number that it alone has while it lasts.
	 * 0: the end is that of the innermost range of the thread in the domain. `time_ns` is from
	 * the fine clock, so it may be later than that of the next event. */
	LEDGER_TRACE_RANGE_BEGAN = 7,
	LEDGER_TRACE_RANGE_ENDED = 8,
};
struct ledger_trace_event {
	uint32_t number; /* the lower half of n */
	uint32_t ref;
	uint64_t time_ns; /* from the coarse clock */
	uint64_t address;
	uint64_t bytes;
	uint32_t what; /* kernel thread id << 8 | enum ledger_trace_kind */
	uint32_t check; /* ledger_trace_check() */
};
#define LEDGER_TRACE_KIND(what) ((what) & 0xffu)
#define LEDGER_TRACE_EVENTS ((LEDGER_CHUNK - 64u) / sizeof(struct ledger_trace_event))

/* Returns a number that most likely differs if a field of EVENT does. */
static inline uint32_t ledger_trace_check(const struct ledger_trace_event *event)
{
	uint64_t mix = event->address << 32 | event->address >> 32;

	mix = (mix ^ event->time_ns) * UINT64_C(0x9e3779b97f4a7c15);
	mix ^= event->bytes ^ ((uint64_t)event->number << 32 | event->ref);
	mix = (mix ^ event->what) * UINT64_C(0xd6e8feb86659fd93);
	return (uint32_t)(mix >> 32);
}

/* A call stack, innermost return address first. Stacks of different lengths follow each other,
 * aligned to 8 bytes. */
#define LEDGER_STACK_CUT 1u /* the stack was deeper than stack_depth, so outer frames are missing */
/* After the pcs follows a bit mask with one bit per pc, in whole 64-bit words. A set bit marks a
 * call of Python's evaluation loop that ran some of the frames in `python`. */
#define LEDGER_STACK_LOOPS 2u
#define LEDGER_STACK_LOOP_WORDS(frames) (((frames) + 63u) / 64u)
struct ledger_stack {
	uint32_t hash;
	uint16_t frames;
	uint16_t flags;
	uint32_t epoch; /* number of the module map at that moment, see struct ledger_module */
	uint32_t python; /* ref to the thread's Python frames (struct ledger_python); 0 = none */
	uint64_t pc[];
};

/* A Python function (code object). */
struct ledger_code {
	uint32_t function; /* refs to strings: qualified name (or name) and source file */
	uint32_t file;
	uint32_t first_line;
	uint32_t reserved;
};

/* Frames of Python, Java, Ruby or PHP of a thread, innermost first. Records follow each other,
 * aligned to 8 bytes. */
/* the chain was deeper than stack_depth, so outer frames are missing */
#define LEDGER_PYTHON_CUT 1u
/* The frames belong to another thread, which started the work of this stack's thread and waited for
 * it. They are further out than all native frames. */
#define LEDGER_PYTHON_WAITING 2u
/* The two bits of the language. 0 is Python. Frames of another language are all that the thread
 * has, so the native frames of its interpreter, and those further out, are not needed. None is an
 * LEDGER_PYTHON_ENTRY. */
#define LEDGER_PYTHON_LANGUAGE(flags) ((flags) & 12u)
#define LEDGER_PYTHON_JAVA 4u
#define LEDGER_PYTHON_RUBY 8u
#define LEDGER_PYTHON_PHP 12u
#define LEDGER_PYTHON_ENTRY 0x80000000u
#define LEDGER_PYTHON_LINE(word) ((word) & ~LEDGER_PYTHON_ENTRY)
struct ledger_python_frame {
	uint32_t code; /* ref to a struct ledger_code, 0 = the ledger had no room */
	/* line number, 0 unknown; with LEDGER_PYTHON_ENTRY: a new call of the evaluation loop ran
	 * this frame, and outer frames belong to an outer call of the loop */
	uint32_t line;
};
struct ledger_python {
	uint32_t hash;
	uint16_t frames;
	uint16_t flags;
	struct ledger_python_frame frame[];
};

/* A string, usually UTF-8, but any bytes are possible. Padded to 8 bytes; without a final NUL. */
struct ledger_string {
	uint32_t length;
	char bytes[];
};

/* A module (program or shared library) that was mapped at some time. A pc belongs to the module
 * whose range contains it and whose epoch is the largest one not above the epoch of the stack. */
#define LEDGER_MODULE_UNLOADED 1u
struct ledger_module {
	uint64_t start; /* range of its segments; `end` is one past the last address */
	uint64_t end;
	uint64_t bias;  /* address in memory minus address in the file's symbol table */
	uint32_t path;  /* ref to a string */
	uint32_t epoch;
	uint32_t flags;
	uint32_t build_id_bytes;
	uint8_t build_id[LEDGER_BUILD_ID_MAX];
	uint64_t reserved[2];
};

/* A function of a module whose file may be gone when a reader needs its names. */
struct ledger_symbol {
	uint64_t start;  /* address in the file's symbol table */
	uint32_t bytes;  /* size of its code; never 0 */
	uint32_t module; /* ref to the struct ledger_module */
	uint32_t name;   /* ref to a string, as the linker has it */
	uint32_t reserved;
};

/* An invalid free. Refs are 0 if unknown. */
struct ledger_event { /* one earlier call: refs to its name and stack */
	uint32_t api;
	uint32_t stack;
	uint64_t time_ns;
};
/* The process ended inside the call, or the call returns no result. */
#define LEDGER_NO_ANSWER INT32_MIN
struct ledger_error {
	uint32_t type;    /* ref to a string: the error type; 0: withdrawn, not an error */
	uint32_t api;     /* the invalid call */
	uint32_t stack;
	int32_t result;   /* the driver's result (0 = success), or LEDGER_NO_ANSWER */
	uint64_t address; /* the address as the call received it */
	uint64_t time_ns;
	uint64_t block_address; /* address of the block that `allocated` describes */
	uint64_t block_bytes;
	struct ledger_event allocated; /* allocation of the block that was freed wrongly */
	struct ledger_event freed;     /* first free of that block */
	/* Of the type "access-fault": `earlier_allocated.api` is the name of the kernel. Of the
	 * types "write-...": `earlier_bytes` is a ref to a struct ledger_overwrite. Otherwise
	 * the previous block with the same address. If `freed` frees that block a second time, the
	 * driver frees the new block at the address and returns success. */
	struct ledger_event earlier_allocated;
	struct ledger_event earlier_freed;
	uint64_t earlier_bytes;
	uint32_t kind;    /* ref to a string: kind of the block */
	int32_t device;
	/* with LEDGER_ERROR_OTHER_RANGE: size of the range that the call received; of type
	 * "freed-while-mapped": bytes of the freed reservation that are mapped */
	uint64_t asked_bytes;
	uint32_t flags;
	uint32_t count; /* of an access: how often it was found; 0 otherwise */
};
/* Of the guard's errors (struct ledger_guard): `address` and `asked_bytes` are the accessed range;
 * the accesses only read; the accessed memory lies before the block; the call is proven to have
 * made the access, or it only may have. */
#define LEDGER_ERROR_READ 2u
#define LEDGER_ERROR_BEFORE 4u
#define LEDGER_ERROR_PROVEN 8u
#define LEDGER_ERROR_LIKELY 16u
/* `type` is 0: a further launch that may have made the access of the last "access-fault" before,
 * with its block. The most likely ones come first. */
#define LEDGER_ERROR_SUSPECT 32u
/* The call was the right one for the block, but its range differed from the block's. */
#define LEDGER_ERROR_OTHER_RANGE 1u

/* What a check of patterns found of a "write-..." error, and the calls that may have written it:
 * launches, copies and memsets that the last check without an error did not know to be done. */
#define LEDGER_SUSPECTS_MAX 8u
struct ledger_overwrite {
	uint32_t bytes, reserved; /* of `wanted` and `found`: from the first wrong byte on */
	uint8_t wanted[16], found[16];
	uint64_t calls; /* also those that are not in `suspect` */
	struct ledger_suspect {
		uint32_t api, stack, kernel; /* refs. kernel 0: unknown, or no kernel */
		uint32_t given; /* 1: an argument was an address in the block's memory */
		uint32_t count; /* of calls with these four; 0: unused, also the following */
		uint32_t reserved;
	} suspect[LEDGER_SUSPECTS_MAX]; /* those with `given` first */
};

/* Why the guard's levels patterns and pages do not guard a block: X(NAME, words in a report). The
 * order numbers the counters in a record. New rows go to the end. */
#define LEDGER_GUARD_REASONS(X)                                                                   \
	X(EXCLUDED, "made by an excluded library")                                                \
	X(SAMPLED, "not in the sample")                                                           \
	X(FULL, "no memory left for guards")                                                      \
	X(CAPTURE, "made while a stream was captured")                                            \
	X(PEER, "on a device that another used device cannot access")                             \
	X(ADDRESSES, "no addresses left for guards")                                              \
	X(REFUSED, "the driver refused a step")                                                   \
	X(MANAGED, "managed memory")                                                              \
	X(STREAM_ORDERED, "stream-ordered memory")                                                \
	X(EXPORTED, "guarded, so the driver exported no handle (GPULEAK_GUARD_EXCLUDE)")          \
	X(BUSY, "the device was busy for too long")                                               \
	X(UNSUPPORTED, "the driver lacks what patterns need: CUDA 12.5 and a GPU")                \
	X(HOST_MEMORY, "in memory of the application")
#define LEDGER_GUARD_REASONS_MAX 32u
/* What the guard checked. */
struct ledger_guard {
	uint32_t levels; /* set of enum option_guard */
	uint32_t reserved;
	uint64_t guarded_blocks;
	uint64_t guarded_bytes; /* of these blocks, as the application requested them */
	uint64_t checks;
	uint64_t check_ns; /* how long the checks took that were measured */
	/* launches of kernels and graphs whose parameters the driver does not describe */
	uint64_t unknown_launches;
	uint64_t unguarded[LEDGER_GUARD_REASONS_MAX]; /* blocks, by reason */
};

#define LEDGER_OBSERVATIONS_MAX 4096u /* limit for writers and readers */
/* An observation: how the process reached the drivers, or what gpuleak could not intercept.
 * docs/developers/ledger-format.md lists the kinds. Unused refs are 0. */
struct ledger_observation {
	uint32_t kind;    /* ref to a string: "linked", "untracked", "deepbind" ... */
	uint32_t subject; /* ref to a string: an API, a function, a file */
	uint32_t module;  /* ref to a string: path of the module */
	uint32_t detail;  /* ref to a string: the reason */
	/* Number of times that the writer observed this. The writer updates it only when it adds
	 * another observation, so it may be too low, even 0. RANK and LSAN, below, store other
	 * numbers in it. */
	uint32_t count;
	uint32_t reserved[3];
};

/* Observations about the program itself. RANK: `subject` is the process's rank in a parallel job
 * (decimal), `module` the environment variable that has the rank, `count` the number of ranks (0
 * unknown). LSAN: `subject` is part `count` (from 1) of the text that the program's
 * __lsan_default_suppressions() returned. If the text was too long for LEDGER_LSAN_PARTS_MAX parts,
 * its last part has a `detail`. */
#define LEDGER_OBSERVED_RANK "rank"
#define LEDGER_OBSERVED_LSAN "lsan-suppressions"
/* STATIC_OBJECT: `subject` is the ref of a call site in decimal digits. At exit, an object with a
 * destructor, or what it points to, had the address of a block of that site. */
#define LEDGER_OBSERVED_STATIC_OBJECT "static-object"
#define LEDGER_LSAN_PARTS_MAX 16u

/* A sample of live bytes (TIMELINE) or of bytes of deferred frees (RELEASED). There is at most one
 * chunk of each. When the chunk is full, the writer removes every second sample and doubles the
 * interval. */
struct ledger_sample {
	uint64_t time_ns;
	uint64_t live_bytes;
};

/* Samples of live bytes per kind and device. They are taken less often than samples of the sum,
 * because each one walks over all blocks, and they are thinned in the same way. The last column
 * (kind 0) has the sum of all kinds that do not have a column. */
#define LEDGER_COLUMNS 15u
struct ledger_parts {
	uint32_t columns; /* columns in use; never decreases; release/acquire */
	uint32_t reserved;
	struct ledger_column {
		uint32_t kind;  /* ref to a string, as in a call site */
		int32_t device;
	} column[LEDGER_COLUMNS];
};
struct ledger_moment {
	uint64_t time_ns;
	uint64_t live_bytes[LEDGER_COLUMNS]; /* by column; 0 if the column was not in use yet */
};
/* A step that the program or a signal marked, with the live memory at that moment. One chunk has
 * the last LEDGER_STEPS_MAX steps, and the writer reuses its records. `number` is 0 while the
 * writer changes a record. A reader uses a record only if `number` is the same before and after it
 * reads the record. */
#define LEDGER_STEP_LABEL 32u
struct ledger_step {
	uint64_t time_ns; /* from CLOCK_MONOTONIC, not the coarse clock */
	uint64_t live_bytes;
	uint64_t live_blocks;
	uint32_t number; /* from 1; stored (release) after all call sites of the step */
	/* Number of call sites until now without a struct ledger_growth, because there are already
	 * LEDGER_GROWTH_MAX of them or memory was short. May count a call site several times. */
	uint32_t lost;
	char label[LEDGER_STEP_LABEL]; /* any bytes; ends at a NUL or at the end of the array */
};
#define LEDGER_STEPS_MAX ((LEDGER_CHUNK - 64u) / sizeof(struct ledger_step))

/* The live memory of one call site (stack, api, kind, device) at each of the last steps. Step n is
 * at[n % LEDGER_GROWTH_STEPS] if the `step` of that element is n. The site had no memory before
 * first_step. */
#define LEDGER_GROWTH_STEPS 16u
struct ledger_growth_at {
	uint32_t step; /* 0 while the writer changes the element, like `number` above */
	uint32_t blocks;
	uint64_t bytes;
};
struct ledger_growth {
	uint32_t stack; /* refs, as in struct ledger_site */
	uint32_t api;
	uint32_t kind;
	int32_t device;
	uint32_t first_step;
	uint32_t reserved[3];
	struct ledger_growth_at at[LEDGER_GROWTH_STEPS];
};
#define LEDGER_GROWTH_MAX 8192u /* maximum number of call sites */

/* Memory that was allocated and freed, by the counters of call sites and the live blocks. See
 * ledger_totals(). */
struct ledger_totals {
	uint64_t allocated_blocks;
	uint64_t allocated_bytes;
	uint64_t freed_blocks;
	uint64_t freed_bytes;
};

/* All steps with one name. The record with the number LEDGER_STEP_NAMES (from 0) has the steps of
 * all further names; its name is empty. The writer stores `began`, then the other fields, then
 * `done`. So a reader copies the record in the order of its fields, and uses the copy only if
 * `began` and `done` are equal. Only `peak_bytes` may change at any time. */
#define LEDGER_STEP_NAME 64u
#define LEDGER_STEP_NAMES 100u
#define LEDGER_STEP_OPEN 1u /* bit of `flags`: the last of these steps has not ended */
struct ledger_named_step {
	uint32_t done; /* number of changes */
	uint32_t flags;
	uint64_t count; /* the open step included */
	uint64_t peak_bytes; /* most live bytes at one moment of one of these steps */
	struct ledger_totals sum; /* of the steps that ended */
	struct ledger_totals start; /* open: of the process when the step began */
	char name[LEDGER_STEP_NAME]; /* any bytes; ends at a NUL or at the end of the array */
	uint32_t reserved;
	uint32_t began;
};

/* What keeps the live blocks of a call site, as the program's own interpreter found it. A further
 * call site takes the place of the one whose record is the oldest. `began` and `done` are used as
 * in struct ledger_named_step. */
#define LEDGER_KEEPERS_MAX 8u
#define LEDGER_KEEPERS_TEXT 2008u
struct ledger_keepers {
	uint32_t done; /* number of changes */
	uint32_t site; /* ref of a call site: of blocks, or of suballocations */
	uint64_t time_ns;
	uint32_t length; /* of `text` */
	uint32_t reserved;
	/* Lines that end with '\n', the last one perhaps without. "50 list `history` in __main__"
	 * is a keeper of 50 blocks, "0 the search ended early" a remark. */
	char text[LEDGER_KEEPERS_TEXT];
	uint32_t reserved2;
	uint32_t began;
};

/* Memory that a framework's cache has for one stream (the driver's handle, 0: the default one) and,
 * if `pool` is not 0, in a private pool (two numbers of 32 bits), as it reported itself. A block
 * belongs to it if it lies inside and is not younger. */
#define LEDGER_SEGMENTS_MAX 16384u
struct ledger_segment {
	uint64_t address, bytes, stream, pool, time_ns;
};

/* A successful call after which the driver itself uses more device memory: it created a context,
 * loaded a module or raised a limit. A ledger has at most LEDGER_DRIVER_GROWTHS_MAX of them. */
struct ledger_driver_growth {
	uint64_t began_ns;
	uint64_t ended_ns;
	uint32_t api, stack; /* refs, as in struct ledger_site */
	int32_t device; /* ordinal; -1 unknown */
	/* For the call that created the first context on the device: the free memory of the device
	 * after the call, in units of LEDGER_FREE_UNIT bytes. 0: any other call, or unknown. */
	uint32_t free_units;
};
#define LEDGER_DRIVER_GROWTHS_MAX 1020u /* two chunks */
#define LEDGER_FREE_UNIT ((uint64_t)64 << 10)

/* What the calls of one call site made the driver take of a device's memory: calls that create a
 * context or a stream, load a module, raise a limit or instantiate a graph, and the first use of
 * each kernel, if that took memory. `bytes` is the difference of the device's free memory before
 * and after each call, as the driver reports it. A call is not measured if no context of the device
 * was current before it, if a stream was being captured, if the pool is on, or if the process
 * allocated or freed something or made another such call meanwhile. */
struct ledger_driver_cost {
	uint64_t calls; /* that succeeded */
	uint64_t measured; /* of these, calls that were measured */
	int64_t bytes; /* that the measured calls took; negative only from older writers */
	uint32_t api, stack; /* refs to the name and the stack of the call */
	int32_t device; /* ordinal; -1 unknown */
	/* Of cuCtxSetLimit: the number of the limit (CUlimit) plus 1. LEDGER_COST_LOCAL_MEMORY:
	 * local memory for a kernel that needed more of it than any before. Else 0. */
	uint32_t limit;
};
#define LEDGER_COST_LOCAL_MEMORY 0x10000u
#define LEDGER_DRIVER_COSTS_MAX 816u /* two chunks */

/* One call that was measured, or that created the first context on a device. A reader that knows
 * when other processes changed their memory can tell which differences are this process's own. A
 * ledger has at most LEDGER_COST_CALLS_MAX of them. */
struct ledger_cost_call {
	uint64_t began_ns; /* from CLOCK_MONOTONIC, not the coarse clock */
	uint64_t ended_ns;
	uint64_t bytes; /* part of `bytes` of the struct ledger_driver_cost; 0: not measured */
	uint32_t cost;  /* ref to that record */
	uint32_t flags; /* LEDGER_COST_FIRST_CONTEXT: the call is not in `measured` */
};
#define LEDGER_COST_FIRST_CONTEXT 1u
#define LEDGER_COST_CALLS_MAX 2040u /* four chunks */

/* A device that the process used. Ordinals are those of the process, so they depend on
 * CUDA_VISIBLE_DEVICES. If all bytes of `uuid` or `bus_id` are zero, the value is unknown. */
struct ledger_device {
	int32_t ordinal;
	uint32_t name;             /* ref to a string */
	uint8_t uuid[16];          /* of the whole GPU */
	uint8_t instance_uuid[16]; /* of the MIG instance; equal to `uuid` without MIG */
	char bus_id[16];           /* "0000:01:00.0", with a final NUL */
	uint32_t flags;            /* LEDGER_DEVICE_... */
	uint32_t reserved;
};
#define LEDGER_DEVICE_SHARES_MEMORY 1u /* the GPU has no memory apart from the CPU's */


/* Why the pool did not handle a block or a call. X(NAME, text of the report) */
#define LEDGER_POOL_REASONS(X)                                                                \
	X(EXPORTED, "blocks were shared with others (IPC, dma-buf) and freed by the driver")    \
	X(SYNC_MEMOPS, "blocks had SYNC_MEMOPS or the like set and were freed by the driver")   \
	X(CAPTURE, "frees came while a stream was captured: reused after the capture")          \
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

/* Counters of one pool. There is one pool per API, device and kind of memory. Some counters are
 * added up only every few calls, so they may be slightly too low. *_ns are nanoseconds. */
struct ledger_pool {
	uint32_t api;   /* ref to "CUDA" or "OpenCL"; 0: the record is unused */
	uint32_t kind;  /* ref to the kind of its blocks: "device", "pinned", "cl-buffer" ... */
	int32_t device; /* device ordinal; -1 = unknown or several */
	uint32_t mode;  /* enum option_pool in effect; strict if the driver is too old for fast */
	uint32_t off;   /* ref to the reason why the pool turned itself off; 0 = it is on */
	uint32_t backend; /* enum option_backend */
	uint64_t cached;        /* bytes now that the pool can reuse at once */
	uint64_t pending;       /* freed bytes now that the device may still be using */
	uint64_t reserved;      /* bytes now from the driver: in use, cached and pending */
	uint64_t peak_reserved; /* peak of `reserved` */
	uint64_t peak_used;     /* peak of requested bytes in use */
	uint64_t hits;          /* allocations served from the pool's cache */
	uint64_t native_allocs; /* allocations served by the driver */
	uint64_t native_frees;  /* all frees passed to the driver, including trimmed blocks */
	uint64_t frees;         /* frees not passed to the driver */
	uint64_t fences;        /* events that mark when a freed block may be reused */
	uint64_t shared_fences;  /* frees that shared a fence, so they needed no driver call */
	/* frees that waited for the device, as the driver would have waited */
	uint64_t waits;
	uint64_t wait_ns; /* total time of these waits */
	uint64_t trims;         /* number of times that the pool returned blocks to the driver */
	uint64_t trimmed;       /* blocks returned to the driver */
	uint64_t trimmed_bytes;
	uint64_t rescued;       /* allocations that succeeded only after a trim */
	uint64_t waste;         /* bytes by which blocks in use are larger than requested */
	/* number of blocks or calls, by enum ledger_pool_reason */
	uint64_t reasons[LEDGER_POOL_REASON_SLOTS];
	/* only for the writer: requested bytes in use now; peak_used is its maximum */
	uint64_t in_use;
	uint64_t spare[2];
};

/* A refused allocation call. All 0: no call was refused. */
struct ledger_refusal {
	uint32_t api, stack; /* refs to the name and the stack; the writer stores api last */
};

#define LEDGER_POOLS_MAX 32u
struct ledger_pools {
	uint64_t limit; /* GPULEAK_LIMIT in bytes if it is the same for all devices, else 0 */
	uint64_t refused; /* allocations refused because of the limit */
	uint64_t injected; /* allocations failed because of GPULEAK_FAIL_AT */
	uint32_t mode;     /* requested enum option_pool */
	uint32_t backend;  /* requested enum option_backend */
	struct ledger_refusal first_refused;
	struct ledger_refusal first_injected;
	uint64_t reserved[2];
	struct ledger_pool pool[LEDGER_POOLS_MAX];
};

/* An allocation that was refused because memory was short, and which call sites held the memory at
 * that moment (the holders). There are at most LEDGER_REFUSALS_FIRST + LEDGER_REFUSALS_LAST
 * records: of the first ones, and of the last ones, whose records are reused. A thread that repeats
 * a refused request from the same place changes its record instead of adding one.
 *
 * `state` has the record's number (from 1) in its upper 56 bits, and flags. It is 0 while the
 * writer changes the record. A reader uses a copy only if `state` is the same before and after. */
#define LEDGER_REFUSALS_FIRST 4u
#define LEDGER_REFUSALS_LAST 4u
#define LEDGER_REFUSAL_NUMBER(state) ((state) >> 8)
#define LEDGER_REFUSAL_RECOVERED 1u /* later the same thread got as much or more */
#define LEDGER_REFUSAL_GAVE_UP 2u   /* a framework reported that it gave up: framework_* */
#define LEDGER_REFUSAL_FREE 4u      /* free_bytes and total_bytes are known */
#define LEDGER_REFUSAL_HOLDERS 8u   /* the holders were counted */
/* Only older writers: `bytes` of a block's call site is without the bytes of suballocations. */
#define LEDGER_REFUSAL_DIVIDED 16u

enum ledger_refuser {
	LEDGER_REFUSER_DRIVER = 0,
	LEDGER_REFUSER_LIMIT = 1,     /* GPULEAK_LIMIT */
	LEDGER_REFUSER_FAIL_AT = 2,   /* GPULEAK_FAIL_AT */
	LEDGER_REFUSER_FRAMEWORK = 3, /* a framework's own limit: it did not call the driver */
};

/* The memory of one call site. Several may have the same key, as with struct ledger_site. */
struct ledger_holder {
	uint32_t site;   /* ref to a struct ledger_site, also of suballocations */
	uint32_t blocks; /* at most UINT32_MAX */
	uint64_t bytes;  /* never 0 */
};

struct ledger_out_of_memory {
	uint64_t state;
	uint64_t time_ns;  /* of the last refusal of this request */
	uint64_t first_ns; /* of the first one */
	uint64_t bytes;    /* requested; 0 unknown */
	uint64_t free_bytes; /* of the device, as the driver reported them afterwards */
	uint64_t total_bytes;
	uint64_t limit_bytes; /* with LEDGER_REFUSER_LIMIT: the limit */
	uint64_t holders_ns;  /* when the holders were counted */
	/* Holders that have no room in `holder`: the smallest ones. */
	uint64_t other_bytes;
	uint64_t other_blocks;
	/* number of allocations and of suballocations that the process had made before */
	uint64_t allocs;
	uint64_t suballocs;
	uint64_t framework_bytes;     /* that the framework wanted */
	uint64_t framework_allocated; /* that its suballocations had on the device */
	uint64_t framework_reserved;  /* that its blocks had on the device */
	uint32_t api, stack; /* refs to the name and the stack of the call */
	int32_t device;  /* ordinal; -1 unknown */
	uint32_t thread; /* kernel thread id, 0 = not recorded */
	uint32_t refuser; /* enum ledger_refuser */
	uint32_t times;   /* how often this request was refused in a row */
	uint32_t holders; /* valid elements of `holder` */
	uint32_t other_sites;
	uint32_t framework_api; /* ref to the name of the framework's function; 0 = none */
	uint32_t reserved0;
	/* of all holders that are suballocations: so many bytes are counted twice, because the
	 * blocks that contain them have them, too */
	uint64_t inside_bytes;
	/* Where blocks and suballocations lay on the device at that moment: in `extents` records of
	 * struct ledger_extent with this number. 0, or fewer records: not known. */
	uint32_t layout;
	uint32_t extents;
	uint32_t reserved[6];
	struct ledger_holder holder[1007];
};

/* A live block or suballocation of a device when a request was refused. The next refused request
 * reuses the records, so only the last one has all of its own. A writer stores `layout` last. */
#define LEDGER_EXTENTS_MAX 65280u /* 128 chunks */
struct ledger_extent {
	uint64_t address, bytes, parent; /* see struct ledger_block */
	uint32_t site; /* ref to a struct ledger_site, also of suballocations */
	uint32_t layout; /* number of the layout << 1 | 1: with LEDGER_BLOCK_CAPTURED */
};
#define LEDGER_HOLDERS_MAX \
	(sizeof(((struct ledger_out_of_memory *)0)->holder) / sizeof(struct ledger_holder))

_Static_assert(sizeof(struct ledger_out_of_memory) <= LEDGER_CHUNK - 64,
	       "a record fits in a chunk");
_Static_assert(sizeof(struct ledger_out_of_memory) > (LEDGER_CHUNK - 64) / 2,
	       "a chunk has one record");
_Static_assert(sizeof(struct ledger_holder) == 16, "layout is fixed");
_Static_assert(offsetof(struct ledger_out_of_memory, holder) == 200, "layout is fixed");
_Static_assert(LEDGER_POOL_REASON_COUNT <= LEDGER_POOL_REASON_SLOTS, "each reason has a slot");
_Static_assert(sizeof(struct ledger_pool) == 384, "layout is fixed");
_Static_assert(sizeof(struct ledger_pools) < LEDGER_CHUNK - 64, "the record fits in a chunk");
_Static_assert(sizeof(struct ledger_parts) == sizeof(struct ledger_moment),
	       "one walk reads both records");
_Static_assert(sizeof(struct ledger_python) == 8, "layout is fixed");
_Static_assert((LEDGER_STEP_NAMES + 1) * sizeof(struct ledger_named_step) + 64 <= LEDGER_CHUNK,
	       "all records fit in one chunk");
_Static_assert(LEDGER_KEEPERS_MAX * sizeof(struct ledger_keepers) + 64 == LEDGER_CHUNK,
	       "all records fit in one chunk");
_Static_assert(sizeof(struct ledger_chunk) == 64, "records start at byte 64 of a chunk");
_Static_assert(sizeof(struct ledger_balance) == sizeof(struct ledger_site),
	       "a call site and its balance have the same index");
_Static_assert(LEDGER_MEMORIES_MAX * sizeof(struct ledger_peak) + 64 <= LEDGER_CHUNK,
	       "all records fit in one chunk");
_Static_assert(sizeof(struct ledger_window) == 24, "layout is fixed");
_Static_assert(sizeof(struct ledger_header) < LEDGER_CHUNK, "the header fits in its chunk");
#define CHUNK(NAME, number, name, type, bytes)                                              \
	_Static_assert(sizeof(type) == (bytes) && (bytes) % LEDGER_REF_UNIT == 0,           \
		       "the layout of " #type " is fixed");
#define CHUNK_OWN CHUNK
#define CHUNK_MIXED(NAME, number)
#include "ledger/chunks.def"
