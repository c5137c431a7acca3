/* SPDX-License-Identifier: MIT
 *
 * One thread of another process under ptrace: stops it, saves and restores its registers, signal
 * mask and vector state, and makes system calls and function calls in it. Knows registers and
 * nothing of libraries. A thread that this process still traces goes on when this process ends.
 */
#ifndef GPULEAK_TOOLS_TRACEE_H
#define GPULEAK_TOOLS_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define TRACEE_VECTOR_BYTES 65536 /* x86-64: XSAVE area; aarch64: SVE state */

struct tracee {
	pid_t tid;
	/* address of a system call instruction. A called function returns to it, and the thread
	 * stops before the system call, which is then left out: so no code is changed, and no
	 * signal is sent. */
	uint64_t trap;
	void (*late)(void); /* is called once if a call takes too long; then the wait goes on */
	pid_t child; /* thread that the traced thread has created, stopped and traced; or 0 */
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
	TRACEE_CRASHED, /* a call in the thread caused a signal such as SIGSEGV */
};

/* Stops thread TID, delivers signals that it has got before, and reads its registers. */
enum tracee_result tracee_stop(struct tracee *t, pid_t tid);

/* Waits until a thread that was traced from its start stops at T->trap for the first time. */
enum tracee_result tracee_begin(struct tracee *t, pid_t tid);

/* Prepares T for calls: saves what they change, and blocks its signals. */
enum tracee_result tracee_save(struct tracee *t);

/* Makes a system call. *RET gets its result. */
enum tracee_result tracee_syscall(struct tracee *t, long number, const uint64_t arguments[6],
				  uint64_t *ret);

/* Calls FUNCTION with its stack below STACK; 0: below the saved stack pointer. Other threads run
 * meanwhile. */
enum tracee_result tracee_call(struct tracee *t, uint64_t function, const uint64_t arguments[4],
			       uint64_t stack, uint64_t *ret);

/* Returns the program counter at which T was stopped. */
uint64_t tracee_pc(const struct tracee *t);

/* Returns true if T was stopped in the system call NUMBER, which returns to PC. */
bool tracee_is_in(const struct tracee *t, long number, uint64_t pc);

/* If the system call with the first argument FIRST that returns to PC would fail with EINTR because
 * of the stop, changes the saved registers so that it is made again. The kernel itself does that
 * for most others. */
void tracee_repeat(struct tracee *t, uint64_t pc, uint64_t first);

/* Restores the thread as it was stopped, and lets it go on untraced. */
enum tracee_result tracee_release(struct tracee *t);

#endif
