/* SPDX-License-Identifier: MIT
 *
 * Allocations of CUDA graphs: the memory nodes of each graph, and what each executable graph will
 * allocate and free when it is launched.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda/cuda_types.h"
#include "ledger/lock.h"

struct graph;
struct call;

enum graph_list { GRAPHS, EXECS };

struct graphs {
	struct lock lock;
	struct graph *listed[EXECS + 1]; /* by handle: graphs, executable graphs */
};

/* CALL allocated BYTES at ADDRESS, or freed ADDRESS, on STREAM. If STREAM is being captured, adds a
 * node to the graph, whose launch allocates or frees the memory later, and returns true. */
bool cuda_graph_captured(struct call *call, CUstream stream, uint64_t address, uint64_t bytes);
bool cuda_graph_captured_free(struct call *call, CUstream stream, uint64_t address);
/* CALL began a capture on STREAM into a new graph. */
void cuda_graph_begun(struct call *call, CUstream stream);
