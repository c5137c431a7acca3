/* SPDX-License-Identifier: MIT
 *
 * Parses flags from the rows of options.def, so a new option needs no code here. Defines the
 * opt_* variables, but must not act on them. flags_help.c prints the help.
 */
#include "tools/flags.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/util/output.h"
#include "tools/flags_internal.h"
#include "tools/suggest.h"

struct options opt_values;
const char *opt_text[OPTION_COUNT];
int opt_gate;
int opt_at_exit;
int opt_remove;
int opt_update_baseline;
struct load_choice opt_choice;
int opt_addresses;
int opt_start;
const char *opt_reasons;

static int set_since(const char *text);
static int set_thread(const char *text);
static int set_address(const char *text);
static int set_reasons(const char *text);

const struct flags_extra_row flags_extras[] = {
	{ FLAGS_GATE, "gate", &opt_gate, OPTION_GROUP_GATE, OPTION_RANK_FIRST,
	  "end with 23 if the gate fails, with 24 if there was nothing to judge" },
	{ FLAGS_UPDATE_BASELINE, "update-baseline", &opt_update_baseline, OPTION_GROUP_GATE,
	  OPTION_RANK_MORE, "write the current leaks to the file of --baseline" },
	{ FLAGS_START, "start", &opt_start, OPTION_GROUP_RECORD, OPTION_RANK_FIRST,
	  "also run PROGRAM with its ARGUMENTs, and check what was recorded" },
	{ FLAGS_AT_EXIT, "at-exit", &opt_at_exit, OPTION_GROUP_REPORT, OPTION_RANK_MORE, NULL },
	{ FLAGS_AT_EXIT, "remove", &opt_remove, OPTION_GROUP_REPORT, OPTION_RANK_MORE, NULL },
	{ FLAGS_DOCTOR, "reasons", NULL, OPTION_GROUP_REPORT, OPTION_RANK_MORE, NULL, set_reasons,
	  "FILE", "a file" },
	{ FLAGS_CHOICE, "since", NULL, OPTION_GROUP_CHOICE, OPTION_RANK_MORE,
	  "only blocks that were allocated after the gpuleak_mark() that returned MARK",
	  set_since, "MARK", "a number that gpuleak_mark() returned" },
	{ FLAGS_CHOICE, "thread", NULL, OPTION_GROUP_CHOICE, OPTION_RANK_MORE,
	  "only blocks that this thread allocated",
	  set_thread, "TID", "the number of a thread, as gettid() says" },
	{ FLAGS_CHOICE, "address", NULL, OPTION_GROUP_CHOICE, OPTION_RANK_MORE,
	  "only blocks that contain this address, or that have this handle",
	  set_address, "ADDRESS", "an address or a handle: 0x7f1200000000" },
	{ FLAGS_CHOICE, "addresses", &opt_addresses, OPTION_GROUP_CHOICE, OPTION_RANK_MORE,
	  "list the address of each live block (--format json)" },
};
const size_t flags_extra_count = sizeof(flags_extras) / sizeof(flags_extras[0]);
#define EXTRAS flags_extra_count

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

static int set_reasons(const char *text)
{
	opt_reasons = text;
	return 0;
}

static const struct flags_extra_row *find_extra(const struct flags_command *command,
						const char *name, size_t length)
{
	for (size_t i = 0; i < EXTRAS; i++)
		if ((command->extras & flags_extras[i].bit) &&
		    strlen(flags_extras[i].flag) == length &&
		    memcmp(flags_extras[i].flag, name, length) == 0)
			return &flags_extras[i];
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

const char *flags_expects(const struct flags_command *command, int id)
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
		print_error("%s: bad value '%s' of --%s: expected is %s", command->name, value,
			    option_rows[id].flag, flags_expects(command, id));
		return -1;
	}
	opt_text[id] = value;
	return 0;
}

static int set_extra(const struct flags_command *command, const struct flags_extra_row *extra,
		     const char *value)
{
	if (extra->set(value) == 0)
		return 0;
	print_error("%s: bad value '%s' of --%s: expected is %s", command->name, value, extra->flag,
		    extra->expects);
	return -1;
}

static int unknown(const struct flags_command *command, const char *word)
{
	struct suggestion suggestion = { .word = word + strspn(word, "-") };

	suggestion.length = strcspn(suggestion.word, "=");
	for (size_t i = 0; i < EXTRAS; i++)
		if ((command->extras & flags_extras[i].bit) && flags_extras[i].what)
			suggest_consider(&suggestion, flags_extras[i].flag);
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
	const struct flags_extra_row *extra;
	const char *value;
	size_t length;
	int id;

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		flags_help(command, false);
		return -2;
	}
	if (strcmp(word, "--help-all") == 0) {
		flags_help(command, true);
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
		print_error("%s: %s needs a value: %s", command->name, word,
			    extra ? extra->expects : flags_expects(command, id));
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

bool flags_wants_colors(const char *where)
{
	return opt_values.color != OPTION_COLOR_NEVER &&
	       output_takes_colors(where, opt_values.color == OPTION_COLOR_ALWAYS);
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
		print_error("bad value '%s' of %s: expected is %s; the default is used: %s", value,
			    name, option_expects((enum option_id)id),
			    *option_rows[id].default_text ? option_rows[id].default_text : "unset");
	}
	return bad;
}
