/* SPDX-License-Identifier: MIT
 *
 * Parses flags from the rows of options.def, so a new option needs no code here. Defines the
 * opt_* variables, but must not act on them.
 */
#include "tools/flags.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "tools/suggest.h"

struct options opt_values;
const char *opt_text[OPTION_COUNT];
int opt_gate;
int opt_at_exit;
int opt_update_baseline;
struct load_choice opt_choice;
int opt_addresses;

static int set_since(const char *text);
static int set_thread(const char *text);
static int set_address(const char *text);

static const struct extra {
	enum flags_extra bit;
	const char *flag;
	int *target;
	const char *what; /* help text; NULL: the help does not list the flag */
	/* parses the flag's value, returns 0 or -1; NULL: the flag has no value */
	int (*set)(const char *text);
	const char *metavar, *expects;
} extras[] = {
	{ FLAGS_GATE, "gate", &opt_gate,
	  "end with 23 if the gate fails, with 24 if there was nothing to judge" },
	{ FLAGS_UPDATE_BASELINE, "update-baseline", &opt_update_baseline,
	  "write the current leaks to the file of --baseline" },
	{ FLAGS_AT_EXIT, "at-exit", &opt_at_exit, NULL },
	{ FLAGS_CHOICE, "since", NULL,
	  "only blocks that were allocated after the gpuleak_mark() that returned MARK",
	  set_since, "MARK", "a number that gpuleak_mark() returned" },
	{ FLAGS_CHOICE, "thread", NULL, "only blocks that this thread allocated",
	  set_thread, "TID", "the number of a thread, as gettid() says" },
	{ FLAGS_CHOICE, "address", NULL,
	  "only blocks that contain this address, or that have this handle",
	  set_address, "ADDRESS", "an address or a handle: 0x7f1200000000" },
	{ FLAGS_CHOICE, "addresses", &opt_addresses,
	  "list the address of each live block (--format json)" },
};
#define EXTRAS (sizeof(extras) / sizeof(extras[0]))

/* Parses TEXT as a number of BASE from 1 to MOST. Returns 0 or -1. */
static int parse_number(const char *text, int base, uint64_t most, uint64_t *ret)
{
	unsigned long long value;
	char *end;

	if (!isxdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	value = strtoull(text, &end, base);
	if (errno || *end || value < 1 || value > most)
		return -1;
	*ret = value;
	return 0;
}

static int set_since(const char *text)
{
	return parse_number(text, 10, UINT64_MAX, &opt_choice.since);
}

static int set_thread(const char *text)
{
	uint64_t thread;

	if (parse_number(text, 10, UINT32_MAX, &thread) < 0)
		return -1;
	opt_choice.thread = (uint32_t)thread;
	return 0;
}

static int set_address(const char *text)
{
	return parse_number(text, strncmp(text, "0x", 2) == 0 ? 16 : 10, UINT64_MAX,
			    &opt_choice.address);
}

static const struct extra *find_extra(const struct flags_command *command, const char *name,
				      size_t length)
{
	for (size_t i = 0; i < EXTRAS; i++)
		if ((command->extras & extras[i].bit) && strlen(extras[i].flag) == length &&
		    memcmp(extras[i].flag, name, length) == 0)
			return &extras[i];
	return NULL;
}

static int find_option(const struct flags_command *command, const char *name, size_t length)
{
	for (int id = 0; id < OPTION_COUNT; id++)
		if ((command->options & OPTION_BIT(id)) && strlen(option_rows[id].flag) == length &&
		    memcmp(option_rows[id].flag, name, length) == 0)
			return id;
	return -1;
}

static bool has_format(const struct flags_command *command, int format)
{
	const char *word = option_word(OPTION_FORMAT, format);

	for (int i = 0; command->formats && command->formats[i]; i++)
		if (strcmp(command->formats[i], word) == 0)
			return true;
	return !command->formats;
}

/* Returns a description of the valid values of option ID. */
static const char *expects(const struct flags_command *command, int id)
{
	static char formats[128];
	size_t used = 0;

	if (id != OPTION_FORMAT || !command->formats)
		return option_expects((enum option_id)id);
	for (int i = 0; command->formats[i] && used < sizeof(formats); i++)
		used += (size_t)snprintf(formats + used, sizeof(formats) - used, "%s%s",
					 i ? " or " : "", command->formats[i]);
	return formats;
}

static int set_option(const struct flags_command *command, int id, const char *value)
{
	if (option_set(&opt_values, (enum option_id)id, value) < 0 ||
	    (id == OPTION_REPORT && !*value) ||
	    (id == OPTION_FORMAT && !has_format(command, opt_values.format))) {
		eprintf(stderr, "gpuleak: %s: bad value '%s' of --%s: expected is %s\n",
			command->name, value, option_rows[id].flag, expects(command, id));
		return -1;
	}
	opt_text[id] = value;
	return 0;
}

static int set_extra(const struct flags_command *command, const struct extra *extra,
		     const char *value)
{
	if (extra->set(value) == 0)
		return 0;
	eprintf(stderr, "gpuleak: %s: bad value '%s' of --%s: expected is %s\n", command->name,
		value, extra->flag, extra->expects);
	return -1;
}

static int unknown(const struct flags_command *command, const char *word)
{
	struct suggestion suggestion = { .word = word + strspn(word, "-") };

	suggestion.length = strcspn(suggestion.word, "=");
	for (size_t i = 0; i < EXTRAS; i++)
		if ((command->extras & extras[i].bit) && extras[i].what)
			suggest_consider(&suggestion, extras[i].flag);
	for (int id = 0; id < OPTION_COUNT; id++)
		if (command->options & OPTION_BIT(id))
			suggest_consider(&suggestion, option_rows[id].flag);
	eprintf(stderr, "gpuleak: %s: unknown flag '%s'", command->name, word);
	suggest_print(&suggestion, "--");
	eprintf(stderr, "; `gpuleak %s --help` lists them\n", command->name);
	return -1;
}

/* Returns the value of option ID at ARGV[*AT]: the text after EQUALS, or the next word; NULL if it
 * is missing. A switch without "=0" or "=1" has the value 1 and never uses the next word. */
static const char *value_of(int id, const char *equals, int argc, char **argv, int *at)
{
	const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;

	if (equals)
		return equals + 1;
	if (id >= 0 && option_is_switch((enum option_id)id) &&
	    (!next || (strcmp(next, "0") != 0 && strcmp(next, "1") != 0)))
		return "1";
	if (next)
		++*at;
	return next;
}

/* Parses the flag at ARGV[*AT]. Advances *AT if the value is the next word. Returns 0, or -1 or -2
 * as flags_parse() does. */
static int parse_flag(const struct flags_command *command, int argc, char **argv, int *at)
{
	const char *word = argv[*at];
	const char *name = word + 2;
	const char *equals = strchr(name, '=');
	const struct extra *extra;
	const char *value;
	size_t length;
	int id;

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		flags_help(command);
		return -2;
	}
	if (strcmp(word, "-v") == 0 && (command->options & OPTION_BIT(OPTION_VERBOSE)))
		return set_option(command, OPTION_VERBOSE, "1");
	if (word[1] != '-')
		return unknown(command, word);
	length = equals ? (size_t)(equals - name) : strlen(name);
	extra = find_extra(command, name, length);
	if (extra && !extra->set && !equals) {
		*extra->target = 1;
		return 0;
	}
	id = find_option(command, name, length);
	if (id < 0 && !(extra && extra->set))
		return unknown(command, word);
	value = value_of(id, equals, argc, argv, at);
	if (!value) {
		eprintf(stderr, "gpuleak: %s: %s needs a value: %s\n", command->name, word,
			extra ? extra->expects : expects(command, id));
		return -1;
	}
	return extra ? set_extra(command, extra, value) : set_option(command, id, value);
}

int flags_parse(const struct flags_command *command, int argc, char **argv, int *ret_first)
{
	int operands = 0, only_operands = 0, r;

	options_defaults(&opt_values);
	for (int i = 1; i < argc; i++) {
		char *word = argv[i];

		if (!only_operands && strcmp(word, "--") == 0) {
			only_operands = 1;
			continue;
		}
		if (only_operands || word[0] != '-' || word[1] == '\0') {
			/* writes only to elements that were already parsed */
			argv[1 + operands++] = word;
			only_operands |= command->stop_at_operand;
			continue;
		}
		r = parse_flag(command, argc, argv, &i);
		if (r < 0)
			return r;
	}
	argv[1 + operands] = NULL; /* ARGV has room, because it ends with its own NULL */
	*ret_first = 1;
	return operands;
}

uint64_t flags_environment(uint64_t mask)
{
	uint64_t bad = 0;
	char name[64];

	for (int id = 0; id < OPTION_COUNT; id++) {
		const char *value;

		snprintf(name, sizeof(name), "GPULEAK_%s", option_rows[id].name);
		value = getenv(name);
		if (!(mask & OPTION_BIT(id)) || opt_text[id] || !value || !*value)
			continue;
		if (option_set(&opt_values, (enum option_id)id, value) == 0) {
			opt_text[id] = value;
			continue;
		}
		bad |= OPTION_BIT(id);
		eprintf(stderr,
			"gpuleak: bad value '%s' of %s: expected is %s; the default is used: %s\n",
			value, name, option_expects((enum option_id)id),
			*option_rows[id].default_text ? option_rows[id].default_text : "unset");
	}
	return bad;
}

/* Prints WHAT in lines that begin at column INDENT. */
static void print_wrapped(const char *what, int indent)
{
	int column = indent;

	while (*what) {
		int length = (int)strcspn(what, " ");

		if (column > indent && column + 1 + length > 90) {
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

static const char *metavar(enum option_type type)
{
	switch (type) {
	case OPTION_PATTERN:
	case OPTION_PATH:
		return "PATH";
	case OPTION_FORMAT_:
		return "FORMAT";
	case OPTION_SWITCH_:
	case OPTION_DEEPBIND_:
	case OPTION_POOL_:
	case OPTION_BACKEND_:
		return "HOW";
	case OPTION_NUMBER:
	case OPTION_NTH:
		return "N";
	case OPTION_SIZE:
	case OPTION_AMOUNT:
		return "SIZE";
	case OPTION_DURATION:
		return "TIME";
	}
	return "";
}

/* Prints " except --gate, --since": the flags that have no environment variable. */
static void print_but(const struct flags_command *command)
{
	int count = 0;

	for (size_t i = 0; i < EXTRAS; i++)
		if ((command->extras & extras[i].bit) && extras[i].what)
			printf("%s--%s", count++ ? ", " : " except ", extras[i].flag);
}

void flags_help(const struct flags_command *command)
{
	enum { INDENT = 28 };
	char flag[64];

	printf("usage: gpuleak %s %s\n\n%s\n", command->name, command->synopsis, command->prose);
	fputs("Every option", stdout);
	print_but(command);
	puts(" is also a variable: --suppressions is GPULEAK_SUPPRESSIONS");
	for (size_t i = 0; i < EXTRAS; i++) {
		if (!(command->extras & extras[i].bit) || !extras[i].what)
			continue;
		snprintf(flag, sizeof(flag), "--%s %s", extras[i].flag,
			 extras[i].metavar ? extras[i].metavar : "");
		printf("  %-*s", INDENT - 2, flag);
		print_wrapped(extras[i].what, INDENT);
	}
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		const char *default_text;

		if (!(command->options & OPTION_BIT(id)))
			continue;
		snprintf(flag, sizeof(flag), "%s--%s %s", id == OPTION_VERBOSE ? "-v, " : "",
			 row->flag,
			 option_is_switch((enum option_id)id) ? "[0|1]" : metavar(row->type));
		printf("  %-*s", INDENT - 2, flag);
		print_wrapped(id == OPTION_FORMAT && command->formats ? expects(command, id)
								      : row->what, INDENT);
		default_text = id == OPTION_REPORT ? command->report_to : row->default_text;
		if (*default_text)
			printf("%*s(default: %s)\n", INDENT, "", default_text);
	}
	if (command->tail)
		printf("\n%s", command->tail);
}
