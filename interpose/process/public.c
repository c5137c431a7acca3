/* SPDX-License-Identifier: MIT
 *
 * The functions that programs may call, see gpuleak.h. They change nothing that the program can
 * see, except what gpuleak.h states.
 */
#include "interpose/base/export.h"

#define GPULEAK_FUNCTION EXPORT
#include "gpuleak.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "interpose/recorder/recorded_keepers.h"
#include "interpose/recorder/context_ends.h"
#include "interpose/block/queries.h"
#include "interpose/dispatch/api.h"
#include "interpose/guard/patterns.h"
#include "interpose/block/pool_counters.h"
#include "interpose/recorder/recorder.h"
#include "interpose/block/steps.h"
#include "interpose/process/reporter.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/named_ranges.h"
#include "ledger/shared.h"

#define SIZE_MAX_BELIEVED 4096 /* bytes; a larger `size` was not set by the caller */

static int fail(int code)
{
	errno = code;
	return -1;
}

/* Returns true if SIZE may be the size of the caller's struct: FIRST in the first header, larger in
 * later ones. */
static bool is_size(uint64_t size, size_t first)
{
	return size >= first && size <= SIZE_MAX_BELIEVED;
}

/* Fills the caller's struct at RET, of SIZE bytes, from OURS of OUR_SIZE. */
static void copy_out(void *ret, uint64_t size, const void *ours, size_t our_size)
{
	memset(ret, 0, size);
	memcpy(ret, ours, size < our_size ? size : our_size);
}

EXPORT size_t gpuleak_pool_trim(void)
{
	KEEP_ERRNO;

	return apis_give_back();
}

static uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

static void add_pool(struct gpuleak_pool_stats *to, const struct ledger_pool *from)
{
	/* Other threads continue meanwhile, so the numbers are of slightly different moments. */
	uint64_t kept = from->cached + from->pending + from->waste;

	to->turned_off += from->off != 0;
	to->used_bytes += less(from->reserved, kept);
	to->cached_bytes += from->cached;
	to->pending_bytes += from->pending;
	to->reserved_bytes += from->reserved;
	to->waste_bytes += from->waste;
	to->peak_used_bytes += from->peak_used;
	to->peak_reserved_bytes += from->peak_reserved;
	to->hits += from->hits;
	to->native_allocations += from->native_allocs;
	to->native_frees += from->native_frees;
	to->frees += from->frees;
	to->native_calls_saved += less(from->hits + from->frees, from->trimmed);
	to->tickets += from->fences;
	to->shared_tickets += from->shared_fences;
	to->waits += from->waits;
	to->wait_ns += from->wait_ns;
	to->trims += from->trims;
	to->trimmed_blocks += from->trimmed;
	to->trimmed_bytes += from->trimmed_bytes;
	to->rescued += from->rescued;
}

static void sum_of_pools(const struct ledger_pools *pools, struct gpuleak_pool_stats *ret)
{
	for (unsigned int i = 0; i < LEDGER_POOLS_MAX; i++)
		if (shared_load_acquire(pools->pool[i].api))
			add_pool(ret, &pools->pool[i]);
	ret->mode = pools->mode;
	ret->refused = pools->refused;
	ret->injected_failures = pools->injected;
}

EXPORT int gpuleak_pool_stats(struct gpuleak_pool_stats *ret)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };
	int saved = errno;
	const struct ledger_pools *pools;

	if (!ret || !is_size(ret->size, sizeof(stats)))
		return fail(EINVAL);
	pools = pools_record();
	if (!pools)
		return fail(ENODATA);
	apis_publish_pool();
	sum_of_pools(pools, &stats);
	copy_out(ret, ret->size, &stats, sizeof(stats));
	errno = saved;
	return 0;
}

/* ---- leaks between two points ---- */

static bool is_impossible(void)
{
	return recorder_page && shared_load(recorder_page->impossible);
}

EXPORT uint64_t gpuleak_mark(void)
{
	return query_set_mark();
}

/* The size of struct gpuleak_sum in the first header. */
#define SUM_FIRST offsetof(struct gpuleak_sum, suballocation_blocks)

static void sum_of(struct recorder *recorder, const struct query_filter *filter,
		   struct gpuleak_sum *ret)
{
	const uint64_t *trouble = recorder->header->trouble;
	int64_t live = live_bytes_total(recorder);
	struct query_total total;

	query_total(recorder, LEDGER_CHUNK_BLOCKS, filter, &total);
	ret->blocks = total.blocks;
	ret->bytes = total.bytes;
	ret->ignored_blocks = total.ignored_blocks;
	ret->ignored_bytes = total.ignored_bytes;
	ret->live_bytes = live > 0 ? (uint64_t)live : 0;
	ret->unrecorded_blocks = trouble[LEDGER_TROUBLE_UNRECORDED_BLOCKS];
	query_total(recorder, LEDGER_CHUNK_SUBALLOCATIONS, filter, &total);
	ret->suballocation_blocks = total.blocks;
	ret->suballocation_bytes = total.bytes;
	ret->unrecorded_suballocations = trouble[LEDGER_TROUBLE_UNRECORDED_SUBALLOCATIONS];
	ret->ended_blocks = atomic_load(&recorder->context_ends->blocks);
	ret->ended_bytes = atomic_load(&recorder->context_ends->bytes);
}

EXPORT int gpuleak_leaked_since(uint64_t mark, struct gpuleak_sum *ret)
{
	struct recorder *recorder = recorder_now();
	struct query_filter filter = { .mark = mark };
	struct gpuleak_sum ours;

	if (!ret || !is_size(ret->size, SUM_FIRST))
		return fail(EINVAL);
	if (!recorder && is_impossible())
		return fail(ENODATA);
	filter.kind = ret->kind;
	filter.thread = ret->thread;
	ours = (struct gpuleak_sum){ .size = sizeof(ours), .kind = ret->kind,
				     .thread = ret->thread };
	if (recorder)
		sum_of(recorder, &filter, &ours);
	copy_out(ret, ret->size, &ours, sizeof(ours));
	return 0;
}

EXPORT int gpuleak_peak(int restart, uint64_t *ret_bytes)
{
	struct recorder *recorder = recorder_now();

	if (!ret_bytes)
		return fail(EINVAL);
	if (!recorder && is_impossible())
		return fail(ENODATA);
	*ret_bytes = recorder ? live_bytes_peak(recorder, restart != 0) : 0;
	return 0;
}

/* ---- blocks ---- */

/* Returns 0 or the errno. */
static int find_block(uint64_t address, bool ignore, struct ledger_block *ret, uint64_t *ret_span)
{
	LEAVE_AT_END struct recorder *recorder =
		recorder_now() && !thread_self.busy ? recorder_enter() : NULL;

	if (!recorder)
		return recorder_now() && thread_self.busy ? EBUSY : ENOENT;
	return query_block(recorder, address, ignore, ret, ret_span) ? 0 : ENOENT;
}

static void copy_text(char *ret, size_t size, const struct ledger_string *text)
{
	size_t length = text->length < size ? text->length : size - 1;

	memcpy(ret, text->bytes, length);
	ret[length] = '\0';
}

static void copy_site(const struct recorder *recorder, uint32_t ref, struct gpuleak_block *to)
{
	const struct ledger_writer *writer = &recorder->writer;
	const struct ledger_site *site = ledger_at(writer, ref);
	const struct ledger_stack *stack = site->stack ? ledger_at(writer, site->stack) : NULL;

	to->device = site->device;
	copy_text(to->api, sizeof(to->api), ledger_at(writer, site->api));
	if (site->kind)
		copy_text(to->kind, sizeof(to->kind), ledger_at(writer, site->kind));
	if (strncmp(to->kind, LEDGER_KIND_OBJECT, sizeof(LEDGER_KIND_OBJECT) - 1) == 0)
		to->flags |= GPULEAK_BLOCK_OBJECT;
	to->pcs_count = stack ? stack->frames : 0;
	for (uint32_t i = 0; to->pcs && i < to->pcs_count && i < to->pcs_room; i++)
		to->pcs[i] = stack->pc[i];
}

EXPORT int gpuleak_who(uint64_t address, struct gpuleak_block *ret)
{
	struct gpuleak_block ours = { .size = sizeof(ours) };
	struct ledger_block block;
	struct recorder *recorder;
	uint64_t span = 0;
	int r;

	if (!ret || !is_size(ret->size, sizeof(ours)))
		return fail(EINVAL);
	r = find_block(address, false, &block, &span);
	if (r)
		return fail(r);
	recorder = recorder_now();
	ours.pcs = ret->pcs;
	ours.pcs_room = ret->pcs_room;
	ours.address = block.address;
	ours.bytes = block.bytes;
	ours.span = span;
	ours.context = block.context;
	ours.parent = block.parent;
	ours.time_ns = recorder->header->start_mono_ns + block.time_ns;
	ours.mark = LEDGER_BLOCK_MARK(block.marked);
	ours.thread = block.thread;
	ours.references = block.references;
	ours.flags = (block.marked & LEDGER_BLOCK_IGNORED ? GPULEAK_BLOCK_IGNORED : 0) |
		     (block.address != address ? GPULEAK_BLOCK_INTERIOR : 0);
	copy_site(recorder, block.site, &ours);
	copy_out(ret, ret->size, &ours, sizeof(ours));
	return 0;
}

EXPORT int gpuleak_ignore(uint64_t address)
{
	struct ledger_block block;
	uint64_t span;
	int r = find_block(address, true, &block, &span);

	return r ? fail(r) : 0;
}

EXPORT void gpuleak_ignore_begin(void)
{
	query_ignoring(true);
}

EXPORT void gpuleak_ignore_end(void)
{
	query_ignoring(false);
}

/* ---- the whole report ---- */

static int give_path(const char *path, char *ret, size_t size)
{
	size_t length = strlen(path);

	if (!ret || length >= size)
		return fail(ERANGE);
	memcpy(ret, path, length + 1);
	return (int)length;
}

EXPORT int gpuleak_ledger(char *ret, size_t size)
{
	struct recorder *recorder = recorder_now();

	if (!recorder || recorder->writer.memory_only)
		return fail(ENODATA);
	return give_path(recorder->writer.path, ret, size);
}

EXPORT int gpuleak_command(char *ret, size_t size)
{
	char path[PATH_MAX];

	if (!reporter_find_command(path, sizeof(path)))
		return fail(ENOENT);
	return give_path(path, ret, size);
}

/* ---- steps ---- */

/* Keeps NAME for the recorder if the process made no GPU call yet. Returns false if there is a
 * recorder, or there will be none. */
static bool keep_step_name(const char *name)
{
	if (!recorder_page || recorder_now())
		return false;
	HOLD(&recorder_page->making);
	if (recorder_now())
		return false;
	memset(recorder_page->step_name, 0, sizeof(recorder_page->step_name));
	if (name)
		memcpy(recorder_page->step_name, name,
		       strnlen(name, sizeof(recorder_page->step_name)));
	return true;
}

static unsigned int mark_step(const char *label, const char *name)
{
	unsigned int number = 0;

	patterns_check(NULL, PATTERNS_AT_STEP);
	/* The thread is busy from here on: GPU calls of its signal handlers are not recorded. */
	if (keep_step_name(name) || !recorder_now() || !recorder_enter())
		return 0;
	if (steps_name(recorder_now(), name))
		number = steps_mark(recorder_now(), label);
	recorder_leave();
	return number;
}

EXPORT unsigned int gpuleak_step(const char *label)
{
	return mark_step(label, NULL);
}

EXPORT unsigned int gpuleak_step_named(const char *name)
{
	return mark_step(name, name);
}

EXPORT void gpuleak_range_begin(const char *name)
{
	range_push(0, range_name(name));
}

EXPORT void gpuleak_range_end(void)
{
	range_pop(0);
}

EXPORT int gpuleak_keepers(uint64_t site, const char *text)
{
	int r = -ENODATA;

	if (!text)
		return fail(EINVAL);
	if (recorder_now() && recorder_enter()) {
		r = recorded_keepers_store(recorder_now(), site, text);
		recorder_leave();
	}
	return r < 0 ? fail(-r) : 0;
}

EXPORT uint64_t gpuleak_doublings(void)
{
	struct recorder *recorder = recorder_now();

	return recorder ? query_doublings(recorder) : 0;
}

EXPORT int gpuleak_report(void)
{
	struct recorder *recorder = recorder_now();
	int r = recorder ? reporter_now(recorder) : -ENODATA;

	return r < 0 ? fail(-r) : 0;
}

EXPORT int gpuleak_report_live(int fd)
{
	struct recorder *recorder = recorder_now();
	int r;

	if (fd < 0)
		return fail(EBADF);
	r = recorder ? reporter_live(recorder, fd) : -ENODATA;
	return r < 0 ? fail(-r) : 0;
}
