/* SPDX-License-Identifier: MIT
 *
 * Between two steps: reports of tensors, as PyTorch's allocator makes them, and blocks that the
 * program ignores. Neither touches memory, so tensors have addresses of their own. Any thread frees
 * any tensor. Owns the comparison of the balances of call sites with their slots.
 */
#include <dlfcn.h>

#include "balances.h"
#include "tensors.h"
#include "torture.h"

enum { TENSORS = 512, DEVICE_CUDA = 1, TENSOR_BYTES = 2 << 20, PATH = 4096 };

enum state { FREE, CHANGING, LIVE };
static struct tensor {
	_Atomic enum state state;
	int64_t bytes;
} tensors[TENSORS];

/* gpuleak's, or NULL */
static int (*ignore)(uint64_t address);
static void (*ignore_begin)(void);
static void (*ignore_end)(void);
static int (*ledger)(char *ret, size_t size);

void tensors_init(void)
{
	ignore = (int (*)(uint64_t))dlsym(RTLD_DEFAULT, "gpuleak_ignore");
	ignore_begin = (void (*)(void))dlsym(RTLD_DEFAULT, "gpuleak_ignore_begin");
	ignore_end = (void (*)(void))dlsym(RTLD_DEFAULT, "gpuleak_ignore_end");
	ledger = (int (*)(char *, size_t))dlsym(RTLD_DEFAULT, "gpuleak_ledger");
}

/* Devices take turns, so that several threads report the memory of one device. */
static void report(unsigned int i, int64_t bytes)
{
	uint64_t address = 0x700000000000ull + (uint64_t)i * TENSOR_BYTES;

	torture_report((void *)(uintptr_t)address, bytes, DEVICE_CUDA | (uint64_t)(i % 2) << 8);
}

__attribute__((noinline)) static void make_small(unsigned int i)
{
	report(i, tensors[i].bytes);
	__asm__ volatile("");
}

__attribute__((noinline)) static void make_large(unsigned int i)
{
	report(i, tensors[i].bytes);
	__asm__ volatile("");
}

static void change(unsigned int i, uint64_t random)
{
	struct tensor *tensor = &tensors[i];
	enum state state = FREE;

	if (atomic_compare_exchange_strong(&tensor->state, &state, CHANGING)) {
		tensor->bytes = 1 + (int64_t)(random % TENSOR_BYTES);
		if (tensor->bytes < TENSOR_BYTES / 16)
			make_small(i);
		else
			make_large(i);
		atomic_store(&tensor->state, LIVE);
	} else if (state == LIVE &&
		   atomic_compare_exchange_strong(&tensor->state, &state, CHANGING)) {
		report(i, -tensor->bytes);
		atomic_store(&tensor->state, FREE);
	}
}

static uint64_t draw_tensor(struct worker *w)
{
	w->tensor_random = w->tensor_random * 6364136223846793005ull + 2 * w->index + 1;
	return w->tensor_random >> 20;
}

void tensors_step(struct worker *w)
{
	if (!has(FEATURE_tensors))
		return;
	for (int i = 0; i < 4; i++)
		change((unsigned int)(draw_tensor(w) % TENSORS), draw_tensor(w));
	if (w->ignoring)
		ignore_end();
	w->ignoring = ignore_begin && draw_tensor(w) % 16 == 0;
	if (w->ignoring)
		ignore_begin();
	if (ignore && w->live_count && draw_tensor(w) % 16 == 0)
		ignore(w->live[draw_tensor(w) % w->live_count].address);
}

void tensors_thread_ends(struct worker *w)
{
	if (w->ignoring)
		ignore_end();
	w->ignoring = false;
}

void tensors_close(void)
{
	for (unsigned int i = 0; i < TENSORS; i++)
		if (atomic_load(&tensors[i].state) == LIVE)
			change(i, 0);
}

/* SLACK: how many threads may be in a call now. */
static void check(struct worker *w, unsigned int slack)
{
	struct balances found;
	char path[PATH];

	if (!ledger || ledger(path, sizeof(path)) < 0 || !balances_compare(path, slack, &found))
		return;
	w->counts[COUNT_compared] += found.sites;
	w->counts[COUNT_compared_blocks] += found.blocks;
	w->counts[COUNT_compared_tensors] += found.suballocations;
	w->counts[COUNT_compared_hidden] += found.hidden;
	w->counts[COUNT_unsteady] += found.unsteady;
	if (found.differ || (!slack && found.unsteady))
		fail(w, "of %llu call sites %llu have wrong balances, %llu changed: %s",
		     (unsigned long long)found.sites, (unsigned long long)found.differ,
		     (unsigned long long)found.unsteady, found.first);
}

void balances_check_quiet(struct worker *w)
{
	check(w, 0);
}

void balances_check_running(struct worker *w)
{
	check(w, options.threads + 1);
}
