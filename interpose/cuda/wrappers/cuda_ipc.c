/* SPDX-License-Identifier: MIT
 *
 * Memory that is shared by handles of cuIpcGetMemHandle: records which block was exported, and what
 * cuIpcOpenMemHandle opened. Also records the size of memory that was imported in other ways. Must
 * not make a call that is forbidden during stream capture.
 */
#include <string.h>

#include "interpose/block/block_table.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/guard/pages.h"
#include "interpose/recorder/ipc.h"

_Static_assert(sizeof(CUipcMemHandle) == LEDGER_IPC_HANDLE,
	       "CUipcMemHandle has CU_IPC_HANDLE_SIZE bytes in cuda.h");

/* Adds the record of the live block at ADDRESS, which CALL exported as HANDLE. Returns false if no
 * block begins there. */
static bool record_export(struct call *call, CUdeviceptr address, const CUipcMemHandle *handle)
{
	LEAVE_AT_END struct recorder *recorder = call_begin(call);
	struct ledger_ipc record = { .api = call->name };
	struct ledger_block block;
	uint64_t name;

	if (!recorder)
		return true; /* nothing is recorded, whatever block it is */
	name = block_live_name(recorder, key_of(call, address), &block);
	if (!name)
		return false;
	record.address = block.address;
	record.bytes = block.bytes;
	record.site = block.site;
	record.stack = stack_here(recorder, call->caller);
	memcpy(record.handle, handle, sizeof(record.handle));
	ipc_add(recorder, &record, name);
	return true;
}

/* Returns the size of the block around ADDRESS, and stores its start in *RET; 0: unknown. */
static uint64_t size_at(CUdeviceptr address, CUdeviceptr *ret)
{
	used_cuMemGetAddressRange_v2 *range = CUDA_USED(cuMemGetAddressRange_v2);
	size_t bytes;

	return range && range(ret, &bytes, address) == CUDA_SUCCESS ? bytes : 0;
}

static CUresult get_handle(struct call *call, void *real, CUipcMemHandle *handle,
			   CUdeviceptr address)
{
	CUresult r = pool_ipc_handle(real, handle, address);
	KEEP_ERRNO;
	CUdeviceptr start;

	if (r != CUDA_SUCCESS && pages_may_have(address))
		guard_count_unguarded(GUARD_NOT_EXPORTED);
	if (r != CUDA_SUCCESS || !handle)
		return r;
	/* the handle is of the whole block */
	if (!record_export(call, address, handle) && size_at(address, &start) && start != address)
		record_export(call, start, handle);
	return r;
}

/* Returns true if the block at ADDRESS is opened memory of HANDLE. */
static bool is_open(const struct call *call, uint64_t address, const CUipcMemHandle *handle)
{
	LEAVE_AT_END struct recorder *recorder = recorder_enter();
	struct ledger_block block;
	uint64_t name;

	if (!recorder)
		return false;
	name = block_live_name(recorder, key_of(call, address), &block);
	return name && ipc_is_open(recorder, name, handle);
}

static void record_open(const struct ledger_block *block, const CUipcMemHandle *handle)
{
	CUdeviceptr start;
	struct ledger_ipc record = { .flags = LEDGER_IPC_OPENED,
				     .bytes = size_at(block->address, &start) };
	LEAVE_AT_END struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	record.address = block->address;
	record.site = block->site;
	memcpy(record.handle, handle, sizeof(record.handle));
	ipc_add(recorder, &record,
		ledger_block_name(block->state, ledger_ref(&recorder->writer, block)));
}

/* cuda.h: if the context has the handle open already, the address is the same, and the memory must
 * be closed once more. */
void cuda_ipc_opened(struct call *call, uint64_t address, const CUipcMemHandle *handle)
{
	struct made made = { .number = address, .address = address };
	const struct ledger_block *block;

	call->space = SPACE_MEMORY;
	if (is_open(call, address, handle) && record_retained(call, address))
		return;
	cuda_current_context(&made.context, &made.device);
	block = record_block(call, &made);
	if (block)
		record_open(block, handle);
}

/* ---- other imports ---- */

void cuda_record_import(enum space space, uint64_t number, uint64_t of, uint64_t bytes)
{
	LEAVE_AT_END struct recorder *recorder = bytes ? recorder_enter() : NULL;
	struct ledger_ipc record = { .flags = LEDGER_IPC_OPENED | LEDGER_IPC_IMPORTED,
				     .address = of, .bytes = bytes };
	uint64_t name = recorder ? record_name_of(recorder, space, number) : 0;

	if (name)
		ipc_add(recorder, &record, name);
}

void cuda_record_mapped(struct call *call, uint64_t address, uint64_t handle)
{
	CUdeviceptr start;
	uint64_t bytes = size_at(address, &start);

	call->space = SPACE_MEMORY;
	cuda_record_made(call, address, 0);
	cuda_record_import(SPACE_CUDA_HANDLE, handle, handle, bytes);
	cuda_record_import(SPACE_MEMORY, address, handle, bytes);
}

void cuda_record_shared(struct call *call, uint64_t address)
{
	call->space = SPACE_MEMORY;
	if (!record_is_live(call, address))
		cuda_record_mapped(call, address, address);
}

#define HAND CUDA_HAND
#define ROWS_OF "interpose/cuda/cuda_ipc.def"
#include "interpose/dispatch/hooks.def"
