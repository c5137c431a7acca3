/* SPDX-License-Identifier: MIT
 *
 * Captures and interns stacks. Owns the unwinder's handle; must not be entered with any
 * of our locks held (unwinding a new frame asks the loader), the calling thread's own
 * stripe excepted while interning.
 */
#include "stacks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "lookup.h"
#include "recorder.h"
#include "resolve.h"
#include "table.h"

struct stack_entry {
	uint64_t hash;
	uint32_t ref;
	UT_hash_handle hh;
};

static int (*unwind)(void **pcs, int size);
static void (*flush)(void *space, uintptr_t low, uintptr_t high);
static void **local_space;
static uintptr_t own_start, own_end;
static uintptr_t exit_start, exit_end;

static void find_exit(void)
{
	void *address = resolve_next("exit");
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!address || !dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return;
	exit_start = (uintptr_t)address;
	exit_end = exit_start + symbol->st_size;
}

int stacks_load_unwinder(void)
{
	void *library;

	resolve_our_range(&own_start, &own_end);
	if (!exit_start)
		find_exit();
	if (unwind)
		return 0;
	library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return -ENOENT;
	*(void **)&flush = lookup_real_dlsym(library,
#if defined(__x86_64__)
					     "_Ux86_64_flush_cache"
#else
					     "_Uaarch64_flush_cache"
#endif
	);
	local_space = lookup_real_dlsym(library,
#if defined(__x86_64__)
					"_ULx86_64_local_addr_space"
#else
					"_ULaarch64_local_addr_space"
#endif
	);
	*(void **)&unwind = lookup_real_dlsym(library, "unw_backtrace");
	dlerror(); /* one of the three may be missing: not the application's business */
	return unwind ? 0 : -ENOENT;
}

void stacks_flush_unwinder(void)
{
	if (flush && local_space)
		flush(*local_space, 0, 0);
}

static bool is_own(const void *pc)
{
	return (uintptr_t)pc >= own_start && (uintptr_t)pc < own_end;
}

static void capture_frames(unsigned int wanted, struct capture *ret)
{
	unsigned int got, own = 0;
	int r;

	ret->frames = 0;
	ret->cut = false;
	ret->first = ret->pcs;
	if (wanted == 0 || !unwind)
		return;
	r = unwind(ret->pcs, (int)(wanted + STACK_OWN_FRAMES + 1));
	got = r > 0 ? (unsigned int)r : 0;
	while (own < got && is_own(ret->pcs[own]))
		own++;
	/* Past the last frame some start code leaves a zero return address. */
	while (got > own && !ret->pcs[got - 1])
		got--;
	ret->first = ret->pcs + own;
	ret->frames = got - own;
	if (ret->frames > wanted) {
		ret->frames = wanted;
		ret->cut = true;
	}
}

void stack_capture(struct recorder *recorder, struct capture *ret)
{
	capture_frames(recorder->stack_depth, ret);
}

void stack_capture_deep(struct capture *ret)
{
	capture_frames(LEDGER_FRAMES_MAX, ret);
}

bool stack_inside_exit(const struct capture *capture)
{
	for (unsigned int i = 0; i < capture->frames; i++) {
		uintptr_t pc = (uintptr_t)capture->first[i] - 1; /* calls in it never return */

		if (pc >= exit_start && pc < exit_end)
			return true;
	}
	return false;
}

/* Four independent lanes: a chain of 20 dependent multiplications would cost more than
 * the rest of interning. */
static uint64_t hash_of(const struct capture *capture, uint32_t epoch)
{
	const uint64_t k = 0x9e3779b97f4a7c15u;
	uint64_t lane[4] = { epoch * k + capture->frames, k, k << 1 | 1, ~k };
	const uint64_t *pc = (const uint64_t *)capture->first;
	unsigned int n = capture->frames;
	uint64_t hash;

	for (; n >= 4; n -= 4, pc += 4)
		for (unsigned int i = 0; i < 4; i++) {
			lane[i] = (lane[i] ^ pc[i]) * k;
			lane[i] ^= lane[i] >> 29;
		}
	for (unsigned int i = 0; i < n; i++) {
		lane[i] = (lane[i] ^ pc[i]) * k;
		lane[i] ^= lane[i] >> 29;
	}
	hash = (lane[0] ^ lane[1] << 17 ^ lane[1] >> 47) * k;
	hash = (hash ^ hash >> 32 ^ lane[2] ^ lane[3] << 31 ^ lane[3] >> 33) * k;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static bool same(struct recorder *recorder, uint32_t ref, const struct capture *capture)
{
	const struct ledger_stack *stack = ledger_at(&recorder->writer, ref);

	return stack->frames == capture->frames &&
	       memcmp(stack->pc, capture->first, capture->frames * sizeof(uint64_t)) == 0;
}

static uint32_t write_stack(struct recorder *recorder, uint64_t hash, const struct capture *capture)
{
	modules_cover(recorder, capture);
	return ledger_add_stack(&recorder->writer, (uint32_t)hash, (const uint64_t *)capture->first,
				capture->frames, capture->cut ? LEDGER_STACK_CUT : 0,
				recorder->modules.epoch);
}

/* No two different stacks of a process are ever expected to have one 64-bit hash; if they
 * do, the later one is written each time it is met by a new stripe. */
static uint32_t intern_shared(struct recorder *recorder, uint64_t hash,
			      const struct capture *capture)
{
	unsigned int number = (unsigned int)(hash >> 58) % STACK_SHARDS;
	struct arena *arena = &recorder->arena;
	struct stack_entry *entry;
	uint32_t ref;

	lock_take(&recorder->stacks.shard[number].lock);
	TABLE_FIND(recorder->stacks.shard[number].entries, &hash, entry);
	ref = entry && same(recorder, entry->ref, capture) ? entry->ref : 0;
	lock_give(&recorder->stacks.shard[number].lock);
	if (ref)
		return ref;
	/* Outside the lock: the module map may have to ask the loader. Two threads that meet
	 * here write the stack twice, which readers merge. */
	ref = write_stack(recorder, hash, capture);
	if (!ref || entry)
		return ref;
	entry = arena_take(arena, sizeof(*entry));
	if (!entry)
		return ref;
	entry->hash = hash;
	entry->ref = ref;
	lock_take(&recorder->stacks.shard[number].lock);
	TABLE_ADD(recorder->stacks.shard[number].entries, hash, entry);
	lock_give(&recorder->stacks.shard[number].lock);
	return ref;
}

uint32_t stack_intern(struct recorder *recorder, struct stripe *stripe,
		      const struct capture *capture)
{
	unsigned int slot;
	uint64_t hash;
	uint32_t ref;

	if (capture->frames == 0)
		return 0;
	if (__atomic_load_n(&recorder->modules.stale, __ATOMIC_RELAXED))
		modules_refresh(recorder);
	hash = hash_of(capture, recorder->modules.epoch);
	slot = (unsigned int)hash % STRIPE_STACKS;
	ref = stripe->stacks[slot].ref;
	if (ref && stripe->stacks[slot].hash == hash && same(recorder, ref, capture))
		return ref;
	ref = intern_shared(recorder, hash, capture);
	if (ref) {
		stripe->stacks[slot].hash = hash;
		stripe->stacks[slot].ref = ref;
	} else {
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_STACKS, 1);
	}
	return ref;
}
