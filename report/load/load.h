/* SPDX-License-Identifier: MIT
 *
 * Reads the bytes of a ledger into memory: from a file or standard input. The process that writes
 * the ledger may still run. Opens and reads files and writes the error line. Must not interpret
 * records.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ledger/reader.h"

/* Limit of a ledger's size: the writer reserves at most this much address space. */
#define LOAD_BYTES_MAX ((uint64_t)4 << 30)

/* Selects live blocks. All zero: all blocks. */
struct load_choice {
	uint64_t since;   /* only blocks newer than this result of gpuleak_mark() */
	uint64_t address; /* only blocks that begin at or contain this address */
	uint32_t thread;  /* only blocks that this thread allocated */
	bool by_range;    /* a call site is a place in one range; selects nothing */
	bool addresses;   /* list the address of each block; selects nothing */
	/* Moments to show: the end of the second one is at or after its start. Select nothing. */
	bool has_at, has_between;
	uint64_t at_ns, between_ns[2];
};

struct loaded_ledger {
	struct load_choice choice; /* the caller sets it after loading */
	struct ledger_view view; /* refers to `bytes`, which no longer change */
	uint8_t *bytes;
	uid_t owner;       /* of the file, or of this process without a file */
	char *name;        /* name of the ledger in messages */
	bool all_sites;     /* the caller sets it: the report lists all call sites */
	unsigned int moments; /* the caller sets it: so many moments of the trace are read */
	bool whole_trace;   /* the caller sets it: the report has the lives of all blocks */
	/* the caller sets it: frames that start the program or a thread need no line */
	bool names_starts;
	bool program_suppressions; /* the caller sets it: use the program's own suppressions */
	uint64_t unsettled; /* blocks left out because they changed during the read */
	uint64_t older_ns;  /* the caller sets it: only blocks at least this old; 0: all */
};

/* Loads the ledger at PATH; "-" is standard input. Standard input may be any kind of file, PATH
 * must be a regular file. Returns 0 or -errno, -EBADMSG if this version cannot read the ledger. On
 * error, ERROR has one line with the file, the problem and what to do. The caller releases *RET
 * with loaded_ledger_finish(). */
int loaded_ledger_open(const char *path, struct loaded_ledger *ret, char *error, size_t error_size);

/* Does the same for the regular file that is open as FD, from its start. NAME is its name in
 * messages. FD stays open. */
int loaded_ledger_read(int fd, const char *name, struct loaded_ledger *ret, char *error,
		       size_t error_size);

/* Does the same with a copy of the SIZE bytes at BYTES, for a ledger in memory. */
int loaded_ledger_copy(const void *bytes, size_t size, const char *name, struct loaded_ledger *ret,
		       char *error, size_t error_size);

void loaded_ledger_finish(struct loaded_ledger *ledger);

/* Returns true if the process PID that started at START_TICKS still runs on this host. Returns
 * false for a zombie, for another process that reused the pid, and if HOST is another host (NULL:
 * this host). */
bool process_alive(int pid, uint64_t start_ticks, const char *host);

/* Returns true if HOST is the name of this host, or NULL. */
bool is_this_host(const char *host);
