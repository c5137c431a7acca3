/* SPDX-License-Identifier: MIT
 *
 * Virtual memory in orders that no real program can be made to take: calls that overlap,
 * refusals in the middle of them, handles that a driver gives out anew, binding calls of
 * drivers newer than the stand-in. At any moment exactly one block counts the bytes of a memory.
 * The call site that created it counts the same bytes as live.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/cuda/wrappers/cuda_calls.h"
#include "own_ledger.h"
#include "interpose/cuda/physical.h"
#include "ledger/reader.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/stack/unwinder.h"

#define GRAIN ((size_t)2 << 20)
#define HANDLE 0x5500000010u
#define OBJECT 0x5500000020u
#define ADDRESS 0x300000000000u

static const CUmemAllocationProp on_device_3 = { .type = 1, .location = { 1, 3 } };

static struct call call_of(enum hook_id id)
{
	return (struct call){ &hooks[id], NULL, SPACE_CL_HANDLE };
}

/* What a driver would answer, and what happens while it does. */
static __thread CUresult answer;
static __thread void (*meanwhile)(void);

static CUresult driver(void)
{
	void (*now)(void) = meanwhile;

	meanwhile = NULL;
	if (now)
		now();
	return answer;
}

static CUresult driver_release(CUmemGenericAllocationHandle handle)
{
	(void)handle;
	return driver();
}

static CUresult driver_range(CUdeviceptr address, size_t bytes)
{
	(void)address;
	(void)bytes;
	return driver();
}

static CUresult driver_unbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset,
			      size_t bytes)
{
	(void)object;
	(void)device;
	(void)offset;
	(void)bytes;
	return driver();
}

static void create(uint64_t handle, size_t bytes)
{
	struct call call = call_of(HOOK_cuMemCreate);

	vmm_created(&call, handle, bytes, &on_device_3);
}

static void map(uint64_t address, size_t bytes, uint64_t handle)
{
	struct call call = call_of(HOOK_cuMemMap);

	vmm_mapped(&call, address, bytes, handle);
}

static void retain_of(uint64_t handle, uint64_t address)
{
	struct call call = call_of(HOOK_cuMemRetainAllocationHandle);

	vmm_retained(&call, handle, (void *)(uintptr_t)address);
}

static void retain(void)
{
	retain_of(HANDLE, ADDRESS);
}

static void release_of(uint64_t handle, CUresult r, void (*at_the_same_time)(void))
{
	struct call call = call_of(HOOK_cuMemRelease);

	answer = r;
	meanwhile = at_the_same_time;
	vmm_release(&call, (void *)driver_release, handle);
}

static void release(CUresult r, void (*at_the_same_time)(void))
{
	release_of(HANDLE, r, at_the_same_time);
}

static void unmap_range(uint64_t address, size_t bytes, CUresult r, void (*at_the_same_time)(void))
{
	struct call call = call_of(HOOK_cuMemUnmap);

	answer = r;
	meanwhile = at_the_same_time;
	vmm_unmap(&call, (void *)driver_range, address, bytes);
}

static void unbind(CUdevice device, size_t offset, size_t bytes, CUresult r)
{
	struct call call = call_of(HOOK_cuMulticastUnbind);

	answer = r;
	meanwhile = NULL;
	vmm_unbind(&call, (void *)driver_unbind, OBJECT, device, offset, bytes);
}

/* Blocks that a reader sees, and the bytes in those that CALL made; all if it is NULL. */
static uint64_t live(const char *call, uint64_t *ret_bytes)
{
	struct recorder *recorder = recorder_now();
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_block *block;
	struct ledger_view view;
	uint64_t count = 0;

	*ret_bytes = 0;
	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	while ((block = ledger_next_block_slot(&view, &walk))) {
		const struct ledger_site *site;
		const struct ledger_string *api;

		if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED)
			continue;
		site = ledger_at(&recorder->writer, block->site);
		api = ledger_at(&recorder->writer, site->api);
		if (call && (strlen(call) != api->length ||
			     memcmp(call, api->bytes, api->length) != 0))
			continue;
		count++;
		*ret_bytes += block->bytes;
	}
	return count;
}

/* The bytes that the series of all call sites count as live. */
static uint64_t counted_bytes(void)
{
	struct recorder *recorder = recorder_now();
	const struct ledger_live_series *series;
	struct ledger_walk walk = { 0, 0 };
	struct ledger_view view;
	uint64_t bytes = 0;

	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	while ((series = ledger_next_live_series(&view, &walk)))
		bytes += LEDGER_AMOUNT_BYTES(series->allocated - series->freed);
	return bytes;
}

static void expect(const char *call, uint64_t blocks, uint64_t bytes)
{
	uint64_t got;

	assert_int_equal(live(call, &got), blocks);
	assert_int_equal(got, bytes);
	live(NULL, &got);
	assert_int_equal(counted_bytes(), got);
}

static void expect_nothing(void)
{
	expect(NULL, 0, 0);
	assert_int_equal(live_bytes_total(recorder_now()), 0);
	assert_int_equal(recorder_now()->header->errors, 0);
	assert_int_equal(recorder_now()->header->trouble[LEDGER_TROUBLE_STALE_BLOCKS], 0);
	assert_int_equal(recorder_now()->header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES], 0);
	assert_null(recorder_now()->vmm->by_handle);
	assert_null(recorder_now()->vmm->mappings);
}

/* The parent of the live block at ADDRESS. */
static uint64_t parent_of(uint64_t address)
{
	struct recorder *recorder = recorder_now();
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_block *block;
	struct ledger_view view;

	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	while ((block = ledger_next_block_slot(&view, &walk)))
		if (LEDGER_BLOCK_STATE(block->state) != LEDGER_BLOCK_UNUSED &&
		    block->address == address)
			return block->parent;
	fail();
	return 0;
}

/* A mapping of all memory names it, so that a reader knows the mapping's range. */
static void test_parent(void **state)
{
	(void)state;
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	map(ADDRESS + 2 * GRAIN, GRAIN, HANDLE);
	assert_int_equal(parent_of(ADDRESS), HANDLE);
	assert_int_equal(parent_of(ADDRESS + 2 * GRAIN), 0);
	unmap_range(ADDRESS, 3 * GRAIN, 0, NULL);
	release(0, NULL);
	expect_nothing();
}

static void check_retained_inside(void)
{
	retain();
	expect("cuMemCreate", 1, 0); /* on its way out */
	expect("cuMemRetainAllocationHandle", 1, 2 * GRAIN);
}

/* The last release is under way when another thread gets the handle back. */
static void test_back_while_released(void **state)
{
	(void)state;
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	release(0, check_retained_inside);
	expect("cuMemCreate", 0, 0);
	expect("cuMemRetainAllocationHandle", 1, 2 * GRAIN);
	release(0, NULL);
	expect("cuMemMap", 1, 2 * GRAIN);
	unmap_range(ADDRESS, 2 * GRAIN, 0, NULL);
	expect_nothing();
}

/* The same, and the release is refused: two references are left, on one block. */
static void test_back_while_refused(void **state)
{
	uint64_t refused = recorder_now()->header->trouble[LEDGER_TROUBLE_REFUSED_FREES];

	(void)state;
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	release(999, retain);
	expect(NULL, 2, 2 * GRAIN);
	assert_int_equal(recorder_now()->header->trouble[LEDGER_TROUBLE_REFUSED_FREES],
			 refused + 1);
	release(0, NULL);
	expect("cuMemRetainAllocationHandle", 1, 2 * GRAIN);
	release(0, NULL);
	unmap_range(ADDRESS, 2 * GRAIN, 0, NULL);
	expect_nothing();
}

/* Refused and tried again: the bytes still know whom they belong to. */
static void test_refused(void **state)
{
	(void)state;
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	release(999, NULL);
	expect("cuMemCreate", 1, 2 * GRAIN);
	release(0, NULL);
	expect("cuMemMap", 1, 2 * GRAIN);
	unmap_range(ADDRESS, 2 * GRAIN, 1, NULL);
	expect("cuMemMap", 1, 2 * GRAIN);
	retain();
	expect("cuMemRetainAllocationHandle", 1, 2 * GRAIN);
	unmap_range(ADDRESS, 2 * GRAIN, 0, NULL);
	release(0, NULL);
	expect_nothing();
}

static void unmap_inside(void)
{
	unmap_range(ADDRESS, 2 * GRAIN, 0, NULL);
	expect("cuMemMap", 0, 0);
	expect("cuMemCreate", 1, 2 * GRAIN);
}

static void release_inside(void)
{
	release(0, NULL);
	expect("cuMemMap", 1, 2 * GRAIN); /* on its way out, and the last one */
	expect("cuMemCreate", 0, 0);
}

/* Release and unmap in two threads: whoever is last takes the bytes along. */
static void test_release_and_unmap(void **state)
{
	(void)state;
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	release(0, unmap_inside);
	expect_nothing();
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	unmap_range(ADDRESS, 2 * GRAIN, 0, release_inside);
	expect_nothing();
}

static void reuse_inside(void)
{
	create(HANDLE, 4 * GRAIN);
	map(ADDRESS, 4 * GRAIN, HANDLE);
}

/* The memory is gone in the driver before the unmap returns: its handle and its address have
 * new owners then. */
static void test_handed_out_again(void **state)
{
	(void)state;
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	release(0, NULL);
	unmap_range(ADDRESS, 2 * GRAIN, 0, reuse_inside);
	expect(NULL, 2, 4 * GRAIN);
	expect("cuMemCreate", 1, 4 * GRAIN);
	release(0, NULL);
	expect("cuMemMap", 1, 4 * GRAIN);
	unmap_range(ADDRESS, 4 * GRAIN, 0, NULL);
	expect_nothing();
}

/* Refused with many mappings: not one is lost, and where the bytes are does not change. */
static void test_many_put_back(void **state)
{
	enum { COUNT = 100000 }; /* more than the table remembers of the dead */

	(void)state;
	create(HANDLE, GRAIN);
	for (uint64_t i = 0; i < COUNT; i++)
		map(ADDRESS + i * GRAIN, GRAIN, HANDLE);
	release(0, NULL);
	unmap_range(ADDRESS, COUNT * GRAIN, 999, NULL);
	expect("cuMemMap", COUNT, GRAIN);
	assert_int_equal(live_bytes_total(recorder_now()), GRAIN);
	unmap_range(ADDRESS, COUNT * GRAIN, 0, NULL);
	expect_nothing();
}

/* Bindings of every version: the device is the caller's, or the memory's own. */
static void test_bindings(void **state)
{
	struct call object = call_of(HOOK_cuMulticastCreate);
	struct call bind = call_of(HOOK_cuMulticastBindMem);
	struct call bind_2 = call_of(HOOK_cuMulticastBindMem_v2);
	struct call bind_address_2 = call_of(HOOK_cuMulticastBindAddr_v2);

	(void)state;
	vmm_created(&object, OBJECT, 0, NULL);
	create(HANDLE, 2 * GRAIN);
	map(ADDRESS, 2 * GRAIN, HANDLE);
	vmm_bound_mem(&bind, (struct vmm_place){ OBJECT, 0, 2 * GRAIN, -1 }, HANDLE);
	vmm_bound_mem(&bind_2, (struct vmm_place){ OBJECT, 0, 2 * GRAIN, 5 }, HANDLE);
	vmm_bound_address(&bind_address_2, (struct vmm_place){ OBJECT, 4 * GRAIN, GRAIN, 5 },
			  ADDRESS + GRAIN);
	expect(NULL, 6, 2 * GRAIN);
	release(0, NULL);
	unmap_range(ADDRESS, 2 * GRAIN, 0, NULL);
	expect("cuMulticastBindMem", 1, 2 * GRAIN); /* the oldest use that is left */
	unbind(3, 0, 2 * GRAIN, 999);
	expect("cuMulticastBindMem", 1, 2 * GRAIN);
	unbind(3, 0, 2 * GRAIN, 0);
	expect("cuMulticastBindMem", 0, 0);
	expect("cuMulticastBindMem_v2", 1, 2 * GRAIN);
	unbind(5, 0, 8 * GRAIN, 0);
	expect(NULL, 1, 0);
	release_of(OBJECT, 0, NULL);
	expect_nothing();
}

static int32_t answer_of_last_error(void)
{
	struct recorder *recorder = recorder_now();
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_error *error, *last = NULL;
	struct ledger_view view;

	ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view);
	while ((error = ledger_next_error(&view, &walk)))
		last = error->type ? error : last;
	assert_non_null(last);
	return last->result;
}

static void check_error_is_told(void)
{
	assert_int_equal(recorder_now()->header->errors, 1);
	assert_int_equal(answer_of_last_error(), LEDGER_NO_ANSWER);
}

/* A driver dies of a handle that it did not give out: that is told before it is asked, and
 * taken back if it knew the handle after all. */
static void test_strangers(void **state)
{
	struct ledger_header *header = recorder_now()->header;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) { /* more than may be taken back */
		release_of(0x7777000 + 16 * i, 0, i < 64 ? check_error_is_told : NULL);
		assert_int_equal(header->errors, 0);
	}
	assert_int_equal(header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES], 100);
	release_of(0x7777000, 1, NULL);
	assert_int_equal(header->errors, 1);
	assert_int_equal(answer_of_last_error(), 1);
}

/* ---- threads ---- */

enum { THREADS = 8, ROUNDS = 2000, NUMBERS = 32 };

/* Numbers of handles and of addresses; the last one given back is the first to go out. */
static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers[NUMBERS];
static int number_count;
static __thread uint64_t own;

static uint64_t take_number(void)
{
	uint64_t number;

	pthread_mutex_lock(&numbers_lock);
	number = numbers[--number_count];
	pthread_mutex_unlock(&numbers_lock);
	return number;
}

static void give_number(void)
{
	pthread_mutex_lock(&numbers_lock);
	numbers[number_count++] = own;
	pthread_mutex_unlock(&numbers_lock);
}

static _Atomic int done;

/* Threads stay: see test_storm.c. */
static void *storm(void *seed)
{
	unsigned int random = (unsigned int)(uintptr_t)seed;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t number = own = take_number();
		uint64_t handle = HANDLE + number * 64, address = ADDRESS + number * 16 * GRAIN;

		create(handle, 2 * GRAIN);
		map(address, 2 * GRAIN, handle);
		map(address + 2 * GRAIN, 2 * GRAIN, handle);
		retain_of(handle, address);
		release_of(handle, 0, NULL);
		random = random * 1103515245u + 12345u;
		if (random >> 16 & 1)
			release_of(handle, 999, NULL);
		if (random >> 17 & 1)
			unmap_range(address, 4 * GRAIN, 999, NULL);
		if (random >> 18 & 1) {
			release_of(handle, 0, NULL);
			unmap_range(address, 4 * GRAIN, 0, give_number);
		} else {
			unmap_range(address, 4 * GRAIN, 0, NULL);
			release_of(handle, 0, give_number);
		}
	}
	atomic_fetch_add(&done, 1);
	for (;;)
		pause();
	return NULL;
}

/* The driver gives numbers out again while the call that freed them is under way. */
static void test_storm(void **state)
{
	pthread_t thread;

	(void)state;
	for (uint64_t i = 1; i <= NUMBERS; i++)
		numbers[number_count++] = i;
	for (uintptr_t i = 1; i <= THREADS; i++) {
		assert_int_equal(pthread_create(&thread, NULL, storm, (void *)i), 0);
		pthread_detach(thread);
	}
	while (atomic_load(&done) < THREADS)
		usleep(1000);
	expect_nothing();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_back_while_released),
		cmocka_unit_test(test_back_while_refused),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_parent),
		cmocka_unit_test(test_release_and_unmap),
		cmocka_unit_test(test_handed_out_again),
		cmocka_unit_test(test_many_put_back),
		cmocka_unit_test(test_bindings),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_strangers), /* the last one: leaves an error */
	};

	setenv("GPULEAK_STACK_DEPTH", "4", 1);
	setenv("GPULEAK_ACCUMULATION", "on", 1);
	process_start();
	unwinder_load();
	recorder_touch();
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
