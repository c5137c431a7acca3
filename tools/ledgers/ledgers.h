/* SPDX-License-Identifier: MIT
 *
 * Finds ledgers by directory, by pid or by name. Reads only their headers; report/load/load.c
 * reads the rest.
 */
#ifndef GPULEAK_TOOLS_LEDGERS_H
#define GPULEAK_TOOLS_LEDGERS_H

#include <stddef.h>
#include <stdint.h>

struct ledger_file {
	char *path;
	int pid; /* this and the next two from its header; 0 if that can't be read */
	unsigned long long start_ticks;
	uint64_t start_real_ns;
};

struct ledger_list { /* starts as { 0 } */
	struct ledger_file *files;
	size_t count;
	size_t room;
	int is_run;    /* the last ledgers_add_pid() was of a `gpuleak run` */
	char *earlier; /* path of a ledger of an earlier process with the pid, which
			* ledgers_add_pid() left out, or NULL */
};

/* Returns true if libgpuleak.so could have created NAME: it ends in .gpuleak, or in .gpuleak.N if
 * the name existed (after exec). */
int ledger_is_name(const char *name);

/* Reads PID-TICKS.gpuleak[.N] or PID.gpuleak[.N] (ticks 0). 1 if NAME is of that form. */
int ledger_parse_name(const char *name, int *ret_pid, unsigned long long *ret_ticks);

/* Returns the pid that WORD names: 0 if it is not a number, INT_MAX if no process can have it. */
int ledgers_pid(const char *word);

/* Fills in FILE from the header of NAME in DIRECTORY, if it can be read. */
void ledger_peek(int directory, const char *name, struct ledger_file *file);

/* getenv() with the type that ledger/ expects. */
const char *ledger_variable(const char *name);

/* Each of these adds to LIST, sorted by name. */
int ledgers_add(struct ledger_list *list, const char *path);
int ledgers_add_directory(struct ledger_list *list, const char *directory);
/* Adds the ledgers of process PID from the places where the library creates them, including run
 * directories. If the pid was reused, only those of the running process, else of the latest. If PID
 * is a `gpuleak run`, those of the processes that it started. */
int ledgers_add_pid(struct ledger_list *list, int pid);

/* Returns the ledger of LIST, from number FROM on, that was begun last; NULL if there is none. */
struct ledger_file *ledgers_latest(const struct ledger_list *list, size_t from);

/* Returns why ledgers_add_pid() found no ledger of PID. The text is in static storage: not
 * thread-safe. */
const char *ledgers_why_none(const struct ledger_list *list, int pid);

void ledgers_finish(struct ledger_list *list);

#endif
