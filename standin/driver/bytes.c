/* SPDX-License-Identifier: MIT
 *
 * Accesses memory for pieces of work, and checks each access. A piece of work records the blocks
 * that it was submitted with. If their memory belongs to other blocks when the work runs, that is a
 * violation, which is counted and printed on stderr. The heap owns the bytes of device memory;
 * mapped memory has no bytes.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin/driver/async.h"

static _Atomic uint64_t violations;

/* Returns the number of accesses by work to memory that was freed, or that was freed and allocated
 * again. */
EXPORTED uint64_t standin_violations(void)
{
	return atomic_load(&violations);
}

void bytes_violation(const struct work *work, const struct range *range, const char *when)
{
	atomic_fetch_add(&violations, 1);
	if (standin_fake)
		/* do not write to the program's stderr: the result of the call reports the error */
		return;
	fprintf(stderr,
		"standin: violation: %s, when it %s: 0x%llx, %llu bytes: no block, or another\n",
		work->name, when, (unsigned long long)range->address,
		(unsigned long long)range->bytes);
}

static bool is_page(uint64_t address)
{
	unsigned char resident;

	address &= ~(uint64_t)(getpagesize() - 1);
	return mincore((void *)(uintptr_t)address, 1, &resident) == 0;
}

/* Returns true if the first and the last page of a range of host memory exist. A real driver
 * returns an error only for NULL, and crashes otherwise. */
static bool is_host_memory(uint64_t address, uint64_t bytes)
{
	int saved = errno;
	bool is = address && address + bytes - 1 >= address && is_page(address) &&
		  is_page(address + bytes - 1);

	errno = saved;
	return is;
}

/* Completes R, a range of BYTES of reserved addresses. Imported memory and memory of the host have
 * no bytes. */
static void find_mapped(struct range *r, uint64_t bytes)
{
	CUdeviceptr memory;

	r->mapped = r->address;
	if (!virtual_memory(r->mapped, bytes, &memory))
		return;
	r->address = memory;
	r->where = RANGE_NONE;
	if (r->address && heap_bytes(r->address, bytes, &r->generation))
		r->where = RANGE_DEVICE;
}

/* Returns the range with its kind of memory. DEVICE: the call is for device memory, so the range
 * cannot be unpinned host memory. */
struct range range_of(uint64_t address, uint64_t bytes, bool device)
{
	struct range r = { .where = RANGE_UNKNOWN, .address = address, .bytes = bytes };
	struct block b;

	if (!bytes)
		r.where = RANGE_NONE;
	else if (virtual_is(address))
		find_mapped(&r, bytes);
	else if (heap_is_heap(address))
		r.where = heap_bytes(address, bytes, &r.generation) ? RANGE_DEVICE : RANGE_UNKNOWN;
	else if (host_lock_range(address, bytes))
		host_unlock(), r.where = RANGE_PINNED;
	else if (!device && is_host_memory(address, bytes))
		r.where = RANGE_HOST;
	r.managed = standin_fake && r.where == RANGE_DEVICE && heap_find(address, &b) &&
		    b.kind == BLOCK_MANAGED;
	return r;
}

/* Returns the bytes of R, or NULL if its block has ended. Pinned memory stays locked until
 * leave(). */
static void *enter(const struct range *r)
{
	unsigned short generation;
	CUdeviceptr now;
	char *bytes;

	switch (r->where) {
	case RANGE_DEVICE:
		if (r->mapped && (!virtual_memory(r->mapped, r->bytes, &now) || now != r->address))
			return NULL;
		bytes = heap_bytes(r->address, r->bytes, &generation);
		return generation == r->generation ? bytes : NULL;
	case RANGE_PINNED:
		return host_lock_range(r->address, r->bytes) ? (void *)r->address : NULL;
	case RANGE_HOST:
		return (void *)r->address;
	default:
		return NULL;
	}
}

static void leave(const struct range *r)
{
	if (r->where == RANGE_PINNED)
		host_unlock();
}

/* A kernel accessed an address that is not mapped: each later call in CONTEXT returns 700. */
static void break_context(CUcontext context)
{
	int alive = 1;

	atomic_compare_exchange_strong(&context->alive, &alive, CONTEXT_FAULTED);
}

static bool range_intact(const struct work *work, const struct range *r, const char *when)
{
	if (r->where == RANGE_NONE)
		return true;
	if (enter(r)) {
		leave(r);
		return true;
	}
	if (work->is_kernel && r->mapped)
		break_context(work->context);
	else
		bytes_violation(work, r, when);
	return false;
}

bool bytes_intact(const struct work *work, const char *when)
{
	if (work->kind == WORK_FREE)
		return true;
	bool to = range_intact(work, &work->to, when);

	/* both ranges are checked, so that both violations are counted */
	return range_intact(work, &work->from, when) && to;
}

/* Returns true if the flag is set, or if its memory was freed, because then it will never be
 * set. */
bool bytes_flag_set(const struct work *work)
{
	const _Atomic uint32_t *flag = enter(&work->from);
	bool set = !flag || atomic_load(flag);

	if (flag)
		leave(&work->from);
	return set;
}

static void fill(void *to, const struct work *w)
{
	uint32_t *words = to;

	for (uint64_t i = 0; i < w->to.bytes / 4; i++)
		words[i] = w->value;
}

static void set(void *to, const struct work *w)
{
	if (w->width == 4)
		fill(to, w);
	else if (w->width == 1)
		memset(to, (int)w->value, w->to.bytes);
	else
		for (uint64_t i = 0; i < w->to.bytes / 2; i++)
			((uint16_t *)to)[i] = (uint16_t)w->value;
}

static void check(void *wrong, const void *from, const struct work *w)
{
	const uint32_t *words = from;
	uint32_t differ = 0;

	for (uint64_t i = 0; i < w->from.bytes / 4; i++)
		differ += words[i] != w->value;
	atomic_fetch_add((_Atomic uint32_t *)wrong, differ);
}

/* Does enter() for both ranges of W. The lock of pinned memory is not recursive, so it is taken
 * only once. */
static void *enter_both(const struct work *w, void **from)
{
	struct range first = w->from;
	void *to;

	if (w->to.where == RANGE_PINNED && first.where == RANGE_PINNED)
		first.where = RANGE_HOST; /* the caller has just checked both */
	*from = enter(&first);
	to = enter(&w->to);
	return to;
}

static void leave_both(const struct work *w, const void *to, const void *from)
{
	if (to)
		leave(&w->to);
	if (from && !(w->to.where == RANGE_PINNED && w->from.where == RANGE_PINNED))
		leave(&w->from);
}

static void touch(const struct work *w)
{
	void *from, *to = enter_both(w, &from);

	if (w->kind == WORK_FILL && to)
		fill(to, w);
	else if (w->kind == WORK_SET && to)
		set(to, w);
	else if (w->kind == WORK_CHECK && to && from)
		check(to, from, w);
	else if (w->kind == WORK_COPY && to && (w->staging || from))
		memmove(to, w->staging ? w->staging : from, w->to.bytes);
	leave_both(w, to, from);
}

void bytes_execute(const struct work *work)
{
	switch (work->kind) {
	case WORK_FREE:
		heap_left(work->to.address, work->to.generation);
		break;
	case WORK_FILL:
	case WORK_CHECK:
	case WORK_COPY:
	case WORK_SET:
		if (bytes_intact(work, "wrote")) {
			touch(work);
			bytes_intact(work, "ended");
		}
		break;
	default:
		break;
	}
}
