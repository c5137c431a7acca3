/* SPDX-License-Identifier: MIT
 *
 * The roster: a table in memory that `gpuleak run` shares with all its processes. A process adds
 * itself at its first GPU call, before it creates its ledger. So the command also knows
 * processes that could not create a ledger. A process without a GPU call is not in the table.
 *
 * The table is a System V segment. A process reaches it without a file, a descriptor or a mount,
 * so chroot, another user, a private /dev/shm and closed descriptors do not matter. The library
 * attaches the segment when it is loaded. The mapping stays valid if the process drops its
 * rights later. A process in an IPC namespace of its own cannot reach the segment.
 *
 * Applications can write to the segment. If root runs the command, every user can, because
 * root's processes may change to any user. So the command does not trust its contents.
 */
#pragma once

#include <stdint.h>

#define ROSTER_SLOTS 2047u
#define ROSTER_NAME_MAX 44
#define ROSTER_BYPASSES 16u

enum roster_state {
	ROSTER_UNUSED = 0,
	ROSTER_STARTING = 1,  /* is about to create its ledger */
	ROSTER_RECORDING = 2, /* has created its ledger */
	ROSTER_FAILED = 3,    /* could not create its ledger: see `error` */
	ROSTER_NO_LEDGER = 4, /* a `gpuleak run` inside the run: it has handed on its ledgers */
};

/* One program that a process runs. After an exec the new program has its own slot. */
struct roster_slot {
	uint32_t state; /* enum roster_state; stored last, with release order */
	int32_t pid;
	uint64_t start_ticks; /* pid and start_ticks as in the ledger's header */
	int32_t error;        /* errno of ROSTER_FAILED */
	char name[ROSTER_NAME_MAX]; /* of the program; with a final NUL */
};

/* A process whose GPU calls all bypassed gpuleak. Texts have a final NUL and may be cut. */
struct roster_bypass {
	uint32_t ready; /* stored last, with release order */
	int32_t pid;
	char kind[20]; /* as in the facts of a ledger: "deepbind", "in-front" ... */
	char name[ROSTER_NAME_MAX];
	char module[192];
};

struct roster {
	/* as in GPULEAK_ROSTER; needed because the kernel may reuse a segment's number */
	uint64_t key;
	uint32_t begun; /* number of programs; those beyond ROSTER_SLOTS have no slot */
	/* Number of programs that the programs of the run have started, and number of programs into
	 * which the library was loaded. The difference ran without gpuleak. */
	uint32_t started, loaded;
	uint32_t reserved[11];
	struct roster_slot slots[ROSTER_SLOTS];
	uint32_t bypassed; /* number of processes; those beyond ROSTER_BYPASSES are only counted */
	struct roster_bypass bypasses[ROSTER_BYPASSES];
};

/* Format of the variable GPULEAK_ROSTER: segment number, colon, key in hexadecimal. */
#define ROSTER_TEXT "%d:%016llx"
#define ROSTER_TEXT_MAX 32

/* Attaches the roster that TEXT, a value of GPULEAK_ROSTER, identifies. Returns NULL if TEXT is
 * NULL or does not identify a roster. The mapping stays until the process ends. */
struct roster *roster_join(const char *text);

/* Adds this process in state ROSTER_STARTING. Returns its slot, or NULL if ROSTER is NULL or full.
 * Any thread may call it. */
struct roster_slot *roster_enter(struct roster *roster, int pid, uint64_t start_ticks,
				 const char *name);

/* Records that the process of SLOT has created its ledger (ERROR 0), or the errno of its failure.
 * SLOT may be NULL. */
void roster_note(struct roster_slot *slot, int error);

/* Records that the GPU calls of process PID bypassed gpuleak: KIND is how, MODULE the library that
 * is the reason. */
void roster_bypass(struct roster *roster, int pid, const char *name, const char *kind,
		   const char *module);

/* Returns advice for a user whose ledger could not be created because of ERROR, an errno. The text
 * begins with "; ". Returns "" if there is no advice. */
const char *roster_advice(int error);
