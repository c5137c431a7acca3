/* SPDX-License-Identifier: MIT
 *
 * Which call sites held the memory when a request was refused because memory ran out, with the
 * request and its outcome; and which held it at the peak of each memory. Must not print.
 */
#pragma once

#include "report/model/model.h"

enum report_outcome {
	OUTCOME_RECOVERED, /* the same thread got as much afterwards */
	OUTCOME_TOLERATED, /* the program went on without the memory */
	OUTCOME_FINAL,     /* it was the end of the program, or of its work on the GPU */
};

/* Who held memory at one moment. The memory is divided: no byte is counted twice. */
struct report_holders {
	/* By call site, largest first. In each element only `site`, `bytes`, `blocks` and `cache`
	 * are set. The unused part of a cache is one holder without a stack. */
	struct report_leak *list;
	size_t count;
	/* suballocations are holders of their own, and the blocks around them count without them */
	bool divided;
	uint64_t other_sites, other_bytes, other_blocks; /* smaller ones, not in the list */
};

/* The peak of one memory: of a device, or of host memory. */
struct report_peak {
	enum ledger_memory memory;
	int device; /* -1 unknown, or host memory */
	uint64_t bytes;
	uint64_t time_ns;
	/* `bytes` may be too low by up to this number, and the sum of the holders may differ from
	 * `bytes` by up to this number. */
	uint64_t error_bytes;
	struct report_holders held;
};

/* Call sites that held or changed memory, see report/subjects/timeline.c. */
struct report_moment_sum {
	uint64_t bytes, blocks; /* of blocks, without suballocations */
	struct report_holders held;
};

/* What was allocated at a moment, or in a time between two moments. */
struct report_moment {
	uint64_t from_ns, to_ns; /* equal: a moment */
	/* The trace shows it. Then `live` is valid at a moment, and between two moments the other
	 * three: what was allocated, what was freed, and what of the former was left at the end. */
	bool is_traced;
	struct report_moment_sum live, allocated, freed, left;
	/* The trace begins here. UINT64_MAX: the ledger has no trace, or a trace without events */
	uint64_t trace_ns;
	/* The last samples of the timeline at or before the two moments, and the first ones after
	 * them, of the two moments. time_ns UINT64_MAX: no such sample */
	struct report_sample before[2], after[2];
};

struct report_out_of_memory {
	uint64_t number;    /* from 1, in the order of the first refusals */
	const struct report_site *site; /* of the refused call, without a kind; never NULL */
	uint64_t bytes;     /* requested; 0 unknown */
	uint64_t time_ns;   /* of the last refusal of this request */
	uint32_t times;     /* how often this request was refused in a row */
	enum ledger_refuser refuser;
	uint64_t limit_bytes; /* of GPULEAK_LIMIT, if that refused the request */
	bool recovered;
	bool gave_up; /* a framework reported that it gave up: see framework */
	bool went_on; /* the process allocated afterwards, or it is not known if it did */
	/* free_bytes and total_bytes are known: what the driver reported for the device */
	bool has_free;
	uint64_t free_bytes, total_bytes;
	const char *framework; /* "PyTorch"; NULL: none gave up */
	uint64_t framework_bytes;     /* requested from the framework */
	uint64_t framework_allocated; /* in its suballocations on the device */
	uint64_t framework_reserved;  /* in its blocks on the device */
	uint64_t parked_bytes; /* unused in memory pools of the driver on the device */
	bool has_holders; /* tracked_bytes and held are known */
	uint64_t tracked_bytes; /* what all holders have */
	/* see model_fragmentation.h; NULL: not known */
	const struct report_fragmentations *fragmentation;
	struct report_holders held;
};
