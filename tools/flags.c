/* SPDX-License-Identifier: MIT
 *
 * Parses flags from the rows of options.def, so a new option needs no code here. Defines the
 * opt_* variables, but must not act on them. flags_help.c prints the help.
 */
#include "tools/flags.h"

#include <ctype.h>
#include <strings.h>

#include "report/util/output.h"
#include "tools/launch/system.h"
#include "tools/suggest.h"

struct options opt_values;
const char *opt_text[OPTION_COUNT];
bool opt_format_implied;
bool opt_gate;
bool opt_update_baseline;

int flags_number(const char *text, int base, uint64_t most, uint64_t *ret)
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

/* Returns true if NAME is the text before "=" in WORD, or WORD. */
static bool is_named(const char *word, const char *name)
{
	const size_t length = strcspn(word, "=");

	return strlen(name) == length && memcmp(name, word, length) == 0;
}

static const struct flags_extra *find_extra(const struct flags_command *command, const char *word)
{
	for (const struct flags_extra *at = command->extras; at && at->flag; at++)
		if (is_named(word, at->flag))
			return at;
	return NULL;
}

static int find_option(const struct flags_command *command, const char *word)
{
	for (int id = 0; strncmp(word, "--", 2) == 0 && id < OPTION_COUNT; id++)
		if ((command->options & OPTION_BIT(id)) && is_named(word + 2, option_rows[id].flag))
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

static int set_extra(const struct flags_command *command, const struct flags_extra *extra,
		     const char *value)
{
	if (extra->set(value) == 0)
		return 0;
	print_error("%s: bad value '%s' of %s: expected is %s", command->name, value, extra->flag,
		    extra->expects);
	return -1;
}

static int unknown(const struct flags_command *command, const char *word)
{
	struct suggestion suggestion = { .word = word + strspn(word, "-") };

	suggestion.length = strcspn(suggestion.word, "=");
	for (const struct flags_extra *at = command->extras; at && at->flag; at++)
		if (at->what)
			suggest_consider(&suggestion, at->flag + strspn(at->flag, "-"));
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

/* Parses the flag at ARGV[*AT]. Advances *AT if the value is the next word. Returns 0, or a
 * negative number as flags_parse() does. */
static int parse_flag(const struct flags_command *command, int argc, char **argv, int *at)
{
	const char *word = argv[*at];
	const char *equals = strchr(word, '=');
	const struct flags_extra *extra = find_extra(command, word);
	const int id = find_option(command, word);
	const char *value;

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
	    strcmp(word, "--help-all") == 0) {
		flags_help(command, strcmp(word, "--help-all") == 0);
		return FLAGS_HELPED;
	}
	if (strcmp(word, "-v") == 0 && (command->options & OPTION_BIT(OPTION_VERBOSE)))
		return set_option(command, OPTION_VERBOSE, "1");
	if (extra && extra->target && !equals) {
		*extra->target = 1;
		return 0;
	}
	if (id < 0 && !(extra && extra->set))
		return unknown(command, word);
	value = value_of(id, equals, argc, argv, at);
	if (!value) {
		print_error("%s: %s needs a value: %s", command->name, word,
			    extra ? extra->expects : flags_expects(command, id));
		return FLAGS_WRONG;
	}
	return extra ? set_extra(command, extra, value) : set_option(command, id, value);
}

/* Sets the format that the end of the path of --report implies, unless the user gave a format. */
static void imply_format(void)
{
	static const struct { const char *end; enum option_format format; } ends[] = {
		{ ".txt", OPTION_FORMAT_TEXT },       { ".sarif.json", OPTION_FORMAT_SARIF },
		{ ".json", OPTION_FORMAT_JSON },      { ".html", OPTION_FORMAT_HTML },
		{ ".htm", OPTION_FORMAT_HTML },       { ".xml", OPTION_FORMAT_JUNIT },
		{ ".sarif", OPTION_FORMAT_SARIF },    { ".folded", OPTION_FORMAT_FOLDED },
		{ ".pb.gz", OPTION_FORMAT_PPROF },    { ".pprof", OPTION_FORMAT_PPROF },
		{ ".prom", OPTION_FORMAT_OPENMETRICS }, { ".pickle", OPTION_FORMAT_MEMORY_VIZ },
		{ ".perfetto", OPTION_FORMAT_PERFETTO }, { ".pftrace", OPTION_FORMAT_PERFETTO },
	};
	const char *report = opt_text[OPTION_REPORT], *variable = getenv("GPULEAK_FORMAT");
	const size_t length = report ? strlen(report) : 0;

	if (opt_text[OPTION_FORMAT] || (variable && *variable))
		return;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const size_t end = strlen(ends[i].end);

		if (length < end || strcasecmp(report + length - end, ends[i].end) != 0)
			continue;
		opt_values.format = ends[i].format;
		opt_text[OPTION_FORMAT] = option_word(OPTION_FORMAT, ends[i].format);
		opt_format_implied = true;
		return;
	}
}

int flags_parse(const struct flags_command *command, int argc, char **argv)
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
	imply_format();
	argv[1 + operands] = NULL; /* ARGV has room, because it ends with its own NULL */
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
