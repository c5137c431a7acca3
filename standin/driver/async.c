/* SPDX-License-Identifier: MIT
 *
 * Queues of work, run by one thread of the stand-in's own: in order within a queue, in a seeded
 * order and after seeded delays between queues. Kernels that spin or wait for a flag take no
 * thread, so any number of them run side by side. Owns the queues, and the counts of how often each
 * thread waited for them; bytes.c owns memory. A queue is never freed, so a number of its work that
 * is done stays done.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "standin/driver/async.h"

enum queue_kind { QUEUE_STREAM, QUEUE_LEGACY, QUEUE_THREAD, QUEUE_CONTEXT };

struct queue {
	struct queue *next;
	enum queue_kind kind;
	CUcontext context; /* NULL: unused, so another stream may get the queue */
	uint64_t owner;	   /* the thread whose default stream this is */
	uint64_t number;
	bool blocking; /* waits for the legacy stream, which waits for this queue, too */
	bool orphan;   /* its stream was destroyed, or its thread ended */
	unsigned int frees; /* threads that wait to free memory of the context */
	uint64_t submitted, done;
	struct work *first, *last;
};

bool standin_async;

static uint64_t async_seed;
static pthread_mutex_t async_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t submitted_some, done_some;
static struct queue *queues;
static struct queue *executing; /* the queue whose first work is run without the lock */
static bool worker_runs;
static _Atomic bool abandoned;
static pthread_key_t thread_end, waits_end;
static _Atomic uint64_t thread_count;
static __thread uint64_t thread_number;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- who waited ---- */

enum { MAX_CALLS = 64 };

struct waits {
	const char *name;
	uint64_t count;
	uint64_t overdue; /* waits for work that was submitted before standin_mark() */
};

struct own {
	struct waits waits[MAX_CALLS];
	const char *last; /* name of the last call that waited for work */
	uint64_t mark;
};

/* allocated at first use, because thread-local memory of a library is scarce */
static __thread struct own *own;
/* under async_lock; `sitting`: threads that wait at this moment */
static uint64_t submissions, sitting;

static struct own *ensure_own(void)
{
	if (!own) {
		own = calloc(1, sizeof(*own));
		pthread_setspecific(waits_end, own);
	}
	return own;
}

/* Returns the calling thread's entry for the call NAME. Returns NULL if there are too many
 * different calls, or no memory. */
static struct waits *entry_of(const char *name)
{
	for (struct waits *w = own ? own->waits : NULL; w && w < own->waits + MAX_CALLS; w++)
		if (!w->name || !strcmp(w->name, name)) {
			w->name = name;
			return w;
		}
	return NULL;
}

/* Locking: needs async_lock. FIRST: number of the oldest piece of work that the thread waited
 * for. */
static void count_wait(const char *name, uint64_t first)
{
	struct waits *w = ensure_own() ? entry_of(name) : NULL;

	if (!w)
		return;
	w->count++;
	w->overdue += first <= own->mark;
	own->last = name;
}

/* Returns how often the calling thread waited for work in the call NAME (NULL: in any). */
EXPORTED uint64_t standin_waits(const char *name)
{
	uint64_t count = 0;

	for (int i = 0; own && i < MAX_CALLS && own->waits[i].name; i++)
		if (!name || !strcmp(own->waits[i].name, name))
			count += own->waits[i].count;
	return count;
}

/* Returns the name of the call in which the calling thread last waited for work; NULL: it never
 * did. */
EXPORTED const char *standin_last_wait(void)
{
	return own ? own->last : NULL;
}

/* Sets the calling thread's mark: all work that any thread has submitted until now is old for
 * standin_overdue(). */
EXPORTED void standin_mark(void)
{
	pthread_mutex_lock(&async_lock);
	if (ensure_own())
		own->mark = submissions;
	pthread_mutex_unlock(&async_lock);
}

/* Returns how often the calling thread waited in the call NAME for work that was submitted before
 * the thread's mark. All its other waits in NAME were only for work that was submitted later. */
EXPORTED uint64_t standin_overdue(const char *name)
{
	for (int i = 0; own && i < MAX_CALLS && own->waits[i].name; i++)
		if (!strcmp(own->waits[i].name, name))
			return own->waits[i].overdue;
	return 0;
}

/* Returns how many threads wait now, for work, or for another thread that waits in a free. */
EXPORTED uint64_t standin_sitting(void)
{
	uint64_t count;

	pthread_mutex_lock(&async_lock);
	count = sitting;
	pthread_mutex_unlock(&async_lock);
	return count;
}

/* ---- order ---- */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

/* Returns the delay of the next work of Q in nanoseconds: mostly 0, sometimes tens of microseconds,
 * rarely one or two milliseconds. */
static uint64_t delay_of(const struct queue *q)
{
	uint64_t r = mix(async_seed ^ mix(q->number << 32 ^ q->done));

	if (standin_fake)
		return 0;
	if ((r & 63) == 0)
		return (r >> 8) % 2000000;
	if ((r & 7) == 1)
		return (r >> 8) % 200000;
	return r & 1 ? (r >> 8) % 20000 : 0;
}

static bool is_done(struct after what)
{
	return !what.queue || what.queue->done >= what.number;
}

static bool may_start(const struct work *w)
{
	for (unsigned int i = 0; i < w->afters; i++)
		if (!is_done(w->after[i]))
			return false;
	return true;
}

static void start(const struct queue *q, struct work *w, uint64_t now)
{
	w->started = true;
	w->ends = now + w->clocks + (w->at_once ? 0 : delay_of(q));
	if (atomic_load(&w->context->alive) == CONTEXT_FAULTED || !bytes_intact(w, "began"))
		w->kind = WORK_MARK;
}

/* Returns true if the first work of the queue can be finished now. Otherwise lowers *WAKE to the
 * time at which to check again, if that is known. */
static bool can_finish(const struct queue *q, uint64_t now, uint64_t *wake)
{
	struct work *w = q->first;
	uint64_t again;

	if (!w)
		return false;
	if (!w->started) {
		if (!may_start(w))
			return false;
		start(q, w, now);
	}
	if (w->ends <= now && (w->kind != WORK_WAIT || bytes_flag_set(w)))
		return true;
	again = w->ends > now ? w->ends : now + 50000;
	if (again < *wake)
		*wake = again;
	return false;
}

static struct queue *pick(uint64_t *wake)
{
	static uint64_t turn;
	uint64_t now = now_ns(), best = 0;
	struct queue *chosen = NULL;

	turn++;
	for (struct queue *q = queues; q; q = q->next)
		if (can_finish(q, now, wake)) {
			uint64_t rank = mix(async_seed + turn * 31 + q->number) | 1;

			if (rank > best) {
				best = rank;
				chosen = q;
			}
		}
	return chosen;
}

static void free_work(struct work *w)
{
	free(w->staging);
	free(w);
}

static void recycle_if_unused(struct queue *q)
{
	if (q->orphan && !q->first && executing != q)
		q->context = NULL;
}

/* Calls a host function. Only the worker does that, so the gate's bit needs no count. */
static void call_host(const struct queue *q, const struct work *w)
{
	standin_thread.current = q->context;
	standin_thread.in_host_function = true;
	atomic_fetch_or(&standin_gate, GATE_HOST);
	w->call(w->data);
	atomic_fetch_and(&standin_gate, ~(unsigned int)GATE_HOST);
	standin_thread.in_host_function = false;
}

static void finish(struct queue *q)
{
	struct work *w = q->first;

	executing = q;
	pthread_mutex_unlock(&async_lock);
	if (w->kind == WORK_HOST)
		call_host(q, w);
	else
		bytes_execute(w);
	pthread_mutex_lock(&async_lock);
	executing = NULL;
	q->first = w->next;
	if (!q->first)
		q->last = NULL;
	q->done++;
	free_work(w);
	recycle_if_unused(q);
	pthread_cond_broadcast(&done_some);
}

static void wait_until(pthread_cond_t *what, uint64_t when)
{
	struct timespec t = { .tv_sec = (time_t)(when / 1000000000u),
			      .tv_nsec = (long)(when % 1000000000u) };

	pthread_cond_timedwait(what, &async_lock, &t);
}

static void *run_queues(void *unused)
{
	pthread_mutex_lock(&async_lock);
	while (!atomic_load(&abandoned)) {
		uint64_t wake = UINT64_MAX;
		struct queue *q = pick(&wake);

		if (q)
			finish(q);
		else if (wake < UINT64_MAX)
			wait_until(&submitted_some, wake);
		else
			pthread_cond_wait(&submitted_some, &async_lock);
	}
	pthread_mutex_unlock(&async_lock);
	return unused;
}

/* Locking: needs async_lock. Starts the worker if it does not run. The worker blocks all signals,
 * so that it handles none of the application's. */
static bool ensure_worker(void)
{
	sigset_t all, before;
	pthread_t worker;

	if (worker_runs)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	worker_runs = !pthread_create(&worker, NULL, run_queues, NULL);
	if (worker_runs)
		pthread_detach(worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return worker_runs;
}

/* ---- queues ---- */

/* Ends the default streams of the thread NUMBER, which ends. */
static void thread_ends(void *number)
{
	if (atomic_load(&standin_gate) & GATE_FORKED)
		return; /* in a forked child the lock may be held permanently */
	pthread_mutex_lock(&async_lock);
	for (struct queue *q = queues; q; q = q->next)
		if (q->context && q->kind == QUEUE_THREAD && q->owner == (uintptr_t)number) {
			q->orphan = true;
			recycle_if_unused(q);
		}
	pthread_mutex_unlock(&async_lock);
}

static void free_waits(void *waits)
{
	own = NULL;
	free(waits);
}

/* The worker's code must outlive a dlclose of the driver. */
static void stay_loaded(void)
{
	Dl_info self;
	void *handle = NULL;

	if (dladdr((void *)&async_seed, &self))
		handle = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
	if (handle)
		dlclose(handle);
}

void async_begin(uint64_t seed)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&submitted_some, &monotonic);
	pthread_cond_init(&done_some, &monotonic);
	pthread_key_create(&thread_end, thread_ends);
	pthread_key_create(&waits_end, free_waits);
	stay_loaded();
	async_seed = seed;
	standin_async = true;
}

/* Takes no lock, because the thread that exits may hold it. */
void async_exit(void)
{
	atomic_store(&abandoned, true);
}

/* Locking: needs async_lock. Returns a new or an unused queue. The counts of an unused one
 * continue. */
static struct queue *new_queue(CUcontext context, enum queue_kind kind, bool blocking)
{
	static uint64_t count;
	struct queue *q = queues;

	while (q && q->context)
		q = q->next;
	if (!q) {
		q = calloc(1, sizeof(*q));
		if (!q)
			return NULL;
		q->next = queues;
		queues = q;
	}
	q->context = context;
	q->kind = kind;
	q->blocking = blocking;
	q->orphan = false;
	q->owner = kind == QUEUE_THREAD ? thread_number : 0;
	q->number = ++count;
	return q;
}

struct queue *async_queue(CUcontext context, bool blocking)
{
	struct queue *q;

	pthread_mutex_lock(&async_lock);
	q = new_queue(context, QUEUE_STREAM, blocking);
	pthread_mutex_unlock(&async_lock);
	return q;
}

/* Locking: needs async_lock. Returns the queue of KIND, of which CONTEXT has only one, or one for
 * each thread (QUEUE_THREAD). */
static struct queue *the_queue(CUcontext context, enum queue_kind kind)
{
	uint64_t owner = kind == QUEUE_THREAD ? thread_number : 0;
	struct queue *q = queues;

	while (q && !(q->context == context && q->kind == kind && q->owner == owner))
		q = q->next;
	return q ? q : new_queue(context, kind, kind != QUEUE_CONTEXT);
}

struct queue *async_default_queue(CUcontext context, bool per_thread)
{
	struct queue *q;

	if (per_thread && !thread_number) {
		thread_number = atomic_fetch_add(&thread_count, 1) + 1;
		pthread_setspecific(thread_end, (void *)(uintptr_t)thread_number);
	}
	pthread_mutex_lock(&async_lock);
	q = the_queue(context, per_thread ? QUEUE_THREAD : QUEUE_LEGACY);
	pthread_mutex_unlock(&async_lock);
	return q;
}

/* Records that the stream of QUEUE was destroyed. Work that was submitted to it still runs. */
void async_orphan(struct queue *queue)
{
	pthread_mutex_lock(&async_lock);
	queue->orphan = true;
	recycle_if_unused(queue);
	pthread_mutex_unlock(&async_lock);
}

/* ---- submitting ---- */

static bool comes_before(const struct queue *other, const struct queue *q)
{
	if (other == q || other->context != q->context || !other->first)
		return false;
	switch (q->kind) {
	case QUEUE_CONTEXT:
		return true;
	case QUEUE_LEGACY:
		return other->blocking;
	default:
		return q->blocking && other->kind == QUEUE_LEGACY;
	}
}

static struct work *copy_of(const struct queue *q, const struct work *work,
			    const struct after *after)
{
	unsigned int count = after && !is_done(*after);
	struct work *w;

	for (struct queue *other = queues; other; other = other->next)
		count += comes_before(other, q);
	w = malloc(sizeof(*w) + count * sizeof(w->after[0]));
	if (!w)
		return NULL;
	*w = *work;
	w->context = q->context;
	w->next = NULL;
	w->started = false;
	w->afters = 0;
	if (after && !is_done(*after))
		w->after[w->afters++] = *after;
	for (struct queue *other = queues; other; other = other->next)
		if (comes_before(other, q))
			w->after[w->afters++] = (struct after){ other, other->submitted };
	return w;
}

static CUresult submit(struct queue *q, const struct work *work, const struct after *after,
		       struct after *submitted)
{
	CUresult r = q->context ? context_usable(q->context) : ERROR_INVALID_HANDLE;
	struct work *w;

	if (r)
		return r;
	w = ensure_worker() ? copy_of(q, work, after) : NULL;
	if (!w)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (q->last)
		q->last->next = w;
	else
		q->first = w;
	q->last = w;
	q->submitted++;
	w->submission = ++submissions;
	if (submitted)
		*submitted = (struct after){ q, q->submitted };
	pthread_cond_signal(&submitted_some);
	return CUDA_SUCCESS;
}

CUresult async_submit(struct queue *queue, const struct work *work, const struct after *after,
		      struct after *submitted)
{
	CUresult r;

	pthread_mutex_lock(&async_lock);
	r = submit(queue, work, after, submitted);
	pthread_mutex_unlock(&async_lock);
	if (r)
		free(work->staging);
	return r;
}

/* Submits a mark: work that does nothing. It comes after all work in all queues of CONTEXT, and
 * after all earlier marks of CONTEXT. */
static CUresult mark_context(CUcontext context, const char *name, bool at_once,
			     struct after *submitted)
{
	struct work mark = { .name = name, .kind = WORK_MARK, .at_once = at_once };
	struct queue *q = the_queue(context, QUEUE_CONTEXT);

	return q ? submit(q, &mark, NULL, submitted) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult async_record_context(CUcontext context, const char *name, struct after *submitted)
{
	CUresult r;

	pthread_mutex_lock(&async_lock);
	r = mark_context(context, name, false, submitted);
	pthread_mutex_unlock(&async_lock);
	return r;
}

/* ---- asking and waiting ---- */

bool async_done(struct after what)
{
	bool done;

	pthread_mutex_lock(&async_lock);
	done = is_done(what);
	pthread_mutex_unlock(&async_lock);
	return done;
}

static bool is_idle(const struct queue *q)
{
	if (q->first)
		return false;
	for (struct queue *other = queues; q->kind == QUEUE_LEGACY && other; other = other->next)
		if (comes_before(other, q))
			return false;
	return true;
}

bool async_idle(struct queue *queue)
{
	bool idle;

	pthread_mutex_lock(&async_lock);
	idle = is_idle(queue);
	pthread_mutex_unlock(&async_lock);
	return idle;
}

/* Returns the number of the oldest work of CONTEXT that is not done. If a thread waits for one
 * stream, that may be the work of another stream. */
static uint64_t oldest_work(CUcontext context)
{
	uint64_t oldest = UINT64_MAX;

	for (const struct queue *q = queues; q; q = q->next)
		if (q->context == context && q->first && q->first->submission < oldest)
			oldest = q->first->submission;
	return oldest;
}

/* Locking: needs async_lock, and releases it meanwhile. Waits for WHAT and counts the wait. During
 * exit the wait ends at once. */
static void wait_for(const char *name, struct after what)
{
	uint64_t oldest;

	if (is_done(what))
		return;
	oldest = oldest_work(what.queue->context);
	sitting++;
	while (!is_done(what) && !atomic_load(&abandoned))
		wait_until(&done_some, now_ns() + 100000000);
	sitting--;
	count_wait(name, oldest);
}

void async_wait(const char *name, struct after what)
{
	pthread_mutex_lock(&async_lock);
	wait_for(name, what);
	pthread_mutex_unlock(&async_lock);
}

CUresult async_wait_queue(const char *name, struct queue *queue)
{
	struct work mark = { .name = name, .kind = WORK_MARK, .at_once = true };
	struct after what = { queue, 0 };
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&async_lock);
	what.number = queue->submitted;
	if (!is_idle(queue)) {
		if (queue->kind == QUEUE_LEGACY)
			r = submit(queue, &mark, NULL, &what);
		if (!r)
			wait_for(name, what);
	}
	pthread_mutex_unlock(&async_lock);
	return r;
}

static bool is_busy(CUcontext context)
{
	for (struct queue *q = queues; q; q = q->next)
		if (q->context == context && q->first)
			return true;
	return false;
}

void async_wait_context(const char *name, CUcontext context)
{
	struct after what;

	pthread_mutex_lock(&async_lock);
	if (is_busy(context) && !mark_context(context, name, true, &what))
		wait_for(name, what);
	pthread_mutex_unlock(&async_lock);
}

void async_wait_to_free(const char *name, CUcontext context)
{
	struct after what;

	pthread_mutex_lock(&async_lock);
	if (is_busy(context) && !mark_context(context, name, true, &what)) {
		what.queue->frees++;
		wait_for(name, what);
		what.queue->frees--;
		pthread_cond_broadcast(&done_some);
	}
	pthread_mutex_unlock(&async_lock);
}

void async_pass_frees(CUcontext context)
{
	struct queue *q;

	pthread_mutex_lock(&async_lock);
	q = queues;
	while (q && !(q->context == context && q->kind == QUEUE_CONTEXT))
		q = q->next;
	if (q && q->frees) {
		sitting++;
		while (q->frees && !atomic_load(&abandoned))
			wait_until(&done_some, now_ns() + 100000000);
		sitting--;
	}
	pthread_mutex_unlock(&async_lock);
}

/* Drops all work of CONTEXT, which has ended, so that no work can be added. */
void async_drop_context(CUcontext context)
{
	pthread_mutex_lock(&async_lock);
	while (executing && executing->context == context)
		wait_until(&done_some, now_ns() + 100000000);
	for (struct queue *q = queues; q; q = q->next) {
		if (q->context != context)
			continue;
		while (q->first) {
			struct work *w = q->first;

			q->first = w->next;
			free_work(w);
		}
		q->last = NULL;
		q->done = q->submitted;
		if (q->kind != QUEUE_STREAM || q->orphan)
			/* unless a stream still refers to the queue */
			q->context = NULL;
	}
	pthread_cond_broadcast(&done_some);
	pthread_cond_signal(&submitted_some);
	pthread_mutex_unlock(&async_lock);
}
