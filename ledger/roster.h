/* SPDX-License-Identifier: MIT
 *
 * The roster: memory that `gpuleak run` shares with all of its processes. A process enters
 * itself at its first GPU call, before it makes its ledger, so that one that can't make a
 * ledger is known all the same. A process without a GPU call enters nothing.
 *
 * It is a System V segment: a process reaches it without a file, a descriptor or a mount, so
 * chroot, another user, a private /dev/shm and closed descriptors do no harm. The library
 * attaches it when it is loaded; the mapping outlives what the process gives up later. A
 * process that is started in an IPC namespace of its own does not reach it.
 *
 * Applications can write to it, and root's can be written by every user, since root's
 * processes may become any user: the command trusts nothing in it.
 */
#ifndef GPULEAK_LEDGER_ROSTER_H
#define GPULEAK_LEDGER_ROSTER_H

#include <stdint.h>

#define ROSTER_SLOTS 2047u
#define ROSTER_NAME_MAX 44

enum roster_state {
	ROSTER_UNUSED = 0,
	ROSTER_STARTING = 1,  /* about to make its ledger */
	ROSTER_RECORDING = 2, /* has its ledger */
	ROSTER_FAILED = 3,    /* could not make its ledger: see `error` */
};

/* One image of a process. */
struct roster_slot {
	uint32_t state; /* written last, with release */
	int32_t pid;
	uint64_t start_ticks; /* these two as in the ledger's header */
	int32_t error;        /* errno */
	char name[ROSTER_NAME_MAX]; /* of the program; ended by NUL */
};

struct roster {
	uint64_t key; /* as in GPULEAK_ROSTER; the kernel may reuse the number of a segment */
	uint32_t begun; /* how many entered; those beyond ROSTER_SLOTS have no slot */
	uint32_t reserved[13];
	struct roster_slot slots[ROSTER_SLOTS];
};

/* The value of GPULEAK_ROSTER: number of the segment, colon, key in hexadecimal digits. */
#define ROSTER_TEXT "%d:%016llx"
#define ROSTER_TEXT_MAX 32

/* Attaches the roster that TEXT names. NULL if TEXT is NULL or does not lead to one. */
struct roster *roster_join(const char *text);

/* Enters this process as starting. Returns its slot, or NULL if ROSTER is NULL or full. */
struct roster_slot *roster_enter(struct roster *roster, int pid, uint64_t start_ticks,
				 const char *name);

/* Notes that the process of SLOT (may be NULL) has its ledger, or why not: an errno. */
void roster_note(struct roster_slot *slot, int error);

/* Returns what a user can do if no ledger could be created because of ERROR, an errno: "; ..." or
 * "". */
const char *roster_advice(int error);

#endif
