/* SPDX-License-Identifier: MIT
 *
 * Code that the command copies into another process, which runs the copy. Must use nothing but its
 * argument: no variable, no constant in memory, no function by name. So sanitizers and counters of
 * coverage are off here.
 */
#include "tools/attach/stub.h"

#include <dlfcn.h>

#define NAP_US 20000
#define NAPS 3000u /* a minute: then the command is dead */
#define STUB                                                                                    \
	__attribute__((section("gpuleak_stub"), noinline, used,                                \
		       no_sanitize("address", "undefined", "thread"),                           \
		       no_profile_instrument_function))

void *stub_work(struct stub_room *room) __attribute__((visibility("hidden")));
_Noreturn void stub_return(uint64_t stack) __attribute__((visibility("hidden")));

__asm__(".pushsection gpuleak_stub, \"ax\", %progbits\n"
	".hidden stub_thread, stub_return\n"
	".globl stub_thread, stub_return\n"
#ifdef __x86_64__
	"stub_thread:\n"
	"	pushq %rbx\n"
	"	movq %rdi, %rbx\n"
	"	call stub_work\n"
	"	movq 8(%rbx), %rsi\n"
	"	movq (%rbx), %rdi\n"
	"	popq %rbx\n"
	"	jmp *%rax\n" /* munmap(), which returns to the caller */
	"stub_return:\n"
	"	movq %rdi, %rsp\n"
	"1:	movl $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	"	jmp 1b\n" /* the command has replaced the call, and was killed then */
#else
	"stub_thread:\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	str x19, [sp, #16]\n"
	"	mov x19, x0\n"
	"	bl stub_work\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [x19]\n"
	"	ldr x19, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	br x16\n"
	"stub_return:\n"
	"	mov sp, x0\n"
	"1:	mov x8, #139\n"
	"	svc #0\n"
	"	b 1b\n"
#endif
	".popsection\n");

STUB void stub_borrow(struct stub_room *room)
{
	int *error = room->errno_location(), before = *error;

	room->created = room->create(&room->thread, NULL, room->start, room);
	if (!room->created)
		room->detach(room->thread);
	*error = before;
	stub_return(room->stack_of_frame);
}

/* Returns the function of the library, or NULL with the loader's words in ROOM. */
STUB static int (*load(struct stub_room *room))(const char *)
{
	void *handle = room->open(room->library, RTLD_NOW | RTLD_LOCAL);
	void *function = handle ? room->look_up(handle, room->name) : NULL;
	const char *words = function ? NULL : room->error_text();

	for (unsigned int i = 0; words && words[i] && i + 1 < sizeof(room->error); i++)
		*(volatile char *)&room->error[i] = words[i];
	return (int (*)(const char *))function;
}

/* Returns munmap(). */
STUB void *stub_work(struct stub_room *room)
{
	int (*function)(const char *) = room->function ? room->function : load(room);

	if (function && room->state == STUB_BEGINS)
		room->result = function(room->text);
	atomic_store(&room->state, function ? STUB_DONE : STUB_FAILED);
	for (unsigned int i = 0; i < NAPS && room->state != STUB_RELEASED; i++)
		room->nap(NAP_US);
	return (void *)room->unmap;
}
