/* SPDX-License-Identifier: MIT
 *
 * Writes a ledger: a shared mapping of a file that grows in chunks. The disk space of a chunk is
 * allocated before it is mapped, so a full disk is an error here and never a SIGBUS. The writer
 * places and publishes records. Callers define what the records mean.
 *
 * Any thread may call each function. Functions wait only for the writer's own lock. They acquire
 * it to add a record, not to reuse a block slot. No malloc, no stdio. No descriptor stays open:
 * an application that closes all descriptors could otherwise open its next file under the same
 * number.
 */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "ledger/format.h"
#include "ledger/lock.h"
#include "ledger/shared.h"

#define LEDGER_SAMPLE_EVERY_NS_MIN 10000000u

/* State of a chunk of samples, see ledger_add_sample(). All zero is a new timeline of live bytes.
 * */
struct ledger_timeline {
	enum ledger_chunk_type type; /* 0 = LEDGER_CHUNK_TIMELINE */
	struct lock lock;
	_Atomic uint64_t due_ns; /* time of the next sample */
	uint64_t every_ns; /* interval of samples; 0: no sample yet */
};

struct ledger_writer {
	uint8_t *base;
	size_t reserved_bytes; /* size of the reserved address space */
	size_t mapped_bytes;   /* how much of the ledger may be used, from its start */
	size_t file_mapped_bytes; /* how much of it is mapped from the file; may be more */
	struct ledger_header *header;
	/* by type: the chunk that the writer fills */
	struct ledger_chunk *open[LEDGER_CHUNK_TYPES];
	struct lock lock;
	struct ledger_timeline timeline;
	bool memory_only; /* new records exist only in memory */
	dev_t device; /* device, inode and path identify the file */
	ino_t inode;
	char path[PATH_MAX];
};

/* Returns the bytes of address space that this process may still map; UINT64_MAX if RLIMIT_AS sets
 * no limit. */
uint64_t ledger_address_space_left(void);

/* Creates the ledger at PATH, or without a file if PATH is NULL. *HEADER has the identity fields;
 * the writer fills in magic, versions and sizes. Returns 0 or -errno, -EEXIST if PATH exists. On
 * error *WRITER is unusable and no file remains. */
int ledger_writer_create(struct ledger_writer *writer, const char *path,
			 const struct ledger_header *header);

/* Each function adds a record and returns its ref. It returns 0 if there is no room, and the caller
 * counts that. */
uint32_t ledger_add_string(struct ledger_writer *writer, const char *bytes, size_t length);
/* Adds *STACK and WORDS: its pcs and, with LEDGER_STACK_LOOPS, the bit mask. */
uint32_t ledger_add_stack(struct ledger_writer *writer, const struct ledger_stack *stack,
			  const uint64_t *words);
/* Adds *PYTHON and its `frames` frames from FRAMES. */
uint32_t ledger_add_python(struct ledger_writer *writer, const struct ledger_python *python,
			   const struct ledger_python_frame *frames);
/* Adds *SITE and its two balances, which begin as *BALANCE. */
uint32_t ledger_add_site(struct ledger_writer *writer, const struct ledger_site *site,
			 const struct ledger_balance *balance);
uint32_t ledger_add_suballocation_site(struct ledger_writer *writer, const struct ledger_site *site,
				       const struct ledger_balance *balance);
/* Adds a record of TYPE and SIZE; RECORD NULL: of zeros. */
uint32_t ledger_add(struct ledger_writer *writer, enum ledger_chunk_type type, const void *record,
		    size_t size);
/* For each row CHUNK of chunks.def: ledger_add_name(writer, record) adds a record of that type. */
#define CHUNK(NAME, number, name, type, bytes)                                              \
	static inline uint32_t ledger_add_##name(struct ledger_writer *writer,              \
						 const type *record)                        \
	{                                                                                   \
		return ledger_add(writer, LEDGER_CHUNK_##NAME, record, bytes);              \
	}
#define CHUNK_OWN(NAME, number, name, type, bytes)
#define CHUNK_MIXED(NAME, number)
#include "ledger/chunks.def"

/* Adds at most COUNT unused block slots as an array at *RET_FIRST. Returns their number, 0 if there
 * is no room. */
unsigned int ledger_add_blocks(struct ledger_writer *writer, unsigned int count,
			       struct ledger_block **ret_first);
unsigned int ledger_add_suballocations(struct ledger_writer *writer, unsigned int count,
				       struct ledger_block **ret_first);

/* Adds at most COUNT chunks of TRACE that follow each other, in at most half of the room that is
 * left for the ledger. Returns the number of the first chunk and stores how many there are in
 * *RET_COUNT; 0 if there is no room. */
uint32_t ledger_add_ring(struct ledger_writer *writer, uint32_t count, uint32_t *ret_count);

/* Adds a sample of BYTES at TIME_NS to TIMELINE if its interval has passed. Never waits for a lock.
 * */
void ledger_add_sample(struct ledger_writer *writer, struct ledger_timeline *timeline,
		       uint64_t time_ns, uint64_t bytes);

/* Locking: the caller holds the lock of TIMELINE, whose type is LEDGER_CHUNK_PARTS. Returns the
 * columns of the timeline, to which the caller may add columns in place. Returns NULL if there is
 * no room. */
struct ledger_parts *ledger_columns(struct ledger_writer *writer,
				    struct ledger_timeline *timeline);
/* Locking: as ledger_columns(). Adds *MOMENT to the timeline; thins it if its chunk is full. */
void ledger_add_moment(struct ledger_writer *writer, struct ledger_timeline *timeline,
		       const struct ledger_moment *moment);

/* Returns the record that REF refers to. */
static inline void *ledger_at(const struct ledger_writer *writer, uint32_t ref)
{
	return writer->base + (uint64_t)ref * LEDGER_REF_UNIT;
}

/* Returns true if the chunk that RECORD lies in is of TYPE. */
static inline bool ledger_is_in(const struct ledger_writer *writer, const void *record,
				enum ledger_chunk_type type)
{
	uint64_t offset = (uint64_t)((const uint8_t *)record - writer->base);
	const struct ledger_chunk *chunk =
		(const void *)(writer->base + offset / LEDGER_CHUNK * LEDGER_CHUNK);

	return chunk->type == type;
}

/* Returns the ref of RECORD. */
static inline uint32_t ledger_ref(const struct ledger_writer *writer, const void *record)
{
	return (uint32_t)((uint64_t)((const uint8_t *)record - writer->base) / LEDGER_REF_UNIT);
}

/* Locking: the caller holds the lock of the slot's shard. These functions only order the stores for
 * readers. */
static inline void ledger_block_set(struct ledger_block *block, enum ledger_block_state state)
{
	uint32_t word = (block->state & ~0xffu) | state;

	shared_publish(block->state, word);
}

/* Locking: the caller holds the lock of the slot's shard. Publishes a new live block: increases the
 * use count of the slot. */
static inline void ledger_block_publish(struct ledger_block *block)
{
	uint32_t uses = (block->state >> 8) + 1;

	shared_publish(block->state, uses << 8 | LEDGER_BLOCK_LIVE);
}

/* Locking: the caller holds a lock that all writers of the record take. Called before and after a
 * change of a record that has the fields BEGAN and DONE (see struct ledger_named_step). A reader
 * does not use the record in between. */
static inline void ledger_begin_change(uint32_t *began)
{
	shared_store(*began, *began + 1);
	atomic_thread_fence(memory_order_release);
}

static inline void ledger_end_change(const uint32_t *began, uint32_t *done)
{
	shared_publish(*done, *began);
}

/* Adds COUNT to a counter of the header. Any thread may call it. */
static inline void ledger_trouble(struct ledger_header *header, enum ledger_trouble which,
				  uint64_t count)
{
	shared_add(header->trouble[which], count);
}
