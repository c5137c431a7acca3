/* SPDX-License-Identifier: MIT
 *
 * What CUDA graphs allocate: nodes of graphs that are being made, and what each executable
 * graph will allocate and free when it is launched.
 */
#ifndef GPULEAK_CUDA_GRAPH_H
#define GPULEAK_CUDA_GRAPH_H

#include <stdint.h>

#include "interpose/cuda/cuda_types.h"
#include "ledger/lock.h"

struct graph;
struct graph_exec;
struct site;

struct graphs {
	struct lock lock;
	struct graph *graphs;
	struct graph_exec *execs;
};

/* STREAM is captured, and the call at SITE made BYTES at ADDRESS or freed ADDRESS: a node of
 * the captured graph, no memory yet. */
void cuda_graph_captured(const struct site *site, CUstream stream, uint64_t address,
			 uint64_t bytes);
void cuda_graph_captured_free(const struct site *site, CUstream stream, uint64_t address);
/* The call at SITE has begun a capture on STREAM into a graph of its own. */
void cuda_graph_begun(const struct site *site, CUstream stream);

#endif
