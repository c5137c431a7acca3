/* SPDX-License-Identifier: MIT
 *
 * What graphs and executable graphs share: one lock, the nodes, and the memory that they hold.
 */
#ifndef GPULEAK_STANDIN_GRAPH_H
#define GPULEAK_STANDIN_GRAPH_H

#include <pthread.h>

#include "standin/driver/async.h"

enum { NODE_EMPTY = 5, NODE_GRAPH = 4, NODE_MEM_ALLOC = 10, NODE_MEM_FREE = 11,
       NODE_WORK = -1 };

struct CUgraphNode_st {
	struct CUgraphNode_st *next;
	int type;
	struct memory *memory; /* the memory that the node allocates or frees, or NULL */
	struct work *work;     /* captured work, or NULL */
};

struct CUgraph_st {
	struct CUgraph_st *next;
	struct CUgraph_st *parent; /* the graph that this one was moved into, or NULL */
	struct CUgraphNode_st *nodes;
	struct CUgraphExec_st *exec; /* its executable graph if the graph has memory, or NULL */
};

/* The memory of a node that allocates. The address stays the same; there is memory while `live` is
 * set. */
struct memory {
	struct memory *next;
	CUdeviceptr address;
	size_t bytes;
	struct CUgraph_st *graph; /* NULL: that is gone */
	struct CUgraph_st *freed_by; /* the last graph with a node that frees it */
	unsigned int held; /* number of executable graphs and of freeing nodes that refer to it */
	bool live;
};

struct CUgraphExec_st {
	int device; /* the device that its code takes memory of */
	struct CUgraphExec_st *next;
	struct CUgraph_st *graph; /* NULL: that is gone */
	bool frees_at_launch;
	unsigned int allocates, frees;
	struct memory **memory; /* memory that it allocates, then memory that it frees */
	struct work *works;	/* copies of the captured work, in the order of capture */
	unsigned int work_count;
};

extern pthread_mutex_t graph_lock;

/* Locking: all of these need graph_lock. */
bool is_graph(CUgraph graph);
bool has_memory(const struct CUgraph_st *graph);
void memory_let_go(struct memory *memory);
unsigned int collect(const struct CUgraph_st *graph, int type, struct memory **out);
CUresult copy_works(struct work **out, unsigned int *count, const struct CUgraph_st *graph);
CUresult add_works(CUgraph graph, const struct work *works, unsigned int count);

#endif
