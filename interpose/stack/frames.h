/* SPDX-License-Identifier: MIT
 *
 * How to unwind a frame, from the tables of its module, and walks of whole stacks by these rules.
 * They also show on which words of the stack a frame depends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/hot.h"
#include "interpose/stack/arch.h"

enum frame_how {
	FRAME_NO_TABLE, /* no unwind information, or it is unreadable or needs other registers */
	FRAME_BY_TABLE,
	FRAME_OUTERMOST,
	FRAME_OF_SIGNAL, /* the code to which a signal handler returns */
};

/* How to unwind from one address, in words. A frame ends at `end` above the stack pointer or, if
 * by_pointer, above the frame pointer. The caller's frame pointer and the return address are saved
 * `frame_pointer` and `link` words below the frame's end. 0: the value is still in its register. */
struct frame_rule {
	uint64_t how : 2; /* enum frame_how */
	uint64_t by_pointer : 1;
	uint64_t end : 20;
	uint64_t frame_pointer : 20;
	uint64_t link : 20;
};

/* Returns how to unwind from PC, the address of an instruction or, if IS_EXACT is false, a return
 * address. Takes the locks that eh_frame_find() takes. */
struct frame_rule frame_rule_at(uint64_t pc, bool is_exact);

/* The most frames of a walk by known rules. */
#define FRAMES_WALKED_MAX 65u

/* The last walk of a thread by known rules. It stays true when the thread ends and another one uses
 * the struct: see frames_walk_known(). The outermost frame has the last index of the arrays, so the
 * outer frames that the next walk shares with this one stay where they are. */
struct frames_walks {
	uint64_t epoch; /* of the rules */
	unsigned int first; /* the index of the innermost frame; FRAMES_WALKED_MAX: no walk */
	unsigned int size;  /* of the walk; 0: it reached the outermost frame */
	unsigned int hashed; /* the frames before this index have hashes, the others have none */
	uint64_t pc[FRAMES_WALKED_MAX];
	uint64_t hash[FRAMES_WALKED_MAX]; /* of the frame and its callers: frames_hash_on() */
	struct frame_place {
		/* the stack pointer and the frame pointer in the frame */
		uint64_t top, pointer;
		/* where the return address and the caller's frame pointer are saved; NULL: the
		 * frame pointer is still in its register */
		const uint64_t *link, *saved;
	} place[FRAMES_WALKED_MAX];
	/* the frames of the present walk, innermost first, until they are moved to the arrays */
	struct {
		uint64_t pc[FRAMES_WALKED_MAX];
		struct frame_place place[FRAMES_WALKED_MAX];
	} inner;
};

/* Returns the hash of a frame at PC and its callers, which have hash HASH. It begins with 0 at the
 * outermost frame. */
static HOT uint64_t frames_hash_on(uint64_t hash, uint64_t pc)
{
	hash = (hash ^ pc) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

/* Walks the stack above CALLER by the rules of its frames. Returns the number of frames, at most
 * SIZE, and stores their pcs in *RET, innermost first. They are valid until the next call with
 * WALKS, which belongs to the calling thread, and lie there from index `first` on. Stores in
 * *RET_HASH the hash of the first SIZE - 1 of them, see frames_hash_on(). Returns 0 if a frame has
 * no rule by a table. Needs little stack. Locking: without MAY_FIND the walk takes no lock, and
 * also returns 0 if frame_rule_at() has not found the rule of a frame before. */
unsigned int frames_walk(const struct caller *caller, struct frames_walks *walks, unsigned int size,
			 bool may_find, const uint64_t **ret, uint64_t *ret_hash);

/* Forgets what frame_rule_at() found so far. */
void frame_rules_forget(void);
