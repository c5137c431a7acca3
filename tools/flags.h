/* SPDX-License-Identifier: MIT
 *
 * The command line of every subcommand: flags made from ledger/options.def, the same options as
 * GPULEAK_* variables, and their help. Prints errors.
 */
#ifndef GPULEAK_TOOLS_FLAGS_H
#define GPULEAK_TOOLS_FLAGS_H

#include "report/load/load.h"
#include "ledger/options.h"

enum flags_extra { /* flags that are not options of the library */
	FLAGS_GATE = 1,
	FLAGS_AT_EXIT = 2,
	FLAGS_UPDATE_BASELINE = 4,
	FLAGS_CHOICE = 8,
};

struct flags_command {
	const char *name;      /* "run" */
	const char *synopsis;  /* follows "gpuleak run" */
	const char *prose;     /* what it does, whole lines */
	uint64_t options;      /* OPTION_BIT() of those it takes */
	unsigned int extras;   /* enum flags_extra of those it takes */
	const char *const *formats; /* of --format, ended by NULL; NULL itself: all of them */
	const char *report_to; /* default destination of the report */
	int stop_at_operand;   /* flags end at the first word that is not a flag */
	const char *tail;      /* ends its help: exit status, examples */
};

extern struct options opt_values;
extern const char *opt_text[OPTION_COUNT]; /* as given by a flag or variable; NULL: not given */
extern int opt_gate;
extern int opt_at_exit;
extern int opt_update_baseline;
extern struct load_choice opt_choice; /* flags that select blocks */

/* Sets opt_* from ARGV[1..]. Returns the number of operands, which are moved, in order, to
 * the end of ARGV with the first at *RET_FIRST; -1 after one line about what is wrong; -2
 * after --help was printed. */
int flags_parse(const struct flags_command *command, int argc, char **argv, int *ret_first);

/* Takes GPULEAK_* variables as defaults for the options in MASK that no flag gave. One line
 * for a bad value, which is then passed over; those are the bits of the result. */
uint64_t flags_environment(uint64_t mask);

/* Prints a subcommand's help on stdout. */
void flags_help(const struct flags_command *command);

#endif
