/* SPDX-License-Identifier: MIT
 *
 * Parses the command line of each subcommand: flags made from ledger/options.def, the same
 * options as GPULEAK_* variables, --help and --help-all. Prints errors. Not thread-safe: results
 * are global variables.
 */
#ifndef GPULEAK_TOOLS_FLAGS_H
#define GPULEAK_TOOLS_FLAGS_H

#include <stdbool.h>

#include "report/load/load.h"
#include "ledger/options.h"

enum flags_extra { /* flags that are not options of options.def */
	FLAGS_GATE = 1,
	FLAGS_AT_EXIT = 2,
	FLAGS_UPDATE_BASELINE = 4,
	FLAGS_CHOICE = 8,
	FLAGS_START = 16,
	FLAGS_DOCTOR = 32,
};

struct flags_command {
	const char *name;      /* "run" */
	const char *synopsis;  /* text after "gpuleak run" in the help */
	const char *prose;     /* description in the help, complete lines */
	uint64_t options;      /* OPTION_BIT() of the options that the subcommand accepts */
	unsigned int extras;   /* enum flags_extra that it accepts */
	/* values that --format accepts, with a final NULL; NULL: all formats */
	const char *const *formats;
	const char *report_to; /* default of --report */
	bool stop_at_operand;   /* words after the first operand are not flags */
	const char *tail;      /* end of the help: exit status, examples */
	const char *tail_of_all; /* end of the help of all options, after TAIL; NULL: nothing */
};

extern struct options opt_values;
extern const char *opt_text[OPTION_COUNT]; /* value from a flag or variable; NULL: not set */
extern int opt_gate;
extern int opt_at_exit;
extern int opt_remove;
extern int opt_update_baseline;
extern struct load_choice opt_choice; /* from the flags that select blocks */
extern int opt_addresses;
extern int opt_start;
/* `gpuleak run` appends the reasons why it could not record to this file, and does not print them;
 * NULL: it prints them */
extern const char *opt_reasons;

/* Sets the opt_* variables from ARGV[1..]. Moves the operands to the end of ARGV, in their order,
 * and stores the index of the first in *RET_FIRST. Returns the number of operands. Returns -1 after
 * an error, which it prints, and -2 after it printed --help or --help-all. */
int flags_parse(const struct flags_command *command, int argc, char **argv, int *ret_first);

/* Sets each option of MASK that no flag has set from its GPULEAK_* variable. Prints one line for
 * each invalid value and ignores it. Returns the OPTION_BIT()s of invalid values. */
uint64_t flags_environment(uint64_t mask);

/* Returns true if --color and the destination WHERE (see output_takes_colors()) allow colours. */
bool flags_wants_colors(const char *where);

/* Prints a subcommand's help on stdout. Explains the options that matter most and names the others,
 * or, if ALL is set, explains all in groups. */
void flags_help(const struct flags_command *command, bool all);

#endif
