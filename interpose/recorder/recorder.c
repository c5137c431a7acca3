/* SPDX-License-Identifier: MIT
 *
 * Starts and ends the recording of a call, for one call per thread at a time. Gives a forked child
 * an empty recorder page. Stops recording if a thread left gpuleak's code in the middle of its
 * work. process/start.c creates the recorder.
 */
#include "interpose/recorder/recorder.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/base/child_memory.h"
#include "interpose/base/config.h"
#include "interpose/base/fork_guard.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/upcalls.h"
#include "interpose/recorder/thread_state.h"

__thread struct thread thread_self;
_Atomic unsigned int alloc_checks READ_BY_ALL;

struct recorder_page *recorder_page READ_BY_ALL;
#define STOPPED_PATIENCE_MS 100u
/* used if child_memory_map() fails */
static struct recorder_page fallback_page;

void recorder_make_page(void)
{
	void *memory;

	if (recorder_page)
		return;
	memory = child_memory_map(4096);
	if (!memory) {
		memory = &fallback_page;
		child_memory_fall_back(memory, sizeof(fallback_page));
	}
	recorder_page = memory;
}

int recorder_failure(void)
{
	/* A vfork child runs in its parent's memory, so the process ID is compared. */
	return recorder_page && recorder_page->failed_pid == getpid() ? recorder_page->impossible
								      : 0;
}

struct recorder *recorder_of_process(void)
{
	struct recorder *recorder = recorder_last();

	return recorder && recorder->pid == getpid() ? recorder : NULL;
}

bool recorder_was_left(uintptr_t then, uintptr_t now)
{
	bool then_on_it = aside_is_on(then), now_on_it = aside_is_on(now);
	stack_t other;

	if (then_on_it && !now_on_it)
		return true;
	if (now_on_it && !then_on_it)
		return false;
	if (sigaltstack(NULL, &other) < 0)
		return false;
	/* If the signal handler has its own stack, it may interrupt code on the other stack. */
	then_on_it = !(other.ss_flags & SS_DISABLE) &&
		     then - (uintptr_t)other.ss_sp < other.ss_size;
	now_on_it = other.ss_flags & SS_ONSTACK;
	return then_on_it == now_on_it ? now >= then : then_on_it;
}

void recorder_stop(void)
{
	struct recorder *recorder;

	shared_publish(recorder_page->impossible, 1);
	recorder = atomic_exchange_explicit(&SHARED(recorder_page->recorder), NULL,
					    memory_order_acq_rel);
	if (!recorder)
		return;
	shared_publish(recorder_page->stopped, recorder);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_ABANDONED, 1);
	/* From now on threads wait at most a tenth of a second for a lock, because the thread that
	 * left may hold it. */
	shared_store(lock_patience_ms, STOPPED_PATIENCE_MS);
}

void lock_lost(void)
{
	if (recorder_page)
		recorder_stop();
}

void lock_sleep(void (*work)(void *data), void *data)
{
	aside_outside(work, data);
}

void recorder_missed(void)
{
	struct recorder *recorder = recorder_now() ? NULL : recorder_last();

	if (recorder)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_ABANDONED, 1);
}

/* Clears the calling thread's state after it left gpuleak's code by longjmp, an exception or
 * cancellation. */
static void recorder_left(void)
{
	recorder_stop();
	aside_release_left();
	fork_guard_left();
	thread_self.busy = 0;
	thread_self.paused = 0;
}

struct recorder *recorder_enter_slowly(void)
{
	struct thread *self = &thread_self;
	struct recorder *recorder;

	if (self->busy && (recorder_was_left(self->busy, recorder_stack_pointer()) ||
			   !upcalls.stack_is_nested()))
		recorder_left();
	if (self->busy && self->busy != self->paused) {
		recorder = recorder_now();
		if (recorder)
			ledger_trouble(recorder->header, LEDGER_TROUBLE_REENTERED, 1);
		return NULL;
	}
	self->busy = recorder_stack_pointer();
	self->errno_at = &errno;
	self->saved_errno = errno;
	recorder = recorder_now();
	if (!recorder && (!(recorder_page && recorder_page->impossible) ||
			  atomic_load_explicit(recording_request, memory_order_relaxed)))
		aside(upcalls.make_recorder, &recorder);
	if (!recorder) {
		recorder_leave();
	} else if (self->generation != recorder->generation) {
		self->state = thread_state_join(recorder);
		self->thread = (uint32_t)syscall(SYS_gettid);
		self->is_first = self->thread == (uint32_t)recorder->pid;
		self->pool = NULL;
		self->pool_space = NULL;
		self->generation = recorder->generation;
	}
	return recorder;
}

void recorder_pause(struct recorder_paused *ret)
{
	*ret = (struct recorder_paused){
		thread_self.busy, thread_self.paused, thread_self.saved_errno,
	};
	thread_self.paused = thread_self.busy;
}

void recorder_resume(const struct recorder_paused *paused)
{
	thread_self.busy = paused->busy;
	thread_self.paused = paused->paused;
	thread_self.saved_errno = paused->saved_errno;
}

void recorder_touch(void)
{
	if (!recorder_now() && recorder_enter())
		recorder_leave();
}

uint32_t recorder_add_text(struct recorder *recorder, const char *text)
{
	return ledger_add_string(&recorder->writer, text, strlen(text));
}

uint32_t recorder_write_text(struct recorder *recorder, _Atomic uint32_t *slot, const char *text)
{
	uint32_t ref = recorder_add_text(recorder, text);

	atomic_store_explicit(slot, ref, memory_order_relaxed);
	return ref;
}
