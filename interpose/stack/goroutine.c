/* SPDX-License-Identifier: MIT
 *
 * Recognizes runtime.asmcgocall() by its instructions, because the offsets that it uses differ
 * between versions of Go, and a stripped program has no symbols. From there the frame records of
 * the goroutine's stack lead to the callers. A goroutine's stack does not move while it calls C.
 * Every word is tested before it is read, and a record must lie on the goroutine's stack.
 */
#include "interpose/stack/goroutine.h"

#include <string.h>

#include "interpose/stack/unwinder.h"
#include "ledger/shared.h"

#define PAGE_BYTES 4096u
#define ALL_PAGES UINT64_MAX
#define NO_PAGE (UINT64_MAX - 1)

/* Where asmcgocall() stores what it needs after the call of C. */
struct go_saved {
	/* bytes above its stack pointer: the goroutine's address, and how many bytes of the
	 * goroutine's stack are in use */
	unsigned int goroutine, depth;
	int record; /* bytes above the goroutine's stack pointer: a frame record, if has_record */
	bool has_record;
};

#if defined(__x86_64__)
#define CODE_BYTES 48u

/* The instructions, after an optional one of 7 bytes that finds the thread's memory:
 *	mov GOROUTINE(%rsp),%rdi; mov 8(%rdi),%rsi; sub DEPTH(%rsp),%rsi; one instruction;
 *	mov %rsi,%rsp; mov %eax,RESULT(%rsp)
 * DEPTH may be left out: it is 0 then. Since Go 1.21 asmcgocall() pushes the frame pointer, so its
 * result is 8 bytes further up. */
static bool read_code(const uint8_t *code, struct go_saved *ret)
{
	const uint8_t *move;

	if (memcmp(code, "\x48\x8b\x7c\x24", 4) != 0)
		code += 7;
	if (memcmp(code, "\x48\x8b\x7c\x24", 4) != 0 ||
	    memcmp(code + 5, "\x48\x8b\x77\x08\x48\x2b", 6) != 0 || code[12] != 0x24)
		return false;
	move = memmem(code + 13, 20, "\x48\x89\xf4\x89\x44\x24", 6);
	ret->goroutine = code[4];
	ret->depth = code[11] == 0x74 ? code[13] : 0;
	ret->record = 0;
	ret->has_record = move && move[6] == 0x20;
	return move && (code[11] == 0x74 || code[11] == 0x34);
}
#else
#define CODE_BYTES 24u

/* The instructions:
 *	mov x9,x0; ldr x28,[sp]; bl save_g; ldr x5,[x28,#8]; ldr x6,[sp,#8]; sub x5,x5,x6
 * Go's frame records are 8 bytes below a function's stack pointer. */
static bool read_code(const uint8_t *code, struct go_saved *ret)
{
	static const uint32_t expected[] = { 0xaa0003e9, 0xf94003fc, 0x94000000,
					     0xf9400785, 0xf94007e6, 0xcb0600a5 };
	uint32_t found[6];

	memcpy(found, code, sizeof(found));
	found[2] &= 0xfc000000;
	*ret = (struct go_saved){ .goroutine = 0, .depth = 8, .record = -8, .has_record = true };
	return memcmp(found, expected, sizeof(found)) == 0;
}
#endif

bool goroutine_calls_c(const void *pc)
{
	/* the outermost pcs that threads had recently, and that are in other code */
	static uint64_t other[64];
	uint64_t address = (uint64_t)(uintptr_t)pc, *slot = &other[address / 4 % 64];
	struct go_saved saved;

	if (shared_load(*slot) == address)
		return false;
	if (unwinder_can_read(pc) &&
	    unwinder_can_read((const char *)pc + CODE_BYTES - sizeof(uint64_t)) &&
	    read_code(pc, &saved))
		return true;
	shared_store(*slot, address);
	return false;
}

/* Reads the word at AT. *PAGE is the page that was tested last, NO_PAGE, or ALL_PAGES to test none.
 * Returns false if the word cannot be read. */
static bool read_word(uint64_t at, uint64_t *page, uint64_t *ret)
{
	const uint64_t *word = (const uint64_t *)(uintptr_t)at;

	if (*page != ALL_PAGES) {
		if (at % sizeof(*word) || (at / PAGE_BYTES != *page && !unwinder_can_read(word)))
			return false;
		*page = at / PAGE_BYTES;
	}
	*ret = *word;
	return true;
}

/* Until Go 1.20 the frame pointer of the call leads to the frame record of asmcgocall()'s caller.
 * Returns the record's address. SP is the goroutine's stack pointer. How far the record is above
 * it depends only on the caller, so this is remembered: a goroutine's stack may have moved while
 * C called Go, and then the frame pointer is wrong. */
static uint64_t record_of_caller(uint64_t sp, uint64_t end, uint64_t frame_pointer, uint64_t *page)
{
	static uint64_t known; /* the caller's pc, shifted left by 16, and the distance */
	uint64_t caller, latest;

	if (!read_word(sp, page, &caller))
		return 0;
	if (frame_pointer > sp && frame_pointer < end && frame_pointer - sp <= UINT16_MAX) {
		shared_store(known, caller << 16 | (frame_pointer - sp));
		return frame_pointer;
	}
	latest = shared_load(known);
	return latest >> 16 == caller ? sp + (latest & UINT16_MAX) : 0;
}

unsigned int goroutine_frames(const struct go_call *call, bool is_sure, void **pcs,
			      unsigned int size)
{
	uint64_t page = is_sure ? ALL_PAGES : NO_PAGE;
	uint64_t goroutine, depth, low, end, record, next, caller;
	struct go_saved saved;
	unsigned int count = 0;

	if (!read_code(call->pc, &saved) ||
	    !read_word(call->stack_pointer + saved.goroutine, &page, &goroutine) ||
	    !read_word(call->stack_pointer + saved.depth, &page, &depth) ||
	    !read_word(goroutine, &page, &low) ||
	    !read_word(goroutine + sizeof(low), &page, &end) || depth > end)
		return 0;
	record = end - depth + (uint64_t)(int64_t)saved.record;
	if (!saved.has_record)
		record = record_of_caller(record, end, call->frame_pointer, &page);
	for (; count < size; record = next) {
		if (record % sizeof(next) || record < low || record > end - 2 * sizeof(next) ||
		    !read_word(record, &page, &next) ||
		    !read_word(record + sizeof(next), &page, &caller) || caller == 0)
			break;
		pcs[count++] = (void *)(uintptr_t)caller;
		if (next <= record)
			break;
	}
	return count;
}
