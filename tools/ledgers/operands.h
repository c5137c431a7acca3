/* SPDX-License-Identifier: MIT
 *
 * What the words LEDGER|DIRECTORY|PID|- of report and check stand for.
 */
#ifndef GPULEAK_TOOLS_OPERANDS_H
#define GPULEAK_TOOLS_OPERANDS_H

#include "tools/ledgers/ledgers.h"

struct operands { /* starts as { 0 } */
	struct ledger_list list;
	int missing; /* words that stand for nothing that is there */
	int by_pid;  /* at least one was a pid */
};

/* Finds the ledgers that COUNT WORDS stand for; one line on stderr for each word that
 * stands for none. */
void operands_find(struct operands *operands, char **words, int count);

#endif
