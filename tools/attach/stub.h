/* SPDX-License-Identifier: MIT
 *
 * The code that `gpuleak attach` copies into a process, and the memory that it shares with the
 * command there. It runs without a tracer: whenever the command is killed, the borrowed thread
 * restores itself.
 */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/attach.h"
#include "tools/attach/tracee.h"

#define STUB_CODE_BYTES 4096 /* at the start of the mapping; the struct follows */
#define STUB_STACK_BYTES ((size_t)512 << 10)

enum stub_state {
	STUB_BEGINS,
	STUB_CANCELLED, /* the command waits no longer: the function must not be called */
	STUB_FAILED,    /* `error` has the reason */
	STUB_DONE,      /* `result` is valid */
	STUB_RELEASED,  /* the command has read the result */
};

struct stub_room {
	uint64_t mapping, bytes; /* of the code and this struct; stub.c has their offsets */

	/* functions of the process */
	int *(*errno_location)(void);
	int (*create)(void *thread, void *attributes, void *start, void *argument);
	int (*detach)(uint64_t thread);
	void *(*open)(const char *path, int flags);
	void *(*look_up)(void *handle, const char *name);
	char *(*error_text)(void);
	int (*nap)(unsigned int microseconds);
	int (*unmap)(void *address, size_t bytes);

	void *start; /* stub_thread() in the copy */
	int (*function)(const char *text); /* NULL: `name` of the library is called */
	uint64_t stack_of_frame; /* the stack pointer with which rt_sigreturn reads the frame */
	_Atomic uint32_t state; /* enum stub_state */
	int32_t created; /* what pthread_create() returned */
	int32_t result;
	char error[300];
	char name[64];
	char library[PATH_MAX];
	char text[ATTACH_SETTINGS_MAX];
	uint64_t thread;
	_Alignas(64) unsigned char frame[TRACEE_FRAME_BYTES];
	_Alignas(64) unsigned char stack[STUB_STACK_BYTES]; /* of the borrowed thread */
};

/* The code, which does not depend on its address: the linker's names for the section. */
extern const char __start_gpuleak_stub[] __attribute__((visibility("hidden")));
extern const char __stop_gpuleak_stub[] __attribute__((visibility("hidden")));

/* Creates the thread, and then restores the borrowed thread by rt_sigreturn. Does not return. */
void stub_borrow(struct stub_room *room) __attribute__((visibility("hidden")));
/* Loads the library, calls the function, waits for the command, and unmaps the room. */
void *stub_thread(struct stub_room *room) __attribute__((visibility("hidden")));
