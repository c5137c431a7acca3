/* SPDX-License-Identifier: MIT
 *
 * Owns the stacks for gpuleak's slow work: a few free stacks for all threads. If work never
 * returns, its stack is not used again.
 */
#include "interpose/base/own_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#define STACK_BYTES ((size_t)256 << 10)
#define GUARD_BYTES ((size_t)64 << 10) /* a page may be that large */
#define STACKS 16u /* a power of two */

/* Calls WORK(DATA) on the stack that ends at TOP. Defined in own_stack_ARCH.S. */
void aside_switch(void (*work)(void *data), void *data, void *top)
	__attribute__((visibility("hidden")));

static struct {
	_Alignas(64) _Atomic(char *) memory;
} spare[STACKS];

/* lowest address of the stack that aside() uses for this thread now; 0: none */
static __thread uintptr_t low;

bool aside_is_on(uintptr_t at)
{
	return low && at - low < STACK_BYTES;
}

/* Threads start their search at different places, so that they rarely want the same stack. */
static unsigned int first_place(void)
{
	return (unsigned int)(((uintptr_t)&low >> 12) * 0x9e3779b1u >> 16);
}

static char *stack_allocate(void)
{
	unsigned int first = first_place();
	char *memory;

	for (unsigned int i = 0; i < STACKS; i++) {
		_Atomic(char *) *place = &spare[(first + i) % STACKS].memory;

		if (atomic_load_explicit(place, memory_order_relaxed) &&
		    (memory = atomic_exchange_explicit(place, NULL, memory_order_acquire)))
			return memory;
	}
	memory = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	mprotect(memory, GUARD_BYTES, PROT_NONE);
	return memory;
}

static void stack_return(char *memory)
{
	unsigned int first = first_place();

	for (unsigned int i = 0; i < STACKS; i++) {
		char *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&spare[(first + i) % STACKS].memory,
							    &none, memory, memory_order_release,
							    memory_order_relaxed))
			return;
	}
	munmap(memory, STACK_BYTES);
}

void aside(void (*work)(void *data), void *data)
{
	char *memory;
	int state;

	if (aside_is_on((uintptr_t)__builtin_frame_address(0))) {
		work(data);
		return;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	memory = stack_allocate();
	if (memory) {
		low = (uintptr_t)memory;
		aside_switch(work, data, memory + STACK_BYTES);
		low = 0;
		stack_return(memory);
	} else {
		work(data);
	}
	pthread_setcancelstate(state, NULL);
}
