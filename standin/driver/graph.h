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
	struct memory *memory; /* of a node that allocates or frees */
	struct work *work;     /* that was captured */
};

struct CUgraph_st {
	struct CUgraph_st *next;
	struct CUgraph_st *parent; /* it moved into */
	struct CUgraphNode_st *nodes;
	struct CUgraphExec_st *exec; /* that exists of it, if it has memory */
};

/* What a node allocates: an address for good, memory while it is live. */
struct memory {
	struct memory *next;
	CUdeviceptr address;
	size_t bytes;
	struct CUgraph_st *graph; /* NULL: that is gone */
	struct CUgraph_st *freed_by; /* the last graph with a node that frees it */
	unsigned int held; /* by executable graphs and nodes that free it */
	bool live;
};

struct CUgraphExec_st {
	int device; /* that its code lies on */
	struct CUgraphExec_st *next;
	struct CUgraph_st *graph; /* NULL: that is gone */
	bool frees_at_launch;
	unsigned int allocates, frees;
	struct memory **memory; /* those, then these */
	struct work *works;	/* in their order, each a copy */
	unsigned int work_count;
};

extern pthread_mutex_t graph_lock;

/* All of these with the lock held. */
bool is_graph(CUgraph graph);
bool has_memory(const struct CUgraph_st *graph);
void memory_let_go(struct memory *memory);
unsigned int collect(const struct CUgraph_st *graph, int type, struct memory **out);
CUresult copy_works(struct work **out, unsigned int *count, const struct CUgraph_st *graph);
CUresult add_works(CUgraph graph, const struct work *works, unsigned int count);

#endif
