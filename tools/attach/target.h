/* SPDX-License-Identifier: MIT
 *
 * Decides from /proc if a process can be attached to, and if not, what to do. Only reads, so that
 * `gpuleak doctor PID` can call it too. Does not know ledgers.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct target {
	int pid;         /* 0: there is no such process */
	int inner_pid;   /* in its own namespace of pids */
	char name[64];
	char state;      /* 'R', 'S', 'Z' ... as in proc(5) */
	int threads;
	bool in_kernel;  /* it is a thread of the kernel */
	uid_t uid, other_uid; /* effective uid; and another one if it has several */
	int tracer;      /* pid; 0: none */
	int seccomp;     /* 0 none, 1 strict, 2 filters */
	int filters, filters_before; /* their number; and that of the programs that started it */
	bool shadow_stack;
	int elf_class, machine; /* of its program; 0 unknown */
	bool has_glibc, has_musl;
	bool has_driver;  /* of CUDA or OpenCL */
	int command;      /* pid of the `gpuleak attach` that records it; 0: none is seen */
	int memory_error; /* why its memory cannot be opened: errno, or 0 */
	int yama;        /* kernel.yama.ptrace_scope; 0 also if there is none */
	/* the page of a process that was started with GPULEAK_RECORD=off, for requests,
	 * as this command reaches it; "": there is none */
	char page[PATH_MAX];
};

/* Reads what PROC ("/proc") has of process PID. */
void target_read(const char *proc, int pid, struct target *ret);

/* Returns true if a process of user UID cannot attach to TARGET, with the reason and the advice as
 * one sentence in WHY. */
bool target_refuses(const struct target *target, uid_t uid, char *why, size_t size);
