/* SPDX-License-Identifier: MIT
 *
 * What `gpuleak attach` and the library inside the process agree on: two exported functions, their
 * results, and the page in which the command requests an attachment without ptrace. No code.
 *
 * The command loads the library with dlopen(path, RTLD_NOW | RTLD_LOCAL) if it is not loaded. It
 * calls on a stack of at least 256 KiB, while the other threads run:
 *   int gpuleak_attach(const char *settings)  starts recording. SETTINGS has lines
 *     "GPULEAK_NAME=value\n", its options instead of those in the environment. A line may also set
 *     GPULEAK_TREE=1 (forked children record, too), GPULEAK_BEFORE=BYTES (device memory before the
 *     attachment), and GPULEAK_FOLDER=PATH: recording ends when nobody locks it (F_OFD_SETLK)
 *   int gpuleak_detach(void)  ends recording: `ended` is LEDGER_DETACHED. Both return attach_result
 */
#pragma once

#include <stdint.h>

/* X(NAME, text) */
#define ATTACH_RESULTS(X)                                                                     \
	X(DONE, "done")                                                                      \
	X(ALREADY, "the process is recorded already")                                        \
	X(NOT_ATTACHED, "the process is not attached to")                                    \
	X(BUSY, "a thread of the process did not leave gpuleak's code in time; try again")   \
	X(NO_LEDGER, "the process could create no ledger: a full disk, or a limit (prlimit)")    \
	X(NO_MEMORY, "the process has too little memory left")                               \
	X(BAD_SETTINGS, "the settings are too long, or not lines of GPULEAK_NAME=value")     \
	X(NOT_ALONE, "another copy of libgpuleak.so is in the process")                      \
	X(STOPPED, "recording has stopped in this process, because a thread left gpuleak's " \
		   "code by a jump")
enum attach_result {
#define X(name, text) ATTACH_##name,
	ATTACH_RESULTS(X)
#undef X
	ATTACH_RESULT_COUNT
};

/* ---- the page of a process that was started with GPULEAK_RECORD=off. It creates the file at its
 * first GPU call in the first directory of place_candidate() (ledger/directory.h) where it can. The
 * numbers are its pid and field 22 of /proc/PID/stat. ---- */

#define ATTACH_PAGE_NAME "gpuleak.%d.%llu.attach"
#define ATTACH_PAGE_MAGIC "gpuleakB"
#define ATTACH_SETTINGS_MAX 32768u

/* The command writes `settings`, and then `request`: a number other than 0 and the last one. The
 * next call that allocates takes it: it stores 0 in `request`, attaches, and stores `result` and
 * then the number in `answered`. The command takes back a request that nobody takes in time. */
struct attach_page {
	char magic[8];
	int32_t pid;
	uint32_t result;        /* enum attach_result of the request `answered` */
	uint64_t start_ticks;
	_Atomic uint32_t request;  /* 0: none */
	_Atomic uint32_t answered;
	char settings[ATTACH_SETTINGS_MAX]; /* with a final NUL */
	uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
};
