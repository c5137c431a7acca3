/* SPDX-License-Identifier: MIT
 *
 * ptrace for x86-64 and aarch64. Each function leaves the thread stopped, so that the caller can
 * restore it. Knows registers and signal frames, and nothing of libraries.
 */
#include "tools/attach/tracee.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "tools/attach/remote.h"
#include "tools/launch/process.h"

#define STOP_MS 200
#define SYSCALL_MS 2000
#define CALL_MS 5000
#define MASK_BYTES 8 /* of the kernel's signal set */
#define PAGE_BYTES 4096
#define PAD_FRAME 64 /* offset of the frame */

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
static const unsigned char pad_code[] = "\x0f\x05\xb8\x0f\0\0\0\x0f\x05";
#define FRAME_VECTOR 320 /* aligned as XSAVE needs it */
#define XSAVE_LEGACY 512
#define XSAVE_WORDS 464 /* offset of struct _fpx_sw_bytes */
/* Without the tiles of AMX: the kernel refuses them if the process has not requested them. */
#define XSAVE_USUAL 2696
#define XSAVE_USUAL_MASK UINT64_C(0x3ff)
static const int vector_types[] = { NT_X86_XSTATE, NT_PRFPREG };

/* What rt_sigreturn reads, behind the address to which a signal handler returns. */
struct return_frame {
	uint64_t back;
	uint64_t flags, link;
	stack_t stack;
	struct sigcontext registers;
	uint64_t mask;
};
_Static_assert(sizeof(struct return_frame) <= FRAME_VECTOR, "");

/* The kernel makes an interrupted system call again if this is its number. */
static void leave_syscall(registers *r)
{
	r->orig_rax = (unsigned long long)-1;
}

static void set_call(registers *r, long number, const uint64_t a[6])
{
	r->rdi = a[0], r->rsi = a[1], r->rdx = a[2], r->r10 = a[3], r->r8 = a[4], r->r9 = a[5];
	r->rax = (unsigned long long)number;
	r->eflags &= ~0x400ull; /* direction flag */
}

static int replace_syscall(pid_t tid, registers *r, int number)
{
	struct iovec io = { r, sizeof(*r) };

	r->orig_rax = (unsigned long long)number;
	return (int)ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io);
}

bool tracee_is_in(const struct tracee *t, long number, uint64_t pc)
{
	return (int)t->saved.orig_rax == number && t->saved.rip == pc;
}

static void make_again(registers *r)
{
	r->rax = r->orig_rax;
	r->rip -= INSTRUCTION;
	leave_syscall(r);
}

long tracee_interrupted(const struct tracee *t)
{
	return (long)t->saved.rax == -EINTR ? (long)t->saved.orig_rax : -1;
}

void tracee_repeat(struct tracee *t)
{
	make_again(&t->saved);
}

/* Stores the vector state as the kernel does behind a frame. Returns its size. */
static size_t vector_of_frame(const struct tracee *t, bool whole, unsigned char *ret)
{
	static const uint32_t magic = FP_XSTATE_MAGIC2;
	struct _fpx_sw_bytes words = { .magic1 = FP_XSTATE_MAGIC1 };
	size_t bytes = t->vector_bytes;
	uint64_t used;

	memcpy(ret, t->vector, bytes);
	memset(ret + XSAVE_WORDS, 0, XSAVE_LEGACY - XSAVE_WORDS);
	if (!whole || t->vector_type != NT_X86_XSTATE)
		return XSAVE_LEGACY;
	memcpy(&words.xstate_bv, t->vector + XSAVE_WORDS, sizeof(words.xstate_bv));
	memcpy(&used, t->vector + XSAVE_LEGACY, sizeof(used));
	if (!(used & ~XSAVE_USUAL_MASK) && bytes > XSAVE_USUAL) {
		bytes = XSAVE_USUAL;
		words.xstate_bv &= XSAVE_USUAL_MASK;
	}
	words.xstate_size = (uint32_t)bytes;
	words.extended_size = (uint32_t)(bytes + sizeof(magic));
	memcpy(ret + XSAVE_WORDS, &words, sizeof(words));
	memcpy(ret + bytes, &magic, sizeof(magic));
	return bytes + sizeof(magic);
}

size_t tracee_frame(const struct tracee *t, uint64_t at, bool whole, unsigned char *ret)
{
	registers r = t->saved;
	struct return_frame frame = {
		.flags = 7, /* XSAVE, the stack segment is valid, and strictly so */
		.stack.ss_flags = -1, /* which the kernel ignores, so the signal stack stays */
		.mask = t->saved_mask,
	};

	if ((long)r.orig_rax >= 0 && (long)r.rax <= -512 && (long)r.rax >= -516)
		make_again(&r); /* ERESTARTSYS to ERESTART_RESTARTBLOCK: a sleep begins again */
	frame.registers = (struct sigcontext){
		.r8 = r.r8, .r9 = r.r9, .r10 = r.r10, .r11 = r.r11, .r12 = r.r12, .r13 = r.r13,
		.r14 = r.r14, .r15 = r.r15, .rdi = r.rdi, .rsi = r.rsi, .rbp = r.rbp, .rbx = r.rbx,
		.rdx = r.rdx, .rax = r.rax, .rcx = r.rcx, .rsp = r.rsp, .rip = r.rip,
		.eflags = r.eflags, .cs = (unsigned short)r.cs, .__pad0 = (unsigned short)r.ss,
		.fpstate = (void *)(uintptr_t)(at + FRAME_VECTOR),
	};
	memset(ret, 0, FRAME_VECTOR);
	memcpy(ret, &frame, sizeof(frame));
	return FRAME_VECTOR + vector_of_frame(t, whole, ret + FRAME_VECTOR);
}

#elif defined(__aarch64__)
#define PC(r) ((r)->pc)
#define SP(r) ((r)->sp)
#define RESULT(r) ((r)->regs[0])
#define INSTRUCTION 4
#define SVC 0xd4000001u /* the instruction */
static const unsigned char pad_code[] = "\x01\0\0\xd4\x68\x11\x80\xd2\x01\0\0\xd4";
static const int vector_types[] = { NT_ARM_SVE, NT_PRFPREG };

struct return_frame {
	siginfo_t info;
	ucontext_t context;
};

/* The kernel has set the registers to make the call again before the thread stopped. */
static void leave_syscall(registers *r)
{
	(void)r;
}

static void set_call(registers *r, long number, const uint64_t a[6])
{
	for (int i = 0; i < 6; i++)
		r->regs[i] = a[i];
	r->regs[8] = (unsigned long long)number;
	r->regs[29] = r->regs[30] = 0;
}

static int replace_syscall(pid_t tid, registers *r, int number)
{
	struct iovec io = { &number, sizeof(number) };

	(void)r;
	return (int)ptrace(PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &io);
}

/* Before the stop, the kernel has set the registers of most calls back to the call. */
bool tracee_is_in(const struct tracee *t, long number, uint64_t pc)
{
	return (long)t->saved.regs[8] == number &&
	       (t->saved.pc == pc || t->saved.pc + INSTRUCTION == pc);
}

long tracee_interrupted(const struct tracee *t)
{
	uint32_t before = 0;

	if ((long)t->saved.regs[0] != -EINTR ||
	    !remote_read(t->tid, t->saved.pc - INSTRUCTION, &before, sizeof(before)) ||
	    before != SVC)
		return -1;
	return (long)t->saved.regs[8];
}

/* The result has replaced the first argument. The kernel still has that, and /proc shows it while
 * the thread has the number of a system call. */
void tracee_repeat(struct tracee *t)
{
	char path[64], text[256];
	unsigned long first;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)t->tid);
	replace_syscall(t->tid, NULL, (int)t->saved.regs[8]);
	file_head(path, text, sizeof(text));
	replace_syscall(t->tid, NULL, -1);
	if (sscanf(text, "%*d 0x%lx", &first) != 1)
		return;
	t->saved.regs[0] = first;
	t->saved.pc -= INSTRUCTION;
}

/* SVE's registers are cut to 128 bits: only a thread that computes with them would miss the rest,
 * and only if this process is killed while it borrows the thread. */
size_t tracee_frame(const struct tracee *t, uint64_t at, bool whole, unsigned char *ret)
{
	struct return_frame *frame = (struct return_frame *)ret;
	struct user_fpsimd_struct vector = { .fpsr = 0 };
	struct iovec io = { &vector, sizeof(vector) };
	struct fpsimd_context *saved = (void *)frame->context.uc_mcontext.__reserved;

	(void)at;
	(void)whole;
	memset(frame, 0, sizeof(*frame));
	ptrace(PTRACE_GETREGSET, t->tid, NT_PRFPREG, &io);
	frame->context.uc_stack.ss_flags = -1; /* which the kernel ignores */
	memcpy(&frame->context.uc_sigmask, &t->saved_mask, MASK_BYTES);
	memcpy(frame->context.uc_mcontext.regs, t->saved.regs, sizeof(t->saved.regs));
	frame->context.uc_mcontext.sp = t->saved.sp;
	frame->context.uc_mcontext.pc = t->saved.pc;
	frame->context.uc_mcontext.pstate = t->saved.pstate;
	saved->head.magic = FPSIMD_MAGIC;
	saved->head.size = sizeof(*saved);
	saved->fpsr = vector.fpsr;
	saved->fpcr = vector.fpcr;
	memcpy(saved->vregs, vector.vregs, sizeof(vector.vregs));
	return (size_t)((unsigned char *)(saved + 1) + 16 - ret); /* and an empty record */
}
#else
#error "gpuleak attach knows the registers of x86-64 and aarch64"
#endif

size_t tracee_pad(const struct tracee *t, uint64_t at, size_t size, bool whole, unsigned char *ret)
{
	size_t bytes;

	memcpy(ret, pad_code, sizeof(pad_code));
	bytes = PAD_FRAME + tracee_frame(t, at + PAD_FRAME, whole, ret + PAD_FRAME);
	if (bytes <= size || !whole)
		return bytes <= size ? bytes : 0;
	return tracee_pad(t, at, size, false, ret);
}

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

static bool save(struct tracee *t)
{
	bool saved = false;

	for (size_t i = 0; i < sizeof(vector_types) / sizeof(vector_types[0]) && !saved; i++) {
		struct iovec io = { t->vector, sizeof(t->vector) };

		t->vector_type = vector_types[i];
		saved = ptrace(PTRACE_GETREGSET, t->tid, vector_types[i], &io) == 0;
		t->vector_bytes = io.iov_len;
	}
	return saved && get_registers(t->tid, &t->saved) == 0 &&
	       ptrace(PTRACE_GETSIGMASK, t->tid, MASK_BYTES, &t->saved_mask) == 0;
}

enum tracee_result tracee_stop(struct tracee *t, pid_t tid)
{
	enum tracee_result r;

	t->tid = tid;
	t->is_changed = t->is_late = false;
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0)
		return errno == ESRCH ? TRACEE_GONE : TRACEE_REFUSED;
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
		return TRACEE_GONE;
	r = wait_for_interrupt(tid);
	return r == TRACEE_OK && !save(t) ? TRACEE_REFUSED : r;
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

/* Prepares the thread to run with registers R. The signal mask comes last: whenever this process is
 * killed, the thread has its own mask, or runs to a frame that restores it. */
static bool set_state(struct tracee *t, registers *r)
{
	uint64_t mask = all_signals() | (t->saved_mask & ~all_signals());

	t->is_changed = true;
	return set_registers(t->tid, r) == 0 &&
	       ptrace(PTRACE_SETSIGMASK, t->tid, MASK_BYTES, &mask) == 0;
}

bool tracee_poke(const struct tracee *t, uint64_t at, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += sizeof(long)) {
		long word = 0;

		memcpy(&word, (const char *)bytes + i,
		       size - i < sizeof(word) ? size - i : sizeof(word));
		if (ptrace(PTRACE_POKEDATA, t->tid, (void *)(uintptr_t)(at + i), (void *)word) < 0)
			return false;
	}
	return true;
}

enum tracee_result tracee_syscall(struct tracee *t, long number, const uint64_t arguments[6],
				  uint64_t *ret)
{
	registers r = t->saved;
	enum tracee_result result = TRACEE_GONE;
	int status;

	leave_syscall(&r);
	set_call(&r, number, arguments);
	PC(&r) = t->pad;
	SP(&r) = t->pad + PAD_FRAME + TRACEE_FRAME_SP;
	if (set_state(t, &r))
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

enum tracee_result tracee_run(struct tracee *t, uint64_t code, uint64_t stack, uint64_t argument)
{
	const uint64_t arguments[6] = { argument };
	registers r = t->saved;
	enum tracee_result result;
	int status;

	leave_syscall(&r);
	set_call(&r, 0, arguments);
	PC(&r) = code;
	SP(&r) = stack;
	if (!set_state(t, &r))
		return TRACEE_GONE;
	do {
		result = resume(t->tid, PTRACE_SYSCALL, 0, CALL_MS, &status);
		if (result != TRACEE_OK) {
			t->is_late = result == TRACEE_LATE;
			return result;
		}
		if (!event_of(status) && WSTOPSIG(status) != (SIGTRAP | 0x80))
			return TRACEE_CRASHED;
	} while (get_registers(t->tid, &r) < 0 || PC(&r) / PAGE_BYTES != code / PAGE_BYTES);
	/* leaves the call out: a filter of seccomp may not allow that, but it allows getpid() */
	return replace_syscall(t->tid, &r, SYS_getpid) < 0 ? TRACEE_GONE : TRACEE_OK;
}

/* Brings the thread to the only kind of stop in which the kernel makes an interrupted system call
 * again, and restores what tracee_stop() has saved. */
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
	enum tracee_result r = TRACEE_OK;
	int status;

	if (t->is_late) { /* restores itself */
		ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
		wait_for(t->tid, STOP_MS, &status);
	} else {
		r = t->is_changed ? restore(t) : TRACEE_OK;
		if (r == TRACEE_OK && set_registers(t->tid, &t->saved) < 0)
			r = TRACEE_GONE;
	}
	return ptrace(PTRACE_DETACH, t->tid, NULL, NULL) < 0 ? TRACEE_GONE : r;
}
