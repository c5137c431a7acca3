/* SPDX-License-Identifier: MIT
 *
 * Runs the call frame instructions of a function as far as an address, and reduces the result to a
 * struct frame_rule. Owns a table of recent rules for all threads, which is used without a lock.
 * Walks a stack by these rules. Must not call libunwind.
 */
#include "interpose/stack/frames.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "interpose/base/hot.h"
#include "interpose/stack/arch.h"
#include "interpose/stack/eh_frame.h"
#include "interpose/stack/unwinder.h"

/* ---- one function's instructions ---- */

enum where {
	IN_REGISTER, /* the register still has the caller's value */
	AT_OFFSET,   /* in a word of the frame */
	UNDEFINED,
	ELSEWHERE, /* in another register, or where an expression finds it */
};

struct saved {
	enum where where;
	int64_t offset; /* from the frame's end, in bytes */
};

/* What the instructions define for one address. */
struct row {
	/* the frame ends at the value of this register plus `end` bytes; or NO_BASE */
	uint64_t base;
	int64_t end;
	struct saved frame_pointer, link;
};

#define NO_BASE UINT64_MAX
#define REMEMBERED_MAX 8

struct table_run {
	const struct eh_entry *entry;
	struct row row, initial, remembered[REMEMBERED_MAX];
	unsigned int remembered_count;
	uintptr_t at, until; /* the instructions after `until` are not run */
};

static void save(struct table_run *run, uint64_t reg, enum where where, int64_t offset)
{
	if (reg == ARCH_DWARF_FRAME_POINTER)
		run->row.frame_pointer = (struct saved){ where, offset };
	else if (reg == ARCH_DWARF_RETURN)
		run->row.link = (struct saved){ where, offset };
	else if (reg == ARCH_DWARF_STACK_POINTER && where != IN_REGISTER)
		run->row.base = NO_BASE; /* the caller's stack pointer is not the frame's end */
}

static void restore(struct table_run *run, uint64_t reg)
{
	if (reg == ARCH_DWARF_FRAME_POINTER)
		run->row.frame_pointer = run->initial.frame_pointer;
	else if (reg == ARCH_DWARF_RETURN)
		run->row.link = run->initial.link;
}

/* Returns false if the following instructions are for addresses after `until`. */
static bool advance(struct table_run *run, uint64_t units)
{
	run->at += units * run->entry->code_alignment;
	return run->at <= run->until;
}

static uint64_t read_number(struct eh_reader *r, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)eh_read_u8(r) << 8 * i;
	return value;
}

static bool remember(struct table_run *run)
{
	if (run->remembered_count == REMEMBERED_MAX)
		return false;
	run->remembered[run->remembered_count++] = run->row;
	return true;
}

static bool recall(struct table_run *run)
{
	if (run->remembered_count == 0)
		return false;
	run->row = run->remembered[--run->remembered_count];
	return true;
}

/* Runs OP if it is an instruction that defines where the frame ends. Returns false if it is not. */
static bool defines_end(struct table_run *run, struct eh_reader *r, uint8_t op)
{
	int64_t factor = run->entry->data_alignment;

	switch (op) {
	case 0x0c: /* def_cfa */
		run->row.base = eh_read_uleb(r);
		run->row.end = (int64_t)eh_read_uleb(r);
		return true;
	case 0x0d: /* def_cfa_register */
		run->row.base = eh_read_uleb(r);
		return true;
	case 0x0e: /* def_cfa_offset */
		run->row.end = (int64_t)eh_read_uleb(r);
		return true;
	case 0x0f: /* def_cfa_expression */
		eh_skip(r, eh_read_uleb(r));
		run->row.base = NO_BASE;
		return true;
	case 0x12: /* def_cfa_sf */
		run->row.base = eh_read_uleb(r);
		run->row.end = eh_read_sleb(r) * factor;
		return true;
	case 0x13: /* def_cfa_offset_sf */
		run->row.end = eh_read_sleb(r) * factor;
		return true;
	default:
		return false;
	}
}

/* Runs OP if it is an instruction that defines where a register is saved. Returns false if it is
 * not. */
static bool defines_register(struct table_run *run, struct eh_reader *r, uint8_t op)
{
	int64_t factor = run->entry->data_alignment;
	uint64_t reg;

	if ((op < 0x05 || op > 0x09) && op != 0x10 && op != 0x11 && (op < 0x14 || op > 0x16))
		return false;
	reg = eh_read_uleb(r);
	switch (op) {
	case 0x05: /* offset_extended */
		save(run, reg, AT_OFFSET, (int64_t)eh_read_uleb(r) * factor);
		break;
	case 0x06: /* restore_extended */
		restore(run, reg);
		break;
	case 0x07: /* undefined: the outermost frame marks its return address with it */
		save(run, reg, UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		save(run, reg, IN_REGISTER, 0);
		break;
	case 0x11: /* offset_extended_sf */
		save(run, reg, AT_OFFSET, eh_read_sleb(r) * factor);
		break;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		eh_skip(r, eh_read_uleb(r));
		save(run, reg, ELSEWHERE, 0);
		break;
	default: /* register, val_offset, val_offset_sf */
		eh_read_uleb(r);
		save(run, reg, ELSEWHERE, 0);
		break;
	}
	return true;
}

enum progress { GO_ON, DONE, UNKNOWN };

/* Runs OP, whose upper two bits are zero. */
static enum progress run_other(struct table_run *run, struct eh_reader *r, uint8_t op)
{
	switch (op) {
	case 0x00: /* nop */
		return GO_ON;
	case 0x02: /* advance_loc1 */
		return advance(run, read_number(r, 1)) ? GO_ON : DONE;
	case 0x03: /* advance_loc2 */
		return advance(run, read_number(r, 2)) ? GO_ON : DONE;
	case 0x04: /* advance_loc4 */
		return advance(run, read_number(r, 4)) ? GO_ON : DONE;
	case 0x0a: /* remember_state */
		return remember(run) ? GO_ON : UNKNOWN;
	case 0x0b: /* restore_state */
		return recall(run) ? GO_ON : UNKNOWN;
	case 0x2b: /* AARCH64_set_ra_state */
		eh_read_uleb(r);
		eh_read_sleb(r);
		return GO_ON;
	case 0x2c: /* AARCH64_negate_ra_state_with_pc */
	case 0x2d: /* AARCH64_negate_ra_state: signatures are removed whatever the state is */
		return GO_ON;
	case 0x2e: /* GNU_args_size */
		eh_read_uleb(r);
		return GO_ON;
	default:
		return defines_end(run, r, op) || defines_register(run, r, op) ? GO_ON : UNKNOWN;
	}
}

/* Runs the instructions in R as far as the address `until`. Returns false if one of them is unknown
 * or incomplete. */
static bool run_instructions(struct table_run *run, struct eh_reader r)
{
	enum progress progress = GO_ON;

	while (progress == GO_ON && r.at < r.end && !r.bad) {
		uint8_t op = eh_read_u8(&r);

		switch (op >> 6) {
		case 1: /* advance_loc */
			progress = advance(run, op & 0x3f) ? GO_ON : DONE;
			break;
		case 2: /* offset */
			save(run, op & 0x3f, AT_OFFSET,
			     (int64_t)eh_read_uleb(&r) * run->entry->data_alignment);
			break;
		case 3: /* restore */
			restore(run, op & 0x3f);
			break;
		default:
			progress = run_other(run, &r, op);
		}
	}
	return progress != UNKNOWN && !r.bad;
}

/* ---- from instructions to a rule ---- */

/* Converts an offset in bytes into a number of words for a field of struct frame_rule. Returns
 * false if that is not possible. */
static bool words_of(int64_t bytes, uint64_t *ret)
{
	*ret = (uint64_t)bytes / sizeof(uint64_t);
	return bytes >= 0 && bytes % (int64_t)sizeof(uint64_t) == 0 && *ret < 1u << 20;
}

static bool words_of_saved(const struct saved *saved, uint64_t *ret)
{
	*ret = 0;
	if (saved->where != AT_OFFSET)
		return saved->where == IN_REGISTER;
	return words_of(-saved->offset, ret) && *ret > 0;
}

static struct frame_rule rule_of(const struct row *row)
{
	struct frame_rule rule = { .how = FRAME_NO_TABLE };
	uint64_t end, frame_pointer, link;

	if (row->link.where == UNDEFINED)
		return (struct frame_rule){ .how = FRAME_OUTERMOST };
	if ((row->base != ARCH_DWARF_STACK_POINTER && row->base != ARCH_DWARF_FRAME_POINTER) ||
	    !words_of(row->end, &end) || !words_of_saved(&row->frame_pointer, &frame_pointer) ||
	    !words_of_saved(&row->link, &link))
		return rule;
	rule.how = FRAME_BY_TABLE;
	rule.by_pointer = row->base == ARCH_DWARF_FRAME_POINTER;
	rule.end = end & 0xfffff;
	rule.frame_pointer = frame_pointer & 0xfffff;
	rule.link = link & 0xfffff;
	return rule;
}

static struct frame_rule rule_from_table(uint64_t pc, bool is_exact)
{
	const struct frame_rule none = { .how = FRAME_NO_TABLE };
	const void *inside = (const void *)(uintptr_t)(is_exact ? pc : pc - 1);
	struct table_run run = { .row.base = NO_BASE, .until = (uintptr_t)inside };
	struct eh_entry entry;

	if (!eh_frame_find(inside, &entry) || entry.is_signal_frame)
		return none;
	run.entry = &entry;
	run.at = entry.start;
	if (!run_instructions(&run, entry.common))
		return none;
	run.initial = run.row;
	return run_instructions(&run, entry.own) ? rule_of(&run.row) : none;
}

/* Returns true if the code at PC calls rt_sigreturn. A signal handler returns to such code. In some
 * kernels for aarch64 it has unwind information, which is not exact and does not mark it as a
 * signal frame. */
static bool returns_from_signal(uint64_t pc)
{
	static const uint32_t code[2] = { 0xd2801168, 0xd4000001 }; /* mov x8, #139; svc #0 */
	const void *at = (const void *)(uintptr_t)pc;

	return ARCH_IS_AARCH64 && unwinder_can_read(at) && memcmp(at, code, sizeof(code)) == 0;
}

static struct frame_rule find_rule(uint64_t pc, bool is_exact)
{
	if (returns_from_signal(pc))
		return (struct frame_rule){ .how = FRAME_OF_SIGNAL };
	return rule_from_table(pc, is_exact);
}

/* ---- recent rules ---- */

/* A reader accepts an entry only if its two words belong together, so no lock is needed. */
struct recent {
	_Atomic uint64_t check; /* key ^ rule */
	_Atomic uint64_t rule;
};
#define RECENT 4096u      /* a power of two */
#define RECENT_FIRST 256u /* the table is no larger until it is half full: one page */
static _Alignas(RECENT_FIRST * sizeof(struct recent)) struct recent recent[RECENT];
static _Atomic unsigned int recent_count;
/* of the indices of first places */
static _Atomic unsigned int recent_mask READ_BY_ALL = RECENT_FIRST - 2;
static _Atomic uint64_t epoch READ_BY_ALL = 1; /* changes when rules are forgotten */

#define MIX 0x9e3779b97f4a7c15u

static uint64_t epoch_bits(void)
{
	return atomic_load_explicit(&epoch, memory_order_acquire) * MIX;
}

/* A rule is in one of two places, which lie in one cache line. Returns the first. Rules that share
 * one place share both, so a new rule replaces the older one of two. */
static HOT struct recent *place_of(uint64_t key)
{
	return &recent[(key * MIX >> 52) &
		       atomic_load_explicit(&recent_mask, memory_order_relaxed)];
}
_Static_assert(RECENT == 1 << 12, "place_of() takes twelve bits of the hash");

static HOT bool is_at(const struct recent *entry, uint64_t key, struct frame_rule *ret)
{
	uint64_t word = atomic_load_explicit(&entry->rule, memory_order_relaxed);

	memcpy(ret, &word, sizeof(word));
	return atomic_load_explicit(&entry->check, memory_order_relaxed) == (key ^ word);
}

static HOT bool find_recent(uint64_t key, struct frame_rule *ret)
{
	const struct recent *first = place_of(key);

	return is_at(first, key, ret) || is_at(first + 1, key, ret);
}

static void store_word(struct recent *entry, uint64_t check, uint64_t word)
{
	atomic_store_explicit(&entry->rule, word, memory_order_relaxed);
	atomic_store_explicit(&entry->check, check, memory_order_relaxed);
}

COLD struct frame_rule frame_rule_at(uint64_t pc, bool is_exact)
{
	uint64_t key = (pc << 1 | is_exact) ^ epoch_bits(), word;
	struct recent *first = place_of(key);
	struct frame_rule rule;

	if (find_recent(key, &rule))
		return rule;
	rule = find_rule(pc, is_exact);
	memcpy(&word, &rule, sizeof(word));
	store_word(first + 1, atomic_load_explicit(&first->check, memory_order_relaxed),
		   atomic_load_explicit(&first->rule, memory_order_relaxed));
	store_word(first, key ^ word, word);
	/* Rules that have another place in the larger table are found once more. */
	if (atomic_fetch_add_explicit(&recent_count, 1, memory_order_relaxed) == RECENT_FIRST / 2)
		atomic_store_explicit(&recent_mask, RECENT - 2, memory_order_relaxed);
	return rule;
}

/* No frame is larger. A wrong rule must not lead far away from the stack. */
#define FRAME_BYTES_MAX ((uintptr_t)1 << 20)

/* ---- walks by recent rules ----
 *
 * The outer frames of a stack are mostly those of the thread's last walk. If a frame has the pc,
 * the stack pointer and the frame pointer that a frame of the last walk had, the same rules apply
 * to it and to its callers, as long as the words that these rules read are unchanged. Only these
 * words are compared then. */

/* Returns true if the words that frame FROM of WALKS and its callers depend on are unchanged. */
static HOT bool is_unchanged(const struct frames_walks *walks, unsigned int from)
{
	const struct frame_place *place = &walks->place[from];

	for (unsigned int i = from + 1; i < FRAMES_WALKED_MAX; i++, place++)
		if (arch_code_address(*place->link) != walks->pc[i] ||
		    (place->saved && *place->saved != place[1].pointer))
			return false;
	return true;
}

/* Returns true if the last walk has inner frame COUNT of the present one, and all frames above it
 * are the same. Begins to search at index *AT, and stores there where the frame is. */
static HOT bool continues(const struct frames_walks *walks, unsigned int count, unsigned int *at,
			  unsigned int size)
{
	const struct frame_place *place = &walks->inner.place[count];
	const unsigned int none = FRAMES_WALKED_MAX;

	while (*at < none && walks->place[*at].top < place->top)
		++*at;
	if (*at == none || walks->place[*at].top != place->top ||
	    walks->pc[*at] != walks->inner.pc[count] || walks->place[*at].pointer != place->pointer)
		return false;
	/* If the last walk did not reach the outermost frame, this one must end at the same. */
	if ((walks->size ? walks->size != size || count != *at - walks->first
			 : count + (none - *at) > size) ||
	    !is_unchanged(walks, *at)) {
		*at = none;
		return false;
	}
	return true;
}

/* Completes PLACE, the place of a frame that has RULE, and stores in *RET the place of its caller.
 * Returns the caller's pc, or 0 if the rule does not fit. */
static HOT uint64_t step_by(struct frame_rule rule, struct frame_place *place,
			    struct frame_place *ret)
{
	const uint64_t *end =
		(const uint64_t *)(rule.by_pointer ? place->pointer : place->top) + rule.end;

	if (rule.how != FRAME_BY_TABLE || !rule.link || (uintptr_t)end % sizeof(*end) ||
	    (uintptr_t)end - place->top - 1 >= FRAME_BYTES_MAX)
		return 0;
	place->link = end - rule.link;
	place->saved = rule.frame_pointer ? end - rule.frame_pointer : NULL;
	ret->top = (uint64_t)(uintptr_t)end;
	ret->pointer = place->saved ? *place->saved : place->pointer;
	return arch_code_address(*place->link);
}

/* Walks from the first inner frame. Stores in *AT the index from which on the frames are those of
 * the last walk. Returns the number of inner frames, or -1 if a frame has no rule. */
static HOT int walk_inner(struct frames_walks *walks, uint64_t bits, unsigned int size,
			  bool may_find, unsigned int *at)
{
	struct frame_place *place = walks->inner.place;
	uint64_t *pc = walks->inner.pc;
	unsigned int count = 0;
	struct frame_rule rule;

	for (*at = walks->first;; pc[count] = step_by(rule, &place[count - 1], &place[count])) {
		if (!pc[count])
			return -1;
		if (continues(walks, count, at, size))
			return (int)count;
		if (!find_recent(pc[count] << 1 ^ bits, &rule)) {
			if (!may_find)
				return -1;
			rule = frame_rule_at(pc[count], false);
		}
		count++;
		if (rule.how == FRAME_OUTERMOST || count == size)
			break;
	}
	walks->size = rule.how == FRAME_OUTERMOST ? 0 : size;
	*at = FRAMES_WALKED_MAX;
	return (int)count;
}

/* Puts COUNT inner frames before index AT. */
static HOT void keep_inner(struct frames_walks *walks, unsigned int count, unsigned int at)
{
	walks->first = at - count;
	memcpy(&walks->pc[walks->first], walks->inner.pc, count * sizeof(walks->pc[0]));
	memcpy(&walks->place[walks->first], walks->inner.place, count * sizeof(walks->place[0]));
}

/* Hashes the frames before END, as far as they are not hashed. The frames from AT on are those of
 * the last walk. */
static HOT uint64_t hash_walk(struct frames_walks *walks, unsigned int at, unsigned int end)
{
	unsigned int i = walks->hashed == end && at < end ? at : end;
	uint64_t hash = i < end ? walks->hash[i] : 0;

	walks->hashed = end;
	while (i-- > walks->first)
		walks->hash[i] = hash = frames_hash_on(hash, walks->pc[i]);
	return hash;
}

unsigned int frames_walk(const struct caller *caller, struct frames_walks *walks, unsigned int size,
			 bool may_find, const uint64_t **ret, uint64_t *ret_hash)
{
	const uint64_t bits = epoch_bits();
	unsigned int at, frames;
	int inner;

	if (walks->epoch != bits)
		walks->first = FRAMES_WALKED_MAX;
	walks->epoch = bits;
	walks->inner.pc[0] = caller->pc;
	walks->inner.place[0].top = (uint64_t)(uintptr_t)caller_top(caller);
	walks->inner.place[0].pointer = caller->frame_pointer;
	inner = size > FRAMES_WALKED_MAX ? -1 : walk_inner(walks, bits, size, may_find, &at);
	if (inner < 0)
		return 0;
	keep_inner(walks, (unsigned int)inner, at);
	frames = FRAMES_WALKED_MAX - walks->first;
	*ret = &walks->pc[walks->first];
	*ret_hash = hash_walk(walks, at, FRAMES_WALKED_MAX - (frames == size));
	return frames;
}

void frame_rules_forget(void)
{
	atomic_fetch_add_explicit(&epoch, 1, memory_order_acq_rel);
}
