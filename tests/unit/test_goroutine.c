/* SPDX-License-Identifier: MIT
 *
 * Frames of a goroutine, from a goroutine that the test makes: an undamaged one, each word of it
 * damaged, memory that cannot be read. On x86-64 also a whole call of C, whose stack must be found,
 * and found again in the cache of stacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/goroutine.h"
#include "interpose/stack/stack_cache.h"
#include "interpose/stack/stacks.h"
#include "interpose/stack/walk.h"
#include "own_ledger.h"

/* ---- read from memory ---- */

#if defined(__x86_64__)
/* the instructions of Go 1.19, and of 1.27 in a library */
static const uint8_t before_21[64] =
	"\x48\x8b\x7c\x24\x30\x48\x8b\x77\x08\x48\x2b\x74\x24\x28"
	"\x64\x48\x89\x3c\x25\xf8\xff\xff\xff\x48\x89\xf4\x89\x44\x24\x18\xc3";
static const uint8_t code[64] =
	"\x48\x8b\x0d\x10\xf3\x06\x00\x48\x8b\x7c\x24\x08\x48\x8b\x77\x08\x48\x2b\x34\x24"
	"\x64\x48\x89\x39\x48\x89\xf4\x89\x44\x24\x20\x5d\xc3";
#define GOROUTINE_AT 1 /* words of asmcgocall()'s frame */
#define DEPTH_AT 0
#define RECORD_AT 0 /* bytes above the goroutine's stack pointer */
#else
static const uint32_t code[16] = { 0xaa0003e9, 0xf94003fc, 0x940005cb, 0xf9400785,
				   0xf94007e6, 0xcb0600a5, 0xaa0903e0, 0x910000bf };
#define GOROUTINE_AT 0
#define DEPTH_AT 1
#define RECORD_AT (-8)
#endif

#define STACK_WORDS 64
#define USED 40 /* bytes of the goroutine's stack, from its stack pointer on */

struct fake {
	uint64_t thread_stack[16];
	uint64_t goroutine[2];
	uint64_t stack[STACK_WORDS];
	struct go_call call;
};

/* Makes a goroutine with three frames: 0x111, 0x222 and 0x333. */
static void make(struct fake *fake)
{
	uint64_t *record = fake->stack + STACK_WORDS - USED + RECORD_AT / 8;

	memset(fake, 0, sizeof(*fake));
	fake->goroutine[0] = (uint64_t)(uintptr_t)fake->stack;
	fake->goroutine[1] = (uint64_t)(uintptr_t)(fake->stack + STACK_WORDS);
	fake->thread_stack[GOROUTINE_AT] = (uint64_t)(uintptr_t)fake->goroutine;
	fake->thread_stack[DEPTH_AT] = USED * sizeof(uint64_t);
	for (uint64_t i = 0; i < 3; i++, record += 10) {
		record[0] = i < 2 ? (uint64_t)(uintptr_t)(record + 10) : 0;
		record[1] = 0x111 * (i + 1);
	}
	fake->call = (struct go_call){ code, (uint64_t)(uintptr_t)fake->thread_stack, 0 };
}

static unsigned int count(const struct fake *fake, unsigned int size)
{
	void *pcs[STACK_WORDS];
	unsigned int got = goroutine_frames(&fake->call, false, pcs, size);

	for (unsigned int i = 0; i < got && i < 3; i++)
		assert_ptr_equal((void *)(uintptr_t)(0x111 * (i + 1)), pcs[i]);
	return got;
}

static void test_frames(void **state)
{
	struct fake fake;

	(void)state;
	make(&fake);
	assert_true(goroutine_calls_c(code));
	assert_int_equal(3, count(&fake, STACK_WORDS));
	assert_int_equal(2, count(&fake, 2));
	assert_int_equal(0, count(&fake, 0));
}

static void test_other_code(void **state)
{
	static uint8_t other[64];

	(void)state;
	for (unsigned int i = 0; i < 24; i++) {
		memcpy(other, code, sizeof(other));
		other[i] ^= 0x80;
		goroutine_calls_c(other); /* must not crash */
	}
	memset(other, 0x90, sizeof(other));
	for (int i = 0; i < 2; i++) {
		assert_false(goroutine_calls_c(other));
		assert_false(goroutine_calls_c(NULL));
		assert_false(goroutine_calls_c((void *)UINTPTR_MAX));
	}
}

static void test_damaged_words(void **state)
{
	static const uint64_t values[] = { 0, 1, 7, 8, 0x1000, UINT64_MAX, UINT64_MAX - 7,
					   1ull << 47, 1ull << 63, INT64_MAX };
	struct fake fake;

	(void)state;
	for (size_t i = 0; i < offsetof(struct fake, call) / sizeof(uint64_t); i++)
		for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
			void *pcs[STACK_WORDS];

			make(&fake);
			((uint64_t *)&fake)[i] = values[j];
			assert_true(goroutine_frames(&fake.call, false, pcs, STACK_WORDS) <= 3);
		}
}

/* A record that leads back, to itself, out of the stack, or between words ends the stack. */
static void test_damaged_chain(void **state)
{
	struct fake fake;
	uint64_t *second = fake.stack + STACK_WORDS - USED + RECORD_AT / 8 + 10;
	const uint64_t ends[] = { (uint64_t)(uintptr_t)second, (uint64_t)(uintptr_t)(second - 10),
				  (uint64_t)(uintptr_t)(fake.stack + STACK_WORDS - 1),
				  (uint64_t)(uintptr_t)(fake.stack + STACK_WORDS + 10),
				  (uint64_t)(uintptr_t)second + 84 };

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		make(&fake);
		*second = ends[i];
		assert_int_equal(2, count(&fake, STACK_WORDS));
	}
}

static void test_unreadable_stack(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *first = (uint64_t *)(void *)(memory + page) - 4;
	struct fake fake;

	(void)state;
	assert_true(memory != MAP_FAILED);
	make(&fake);
	fake.goroutine[0] = (uint64_t)(uintptr_t)memory;
	fake.goroutine[1] = (uint64_t)(uintptr_t)(memory + 2 * page);
	fake.thread_stack[DEPTH_AT] = page + 4 * sizeof(*first) + RECORD_AT;
	first[0] = (uint64_t)(uintptr_t)(memory + page + 64);
	first[1] = 0x111;
	assert_int_equal(0, mprotect(memory + page, page, PROT_NONE));
	assert_int_equal(1, count(&fake, STACK_WORDS));
	assert_int_equal(0, mprotect(memory, page, PROT_NONE));
	assert_int_equal(0, count(&fake, STACK_WORDS));
	munmap(memory, 2 * page);
}

#if defined(__x86_64__)
/* Until Go 1.20 the frame pointer leads to the first record. It is remembered for the caller. */
static void test_by_frame_pointer(void **state)
{
	struct fake fake;
	uint64_t *sp = fake.stack + STACK_WORDS - USED;

	(void)state;
	make(&fake);
	memmove(sp + 6, sp, 32 * sizeof(*sp));
	for (int i = 0; i < 2; i++)
		sp[6 + 10 * i] += 6 * sizeof(*sp);
	*sp = 0x5000;
	fake.thread_stack[6] = fake.thread_stack[GOROUTINE_AT];
	fake.thread_stack[5] = fake.thread_stack[DEPTH_AT];
	fake.call.pc = before_21;
	assert_true(goroutine_calls_c(before_21));
	assert_int_equal(0, count(&fake, STACK_WORDS));
	fake.call.frame_pointer = (uint64_t)(uintptr_t)(sp + 6);
	assert_int_equal(3, count(&fake, STACK_WORDS));
	fake.call.frame_pointer = 0x7000;
	assert_int_equal(3, count(&fake, STACK_WORDS));
	*sp = 0x6000;
	assert_int_equal(0, count(&fake, STACK_WORDS));
}

/* ---- a call of C ---- */

static uint64_t goroutine[2];
static uint64_t go_stack[1024];
static uint32_t recorded, cached;

static void in_c(void);

/* The code below is copied out of the test, because all code of a test counts as gpuleak's. Then
 * block_run() runs a function on the goroutine's stack. The functions have frame records and no
 * unwind tables. block_asmcgocall() calls in_c() on the thread's stack. */
extern char block[], block_run[], block_one[], block_two[], block_goroutine[], block_c[];
extern char block_end[];
__asm__(".data\n"
	".balign 16\n"
	"block:\n"
	"block_run: push %rbp; push %rbx; push %rdi; mov %rsp,block_stack(%rip)\n"
	"	mov block_goroutine(%rip),%rax; mov 8(%rax),%rsp; xor %ebp,%ebp; call *%rdi\n"
	"	mov block_stack(%rip),%rsp; pop %rdi; pop %rbx; pop %rbp; ret\n"
	"block_one: push %rbp; mov %rsp,%rbp; sub $48,%rsp; call block_asmcgocall; leave; ret\n"
	"block_two: push %rbp; mov %rsp,%rbp; sub $48,%rsp; call block_asmcgocall; leave; ret\n"
	"block_asmcgocall: push %rbp; mov %rsp,%rbp\n"
	"	mov %rsp,%rdx; mov block_goroutine(%rip),%rdi\n"
	"	mov block_stack(%rip),%rsp; sub $16,%rsp; and $-16,%rsp; mov %rdi,8(%rsp)\n"
	"	mov 8(%rdi),%rdi; sub %rdx,%rdi; mov %rdi,(%rsp); call *block_c(%rip)\n"
	"	mov 8(%rsp),%rdi; mov 8(%rdi),%rsi; sub (%rsp),%rsi; mov %rdi,%rbx\n"
	"	mov %rsi,%rsp; mov %eax,0x20(%rsp); pop %rbp; ret\n"
	".balign 8\n"
	"block_goroutine: .quad 0\n"
	"block_stack: .quad 0\n"
	"block_c: .quad 0\n"
	"block_end:\n"
	".text\n");

static char *code_page;

static void *copied(const char *address)
{
	return code_page + (address - block);
}

static void copy_block(void)
{
	code_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(code_page != MAP_FAILED);
	memcpy(code_page, block, (size_t)(block_end - block));
	*(uint64_t **)copied(block_goroutine) = goroutine;
	*(void (**)(void))copied(block_c) = in_c;
}

static void run(const char *function)
{
	((void (*)(void *))copied(block_run))(copied(function));
}

/* As a wrapper does: the caller is the function that calls the one that this is inlined into. */
static inline __attribute__((always_inline)) void wrapper(void)
{
	const struct caller *caller = CALLER;
	struct recorder *recorder = recorder_enter();
	struct stack_cache_key key = { .pc = caller->pc, .top = caller_top(caller) };

	assert_non_null(recorder);
	recorded = stack_here(recorder, caller);
	cached = stack_cache_find(recorder, thread_self.state->stack_cache, &key,
				  caller->frame_pointer);
	recorder_leave();
}

static __attribute__((noinline)) int from_libc(const void *a, const void *b)
{
	wrapper();
	return a < b ? -1 : 1;
}

/* Frames of libc are those of C: a stack needs one that is not gpuleak's. */
static void in_c(void)
{
	char two[2] = { 1, 2 };

	qsort(two, 2, 1, from_libc);
}

static void test_call(void **state)
{
	const struct ledger_stack *stack;
	uint32_t one, two, last;

	(void)state;
	copy_block();
	goroutine[0] = (uint64_t)(uintptr_t)go_stack;
	goroutine[1] = (uint64_t)(uintptr_t)(go_stack + 512);
	run(block_one);
	one = recorded;
	stack = ledger_at(&recorder_of_process()->writer, one);
	last = stack->frames - 1u;
	assert_true(last > 2);
	assert_in_range(stack->pc[last - 1], (uintptr_t)copied(block_one),
			(uintptr_t)copied(block_two));
	assert_in_range(stack->pc[last], (uintptr_t)code_page, (uintptr_t)copied(block_one));
	run(block_two);
	two = recorded;
	assert_int_not_equal(one, two);
	for (int i = 0; i < 4; i++) {
		run(block_one);
		assert_int_equal(one, recorded);
		run(block_two);
		assert_int_equal(two, recorded);
	}
	/* Both are in the cache, although the thread's stack is the same. */
	assert_int_equal(two, cached);
	run(block_one);
	assert_int_equal(one, cached);
	/* The goroutine's stack has moved. */
	goroutine[1] = (uint64_t)(uintptr_t)(go_stack + 1024);
	run(block_one);
	assert_int_equal(one, cached);
	assert_int_equal(one, recorded);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_other_code),
		cmocka_unit_test(test_damaged_words),
		cmocka_unit_test(test_damaged_chain),
		cmocka_unit_test(test_unreadable_stack),
#if defined(__x86_64__)
		cmocka_unit_test(test_by_frame_pointer),
		cmocka_unit_test(test_call),
#endif
	};

	setenv("GPULEAK_STACK_DEPTH", "64", 1);
	process_start();
	assert_int_equal(walk_load(), 0);
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
