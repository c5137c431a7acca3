/* SPDX-License-Identifier: MIT
 *
 * One thread of another process under ptrace: stops it, saves and restores its registers, signal
 * mask and vector state, makes system calls in it, and lets it run other code meanwhile. If this
 * process is killed, the thread goes on and restores itself.
 */
#ifndef GPULEAK_TOOLS_TRACEE_H
#define GPULEAK_TOOLS_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define TRACEE_FRAME_BYTES 16384
/* Where in a frame the stack pointer must be for rt_sigreturn. */
#ifdef __x86_64__
#define TRACEE_FRAME_SP 8
#define TRACEE_VECTOR_BYTES 12288 /* XSAVE area */
#else
#define TRACEE_FRAME_SP 0
#define TRACEE_VECTOR_BYTES 65536 /* SVE state */
#endif

struct tracee {
	pid_t tid;
	uint64_t pad;  /* address of the bytes of tracee_pad() */
	bool is_changed; /* its registers are not the saved ones */
	bool is_late;    /* it still runs the code of tracee_run() */
	struct user_regs_struct saved;
	uint64_t saved_mask;
	size_t vector_bytes;
	int vector_type;
	unsigned char vector[TRACEE_VECTOR_BYTES];
};

enum tracee_result {
	TRACEE_OK = 0,
	TRACEE_LATE,    /* not in time */
	TRACEE_GONE,    /* the thread or the process has ended */
	TRACEE_STOPPED, /* the process is stopped by a signal */
	TRACEE_REFUSED, /* errno has the reason */
	TRACEE_CRASHED, /* code in the thread caused a signal such as SIGSEGV */
};

/* Stops thread TID, delivers signals that it has got before, and saves what the following functions
 * change. */
enum tracee_result tracee_stop(struct tracee *t, pid_t tid);

/* Stores in RET, which has TRACEE_FRAME_BYTES, the frame for address AT (a multiple of 64) that
 * restores what tracee_stop() has saved. Returns its size. If WHOLE is false, it has only
 * the vector registers' lower 128 bits, which is enough for a thread inside a system call. */
size_t tracee_frame(const struct tracee *t, uint64_t at, bool whole, unsigned char *ret);

/* Stores in RET, which has TRACEE_FRAME_BYTES, what tracee_syscall() needs at address AT (a
 * multiple of 64): the instruction, and code with a frame, which restore the thread if this
 * process is killed meanwhile. Returns its size, or 0 if it has more than SIZE bytes even if WHOLE
 * is false. */
size_t tracee_pad(const struct tracee *t, uint64_t at, size_t size, bool whole, unsigned char *ret);

/* Writes memory that the process itself may not write. */
bool tracee_poke(const struct tracee *t, uint64_t at, const void *bytes, size_t size);

/* Makes a system call by t->pad, while signals are blocked. *RET gets its result. */
enum tracee_result tracee_syscall(struct tracee *t, long number, const uint64_t arguments[6],
				  uint64_t *ret);

/* Runs CODE with the first argument ARGUMENT on STACK until it makes a system call in its own page,
 * which must be rt_sigreturn. Other threads run meanwhile. */
enum tracee_result tracee_run(struct tracee *t, uint64_t code, uint64_t stack, uint64_t argument);

/* Returns the program counter at which T was stopped. */
uint64_t tracee_pc(const struct tracee *t);

/* Returns true if T was stopped in the system call NUMBER, which returns to PC. */
bool tracee_is_in(const struct tracee *t, long number, uint64_t pc);

/* Returns the number of the system call that ended with EINTR immediately before T stopped, or a
 * negative number. */
long tracee_interrupted(const struct tracee *t);

/* Changes the saved registers so that this call is made again. The kernel itself does that for most
 * calls that a stop interrupts. */
void tracee_repeat(struct tracee *t);

/* Restores the thread as it was stopped, and lets it go on untraced. */
enum tracee_result tracee_release(struct tracee *t);

#endif
