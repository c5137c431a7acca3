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

/* Reads or writes the registers of T, by REQUEST. */
static bool transfer(const struct tracee *t, int request, registers *r)
{
	struct iovec io = { r, sizeof(*r) };

	return ptrace(request, t->tid, NT_PRSTATUS, &io) == 0;
}

uint64_t tracee_pc(const struct tracee *t)
{
	return PC(&t->saved);
}

/* ---- stops ---- */

/* Signals that an instruction causes. */
#define BIT(signal) ((uint64_t)1 << ((signal) - 1))
#define OWN_SIGNALS \
	(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGSYS))

enum stop { STOP_CALL, STOP_INTERRUPT, STOP_SIGNAL };
#define NO_SIGNAL (PTRACE_EVENT_STOP << 16) /* the status of a stop without one */

static enum stop stop_of(int status)
{
	return status >> 16 ? STOP_INTERRUPT : WSTOPSIG(status) == (SIGTRAP | 0x80) ? STOP_CALL
										    : STOP_SIGNAL;
}

/* Lets a thread that stopped with STATUS go on by the request HOW, and delivers its signal. */
static bool go_on(pid_t tid, int how, int status)
{
	const int signal = stop_of(status) == STOP_SIGNAL ? WSTOPSIG(status) : 0;

	return ptrace(how, tid, NULL, (void *)(intptr_t)signal) == 0;
}

/* Waits until TID stops. *RET gets its status. Releases other threads, which did not stop in time
 * and do now. This process may get no time itself, so it looks once more after UNTIL. */
static enum tracee_result wait_for(pid_t tid, long long until, int *ret)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	bool is_last = false;
	pid_t r = 0;

	while (r != tid && !is_last) {
		is_last = clock_ms() > until;
		r = waitpid(-1, ret, __WALL | WNOHANG);
		if (r < 0)
			return TRACEE_GONE;
		if (r == 0 && !is_last)
			nanosleep(&pause, NULL);
		if (r > 0 && r != tid && WIFSTOPPED(*ret))
			go_on(r, PTRACE_DETACH, *ret);
	}
	return r != tid ? TRACEE_LATE : WIFSTOPPED(*ret) ? TRACEE_OK : TRACEE_GONE;
}

/* Lets T run by the request HOW, unless it runs already, until it stops as WANTED. Delivers signals
 * that come before: during a call, only those that cannot be blocked. */
static enum tracee_result run_until(struct tracee *t, int how, enum stop wanted, long long until)
{
	enum tracee_result r;
	int status = NO_SIGNAL;

	do {
		if (!t->runs && !go_on(t->tid, how, status))
			return TRACEE_GONE;
		t->runs = true;
		r = wait_for(t->tid, until, &status);
		if (r != TRACEE_OK)
			return r;
		t->runs = false;
		if (wanted == STOP_CALL && stop_of(status) == STOP_SIGNAL &&
		    (OWN_SIGNALS & BIT(WSTOPSIG(status))))
			return TRACEE_CRASHED;
	} while (stop_of(status) != wanted);
	return wanted == STOP_INTERRUPT && WSTOPSIG(status) != SIGTRAP ? TRACEE_STOPPED : r;
}

/* In this kind of stop only, the kernel makes an interrupted system call again. */
static enum tracee_result interrupt(struct tracee *t, int wait_ms)
{
	if (ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL) < 0)
		return errno == ESRCH ? TRACEE_GONE : TRACEE_REFUSED;
	return run_until(t, PTRACE_CONT, STOP_INTERRUPT, clock_ms() + wait_ms);
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
	return saved && transfer(t, PTRACE_GETREGSET, &t->saved) &&
	       ptrace(PTRACE_GETSIGMASK, t->tid, MASK_BYTES, &t->saved_mask) == 0;
}

enum tracee_result tracee_stop(struct tracee *t, pid_t tid)
{
	enum tracee_result r;
	int seized;

	*t = (struct tracee){ .tid = tid, .runs = true };
	seized = ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0 ? errno : 0;
	r = interrupt(t, STOP_MS); /* also if it was seized before, and did not stop in time */
	if (r == TRACEE_GONE && seized == EPERM) {
		errno = seized;
		return TRACEE_REFUSED;
	}
	if (r == TRACEE_OK && !save(t))
		r = TRACEE_REFUSED;
	if (r == TRACEE_REFUSED || r == TRACEE_STOPPED)
		go_on(tid, PTRACE_DETACH, NO_SIGNAL);
	return r;
}

/* Prepares the thread to run with registers R. The signal mask comes last: whenever this process is
 * killed, the thread has its own mask, or runs to a frame that restores it. If signals that an
 * instruction causes were blocked, the kernel would remove the program's handler. */
static bool set_state(struct tracee *t, registers *r)
{
	uint64_t mask = ~OWN_SIGNALS | t->saved_mask;

	t->is_changed = true;
	return transfer(t, PTRACE_SETREGSET, r) &&
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

bool tracee_set_pad(struct tracee *t, uint64_t at, size_t size, bool whole)
{
	static unsigned char pad[TRACEE_FRAME_BYTES];
	size_t bytes;

	memcpy(pad, pad_code, sizeof(pad_code));
	bytes = PAD_FRAME + tracee_frame(t, at + PAD_FRAME, whole, pad + PAD_FRAME);
	if (bytes > size && whole)
		return tracee_set_pad(t, at, size, false);
	bytes = (bytes + 7) & ~(size_t)7;
	errno = ENOSPC;
	if (bytes > size || !remote_read(t->tid, at, t->before_pad, bytes))
		return false;
	t->pad = at;
	t->pad_bytes = bytes;
	return tracee_poke(t, at, pad, t->pad_bytes);
}

enum tracee_result tracee_syscall(struct tracee *t, long number, const uint64_t arguments[6],
				  uint64_t *ret)
{
	const long long until = clock_ms() + CALL_MS;
	registers r = t->saved;
	enum tracee_result result;

	leave_syscall(&r);
	set_call(&r, number, arguments);
	PC(&r) = t->pad;
	SP(&r) = t->pad + PAD_FRAME + TRACEE_FRAME_SP;
	if (!set_state(t, &r))
		return TRACEE_REFUSED;
	result = run_until(t, PTRACE_SYSCALL, STOP_CALL, until);
	if (result == TRACEE_OK)
		result = run_until(t, PTRACE_SYSCALL, STOP_CALL, until);
	if (result == TRACEE_OK && !transfer(t, PTRACE_GETREGSET, &r))
		result = TRACEE_REFUSED;
	*ret = RESULT(&r);
	return result;
}

enum tracee_result tracee_run(struct tracee *t, uint64_t code, uint64_t stack, uint64_t argument)
{
	const long long until = clock_ms() + CALL_MS;
	const uint64_t arguments[6] = { argument };
	registers r = t->saved;
	enum tracee_result result;

	leave_syscall(&r);
	set_call(&r, 0, arguments);
	PC(&r) = code;
	SP(&r) = stack;
	if (!set_state(t, &r))
		return TRACEE_REFUSED;
	do {
		result = run_until(t, PTRACE_SYSCALL, STOP_CALL, until);
		if (result == TRACEE_OK && !transfer(t, PTRACE_GETREGSET, &r))
			result = TRACEE_GONE;
	} while (result == TRACEE_OK && PC(&r) / PAGE_BYTES != code / PAGE_BYTES);
	/* leaves the call out: a filter of seccomp may not allow that, but it allows getpid() */
	if (result == TRACEE_OK && replace_syscall(t->tid, &r, SYS_getpid) < 0)
		result = TRACEE_GONE;
	if (result == TRACEE_OK)
		result = run_until(t, PTRACE_SYSCALL, STOP_CALL, until);
	t->is_left = result == TRACEE_LATE || result == TRACEE_GONE;
	return result;
}

/* Restores what tracee_stop() has saved. */
static bool restore(struct tracee *t)
{
	struct iovec io = { t->vector, t->vector_bytes };
	enum tracee_result r = interrupt(t, CALL_MS);

	return (r == TRACEE_OK || r == TRACEE_STOPPED) &&
	       ptrace(PTRACE_SETREGSET, t->tid, t->vector_type, &io) == 0 &&
	       ptrace(PTRACE_SETSIGMASK, t->tid, MASK_BYTES, &t->saved_mask) == 0;
}

bool tracee_release(struct tracee *t)
{
	if (t->is_left || (t->is_changed && !restore(t)) ||
	    !transfer(t, PTRACE_SETREGSET, &t->saved))
		return false;
	tracee_poke(t, t->pad, t->before_pad, t->pad_bytes);
	go_on(t->tid, PTRACE_DETACH, NO_SIGNAL);
	return true;
}
