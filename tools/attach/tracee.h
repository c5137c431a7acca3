/* SPDX-License-Identifier: MIT
 *
 * One thread of another process under ptrace: stops it, saves and restores its registers, signal
 * mask and vector state, makes system calls in it, and lets it run other code meanwhile. If this
 * process is killed, the thread goes on and restores itself.
 */
#pragma once

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
	uint64_t pad;      /* address of code for system calls and a frame; see tracee_set_pad() */
	size_t pad_bytes;  /* 0: there is none */
	bool runs;         /* it did not stop in time */
	bool is_changed;   /* its registers are not the saved ones */
	bool is_left;      /* it still runs the code of tracee_run(), and restores itself */
	struct user_regs_struct saved;
	uint64_t saved_mask;
	size_t vector_bytes;
	int vector_type;
	unsigned char vector[TRACEE_VECTOR_BYTES];
	unsigned char before_pad[TRACEE_FRAME_BYTES];
};

/* A later one is worse, if several threads have been tried. */
enum tracee_result {
	TRACEE_OK = 0,
	TRACEE_GONE,    /* the thread or the process has ended */
	TRACEE_REFUSED, /* errno has the reason */
	TRACEE_CRASHED, /* code in the thread caused a signal such as SIGSEGV */
	TRACEE_BUSY,    /* the thread stopped where it cannot be borrowed */
	TRACEE_LATE,    /* not in time */
	TRACEE_STOPPED, /* the process is stopped by a signal */
};

/* Stops thread TID, delivers signals that it has got before, and saves what the following functions
 * change. A thread that does not stop in time stays traced, and is released as soon as it stops
 * during a later call, or as soon as this process ends. A later try can stop it. */
enum tracee_result tracee_stop(struct tracee *t, pid_t tid);

/* Stores in RET, which has TRACEE_FRAME_BYTES, the frame for address AT (a multiple of 64) that
 * restores what tracee_stop() has saved. Returns its size. If WHOLE is false, it has only
 * the vector registers' lower 128 bits, which is enough for a thread inside a system call. */
size_t tracee_frame(const struct tracee *t, uint64_t at, bool whole, unsigned char *ret);

/* Prepares tracee_syscall(): writes the instruction to the SIZE unused bytes at AT (a multiple of
 * 64), and behind it code and a frame, by which the thread restores itself if this process is
 * killed. WHOLE: as above; without room for a whole frame writes the other one. Returns false with
 * errno if it fails. tracee_release() writes back what was there. */
bool tracee_set_pad(struct tracee *t, uint64_t at, size_t size, bool whole);

/* Writes memory that the process itself may not write. */
bool tracee_poke(const struct tracee *t, uint64_t at, const void *bytes, size_t size);

/* Makes a system call by the pad, while signals are blocked. *RET gets its result. */
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

/* Restores the thread as it was stopped, and lets it go on untraced. Returns false if that failed:
 * then the thread restores itself as soon as this process ends. */
bool tracee_release(struct tracee *t);
