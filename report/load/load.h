/* SPDX-License-Identifier: MIT
 *
 * Gets the bytes of a ledger into memory of our own, from a file, an entry of a directory,
 * or standard input, also while its writer is still running. Owns opening, reading and
 * the one line that says why it failed; what the bytes mean is the reader's and model's.
 */
#ifndef GPULEAK_REPORT_LOAD_H
#define GPULEAK_REPORT_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/reader.h"

/* The writer sets aside at most this much address space, so no ledger is larger. */
#define LOAD_BYTES_MAX ((uint64_t)4 << 30)

/* Which live blocks are asked for; all zero: every one. */
struct load_choice {
	uint64_t since;   /* made since that gpuleak_mark() */
	uint64_t address; /* that begin there, or have it in them */
	uint32_t thread;  /* made by that thread */
};

struct loaded_ledger {
	struct load_choice choice; /* the caller's, who may set it once the ledger is loaded */
	struct ledger_view view; /* of BYTES; nobody changes them any more */
	uint8_t *bytes;
	char *name;        /* what messages call it */
	int all_sites;     /* for who loaded it to set: the report has all call sites */
	int program_suppressions; /* likewise: the program's own suppressions are used, too */
	uint64_t unsettled; /* blocks left out because they changed while they were read */
	uint64_t older_ns;  /* for who wants only blocks of that age; 0, as loaded: all */
};

/* Loads the ledger at PATH; "-" is standard input. Only regular files are read (standard
 * input may be anything). 0 with *RET to be released with loaded_ledger_finish, or -errno
 * with one line in ERROR that says which file, what is wrong and what to do: -EBADMSG when
 * it is no ledger that this version can read. */
int loaded_ledger_open(const char *path, struct loaded_ledger *ret, char *error, size_t error_size);

/* The same for the entry NAME of the directory open as DIRECTORY, which messages call
 * DIRECTORY_NAME. */
int loaded_ledger_open_at(int directory, const char *directory_name, const char *name,
			  struct loaded_ledger *ret, char *error, size_t error_size);

/* The same for the regular file that is open as FD, from its start; messages call it NAME. FD
 * stays open. */
int loaded_ledger_read(int fd, const char *name, struct loaded_ledger *ret, char *error,
		       size_t error_size);

/* The same for BYTES that are already in memory: copied. */
int loaded_ledger_copy(const void *bytes, size_t size, const char *name, struct loaded_ledger *ret,
		       char *error, size_t error_size);

void loaded_ledger_finish(struct loaded_ledger *ledger);

#endif
