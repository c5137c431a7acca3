/* SPDX-License-Identifier: MIT
 *
 * Captured graphs, and what the driver allows beside a capture, as measured on an H200. In
 * global mode no other thread may allocate, free, query an event or use the legacy stream unless
 * it has exchanged its mode; in the other two all may. To wait for a context, or to copy through
 * the legacy stream, nobody may.
 */
#include <time.h>

#include "torture.h"

static pthread_rwlock_t global_lock, capture_lock;
static _Atomic int running;

void captures_init(void)
{
	pthread_rwlockattr_t fair;

	pthread_rwlockattr_init(&fair);
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&global_lock, &fair);
	pthread_rwlock_init(&capture_lock, NULL);
}

bool may_disturb(struct worker *w)
{
	if (pthread_rwlock_tryrdlock(&global_lock))
		return false;
	if (atomic_load_explicit(&running, memory_order_relaxed))
		w->counts[COUNT_beside_captures]++;
	return true;
}

void disturb_in_turn(struct worker *w)
{
	(void)w;
	pthread_rwlock_rdlock(&global_lock);
}

void disturbing_ends(struct worker *w)
{
	(void)w;
	pthread_rwlock_unlock(&global_lock);
}

bool no_captures(void)
{
	return !pthread_rwlock_trywrlock(&capture_lock);
}

void captures_may_go_on(void)
{
	pthread_rwlock_unlock(&capture_lock);
}

struct capture {
	int mode;
	int context;
	struct stream stream;
	struct block from, to;
	uint64_t clocks;
};

static void pause_a_little(struct worker *w)
{
	struct timespec t = { .tv_nsec = below(w, 1500000) };

	if (chance(w, 70))
		nanosleep(&t, NULL);
}

/* The capturing thread itself goes on allocating and freeing in its other streams. */
static void churn(struct worker *w, int context)
{
	unsigned int times = below(w, 6);

	while (times--) {
		const struct stream *s = pick_stream(w, context);
		struct block b;

		if (!block_make(w, &b, context, draw_size(w)))
			return;
		block_fill(w, &b, s, below(w, 50000));
		block_check(w, &b, s, 0);
		block_free_plainly(w, &b);
	}
	if (w->live_count && chance(w, 50)) {
		struct block b = take_live(w, below(w, w->live_count));

		if (b.ordered)
			keep(w, &b);
		else
			block_free_plainly(w, &b);
	}
}

static void churn_if_allowed(struct worker *w, const struct capture *c)
{
	int relaxed = CAPTURE_RELAXED;

	if (chance(w, 40))
		return;
	if (c->mode == CAPTURE_RELAXED || w->exchanged) {
		if (may_disturb(w)) {
			churn(w, c->context);
			disturbing_ends(w);
		}
		return;
	}
	MUST(w, cuThreadExchangeStreamCaptureMode(&relaxed));
	churn(w, c->context);
	MUST(w, cuThreadExchangeStreamCaptureMode(&relaxed)); /* the one before */
	enter(w, c->context);
}

static CUgraph capture(struct worker *w, struct capture *c, uint32_t *wrong)
{
	const struct kernels *k = &contexts[c->context].kernels;
	CUstream s = c->stream.handle;
	uint64_t words = c->from.bytes / 4;
	CUgraph graph = NULL;

	MUST(w, cuStreamBeginCapture_v2(s, c->mode));
	atomic_fetch_add(&running, 1);
	MUST(w, launch_fill(k, s, c->from.address, words, c->from.value, c->clocks));
	churn_if_allowed(w, c);
	enter(w, c->context);
	MUST(w, cuMemcpyDtoDAsync_v2(c->to.address, c->from.address, c->from.bytes, s));
	pause_a_little(w);
	MUST(w, launch_check(k, s, c->to.address, words, c->from.value, wrong, c->clocks));
	MUST(w, cuStreamEndCapture(s, &graph));
	atomic_fetch_sub(&running, 1);
	if (!graph)
		fail(w, "a capture ended without a graph");
	w->counts[COUNT_captures]++;
	return graph;
}

/* A capture that its own program spoils is over, too. */
static CUgraph spoil(struct worker *w, const struct capture *c)
{
	CUstream s = c->stream.handle;
	CUgraph graph = NULL;

	MUST(w, cuStreamBeginCapture_v2(s, c->mode));
	MUST(w, launch_fill(&contexts[c->context].kernels, s, c->from.address, c->from.bytes / 4,
			    c->from.value, c->clocks));
	expect(w, cuStreamSynchronize(s), CAPTURE_UNSUPPORTED, "cuStreamSynchronize of a capture");
	expect(w, cuStreamEndCapture(s, &graph), CAPTURE_INVALIDATED, "cuStreamEndCapture");
	if (graph)
		fail(w, "a spoiled capture gave a graph");
	w->counts[COUNT_spoiled]++;
	return NULL;
}

/* Its blocks and the graph itself go while the last launch is pending. */
static void launch_it(struct worker *w, struct capture *c, CUgraph graph)
{
	unsigned int times = 1 + below(w, 4);
	CUgraphExec exec;

	enter(w, c->context);
	if (!graph) { /* nothing was ever written to them */
		block_free_plainly(w, &c->from);
		block_free_plainly(w, &c->to);
		return;
	}
	MUST(w, cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(w, cuGraphDestroy(graph));
	while (times--) {
		const struct stream *s = pick_stream(w, c->context);

		block_use(w, &c->from, s);
		block_use(w, &c->to, s);
		MUST(w, cuGraphLaunch(exec, s->handle));
		block_used(w, &c->from, s);
		block_used(w, &c->to, s);
		w->counts[COUNT_graph_launches]++;
		c->to.value = c->from.value;
		if (chance(w, 30))
			block_check(w, &c->to, pick_stream(w, c->context), draw_clocks(w));
		if (chance(w, 30))
			block_fill(w, &c->from, pick_stream(w, c->context), 0);
	}
	if (chance(w, 50)) {
		block_free(w, &c->from);
		MUST(w, cuGraphExecDestroy(exec));
		block_free(w, &c->to);
		return;
	}
	block_free(w, &c->to);
	block_free(w, &c->from);
	MUST(w, cuGraphExecDestroy(exec));
}

static bool prepare(struct worker *w, struct capture *c)
{
	size_t bytes = draw_size(w);

	c->mode = (int)below(w, 3);
	c->context = (int)below(w, (unsigned int)context_count);
	c->clocks = draw_clocks(w) / 4;
	if (!block_make(w, &c->from, c->context, bytes))
		return false;
	if (!block_make(w, &c->to, c->context, bytes)) {
		block_free_plainly(w, &c->from);
		return false;
	}
	enter(w, c->context);
	MUST(w, cuStreamCreate(&c->stream.handle, STREAM_NON_BLOCKING));
	c->stream.context = c->context;
	return true;
}

void step_capture(struct worker *w)
{
	struct capture c = { 0 };
	bool ready, alone;
	uint32_t *wrong;
	CUgraph graph;

	disturb_in_turn(w);
	ready = prepare(w, &c);
	disturbing_ends(w);
	if (!ready)
		return;
	wrong = &w->rings[c.context].words[ring_slot(w, &c.from)];
	alone = c.mode == CAPTURE_GLOBAL && !w->exchanged;
	pthread_rwlock_rdlock(&capture_lock);
	if (alone)
		pthread_rwlock_wrlock(&global_lock);
	graph = chance(w, 15) ? spoil(w, &c) : capture(w, &c, wrong);
	if (alone)
		pthread_rwlock_unlock(&global_lock);
	pthread_rwlock_unlock(&capture_lock);
	disturb_in_turn(w);
	launch_it(w, &c, graph);
	MUST(w, cuStreamDestroy_v2(c.stream.handle));
	disturbing_ends(w);
}
