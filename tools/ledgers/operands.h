/* SPDX-License-Identifier: MIT
 *
 * The operands LEDGER|DIRECTORY|PID|- of `gpuleak report` and `gpuleak check`.
 */
#pragma once

#include "tools/ledgers/ledgers.h"

struct operands { /* starts as { 0 } */
	struct ledger_list list;
	int missing; /* number of operands for which no ledger was found */
	bool by_pid;  /* at least one operand was a pid */
};

/* Finds the ledgers for the COUNT operands WORDS. Prints a line on stderr for each operand that has
 * no ledger. */
void operands_find(struct operands *operands, char **words, int count);
void operands_finish(struct operands *operands);
