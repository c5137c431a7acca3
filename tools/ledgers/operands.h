/* SPDX-License-Identifier: MIT
 *
 * The operands LEDGER|DIRECTORY|PID|- of report and check.
 */
#ifndef GPULEAK_TOOLS_OPERANDS_H
#define GPULEAK_TOOLS_OPERANDS_H

#include "tools/ledgers/ledgers.h"

struct operands { /* starts as { 0 } */
	struct ledger_list list;
	int missing; /* words that stand for nothing that is there */
	int by_pid;  /* at least one was a pid */
};

/* Finds the ledgers that the COUNT WORDS name; prints a line on stderr for each word that names
 * none. */
void operands_find(struct operands *operands, char **words, int count);

#endif
