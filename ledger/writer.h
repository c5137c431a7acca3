/* SPDX-License-Identifier: MIT
 *
 * Writes a ledger: a shared mapping of a file that grows by chunks which are really
 * allocated first, so that a full disk is an error here and never a SIGBUS. Owns the
 * placement of records and their publication; what the records mean is the caller's.
 * Any thread may call anything; nothing here blocks on more than the writer's own lock,
 * which is taken only when a record is added (not when a block slot is used again).
 * No malloc, no stdio, no descriptor is kept open (an application that closes all
 * descriptors must not make us write into its next file).
 */
#ifndef GPULEAK_LEDGER_WRITER_H
#define GPULEAK_LEDGER_WRITER_H

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "ledger/format.h"
#include "ledger/lock.h"

/* One more than the highest number of a chunk type, of other writers too. */
#define LEDGER_CHUNK_TYPES 25

#define LEDGER_SAMPLE_EVERY_NS_MIN 10000000u

/* Samples of one chunk, see ledger_add_sample(). All zero is a new one, of live bytes. */
struct ledger_timeline {
	enum ledger_chunk_type type; /* 0 = LEDGER_CHUNK_TIMELINE */
	struct lock lock;
	_Atomic uint64_t due_ns;
	uint64_t every_ns;
};

struct ledger_writer {
	uint8_t *base;
	size_t reserved_bytes; /* address space set aside */
	size_t mapped_bytes;   /* of the file, from its start */
	struct ledger_header *header;
	struct ledger_chunk *open[LEDGER_CHUNK_TYPES]; /* chunk being filled, per type */
	struct lock lock;
	struct ledger_timeline timeline;
	int memory_only; /* no file: the mapping is all there is */
	dev_t device;
	ino_t inode;
	char path[PATH_MAX];
};

/* Bytes of address space that this process may still map; UINT64_MAX if RLIMIT_AS sets no limit. */
uint64_t ledger_address_space_left(void);

/* Creates the ledger at PATH (must not exist: -EEXIST) with *HEADER's identity fields (the writer
 * fills in magic, versions and sizes), or without a file if PATH is NULL. 0 or -errno; on error
 * *WRITER is unusable and no file exists. */
int ledger_writer_create(struct ledger_writer *writer, const char *path,
			 const struct ledger_header *header);

/* Each adds a record and returns its ref, 0 if there is no room (the caller counts that). */
uint32_t ledger_add_string(struct ledger_writer *writer, const char *bytes, size_t length);
/* Adds *STACK with the data that its `frames` and `flags` announce. */
uint32_t ledger_add_stack(struct ledger_writer *writer, const struct ledger_stack *stack,
			  const uint64_t *words);
/* Adds *PYTHON and its frames. */
uint32_t ledger_add_python(struct ledger_writer *writer, const struct ledger_python *python,
			   const struct ledger_python_frame *frames);
uint32_t ledger_add_code(struct ledger_writer *writer, const struct ledger_code *code);
uint32_t ledger_add_row(struct ledger_writer *writer, const struct ledger_row *row);
uint32_t ledger_add_module(struct ledger_writer *writer, const struct ledger_module *module);
uint32_t ledger_add_error(struct ledger_writer *writer, const struct ledger_error *error);
uint32_t ledger_add_fact(struct ledger_writer *writer, const struct ledger_fact *fact);
uint32_t ledger_add_mark(struct ledger_writer *writer, const struct ledger_mark *mark);
uint32_t ledger_add_device(struct ledger_writer *writer, const struct ledger_device *device);
uint32_t ledger_add_pools(struct ledger_writer *writer); /* an empty one */
uint32_t ledger_add_history(struct ledger_writer *writer); /* an empty one */
uint32_t ledger_add_holds(struct ledger_writer *writer); /* the same */
uint32_t ledger_add_mapped(struct ledger_writer *writer); /* the same */
uint32_t ledger_add_event_wait(struct ledger_writer *writer); /* the same */
uint32_t ledger_add_step(struct ledger_writer *writer, const struct ledger_step *step);
uint32_t ledger_add_growth(struct ledger_writer *writer, const struct ledger_growth *growth);

/* COUNT or fewer unused block slots, side by side; returns how many, 0 = no room. */
unsigned int ledger_add_blocks(struct ledger_writer *writer, unsigned int count,
			       struct ledger_block **ret_first);

/* One point of TIMELINE, if one is due. Never waits. */
void ledger_add_sample(struct ledger_writer *writer, struct ledger_timeline *timeline,
		       uint64_t time_ns, uint64_t bytes);

/* Returns the columns of the timeline by kind and device, to be increased in place; NULL without
 * room. Locking: the caller holds TIMELINE's lock, of type LEDGER_CHUNK_PARTS. */
struct ledger_parts *ledger_columns(struct ledger_writer *writer,
				    struct ledger_timeline *timeline);
void ledger_add_moment(struct ledger_writer *writer, struct ledger_timeline *timeline,
		       const struct ledger_moment *moment);

static inline void *ledger_at(const struct ledger_writer *writer, uint32_t ref)
{
	return writer->base + (uint64_t)ref * LEDGER_REF_UNIT;
}

static inline uint32_t ledger_ref(const struct ledger_writer *writer, const void *record)
{
	return (uint32_t)((uint64_t)((const uint8_t *)record - writer->base) / LEDGER_REF_UNIT);
}

/* Locking: the slot's shard lock. These functions only order what readers see. */
static inline void ledger_block_set(struct ledger_block *block, enum ledger_block_state state)
{
	uint32_t word = (block->state & ~0xffu) | state;

	__atomic_store_n(&block->state, word, __ATOMIC_RELEASE);
}

static inline void ledger_block_publish(struct ledger_block *block)
{
	uint32_t uses = (block->state >> 8) + 1;

	__atomic_store_n(&block->state, uses << 8 | LEDGER_BLOCK_LIVE, __ATOMIC_RELEASE);
}

static inline void ledger_trouble(struct ledger_header *header, enum ledger_trouble which,
				  uint64_t count)
{
	__atomic_fetch_add(&header->trouble[which], count, __ATOMIC_RELAXED);
}

#endif
