/* SPDX-License-Identifier: MIT
 *
 * Finds ledgers by directory, pid or file name. Reads only their headers; report/load/load.c
 * reads the rest. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger_file {
	char *path;
	/* pid, start_ticks and start_real_ns are from the header; 0 if it cannot be read */
	int pid;
	unsigned long long start_ticks;
	uint64_t start_real_ns;
	uint32_t ended; /* enum ledger_ended, from the header */
};

struct ledger_list { /* starts as { 0 } */
	struct ledger_file *files;
	size_t count;
	bool is_run;    /* the last ledgers_add_pid() found a `gpuleak run` */
	/* path of a ledger that ledgers_add_pid() left out, because an earlier process with the
	 * same pid wrote it; or NULL */
	char *earlier;
};

/* Returns true if libgpuleak.so could have created NAME: it ends with .gpuleak, or with .gpuleak.N
 * if that name existed (after exec). */
bool ledger_is_name(const char *name);

/* Parses PID-TICKS.gpuleak[.N] or PID.gpuleak[.N] (ticks 0). Returns true if NAME has this form. */
bool ledger_parse_name(const char *name, int *ret_pid, unsigned long long *ret_ticks);

/* Returns WORD as a pid: 0 if it is not a number, INT_MAX if it is too large for a pid. */
int ledgers_pid(const char *word);

/* Fills in FILE from the header of the ledger NAME in DIRECTORY. Leaves it unchanged if the header
 * cannot be read. */
void ledger_peek(int directory, const char *name, struct ledger_file *file);

/* Calls getenv(), with the function type that ledger/ requires. */
const char *ledger_variable(const char *name);

/* Each function appends ledgers to LIST. Those of one directory are ordered by name. Those with a
 * result return 0 or -errno. */
void ledgers_add(struct ledger_list *list, const char *path);
int ledgers_add_directory(struct ledger_list *list, const char *directory);
/* Adds all regular files of DIRECTORY that begin as a ledger does, whatever their names are, and
 * all that have the name of a ledger. Stores the number of the other regular files. */
int ledgers_search_directory(struct ledger_list *list, const char *directory, size_t *ret_others);
/* Adds the ledgers of process PID from all directories in which the library creates them, including
 * run directories. If the pid was reused, adds only those of the running process, else of the
 * latest. If PID is a `gpuleak run`, adds the ledgers of the processes that it started. */
int ledgers_add_pid(struct ledger_list *list, int pid);

/* Returns the ledger with the latest start among the elements of LIST from index FROM; NULL if
 * there is none. */
struct ledger_file *ledgers_latest(const struct ledger_list *list, size_t from);

/* Returns why ledgers_add_pid() found no ledger of PID, in static storage. Not thread-safe. */
const char *ledgers_why_none(const struct ledger_list *list, int pid);

void ledgers_finish(struct ledger_list *list);
