/* SPDX-License-Identifier: MIT
 *
 * ptrace for x86-64 and aarch64. Each function leaves the thread stopped, so that the caller can
 * restore it. Must not run in a process with other traced children.
 */
#include "tools/attach/tracee.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "tools/attach/remote.h"
#include "tools/launch/process.h"

#define STOP_MS 200
#define SYSCALL_MS 2000
#define CALL_MS 5000
#define MASK_BYTES 8 /* of the kernel's signal set */
#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE)
#define RED_ZONE 256 /* bytes below the stack pointer that code may use */

#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif
#ifndef NT_ARM_SVE
#define NT_ARM_SVE 0x405
#endif

/* ---- registers ---- */

typedef struct user_regs_struct registers;

#ifdef __x86_64__
#define PC(r) ((r)->rip)
#define SP(r) ((r)->rsp)
#define RESULT(r) ((r)->rax)
#define INSTRUCTION 2 /* bytes of a system call instruction */
static const int vector_types[] = { NT_X86_XSTATE, NT_PRFPREG };

/* The kernel makes an interrupted system call again if this is its number. */
static void leave_syscall(registers *r)
{
	r->orig_rax = (unsigned long long)-1;
}

static void set_arguments(registers *r, const uint64_t a[6])
{
	r->rdi = a[0], r->rsi = a[1], r->rdx = a[2], r->r10 = a[3], r->r8 = a[4], r->r9 = a[5];
}

static void set_number(registers *r, long number)
{
	r->rax = (unsigned long long)number;
}

/* Makes R call FUNCTION, which finds the address to which it returns at the top of its stack. */
static bool set_call(registers *r, pid_t tid, uint64_t function, uint64_t back)
{
	r->rsp -= sizeof(back);
	r->rip = function;
	r->rcx = r->r10;
	r->rax = 0; /* no vector registers have arguments */
	r->eflags &= ~0x400ull; /* direction flag */
	return remote_write(tid, r->rsp, &back, sizeof(back));
}

static int replace_syscall(pid_t tid, registers *r, int number)
{
	struct iovec io = { r, sizeof(*r) };

	r->orig_rax = (unsigned long long)number;
	return (int)ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io);
}

static uint64_t returned(const registers *r)
{
	return r->orig_rax; /* at the trap the kernel has taken the result for a number */
}

bool tracee_is_in(const struct tracee *t, long number, uint64_t pc)
{
	return (int)t->saved.orig_rax == number && t->saved.rip == pc;
}

void tracee_repeat(struct tracee *t, uint64_t pc, uint64_t first)
{
	(void)first;
	if (t->saved.rip != pc || (long)t->saved.rax != -EINTR)
		return;
	t->saved.rax = t->saved.orig_rax;
	t->saved.rip -= INSTRUCTION;
	leave_syscall(&t->saved);
}

#elif defined(__aarch64__)
#define PC(r) ((r)->pc)
#define SP(r) ((r)->sp)
#define RESULT(r) ((r)->regs[0])
#define INSTRUCTION 4
static const int vector_types[] = { NT_ARM_SVE, NT_PRFPREG };

/* The kernel has set the registers to make the call again before the thread stopped. */
static void leave_syscall(registers *r)
{
	(void)r;
}

static void set_arguments(registers *r, const uint64_t a[6])
{
	for (int i = 0; i < 6; i++)
		r->regs[i] = a[i];
}

static void set_number(registers *r, long number)
{
	r->regs[8] = (unsigned long long)number;
}

static bool set_call(registers *r, pid_t tid, uint64_t function, uint64_t back)
{
	(void)tid;
	r->regs[30] = back;
	r->regs[29] = 0;
	r->pc = function;
	return true;
}

static int replace_syscall(pid_t tid, registers *r, int number)
{
	struct iovec io = { &number, sizeof(number) };

	(void)r;
	return (int)ptrace(PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &io);
}

static uint64_t returned(const registers *r)
{
	return r->regs[0];
}

/* Before the stop, the kernel has set the registers of most calls back to the call. */
bool tracee_is_in(const struct tracee *t, long number, uint64_t pc)
{
	return (long)t->saved.regs[8] == number &&
	       (t->saved.pc == pc || t->saved.pc + INSTRUCTION == pc);
}

void tracee_repeat(struct tracee *t, uint64_t pc, uint64_t first)
{
	if (t->saved.pc != pc || (long)t->saved.regs[0] != -EINTR)
		return;
	t->saved.regs[0] = first;
	t->saved.pc -= INSTRUCTION;
}
#else
#error "gpuleak attach knows the registers of x86-64 and aarch64"
#endif

static int get_registers(pid_t tid, registers *ret)
{
	struct iovec io = { ret, sizeof(*ret) };

	return (int)ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &io);
}

static int set_registers(pid_t tid, registers *r)
{
	struct iovec io = { r, sizeof(*r) };

	return (int)ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io);
}

uint64_t tracee_pc(const struct tracee *t)
{
	return PC(&t->saved);
}

/* ---- stops ---- */

/* Waits until TID stops. *RET gets its status. */
static enum tracee_result wait_for(pid_t tid, int wait_ms, int *ret)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	const long long until = clock_ms() + wait_ms;
	pid_t r;

	while ((r = waitpid(tid, ret, __WALL | WNOHANG)) == 0) {
		if (clock_ms() > until)
			return TRACEE_LATE;
		nanosleep(&pause, NULL);
	}
	return r == tid && WIFSTOPPED(*ret) ? TRACEE_OK : TRACEE_GONE;
}

/* Lets TID run until it stops next, and delivers SIGNAL. */
static enum tracee_result resume(pid_t tid, int how, int signal, int wait_ms, int *ret)
{
	if (ptrace(how, tid, NULL, (void *)(intptr_t)signal) < 0)
		return TRACEE_GONE;
	return wait_for(tid, wait_ms, ret);
}

static int event_of(int status)
{
	return status >> 16;
}

/* Waits until the traced thread TID stops because of PTRACE_INTERRUPT. Signals that it has got
 * before are delivered. */
static enum tracee_result wait_for_interrupt(pid_t tid)
{
	int status;
	enum tracee_result r = wait_for(tid, STOP_MS, &status);

	while (r == TRACEE_OK && event_of(status) != PTRACE_EVENT_STOP)
		r = resume(tid, PTRACE_CONT, event_of(status) ? 0 : WSTOPSIG(status), STOP_MS,
			   &status);
	if (r == TRACEE_OK && WSTOPSIG(status) != SIGTRAP)
		return TRACEE_STOPPED;
	return r;
}

enum tracee_result tracee_stop(struct tracee *t, pid_t tid)
{
	enum tracee_result r;

	t->tid = tid;
	t->vector_bytes = 0;
	t->child = 0;
	if (ptrace(PTRACE_SEIZE, tid, NULL, OPTIONS) < 0)
		return errno == ESRCH ? TRACEE_GONE : TRACEE_REFUSED;
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
		return TRACEE_GONE;
	r = wait_for_interrupt(tid);
	if (r == TRACEE_OK && get_registers(tid, &t->saved) < 0)
		return TRACEE_REFUSED;
	return r;
}

static enum tracee_result save_vector(struct tracee *t)
{
	for (size_t i = 0; i < sizeof(vector_types) / sizeof(vector_types[0]); i++) {
		struct iovec io = { t->vector, sizeof(t->vector) };

		t->vector_type = vector_types[i];
		if (ptrace(PTRACE_GETREGSET, t->tid, vector_types[i], &io) == 0) {
			t->vector_bytes = io.iov_len;
			return TRACEE_OK;
		}
	}
	return TRACEE_REFUSED;
}

/* Signals that an instruction causes stay enabled: if they were blocked, the kernel would remove
 * the program's handler. */
static uint64_t all_signals(void)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	uint64_t mask = ~(uint64_t)0;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		mask &= ~((uint64_t)1 << (own[i] - 1));
	return mask;
}

enum tracee_result tracee_save(struct tracee *t)
{
	uint64_t mask = all_signals();

	if (ptrace(PTRACE_GETSIGMASK, t->tid, MASK_BYTES, &t->saved_mask) < 0 ||
	    save_vector(t) != TRACEE_OK)
		return TRACEE_REFUSED;
	mask |= t->saved_mask & ~all_signals();
	if (ptrace(PTRACE_SETSIGMASK, t->tid, MASK_BYTES, &mask) < 0)
		return TRACEE_REFUSED;
	return TRACEE_OK;
}

/* The thread stands before a system call. Makes it call getpid() instead, because a filter of
 * seccomp may not allow to leave the call out. */
static enum tracee_result skip_syscall(struct tracee *t)
{
	registers r;
	int status;

	if (get_registers(t->tid, &r) < 0 || replace_syscall(t->tid, &r, SYS_getpid) < 0)
		return TRACEE_GONE;
	return resume(t->tid, PTRACE_SYSCALL, 0, SYSCALL_MS, &status);
}

enum tracee_result tracee_syscall(struct tracee *t, long number, const uint64_t arguments[6],
				  uint64_t *ret)
{
	registers r = t->saved;
	enum tracee_result result = TRACEE_GONE;
	int status;

	leave_syscall(&r);
	set_arguments(&r, arguments);
	set_number(&r, number);
	PC(&r) = t->trap;
	if (set_registers(t->tid, &r) == 0)
		result = resume(t->tid, PTRACE_SYSCALL, 0, SYSCALL_MS, &status);
	if (result == TRACEE_OK)
		result = resume(t->tid, PTRACE_SYSCALL, 0, SYSCALL_MS, &status);
	if (result == TRACEE_OK && WSTOPSIG(status) == SIGSYS)
		return TRACEE_CRASHED;
	if (result == TRACEE_OK && get_registers(t->tid, &r) < 0)
		result = TRACEE_GONE;
	*ret = RESULT(&r);
	return result;
}

/* Returns true if the thread stands before the system call at T->trap, with the stack pointer STACK
 * (0: any). It is the only such place: the function syscall() has a deeper stack. */
static bool is_at_trap(const struct tracee *t, uint64_t stack, registers *ret)
{
	return get_registers(t->tid, ret) == 0 && PC(ret) == t->trap + INSTRUCTION &&
	       (!stack || SP(ret) == stack);
}

/* Waits until the thread stops, however long that takes. */
static enum tracee_result wait_long(struct tracee *t, int *ret)
{
	enum tracee_result r = wait_for(t->tid, CALL_MS, ret);

	if (r == TRACEE_LATE && t->late)
		t->late();
	while (r == TRACEE_LATE)
		r = wait_for(t->tid, CALL_MS, ret);
	return r;
}

/* Lets the thread run to T->trap, and stores the registers that it has there. */
static enum tracee_result run_to_trap(struct tracee *t, uint64_t stack, registers *ret)
{
	enum tracee_result r;
	unsigned long child;
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, t->tid, NULL, NULL) < 0)
			return TRACEE_GONE;
		r = wait_long(t, &status);
		if (r != TRACEE_OK)
			return r;
		if (event_of(status) == PTRACE_EVENT_CLONE &&
		    ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &child) == 0)
			t->child = (pid_t)child;
		else if (WSTOPSIG(status) == (SIGTRAP | 0x80) && is_at_trap(t, stack, ret))
			return TRACEE_OK;
		else if (!event_of(status) && WSTOPSIG(status) != (SIGTRAP | 0x80))
			return TRACEE_CRASHED;
	}
}

enum tracee_result tracee_begin(struct tracee *t, pid_t tid)
{
	enum tracee_result r;
	int status;

	t->tid = tid;
	t->vector_bytes = 0;
	r = wait_for(tid, STOP_MS, &status);
	/* threads that this one creates are not traced */
	if (r == TRACEE_OK && ptrace(PTRACE_SETOPTIONS, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0)
		r = TRACEE_GONE;
	if (r == TRACEE_OK)
		r = run_to_trap(t, 0, &t->saved);
	leave_syscall(&t->saved);
	return r == TRACEE_OK ? skip_syscall(t) : r;
}

enum tracee_result tracee_call(struct tracee *t, uint64_t function, const uint64_t arguments[4],
			       uint64_t stack, uint64_t *ret)
{
	const uint64_t all[6] = { arguments[0], arguments[1], arguments[2], arguments[3] };
	registers r = t->saved;
	enum tracee_result result = TRACEE_GONE;

	SP(&r) = (stack ? stack : SP(&r) - RED_ZONE) & ~(uint64_t)15;
	stack = SP(&r);
	leave_syscall(&r);
	set_arguments(&r, all);
	if (set_call(&r, t->tid, function, t->trap) && set_registers(t->tid, &r) == 0)
		result = run_to_trap(t, stack, &r);
	*ret = returned(&r);
	return result == TRACEE_OK ? skip_syscall(t) : result;
}

/* Brings the thread to the only kind of stop in which the kernel makes an interrupted system call
 * again, and restores what tracee_save() has saved. */
static enum tracee_result restore(struct tracee *t)
{
	struct iovec io = { t->vector, t->vector_bytes };
	enum tracee_result r;

	if (ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL) < 0 ||
	    ptrace(PTRACE_CONT, t->tid, NULL, NULL) < 0)
		return TRACEE_GONE;
	r = wait_for_interrupt(t->tid);
	if (r == TRACEE_GONE || r == TRACEE_LATE)
		return r;
	ptrace(PTRACE_SETREGSET, t->tid, t->vector_type, &io);
	ptrace(PTRACE_SETSIGMASK, t->tid, MASK_BYTES, &t->saved_mask);
	return TRACEE_OK;
}

enum tracee_result tracee_release(struct tracee *t)
{
	enum tracee_result r = t->vector_bytes ? restore(t) : TRACEE_OK;

	if (r == TRACEE_OK && set_registers(t->tid, &t->saved) < 0)
		r = TRACEE_GONE;
	return ptrace(PTRACE_DETACH, t->tid, NULL, NULL) < 0 ? TRACEE_GONE : r;
}
