/* SPDX-License-Identifier: MIT
 *
 * What a pool makes the driver's answers into, with a driver and a pool of the test's own: what
 * the stand-in has no calls for, parts of slabs, which arguments are never looked at, and that
 * a process without a pool asks nobody but the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/guard/pages.h"

/* No limit is set here. */
_Atomic unsigned int alloc_checks;

uint64_t limits_left(enum api api, int device)
{
	(void)api, (void)device;
	return UINT64_MAX;
}

#define WHOLE 0x300000000u /* a live block of 1000 bytes, */
#define PART 0x310000000u  /* one that is a part of a slab, */
#define KEPT 0x320000000u  /* one that is kept, */
#define OTHER 0x330000000u /* and one that is not the pool's */
#define HOST 0x340000000u  /* pinned and kept */
#define LOW 0x20000000u    /* a live block of 1000 bytes with an address of 32 bits */

/* ---- what pool_truth.c needs of the rest ---- */

struct hook hooks[HOOK_TOTAL];
__thread struct slot *slots_taken;
__thread struct linked_call linked_call;
_Atomic bool pool_on;
static uint64_t never_reused;
static enum ledger_pool_reason reason;
static int no_slabs, finds;

/* The guard is off. */
struct options config;

bool guard_find(uint64_t address, struct guard_place *ret)
{
	(void)address, (void)ret;
	return false;
}

uint64_t patterns_unseen(int device)
{
	(void)device;
	return 0;
}

uint64_t pages_unseen(int device)
{
	(void)device;
	return 0;
}

void patterns_no_front(void)
{
}

struct route resolve_direct_slowly(struct hook *hook)
{
	(void)hook;
	return (struct route){ NULL, false, NULL };
}

struct route resolve_driver_slowly(struct hook *hook)
{
	return resolve_direct_slowly(hook);
}

const struct link_map *module_of(const void *address)
{
	(void)address;
	return NULL;
}

struct route callers_route(struct hook *hook, const void *caller)
{
	(void)caller;
	return resolve_direct_slowly(hook);
}

bool callers_is_vendor(const struct link_map *module)
{
	(void)module;
	return false;
}

static uint64_t current = 5;

void cuda_current_context(uint64_t *ret_context, int *ret_device)
{
	*ret_context = current;
	*ret_device = current ? 3 : -1;
}

bool pool_lookup(uint64_t address, struct pool_place *ret)
{
	errno = 77;
	finds++;
	if (address - LOW < 0x10000000u) {
		*ret = (struct pool_place){ .address = LOW, .bytes = 1000, .device = 3 };
		ret->whole = ret->live = true;
		return true;
	}
	if (address < WHOLE || address >= OTHER + 0x20000000u ||
	    (address >= OTHER && address < HOST))
		return false;
	*ret = (struct pool_place){ .address = address & ~0xfffffffull, .bytes = 1000 };
	ret->device = 3;
	ret->whole = ret->address != PART;
	ret->live = ret->address == WHOLE || ret->address == PART;
	return true;
}

void pool_never_reuse(uint64_t address, enum ledger_pool_reason why)
{
	errno = 78;
	never_reused = address;
	reason = why;
}

void pool_no_slabs(void)
{
	errno = 79;
	no_slabs++;
}

uint64_t pool_unused_bytes(int device)
{
	errno = 80;
	return device == 3 ? 500 : 0;
}

/* ---- a driver: says what it was asked about ---- */

static uint64_t asked;
static int calls;
static CUresult answer;

static CUresult said(uint64_t address)
{
	asked = address;
	calls++;
	return answer;
}

static CUresult info(size_t *unused, size_t *total)
{
	if (unused)
		*unused = 1000;
	if (total)
		*total = 2000;
	return said(0);
}

static CUresult info_32(unsigned int *unused, unsigned int *total)
{
	if (unused)
		*unused = 1000;
	if (total)
		*total = 1200;
	return said(0);
}

static CUresult range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	if (base)
		*base = 1;
	if (size)
		*size = 2;
	return said(address);
}

static CUresult range_32(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 address)
{
	if (base)
		*base = 1;
	if (size)
		*size = 2;
	return said(address);
}

static CUresult attribute(void *data, CUpointer_attribute which, CUdeviceptr address)
{
	uint64_t value = which == 4 ? address : 0x0101010101010101u;

	if (data)
		memcpy(data, &value, sizeof(value));
	return said(address);
}

static CUresult attributes(unsigned int count, CUpointer_attribute *which, void **data,
			   CUdeviceptr address)
{
	for (unsigned int i = 0; i < count; i++)
		attribute(data[i], which[i], address);
	return said(address);
}

static CUresult set(const void *value, CUpointer_attribute which, CUdeviceptr address)
{
	(void)value;
	(void)which;
	return said(address);
}

static CUresult device_pointer(CUdeviceptr *ret, void *p, unsigned int flags)
{
	(void)ret;
	(void)flags;
	return said((uintptr_t)p);
}

static CUresult flags_of(unsigned int *ret, void *p)
{
	(void)ret;
	return said((uintptr_t)p);
}

static CUresult handle_of(CUipcMemHandle *ret, CUdeviceptr address)
{
	(void)ret;
	return said(address);
}

static CUresult range_handle(void *ret, CUdeviceptr address, size_t size,
			     CUmemRangeHandleType type, unsigned long long flags)
{
	assert_int_equal(size, 4096);
	assert_int_equal(type, 1);
	assert_int_equal(flags, 7);
	(void)ret;
	return said(address);
}

static CUresult advise(CUdeviceptr address, size_t count, CUmem_advise advice, CUdevice device)
{
	assert_int_equal(count, 10);
	assert_int_equal(advice, 3);
	assert_int_equal(device, 9);
	return said(address);
}

static CUresult advise_at(CUdeviceptr address, size_t count, CUmem_advise advice,
			  CUmemLocation location)
{
	assert_int_equal(location.type, 1);
	return advise(address, count, advice, location.id);
}

static int begin(void **state)
{
	(void)state;
	hooks[HOOK_cuMemGetInfo_v2].driver = (void *)info;
	hooks[HOOK_cuMemGetInfo].driver = (void *)info_32;
	hooks[HOOK_cuMemGetAddressRange_v2].driver = (void *)range;
	hooks[HOOK_cuMemGetAddressRange].driver = (void *)range_32;
	hooks[HOOK_cuPointerGetAttribute].driver = (void *)attribute;
	hooks[HOOK_cuPointerGetAttributes].driver = (void *)attributes;
	hooks[HOOK_cuPointerSetAttribute].driver = (void *)set;
	hooks[HOOK_cuMemHostGetDevicePointer].driver = (void *)device_pointer;
	hooks[HOOK_cuMemHostGetDevicePointer_v2].driver = (void *)device_pointer;
	hooks[HOOK_cuMemHostGetFlags].driver = (void *)flags_of;
	hooks[HOOK_cuIpcGetMemHandle].driver = (void *)handle_of;
	hooks[HOOK_cuMemGetHandleForAddressRange].driver = (void *)range_handle;
	hooks[HOOK_cuMemAdvise].driver = (void *)advise;
	hooks[HOOK_cuMemAdvise_v2].driver = (void *)advise_at;
	pool_on = true;
	never_reused = 0;
	no_slabs = finds = calls = 0;
	answer = CUDA_SUCCESS;
	current = 5;
	errno = 0;
	return 0;
}

static void assert_reuse_is(uint64_t address, enum ledger_pool_reason why)
{
	assert_int_equal(never_reused, address);
	if (address)
		assert_int_equal(reason, why);
	never_reused = 0;
	assert_int_equal(errno, 0);
}

/* What is asked about what is gone is asked about nothing. */
static void assert_asked(uint64_t address)
{
	if (address >= KEPT && address != OTHER)
		assert_true(asked > 0 && asked < 0x10000);
	else
		assert_int_equal(asked, address);
	assert_int_equal(errno, 0);
}

static void test_info(void **state)
{
	unsigned int unused_32 = 0, total_32 = 0;
	size_t unused = 0, total = 0;

	(void)state;
	assert_int_equal(looked_up_cuMemGetInfo_v2(&unused, &total), 0);
	assert_int_equal(unused, 1500);
	assert_int_equal(total, 2000);
	unused = 0;
	assert_int_equal(looked_up_cuMemGetInfo_v2(&unused, NULL), 0);
	assert_int_equal(unused, 1500);
	assert_int_equal(looked_up_cuMemGetInfo_v2(NULL, &total), 0);
	assert_int_equal(looked_up_cuMemGetInfo_v2(NULL, NULL), 0);
	assert_int_equal(looked_up_cuMemGetInfo(&unused_32, &total_32), 0);
	assert_int_equal(unused_32, 1200); /* never more than there is */
	unused_32 = 0;
	assert_int_equal(looked_up_cuMemGetInfo(&unused_32, NULL), 0);
	assert_int_equal(unused_32, 1200);
	answer = CUDA_ERROR_INVALID_CONTEXT;
	assert_int_equal(looked_up_cuMemGetInfo_v2(&unused, &total), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(unused, 1000);
	answer = CUDA_SUCCESS;
	current = 0;
	assert_int_equal(looked_up_cuMemGetInfo_v2(&unused, &total), 0);
	assert_int_equal(unused, 1000);
	assert_int_equal(errno, 0);
}

static void test_range(void **state)
{
	CUdeviceptr base = 0;
	size_t size = 0;

	(void)state;
	assert_int_equal(looked_up_cuMemGetAddressRange_v2(&base, &size, WHOLE + 999), 0);
	assert_int_equal(base, WHOLE);
	assert_int_equal(size, 1000);
	assert_asked(WHOLE + 999);
	assert_int_equal(looked_up_cuMemGetAddressRange_v2(NULL, &size, PART), 0);
	assert_int_equal(looked_up_cuMemGetAddressRange_v2(&base, NULL, PART + 1), 0);
	assert_int_equal(base, PART);
	assert_int_equal(looked_up_cuMemGetAddressRange_v2(NULL, NULL, PART), 0);
	assert_int_equal(looked_up_cuMemGetAddressRange_v2(&base, &size, OTHER), 0);
	assert_int_equal(base, 1);
	assert_asked(OTHER);
	looked_up_cuMemGetAddressRange_v2(&base, &size, WHOLE + 1000);
	assert_true(asked < 0x10000);
	answer = CUDA_ERROR_NOT_FOUND;
	assert_int_equal(looked_up_cuMemGetAddressRange_v2(&base, &size, KEPT), 500);
	assert_asked(KEPT);
	assert_int_equal(base, 1);
	answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	assert_int_equal(looked_up_cuMemGetAddressRange_v2(&base, &size, WHOLE), 709);
	assert_int_equal(base, 1);
}

/* The call for addresses of 32 bits answers the size that the application requested, too. */
static void test_range_32(void **state)
{
	CUdeviceptr_v1 base = 0;
	unsigned int size = 0;

	(void)state;
	assert_int_equal(looked_up_cuMemGetAddressRange(&base, &size, LOW + 999), 0);
	assert_int_equal(base, LOW);
	assert_int_equal(size, 1000);
	assert_int_equal(asked, LOW + 999);
	base = size = 0;
	assert_int_equal(looked_up_cuMemGetAddressRange(NULL, &size, LOW), 0);
	assert_int_equal(size, 1000);
	assert_int_equal(looked_up_cuMemGetAddressRange(&base, NULL, LOW + 1), 0);
	assert_int_equal(base, LOW);
	assert_int_equal(looked_up_cuMemGetAddressRange(NULL, NULL, LOW), 0);
	assert_int_equal(looked_up_cuMemGetAddressRange(&base, &size, 0x50000000u), 0);
	assert_int_equal(base, 1);
	assert_int_equal(size, 2);
	assert_int_equal(asked, 0x50000000u);
	looked_up_cuMemGetAddressRange(&base, &size, LOW + 1000);
	assert_true(asked < 0x10000);
	answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	assert_int_equal(looked_up_cuMemGetAddressRange(&base, &size, LOW), 709);
	assert_int_equal(base, 1);
	assert_int_equal(errno, 0);
}

static uint64_t value_of(CUpointer_attribute which, CUdeviceptr address)
{
	uint64_t one = 0, many[2] = { 0, 0 };
	CUpointer_attribute both[2] = { 2, which };
	void *data[2] = { &many[0], &many[1] };

	assert_int_equal(looked_up_cuPointerGetAttribute(&one, which, address), 0);
	assert_asked(address);
	assert_int_equal(looked_up_cuPointerGetAttributes(2, both, data, address), 0);
	assert_asked(address);
	assert_int_equal(many[0], 0x0101010101010101u);
	assert_int_equal(many[1], one);
	return one;
}

static void test_attributes(void **state)
{
	uint64_t value;

	(void)state;
	assert_int_equal(value_of(11, WHOLE + 5), WHOLE);
	assert_int_equal(value_of(12, WHOLE + 5), 1000);
	assert_int_equal(value_of(12, PART + 5), 1000);
	assert_int_equal(value_of(12, OTHER), 0x0101010101010101u);
	assert_int_equal(value_of(10, WHOLE), 0x0101010101010101u);
	assert_int_equal(value_of(10, PART), 0x0101010101010100u);
	assert_int_equal(value_of(18, PART), 0x0101010101010101u);
	assert_int_equal(value_of(4, KEPT + 9), KEPT + 9); /* the address itself, as it does */
	assert_int_equal(value_of(11, KEPT), 0x0101010101010101u);
	assert_int_equal(value_of(4, WHOLE), WHOLE);
	assert_reuse_is(0, 0);
	assert_int_equal(looked_up_cuPointerGetAttribute(NULL, 11, WHOLE), 0);
	answer = CUDA_ERROR_INVALID_VALUE;
	value = 0;
	assert_int_equal(looked_up_cuPointerGetAttribute(&value, 11, WHOLE), 1);
	assert_int_equal(value, 0x0101010101010101u);
}

/* Arrays of a call that fails are not looked at. */
static CUresult refuse(unsigned int count, CUpointer_attribute *which, void **data,
		       CUdeviceptr address)
{
	(void)count;
	(void)which;
	(void)data;
	said(address);
	return CUDA_ERROR_INVALID_VALUE;
}

static void test_refused_attributes(void **state)
{
	(void)state;
	hooks[HOOK_cuPointerGetAttributes].driver = (void *)refuse;
	assert_int_equal(looked_up_cuPointerGetAttributes(9, NULL, NULL, WHOLE), 1);
	assert_int_equal(looked_up_cuPointerGetAttributes(9, NULL, NULL, KEPT), 1);
	assert_int_equal(looked_up_cuPointerGetAttributes(9, NULL, NULL, OTHER), 1);
}

/* What stays with a block keeps it from others. */
static void test_marks(void **state)
{
	const CUmemLocation location = { 1, 9 };
	uint64_t tokens[2];
	unsigned int on = 1;

	(void)state;
	assert_int_equal(looked_up_cuPointerSetAttribute(&on, 6, WHOLE + 3), 0);
	assert_reuse_is(WHOLE, LEDGER_POOL_SYNC_MEMOPS);
	assert_int_equal(looked_up_cuPointerGetAttribute(tokens, 5, WHOLE + 3), 0);
	assert_reuse_is(WHOLE, LEDGER_POOL_EXPORTED);
	assert_int_equal(looked_up_cuMemAdvise(WHOLE + 3, 10, 3, 9), 0);
	assert_reuse_is(WHOLE, LEDGER_POOL_SYNC_MEMOPS);
	assert_int_equal(looked_up_cuMemAdvise_v2(WHOLE + 3, 10, 3, location), 0);
	assert_reuse_is(WHOLE, LEDGER_POOL_SYNC_MEMOPS);
	assert_int_equal(looked_up_cuMemGetHandleForAddressRange(&on, PART, 4096, 1, 7), 0);
	assert_reuse_is(PART, LEDGER_POOL_EXPORTED);
	for (int i = 0; i < 2; i++) {
		uint64_t address = i ? OTHER : KEPT;

		looked_up_cuPointerSetAttribute(&on, 6, address);
		assert_asked(address);
		looked_up_cuPointerGetAttribute(tokens, 5, address);
		assert_asked(address);
		looked_up_cuMemAdvise(address, 10, 3, 9);
		assert_asked(address);
		looked_up_cuMemAdvise_v2(address, 10, 3, location);
		assert_asked(address);
		looked_up_cuMemGetHandleForAddressRange(&on, address, 4096, 1, 7);
		assert_asked(address);
		assert_reuse_is(0, 0);
	}
	answer = CUDA_ERROR_NOT_SUPPORTED;
	looked_up_cuPointerSetAttribute(&on, 6, WHOLE);
	looked_up_cuPointerGetAttribute(tokens, 5, WHOLE);
	looked_up_cuMemAdvise(WHOLE, 10, 3, 9);
	looked_up_cuMemAdvise_v2(WHOLE, 10, 3, location);
	looked_up_cuMemGetHandleForAddressRange(&on, WHOLE, 4096, 1, 7);
	assert_reuse_is(0, 0);
}

/* What the wrapper calls before it records the export. */
static CUresult get_handle(CUipcMemHandle *handle, CUdeviceptr address)
{
	void *real = resolve_driver(&hooks[HOOK_cuIpcGetMemHandle]).real;

	return pool_ipc_handle(real, handle, address);
}

static void test_sharing(void **state)
{
	CUipcMemHandle handle;
	uint64_t tokens[2];

	(void)state;
	assert_int_equal(get_handle(&handle, WHOLE + 3), 0);
	assert_asked(WHOLE + 3);
	assert_reuse_is(WHOLE, LEDGER_POOL_EXPORTED);
	assert_int_equal(no_slabs, 1);
	get_handle(&handle, KEPT);
	assert_asked(KEPT);
	get_handle(&handle, OTHER);
	assert_asked(OTHER);
	assert_int_equal(no_slabs, 1);
	calls = 0;
	assert_int_equal(get_handle(&handle, PART), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(looked_up_cuPointerGetAttribute(tokens, 5, PART),
			 CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(no_slabs, 3);
	assert_int_equal(calls, 0);
	assert_reuse_is(0, 0);
	answer = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(get_handle(NULL, WHOLE), 1);
	assert_reuse_is(0, 0);
	assert_int_equal(no_slabs, 3);
}

static void test_pinned(void **state)
{
	CUdeviceptr_v1 device_32;
	CUdeviceptr device;
	unsigned int flags;

	(void)state;
	looked_up_cuMemHostGetDevicePointer_v2(&device, (void *)(uintptr_t)HOST, 0);
	assert_asked(HOST);
	looked_up_cuMemHostGetDevicePointer(&device_32, (void *)(uintptr_t)HOST, 0);
	assert_asked(HOST);
	looked_up_cuMemHostGetFlags(&flags, (void *)(uintptr_t)HOST);
	assert_asked(HOST);
	looked_up_cuMemHostGetFlags(&flags, (void *)(uintptr_t)(WHOLE + 5));
	assert_asked(WHOLE + 5);
	looked_up_cuMemHostGetDevicePointer_v2(&device, (void *)(uintptr_t)OTHER, 0);
	assert_asked(OTHER);
	looked_up_cuMemHostGetFlags(&flags, NULL);
	assert_asked(0);
}

static void test_no_pool(void **state)
{
	size_t unused = 0, total = 0;
	CUdeviceptr base = 0;
	CUipcMemHandle handle;
	uint64_t value = 0;

	(void)state;
	pool_on = false;
	looked_up_cuMemGetInfo_v2(&unused, &total);
	assert_int_equal(unused, 1000);
	looked_up_cuMemGetAddressRange_v2(&base, &total, WHOLE);
	assert_int_equal(base, 1);
	looked_up_cuPointerGetAttribute(&value, 11, KEPT);
	assert_int_equal(asked, KEPT);
	get_handle(&handle, PART);
	assert_int_equal(asked, PART);
	looked_up_cuPointerSetAttribute(&value, 6, WHOLE);
	assert_reuse_is(0, 0);
	assert_int_equal(finds, 0);
	assert_int_equal(calls, 5);
	assert_int_equal(no_slabs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_info, begin),
		cmocka_unit_test_setup(test_range, begin),
		cmocka_unit_test_setup(test_range_32, begin),
		cmocka_unit_test_setup(test_attributes, begin),
		cmocka_unit_test_setup(test_refused_attributes, begin),
		cmocka_unit_test_setup(test_marks, begin),
		cmocka_unit_test_setup(test_sharing, begin),
		cmocka_unit_test_setup(test_pinned, begin),
		cmocka_unit_test_setup(test_no_pool, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
