/* SPDX-License-Identifier: MIT
 *
 * Memory that is shared between processes by handles of cuIpcGetMemHandle. Each process has a list
 * of its exports and of the memory that it has open. report/analyze/ipc_match.c finds the export of
 * each opened handle, also in the ledgers of other processes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"
#include "report/model/model.h"

/* A block that the process exported. *_ns are of CLOCK_MONOTONIC here. */
struct report_export {
	uint8_t handle[LEDGER_IPC_HANDLE];
	uint64_t time_ns;
	uint64_t freed_ns; /* 0 unknown */
	uint64_t bytes;
	int device; /* -1 unknown */
	bool freed;
	struct report_event allocated, exported;
	struct report_event ended; /* the call that ended the block; its api is NULL if unknown */
};

/* Memory of another process that is open when the ledger ends. */
struct report_opened {
	uint8_t handle[LEDGER_IPC_HANDLE];
	uint64_t time_ns;
	int device;
	uint32_t references; /* how often it must be closed */
	uint64_t bytes; /* 0 unknown */
	bool is_leak; /* not suppressed, ignored or cached */
	struct report_event opened;
};

enum report_shared_state {
	REPORT_SHARED_UNKNOWN, /* no ledger of the report has the export */
	REPORT_SHARED_ALLOCATED,
	REPORT_SHARED_FREED, /* while the importer had it open */
	/* after the importing process had ended, so that it was not open any more */
	REPORT_SHARED_FREED_AFTER,
};

/* Opened memory, grouped by the calls and stacks that opened, allocated, exported and freed it. */
struct report_shared {
	const struct report_process *importer;
	const struct report_process *exporter; /* NULL if the state is UNKNOWN */
	enum report_shared_state state;
	bool is_leak;
	int device; /* of the importer */
	uint64_t blocks;
	uint64_t references;
	uint64_t bytes; /* of the exported blocks; 0 if the state is UNKNOWN */
	struct report_event opened;
	/* Only if `exporter` is set. The api of `ended` is NULL if the block was not freed, or if
	 * the call that freed it is unknown. */
	struct report_event allocated, exported, ended;
};

/* What a process shares. The list of exports has all blocks that were not freed, and the last ones
 * that were. */
struct report_ipc {
	struct report_export *exports;
	size_t export_count;
	struct report_opened *opened;
	size_t opened_count;
	uint64_t exports_dropped; /* exports of freed blocks that the ledger no longer has */
	uint64_t ended_ns; /* when the process ended, of CLOCK_MONOTONIC; 0 unknown */
	/* set by ipc_match() */
	struct report_shared *shared; /* what it has open, largest first */
	size_t shared_count;
	const struct report_shared **freed; /* what others had open when this process freed it */
	size_t freed_count;
};
