/* SPDX-License-Identifier: MIT
 *
 * Finds ledgers: by directory, by pid, by name. Opens them only as far as their header;
 * reading them is report/load/load.c's.
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
	char *earlier; /* what ledgers_add_pid() left out for whom it belongs to, or NULL */
};

/* Whether NAME is one that libgpuleak.so gives: it ends in .gpuleak, or .gpuleak.N when the
 * name was taken (a process that went on as another program). */
int ledger_is_name(const char *name);

/* Reads PID-TICKS.gpuleak[.N] or PID.gpuleak[.N] (ticks 0). 1 if NAME is of that form. */
int ledger_parse_name(const char *name, int *ret_pid, unsigned long long *ret_ticks);

/* The process that WORD, a user's, names: 0 if it is no number, INT_MAX if no process has it. */
int ledgers_pid(const char *word);

/* Fills in what the header of the file NAME in directory DIRECTORY says, if it can be read. */
void ledger_peek(int directory, const char *name, struct ledger_file *file);

/* getenv, of the type that ledger/ wants. */
const char *ledger_variable(const char *name);

/* Each adds to LIST, sorted by name. 0 or -errno. */
int ledgers_add(struct ledger_list *list, const char *path);
int ledgers_add_directory(struct ledger_list *list, const char *directory);
/* Of process PID in the places where the library puts them, run directories included. If a
 * pid was used again, only those of the process that runs, or if none does of the latest. If
 * PID is a `gpuleak run`, those of the processes that it started. */
int ledgers_add_pid(struct ledger_list *list, int pid);

/* Of LIST, from number FROM on, the one that was begun last; NULL if there is none. */
struct ledger_file *ledgers_latest(const struct ledger_list *list, size_t from);

/* Why ledgers_add_pid() found none of PID, in words. Static storage: for one thread. */
const char *ledgers_why_none(const struct ledger_list *list, int pid);

void ledgers_finish(struct ledger_list *list);

#endif
