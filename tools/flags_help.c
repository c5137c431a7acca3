/* SPDX-License-Identifier: MIT
 *
 * Prints the help of a subcommand from the rows of options.def. docs/man.py makes the manual pages
 * from this output.
 */
#include <stdio.h>
#include <string.h>

#include "tools/flags.h"

enum { INDENT = 28, NAMES_INDENT = 6, COLUMNS = 90 };

/* A command with at most this many options explains all of them in --help. */
enum { FEW = 10 };

/* Prints WHAT in lines that begin at column INDENT, where the cursor is. */
static void print_words(const char *what, int indent)
{
	int column = indent;

	while (*what) {
		int length = (int)strcspn(what, " ");

		if (column > indent && column + 1 + length > COLUMNS) {
			printf("\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		printf("%.*s", length, what);
		column += length;
		what += length;
		what += strspn(what, " ");
	}
	putchar('\n');
}

static void print_flag(const char *flag, const char *what)
{
	printf("  %-*s", INDENT - 2, flag);
	print_words(what, INDENT);
}

static void print_option(const struct flags_command *command, int id)
{
	const struct option_row *row = &option_rows[id];
	const char *default_text = id == OPTION_REPORT ? command->report_to : row->default_text;
	char flag[64];

	snprintf(flag, sizeof(flag), "%s--%s %s", id == OPTION_VERBOSE ? "-v, " : "", row->flag,
		 option_metavar((enum option_id)id));
	print_flag(flag, id == OPTION_FORMAT && command->formats ? flags_expects(command, id)
								 : row->what);
	if (*default_text)
		printf("%*s(default: %s)\n", INDENT, "", default_text);
}

static void print_extra(const struct flags_extra *extra)
{
	char flag[64];

	snprintf(flag, sizeof(flag), "%s %s", extra->flag, extra->metavar ? extra->metavar : "");
	print_flag(flag, extra->what);
}

/* A flag of the command: an extra one, or else an option. */
struct flag {
	const struct flags_extra *extra;
	int id;
};

/* Fills RET with the command's flags of GROUP (OPTION_GROUP_COUNT: of all groups) that have RANK
 * (-1: any). Returns their number. */
static size_t choose(const struct flags_command *command, int group, int rank, struct flag *ret)
{
	size_t count = 0;

	for (const struct flags_extra *extra = command->extras; extra && extra->flag; extra++)
		if (extra->what && (group == OPTION_GROUP_COUNT || (int)extra->group == group) &&
		    (rank < 0 || (int)extra->rank == rank))
			ret[count++] = (struct flag){ .extra = extra };
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];

		if ((command->options & OPTION_BIT(id)) &&
		    (group == OPTION_GROUP_COUNT || (int)row->group == group) &&
		    (rank < 0 || (int)row->rank == rank))
			ret[count++] = (struct flag){ .id = id };
	}
	return count;
}

enum { FLAGS_MAX = OPTION_COUNT + 32 };

static void print_flags(const struct flags_command *command, const struct flag *flags, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (flags[i].extra)
			print_extra(flags[i].extra);
		else
			print_option(command, flags[i].id);
	}
}

/* Explains all flags, in groups. */
static void print_groups(const struct flags_command *command)
{
	struct flag flags[FLAGS_MAX];

	for (int group = 0; group < OPTION_GROUP_COUNT; group++) {
		size_t count = choose(command, group, -1, flags);

		if (!count)
			continue;
		printf("\n%s:\n", option_group_title((enum option_group)group));
		print_flags(command, flags, count);
	}
}

/* Names the flags that --help does not explain, in groups. */
static void print_names(const struct flags_command *command)
{
	struct flag flags[FLAGS_MAX];
	char names[FLAGS_MAX * 24];

	printf("\nMore options, explained by `gpuleak %s --help-all`:\n", command->name);
	for (int group = 0; group < OPTION_GROUP_COUNT; group++) {
		size_t used = 0, count = choose(command, group, OPTION_RANK_MORE, flags);

		if (!count)
			continue;
		for (size_t i = 0; i < count && used < sizeof(names); i++)
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s ",
						 flags[i].extra ? "" : "--",
						 flags[i].extra ? flags[i].extra->flag
								: option_rows[flags[i].id].flag);
		printf("  %s:\n%*s", option_group_title((enum option_group)group), NAMES_INDENT,
		       "");
		print_words(names, NAMES_INDENT);
	}
}

/* Prints which flags have an environment variable: all except the extra ones. */
static void print_variables(const struct flags_command *command)
{
	int count = 0;

	if (!(command->options & OPTION_BIT(OPTION_SUPPRESSIONS)))
		return;
	fputs("\nEvery option", stdout);
	for (const struct flags_extra *extra = command->extras; extra && extra->flag; extra++)
		if (extra->what)
			printf("%s%s", count++ ? ", " : " except ", extra->flag);
	puts(" is also a variable: --suppressions is GPULEAK_SUPPRESSIONS");
}

void flags_help(const struct flags_command *command, bool all)
{
	struct flag flags[FLAGS_MAX];
	size_t count = choose(command, OPTION_GROUP_COUNT, -1, flags);

	printf("usage: gpuleak %s %s\n\n%s", command->name, command->synopsis, command->prose);
	if (all) {
		print_groups(command);
	} else if (count <= FEW) {
		puts("\nOptions:");
		print_flags(command, flags, count);
	} else {
		puts("\nThe options that matter most:");
		count = choose(command, OPTION_GROUP_COUNT, OPTION_RANK_FIRST, flags);
		print_flags(command, flags, count);
		print_names(command);
	}
	print_variables(command);
	if (command->tail)
		printf("\n%s", command->tail);
	if (all && command->tail_of_all)
		printf("\n%s", command->tail_of_all);
}
