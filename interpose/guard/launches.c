/* SPDX-License-Identifier: MIT
 *
 * A ring of launches, and the judgement after an illegal address. Such an error comes with a later
 * call and without an address. So a launch is suspected by its parameters: a pointer into a freed
 * block, or beside or into a live one. Must not call the driver during a look at the ring, and
 * allocates nothing for a launch.
 */
#include "interpose/guard/launches.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "interpose/base/child_memory.h"
#include "interpose/base/hash.h"
#include "interpose/block/block_table.h"
#include "interpose/cuda/captures.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/guarded.h"
#include "interpose/guard/pages.h"
#include "interpose/guard/patterns.h"
#include "interpose/stack/stacks.h"

#define ILLEGAL_ADDRESS 700
#define RING 4096u
#define DONE 32u
#define NAMES 1024u
#define NAMES_MAX 8192u /* names that are written into the ledger */
#define SETTLED_MAX 8u
#define PARAM_BYTES_MAX 32768u
/* enum of cuda.h: elements of `extra` */
enum { EXTRA_END, EXTRA_BUFFER, EXTRA_SIZE };

/* Launches up to `until` of a context, or of a stream, are done. */
struct done_list {
	_Atomic uint64_t next; /* the one to replace if there is no room */
	struct done {
		_Atomic uint64_t of, until;
	} done[DONE];
};

struct launches {
	_Atomic uint64_t last;
	_Atomic uint64_t told; /* the context whose error was recorded */
	_Atomic uint32_t names;
	struct done_list context, stream;
	struct { _Atomic uint64_t function; _Atomic uint32_t ref; } name[NAMES];
	struct guarded_launch ring[RING];
};

static struct launches *_Atomic state; /* in memory that a fork wipes */

static struct launches *launches(void)
{
	struct launches *none = NULL, *made = atomic_load_explicit(&state, memory_order_acquire);

	if (made)
		return made;
	made = child_memory_map(sizeof(*made));
	if (!made || atomic_compare_exchange_strong(&state, &none, made))
		return made;
	munmap(made, sizeof(*made));
	return none;
}

/* ---- which launches are done ---- */

uint64_t launches_now(void)
{
	struct launches *all = atomic_load_explicit(&state, memory_order_acquire);

	return all ? atomic_load(&all->last) : 0;
}

static void done_until(struct done_list *list, uint64_t of, uint64_t number)
{
	struct done *to = NULL;

	for (unsigned int i = 0; i < DONE && !to; i++)
		if (atomic_load(&list->done[i].of) == of)
			to = &list->done[i];
	if (!to) {
		to = &list->done[atomic_fetch_add(&list->next, 1) % DONE];
		atomic_store(&to->until, 0);
		atomic_store(&to->of, of);
	}
	if (atomic_load(&to->until) < number)
		atomic_store(&to->until, number);
}

static uint64_t done_of(struct done_list *list, uint64_t of)
{
	for (unsigned int i = 0; i < DONE; i++)
		if (atomic_load(&list->done[i].of) == of)
			return atomic_load(&list->done[i].until);
	return 0;
}

void launches_done_until(uint64_t context, uint64_t number)
{
	struct launches *all = atomic_load_explicit(&state, memory_order_acquire);

	if (all && context)
		done_until(&all->context, context, number);
}

/* Returns a key for STREAM and its context. The handle alone is not enough: default streams of
 * different contexts have the same handle. */
static uint64_t stream_key(CUstream stream)
{
	uint64_t context;
	int device;

	cuda_current_context(&context, &device);
	return (uint64_t)(uintptr_t)stream ^ TABLE_MIX(context);
}

void launches_done_in_stream(CUstream stream, uint64_t number)
{
	launches_done_in_queue((void *)(uintptr_t)stream_key(stream), number);
}

void launches_done_in_queue(const void *queue, uint64_t number)
{
	struct launches *all = atomic_load_explicit(&state, memory_order_acquire);

	if (all)
		done_until(&all->stream, (uint64_t)(uintptr_t)queue, number);
}

void launches_context_gone(uint64_t context)
{
	struct launches *all = atomic_load_explicit(&state, memory_order_acquire);
	uint64_t told = context;

	launches_done_until(context, launches_now());
	if (all)
		atomic_compare_exchange_strong(&all->told, &told, 0);
}

/* ---- a launch ---- */

static void add_number(struct guarded_launch *launch, uint64_t number)
{
	if (number && number <= UINT32_MAX && launch->numbers < LAUNCH_NUMBERS)
		launch->number[launch->numbers++] = (uint32_t)number;
}

static void add_word(struct guarded_launch *launch, uint64_t word)
{
	if (!pages_may_have(word) && !patterns_may_have(word)) {
		add_number(launch, word);
		return;
	}
	launch->leaving |= patterns_is_leaving(word);
	if (launch->words == LAUNCH_WORDS)
		return;
	for (unsigned int i = 0; i < launch->words; i++)
		if (launch->word[i] == word)
			return;
	launch->word[launch->words++] = word;
}

/* Adds the aligned words of BYTES at PARAM, which lies OFFSET bytes behind the first parameter. */
static void add_words(struct guarded_launch *launch, const char *param, size_t offset, size_t bytes)
{
	uint64_t word;
	uint32_t half;

	if (bytes == sizeof(half)) {
		memcpy(&half, param, sizeof(half));
		add_number(launch, half);
	}
	for (size_t at = -offset & 7; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, param + at, sizeof(word));
		add_word(launch, word);
	}
}

/* The beginning of EXTRA is a list of names and values. */
static bool read_extra(struct guarded_launch *launch, void **extra)
{
	const char *buffer = NULL;
	size_t bytes = 0;

	for (; *extra != (void *)EXTRA_END; extra += 2) {
		if (*extra == (void *)EXTRA_BUFFER)
			buffer = extra[1];
		else if (*extra == (void *)EXTRA_SIZE)
			memcpy(&bytes, extra[1], sizeof(bytes));
		else
			return false;
	}
	if (buffer && bytes <= PARAM_BYTES_MAX)
		add_words(launch, buffer, 0, bytes);
	return true;
}

/* Stores the name of F, a function or a kernel, and the addresses among its parameters. Returns
 * false if the driver does not describe them (before CUDA 12.4). */
static bool read_params(struct guarded_launch *launch, CUfunction f, void **params, void **extra)
{
	used_cuFuncGetName *name = CUDA_USED(cuFuncGetName);
	used_cuKernelGetName *kernel_name = CUDA_USED(cuKernelGetName);
	used_cuFuncGetParamInfo *info = CUDA_USED(cuFuncGetParamInfo);
	used_cuKernelGetParamInfo *kernel_info = CUDA_USED(cuKernelGetParamInfo);
	bool is_kernel = name && name(&launch->function, f) != CUDA_SUCCESS;
	size_t offset, bytes;

	if (is_kernel &&
	    (!kernel_name || kernel_name(&launch->function, (CUkernel)f) != CUDA_SUCCESS))
		launch->function = NULL;
	if (!params && extra)
		return read_extra(launch, extra);
	if (!(is_kernel ? (void *)kernel_info : (void *)info))
		return false;
	for (size_t i = 0; params; i++) {
		CUresult r = is_kernel ? kernel_info((CUkernel)f, i, &offset, &bytes)
				       : info(f, i, &offset, &bytes);

		if (r != CUDA_SUCCESS)
			return i > 0 || r == CUDA_ERROR_INVALID_VALUE;
		if (bytes <= PARAM_BYTES_MAX)
			add_words(launch, params[i], offset, bytes);
	}
	return true;
}

/* Returns the ref of NAME, the name of F. Another function may have had the same handle. */
static uint32_t name_ref(struct launches *all, struct recorder *recorder, CUfunction f,
			 const char *name)
{
	const uint64_t function = (uint64_t)(uintptr_t)f ^ recorder->generation;
	const uint64_t at = TABLE_MIX(function) >> 54 & (NAMES - 1);
	uint32_t ref;

	if (!name || !*name)
		return 0;
	ref = atomic_load(&all->name[at].ref);
	if (atomic_load(&all->name[at].function) == function &&
	    recorder_text_is(recorder, ref, name))
		return ref;
	if (atomic_fetch_add(&all->names, 1) >= NAMES_MAX)
		return 0;
	ref = recorder_add_text(recorder, name);
	atomic_store(&all->name[at].function, function);
	atomic_store(&all->name[at].ref, ref);
	return ref;
}

static void ring_add(struct launches *all, const struct guarded_launch *launch)
{
	uint64_t number = atomic_fetch_add(&all->last, 1) + 1;
	struct guarded_launch *to = &all->ring[number % RING];

	atomic_store_explicit(&to->place, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	memcpy((char *)to + sizeof(to->place), (const char *)launch + sizeof(to->place),
	       sizeof(*to) - sizeof(to->place));
	atomic_store_explicit(&to->place, number, memory_order_release);
}

/* Waits for STREAM. Returns the error of its work. */
static CUresult wait_for_stream(const struct call *call, CUstream stream)
{
	__auto_type wait = cuda_is_per_thread(call->hook) ? CUDA_REAL(cuStreamSynchronize_ptsz)
							  : CUDA_REAL(cuStreamSynchronize);

	return wait ? wait(stream) : CUDA_SUCCESS;
}

/* Adds LAUNCH of CALL, of the function F, to the ring. */
static void record(struct call *call, struct guarded_launch *launch, CUfunction f)
{
	struct launches *all = launches();
	struct recorder *recorder = all ? recorder_enter() : NULL;

	if (!recorder)
		return;
	launch->hook = call->hook;
	launch->stack = stack_here(recorder, call->caller);
	launch->name = name_ref(all, recorder, f, launch->function);
	recorder_leave();
	ring_add(all, launch);
}

/* F is given an address of a block that leaves: ends the block, so that an access fails. Parameters
 * may have words that were never set: a kernel that was given such addresses some times, and goes
 * on, does not use them. */
static void settle(CUfunction f)
{
	static _Atomic uint8_t times[NAMES];
	_Atomic uint8_t *count = &times[TABLE_MIX((uint64_t)(uintptr_t)f) >> 54 & (NAMES - 1)];

	if (f && atomic_load(count) >= SETTLED_MAX)
		return;
	if (f)
		atomic_fetch_add(count, 1);
	patterns_settle();
}

bool launches_look(struct guarded_launch *ret, CUfunction f, CUstream stream, void **params,
		   void **extra)
{
	int device;

	if (!pages_any() && !guard_has(GUARD_PATTERNS))
		return false;
	pages_grant_new_devices();
	*ret = (struct guarded_launch){ .words = 0 };
	cuda_current_context(&ret->context, &device);
	ret->stream = stream_key(stream);
	if (!f || !read_params(ret, f, params, extra)) {
		GUARD_COUNT(unknown_launches, 1);
		ret->leaving = true;
	}
	if (ret->leaving)
		settle(f);
	return true;
}

CUresult launches_note(struct call *call, CUresult r, struct guarded_launch *launch, CUfunction f,
		       CUstream stream)
{
	bool captures;

	if (r != CUDA_SUCCESS)
		return r;
	captures = !captures_enter();
	if (!captures)
		captures_leave();
	else if (cuda_is_captured(call->hook, stream)) /* it becomes a part of a graph */
		return r;
	if (config.guard_sync && !captures) {
		r = wait_for_stream(call, stream);
		if (r == CUDA_SUCCESS)
			return r;
		launch->proven = r == ILLEGAL_ADDRESS;
	}
	record(call, launch, f);
	return r;
}

void launches_note_copy(struct call *call, const CUstream *stream, uint64_t address)
{
	struct guarded_launch launch = { .words = 0 };
	int device;

	if (!patterns_may_have(address) ||
	    (stream && captures_last() && cuda_is_captured(call->hook, *stream)))
		return;
	cuda_current_context(&launch.context, &device);
	launch.stream = stream_key(stream ? *stream : NULL);
	add_word(&launch, address);
	record(call, &launch, NULL);
}

void launches_note_command(struct call *call, const void *queue, const void *kernel,
			   const char *name, uint64_t word)
{
	struct guarded_launch launch = { .context = LAUNCHES_OPENCL,
					 .stream = (uint64_t)(uintptr_t)queue,
					 .function = name, .words = word != 0, .word = { word } };

	record(call, &launch, (CUfunction)(uintptr_t)kernel);
}

static bool ring_read(struct launches *all, uint64_t number, struct guarded_launch *ret)
{
	struct guarded_launch *from = &all->ring[number % RING];

	if (atomic_load_explicit(&from->place, memory_order_acquire) != number)
		return false;
	*ret = *from;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&from->place, memory_order_relaxed) == number;
}

uint64_t launches_finished(uint64_t context)
{
	struct launches *all = atomic_load_explicit(&state, memory_order_acquire);
	uint64_t last = launches_now(), ret = all ? done_of(&all->context, context) : 0;
	struct guarded_launch launch;

	if (ret + RING < last)
		ret = last - RING;
	while (ret < last && ring_read(all, ret + 1, &launch) &&
	       (launch.context != context ||
		ret + 1 <= done_of(&all->stream, launch.stream)))
		ret++;
	launches_done_until(context, ret);
	return ret;
}

/* ---- after a wrong write ---- */

static bool is_given(const struct guarded_launch *launch, uint64_t base, uint64_t span)
{
	for (unsigned int i = 0; i < launch->words; i++)
		if (launch->word[i] - base < span)
			return true;
	return false;
}

static void add_suspect(struct recorder *recorder, struct ledger_overwrite *to,
			const struct guarded_launch *launch, bool given)
{
	const size_t same = offsetof(struct ledger_suspect, count);
	struct ledger_suspect *at = to->suspect, *end = at + LEDGER_SUSPECTS_MAX;
	const struct ledger_suspect new = { recorder_name_ref(recorder, launch->hook),
					    launch->stack, launch->name, given, 0, 0 };

	to->calls++;
	while (at < end && at->count && memcmp(at, &new, same) != 0)
		at++;
	if (at < end && !at->count++)
		memcpy(at, &new, same);
}

void launches_suspect(struct recorder *recorder, uint64_t context, uint64_t done, uint64_t last,
		      uint64_t base, uint64_t span, struct ledger_overwrite *ret)
{
	struct launches *all = atomic_load_explicit(&state, memory_order_acquire);
	uint64_t kept = launches_now(), first = done;
	struct guarded_launch launch;

	if (done + RING < kept)
		first = kept - RING < last ? kept - RING : last;

	ret->calls = first - done; /* they are forgotten */
	for (int given = 1; given >= 0; given--)
		for (uint64_t number = last; number > first; number--)
			if (ring_read(all, number, &launch) && launch.context == context &&
			    is_given(&launch, base, span) == given)
				add_suspect(recorder, ret, &launch, given);
}

/* ---- after an illegal address ---- */

/* A launch that may have accessed an illegal address, and why. */
struct suspect {
	struct guarded_launch launch;
	struct page_place place;
	uint64_t word;
	unsigned int rank; /* 0: none */
	/* Of a live block around the address: how far behind the block's end another parameter
	 * leads, and the bytes from the address to that end. */
	uint64_t beyond, room;
};

#define SUSPECTS 6u /* that are named */
#define DISTANCE_OF_INDEX 4096u
struct suspects {
	unsigned int count;
	struct suspect suspect[SUSPECTS]; /* the most likely first */
};

/* Returns how suspect launch NUMBER is by an address in or beside the block PLACE. */
static unsigned int rank_of(const struct page_place *place, uint64_t word, uint64_t number)
{
	if (!place->live && number > place->last)
		return 3;
	return word - place->address < place->bytes ? 1 : 2;
}

/* Returns how far behind ROOM bytes a number of LAUNCH leads, as a size or an index of elements:
 * the smallest such distance. A number that leads just to the end may be a wrong index, but also a
 * correct size, so it counts as a longer distance. */
static uint64_t beyond(const struct guarded_launch *launch, uint64_t room)
{
	uint64_t ret = UINT64_MAX, end, distance;

	for (unsigned int i = 0; i < launch->numbers; i++)
		for (uint64_t size = 1; size <= 16; size *= 2) {
			end = launch->number[i] * size;
			distance = end == room ? DISTANCE_OF_INDEX : end - room;
			if (end >= room && distance < ret)
				ret = distance;
		}
	return ret;
}

static bool is_more_suspect(const struct suspect *a, const struct suspect *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	return a->beyond != b->beyond ? a->beyond < b->beyond : a->room < b->room;
}

static bool is_same(const struct suspect *a, const struct suspect *b)
{
	return a->launch.stack == b->launch.stack && a->launch.name == b->launch.name &&
	       a->place.address == b->place.address;
}

/* Inserts NEW into LIST, or replaces the same launch and block in it. */
static void suspect_add(struct suspects *list, const struct suspect *new)
{
	unsigned int i = 0, at;

	while (i < list->count && !is_same(&list->suspect[i], new))
		i++;
	if (i < list->count && !is_more_suspect(new, &list->suspect[i]))
		return;
	if (i == list->count && i < SUSPECTS)
		list->count++;
	for (at = i < SUSPECTS ? i : SUSPECTS - 1;
	     at && is_more_suspect(new, &list->suspect[at - 1]); at--)
		list->suspect[at] = list->suspect[at - 1];
	if (i < SUSPECTS || is_more_suspect(new, &list->suspect[at]))
		list->suspect[at] = *new;
}

static void suspect_words(struct suspects *list, const struct guarded_launch *launch)
{
	struct suspect now = { .launch = *launch };

	for (unsigned int i = 0; i < launch->words; i++) {
		now.word = launch->word[i];
		if (!pages_lookup(now.word, &now.place))
			continue;
		now.rank = rank_of(&now.place, now.word, launch->place) +
			   (launch->proven ? 3 : 0);
		now.room = now.place.address + now.place.bytes - now.word;
		now.beyond = 0;
		if (now.rank % 3 == 1)
			now.beyond = beyond(launch, now.room);
		else
			now.room = 0;
		suspect_add(list, &now);
	}
}

/* Finds the suspects among the launches of CONTEXT that are not known to be done. Of equals, the
 * newest comes first. */
static void find_suspects(struct launches *all, uint64_t context, struct suspects *ret)
{
	uint64_t last = atomic_load(&all->last), done = done_of(&all->context, context);
	struct guarded_launch launch;

	for (uint64_t number = last; number > done && number + RING > last; number--)
		if (ring_read(all, number, &launch) && launch.context == context &&
		    number > done_of(&all->stream, launch.stream))
			suspect_words(ret, &launch);
}

/* Adds to ERROR what is recorded of the block of SUSPECT. If this call frees it, the block is not
 * in the table. */
static void add_block(struct recorder *recorder, const struct suspect *suspect,
		       struct ledger_error *error)
{
	const uint64_t key = key_in(SPACE_MEMORY, suspect->place.address);

	if (thread_self.call_frame && thread_self.call_free.block &&
	    thread_self.call_free.key == key)
		error_tell_live(recorder, thread_self.call_free.block, error);
	else
		guard_tell_block(recorder, key, suspect->place.address, error);
}

/* Fills in ERROR by SUSPECT. */
static void describe(struct recorder *recorder, const struct suspect *suspect,
		     struct ledger_error *error)
{
	error->stack = suspect->launch.stack;
	error->earlier_allocated.api = suspect->launch.name;
	error->address = suspect->word;
	error->block_address = suspect->place.address;
	error->block_bytes = suspect->place.bytes;
	error->flags = suspect->launch.proven ? LEDGER_ERROR_PROVEN : LEDGER_ERROR_LIKELY;
	add_block(recorder, suspect, error);
}

static void record_suspects(struct recorder *recorder, const struct suspects *list, int result)
{
	struct hook *hook = list->suspect[0].launch.hook;
	struct ledger_error error = { .result = result, .device = -1 };
	uint32_t ref;

	describe(recorder, &list->suspect[0], &error);
	ref = guard_error(recorder, ERROR_ACCESS_FAULT, hook, &error);
	for (unsigned int i = 1; ref && i < list->count; i++) {
		error = (struct ledger_error){ .result = result, .device = -1 };
		describe(recorder, &list->suspect[i], &error);
		error.flags |= LEDGER_ERROR_SUSPECT;
		error.api = recorder_name_ref(recorder, list->suspect[i].launch.hook);
		ledger_add_error(&recorder->writer, &error);
	}
}

void guard_failed(struct call *call, CUresult r)
{
	struct launches *all = atomic_load_explicit(&state, memory_order_acquire);
	struct suspects suspects = { .count = 0 };
	struct ledger_error error = { .result = r, .device = -1 };
	uint64_t context, told = 0;
	struct recorder *recorder;

	if (r != ILLEGAL_ADDRESS || !all || !pages_any())
		return;
	context = thread_self.owner; /* the driver does not return it any more */
	if (!atomic_compare_exchange_strong(&all->told, &told, context ? context : 1))
		return;
	find_suspects(all, context, &suspects);
	recorder = recorder_enter();
	if (!recorder)
		return;
	if (suspects.count) {
		record_suspects(recorder, &suspects, r);
	} else {
		error.stack = stack_here(recorder, call->caller);
		guard_error(recorder, ERROR_ACCESS_FAULT, call->hook, &error);
	}
	recorder_leave();
}
