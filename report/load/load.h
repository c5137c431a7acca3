/* SPDX-License-Identifier: MIT
 *
 * Reads the bytes of a ledger into memory: from a file, an entry of a directory or standard
 * input, also while its writer runs. Owns opening, reading and the error line. Must not
 * interpret records.
 */
#ifndef GPULEAK_REPORT_LOAD_H
#define GPULEAK_REPORT_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/reader.h"

/* The writer sets aside at most this much address space, so no ledger is larger. */
#define LOAD_BYTES_MAX ((uint64_t)4 << 30)

/* Selects live blocks. All zero: every block. */
struct load_choice {
	uint64_t since;   /* made since that gpuleak_mark() */
	uint64_t address; /* that begin there, or have it in them */
	uint32_t thread;  /* made by that thread */
};

struct loaded_ledger {
	struct load_choice choice; /* set by the caller after loading */
	struct ledger_view view; /* of BYTES, which no longer change */
	uint8_t *bytes;
	char *name;        /* what messages call it */
	int all_sites;     /* set by the caller: the report lists all call sites */
	int program_suppressions; /* set by the caller: use the program's own suppressions */
	uint64_t unsettled; /* blocks left out because they changed while they were read */
	uint64_t older_ns;  /* set by the caller: only blocks of that age; 0: all */
};

/* Loads the ledger at PATH; "-" is standard input. Reads only regular files, and anything from
 * standard input. 0 with *RET to be released with loaded_ledger_finish(), or -errno with a line
 * in ERROR that names the file, the problem and what to do: -EBADMSG if this version cannot read
 * it. */
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
