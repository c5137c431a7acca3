/* SPDX-License-Identifier: MIT
 *
 * What torture's files share. Workers, one a thread, draw steps of a program from a seeded
 * generator; the program is free of races: whoever uses a block waits for its last use, and all
 * uses of a block are submitted before its free. So every check must find its own pattern.
 */
#ifndef GPULEAK_TESTS_TORTURE_H
#define GPULEAK_TESTS_TORTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "launch.h"

#define FEATURES(F) \
	F(async) F(pinned) F(cross) F(streams) F(legacy) F(copies) F(blocking) F(queries) F(wrong) \
	F(captures) F(contexts) F(resets) F(ordered) F(info) F(tensors)

enum {
#define F(name) BIT_##name,
	FEATURES(F)
#undef F
#define F(name) FEATURE_##name = 1u << BIT_##name,
	FEATURES(F)
#undef F
};

/* allocated, freed, lost and errors are what gpuleak's report must say, too. */
#define COUNTS(C) \
	C(steps) C(allocated) C(freed) C(lost) C(errors) C(refused) C(reused) C(freed_async) \
	C(freed_elsewhere) C(checks) C(mebibytes) C(copies) C(pinned) C(queries) C(streams) \
	C(captures) C(spoiled) C(beside_captures) C(held_back) C(graph_launches) C(waits) \
	C(endings) C(compared) C(compared_blocks) C(compared_tensors) C(compared_hidden) \
	C(unsteady)

enum count {
#define C(name) COUNT_##name,
	COUNTS(C)
#undef C
	COUNT_END
};

enum { MAX_CONTEXTS = 4, MAX_STREAMS = 16, MAX_LIVE = 48, MAX_PARTINGS = 32, MAX_SPARE = 64,
       MAX_THREADS = 64, RING = 512, RING_ROOM = 80, GONE = 32, PALETTE = 16 };

/* Of the pool, if there is one: where native waits, strict does, too; a free of fast does not. */
enum mode { MODE_OFF, MODE_STRICT, MODE_FAST };

struct options {
	enum mode mode;
	uint64_t seed;
	unsigned int seconds, threads, streams, ops, devices, features;
	size_t max_bytes;
	bool may_fail, must_fail, may_wait, pinned_goes_back, all_goes_back;
};
extern struct options options;

struct context {
	CUcontext handle;
	CUdevice device;
	bool primary;
	struct kernels kernels;
};
extern struct context contexts[MAX_CONTEXTS];
extern int context_count;

struct stream {
	CUstream handle;
	int context;
	bool open, created;
};

struct block {
	CUdeviceptr address;
	size_t bytes;
	uint32_t value;
	int context;
	bool ordered; /* made by cuMemAllocAsync */
	CUevent used; /* recorded after the last use */
};

/* Where checks of one context count wrong words: pinned memory, and what each word is of. */
struct ring {
	uint32_t *words;
	unsigned int used;
	struct {
		struct block block;
		unsigned int round, step;
		const char *op;
	} of[RING];
};

struct worker {
	unsigned int index, round, step;
	const char *op;
	pthread_t thread;
	uint64_t random;
	struct stream streams[MAX_STREAMS];
	struct block live[MAX_LIVE];
	unsigned int live_count;
	struct ring rings[MAX_CONTEXTS];
	struct {
		CUevent event;
		int context;
	} partings[MAX_PARTINGS]; /* ends of work in streams that are gone */
	unsigned int parting_count;
	CUevent spare[MAX_CONTEXTS][MAX_SPARE];
	unsigned int spare_count[MAX_CONTEXTS];
	CUdeviceptr gone[GONE]; /* freed not long ago */
	unsigned int gone_next;
	bool exchanged; /* its calls disturb nobody's capture */
	bool ignoring; /* gpuleak ignores the blocks that it makes now */
	uint64_t tensor_random;
	uint64_t counts[COUNT_END];
};

extern struct worker workers[MAX_THREADS + 1]; /* the last is the main thread's */
void count_refused(struct worker *w); /* an allocation failed for want of memory */
extern _Atomic bool starved; /* nothing can be allocated any more, and that was foreseen */

/* torture.c */
_Noreturn void fail(const struct worker *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void expect(const struct worker *w, CUresult r, CUresult wanted, const char *call);
#define MUST(w, call) expect(w, call, SUCCESS, #call)
bool over(void);
const char *last_wait(void); /* the call of the driver in which this thread waited last */
uint64_t waits_so_far(void); /* of the calling thread, for work */
uint64_t call_begins(void);  /* the same, before a call that must not wait */
bool alive(void); /* something moved: not hanging */

uint64_t draw(struct worker *w);
unsigned int below(struct worker *w, unsigned int limit);
bool chance(struct worker *w, unsigned int percent);
static inline bool has(unsigned int feature)
{
	return options.features & feature;
}

/* world.c: contexts, streams, events, rings */
void enter(const struct worker *w, int context);
void forget_current(void);
void context_open(const struct worker *w, int context);
bool worker_prepare(struct worker *w);
struct stream *pick_stream(struct worker *w, int context);
struct stream *pick_calm_stream(struct worker *w, int context);
void stream_replace(struct worker *w);
CUevent event_take(struct worker *w, int context);
void event_give(struct worker *w, int context, CUevent event);
unsigned int ring_slot(struct worker *w, const struct block *b);
bool ring_has_room(const struct worker *w);
void verify(struct worker *w, bool by_itself);
void worker_close(struct worker *w, int context);
void world_close(struct worker *w);
bool pinned_alloc(struct worker *w, void **ret, size_t bytes);
void pinned_free(struct worker *w, void *p);
void no_wait_since(const struct worker *w, uint64_t waits, const char *call);

/* blocks.c: a block's life */
size_t draw_size(struct worker *w);
uint64_t draw_clocks(struct worker *w);
bool block_make(struct worker *w, struct block *ret, int context, size_t bytes);
void block_fill(struct worker *w, struct block *b, const struct stream *s, uint64_t clocks);
void block_check(struct worker *w, struct block *b, const struct stream *s, uint64_t clocks);
void block_copy(struct worker *w, struct block *to, struct block *from, const struct stream *s);
void block_use(struct worker *w, struct block *b, const struct stream *s);
void block_used(struct worker *w, struct block *b, const struct stream *s);
void block_free(struct worker *w, struct block *b);
void block_free_plainly(struct worker *w, struct block *b);
void block_query(struct worker *w, const struct block *b);
void wrong_free(struct worker *w, CUdeviceptr address);
void keep(struct worker *w, const struct block *b);
struct block take_live(struct worker *w, unsigned int i);
bool hand_over(const struct block *b);
bool take_over(struct worker *w, struct block *ret);
void queue_drop(struct worker *w, int context);

/* steps.c */
void steps(struct worker *w);

/* captures.c: who may do what while a stream is captured */
void captures_init(void);
bool may_disturb(struct worker *w); /* no global capture goes on until disturbing_ends() */
void disturb_in_turn(struct worker *w); /* waits for that */
void disturbing_ends(struct worker *w);
bool no_captures(void); /* none at all goes on until captures_may_go_on() */
void captures_may_go_on(void);
void step_capture(struct worker *w);

/* tensors.c: reports of tensors, ignored blocks; the balances of call sites */
void tensors_init(void);
void tensors_step(struct worker *w);
void tensors_thread_ends(struct worker *w);
void tensors_close(void);
void balances_check_quiet(struct worker *w); /* no other thread runs */
void balances_check_running(struct worker *w);

/* quiet.c: what is exact only while nobody else works */
void quiet(struct worker *w);
void endings(struct worker *w);

/* The driver is ours, and exact. */
extern bool on_standin;

#endif
