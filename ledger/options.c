/* SPDX-License-Identifier: MIT
 *
 * Parses option values. Must not print, allocate or read the environment: the library calls it
 * inside the traced process.
 */
#include "ledger/options.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

const struct option_row option_rows[OPTION_COUNT] = {
#define OPTION(name, flag, member, type, default_, minimum, maximum, group, rank, what) \
	{ #name, flag, OPTION_TYPE_##type, default_, minimum, maximum,                  \
	  OPTION_GROUP_##group, OPTION_RANK_##rank, what, offsetof(struct options, member) },
#include "ledger/options.def"
#undef OPTION
};

const char *option_group_title(enum option_group group)
{
#define X(name, title) title,
	static const char *const titles[OPTION_GROUP_COUNT] = { OPTION_GROUPS(X) };
#undef X

	return group < OPTION_GROUP_COUNT ? titles[group] : "";
}

static int parse_whole(const char *text, const char **ret_end, long long *ret)
{
	long long value = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *p - '0', &value))
			return -EINVAL;
	}
	if (p == text)
		return -EINVAL;
	*ret_end = p;
	*ret = value;
	return 0;
}

static int parse_size(const char *text, long long *ret)
{
	static const struct { const char *suffix; long long bytes; } units[] = {
		{ "", 1 },           { "B", 1 },
		{ "K", 1LL << 10 },  { "KiB", 1LL << 10 }, { "kB", 1000 }, { "KB", 1000 },
		{ "M", 1LL << 20 },  { "MiB", 1LL << 20 }, { "MB", 1000000 },
		{ "G", 1LL << 30 },  { "GiB", 1LL << 30 }, { "GB", 1000000000 },
		{ "T", 1LL << 40 },  { "TiB", 1LL << 40 }, { "TB", 1000000000000 },
	};
	const char *suffix;
	long long value;

	if (parse_whole(text, &suffix, &value) < 0)
		return -EINVAL;
	while (*suffix == ' ')
		suffix++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(suffix, units[i].suffix) == 0)
			return __builtin_mul_overflow(value, units[i].bytes, ret) ? -EINVAL : 0;
	return -EINVAL;
}

static int set_size(const struct option_row *row, const char *text, long long *ret)
{
	long long value = OPTION_UNSET;

	if ((text[0] || row->default_text[0]) &&
	    (parse_size(text, &value) < 0 || (value > row->maximum && value < row->minimum)))
		return -EINVAL;
	*ret = value;
	return 0;
}

int option_duration(const char *text, long long *ret)
{
	static const struct { const char *suffix; long long ms; } units[] = {
		{ "", 1000 },   { "s", 1000 },     { "ms", 1 },
		{ "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
	};
	const char *suffix, *digits = "";
	long long value, part = 0;
	size_t i;

	if (parse_whole(text, &suffix, &value) < 0)
		return -EINVAL;
	if (*suffix == '.') {
		digits = suffix + 1;
		suffix = digits + strspn(digits, "0123456789");
		if (suffix == digits)
			return -EINVAL;
	}
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(suffix, units[i].suffix) == 0)
			break;
	if (i == sizeof(units) / sizeof(units[0]) ||
	    __builtin_mul_overflow(value, units[i].ms, &value))
		return -EINVAL;
	/* Rounds down to milliseconds. A value that is not 0 must not become 0, which means "none".
	 * */
	for (long long unit = units[i].ms; *digits >= '0' && *digits <= '9'; digits++) {
		part += unit * (*digits - '0') / 10;
		unit /= 10;
	}
	if (__builtin_add_overflow(value, part, &value) ||
	    (value == 0 && text + strspn(text, "0.") != suffix))
		return -EINVAL;
	*ret = value;
	return 0;
}

static int set_duration(const struct option_row *row, const char *text, long long *ret)
{
	long long value = 0;

	if (text[0] && (option_duration(text, &value) < 0 || value > row->maximum ||
			(value && value < row->minimum)))
		return -EINVAL;
	*ret = value;
	return 0;
}

/* Stores a percentage as a negative number. */
static int set_amount(const struct option_row *row, const char *text, long long *ret)
{
	long long value = OPTION_UNSET;
	const char *end;

	if (parse_whole(text, &end, &value) == 0 && strcmp(end, "%") == 0) {
		if (value < 1 || value > 100)
			return -EINVAL;
		value = -value;
	} else if (text[0] && (parse_size(text, &value) < 0 || value < row->minimum)) {
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

unsigned long long option_amount(long long value, unsigned long long total)
{
	if (value == OPTION_UNSET)
		return 0;
	return value >= 0 ? (unsigned long long)value
			  : total / 100 * (unsigned long long)-value +
				    total % 100 * (unsigned long long)-value / 100;
}

static int set_nth(const char *text, long long *ret)
{
	const char *end = "";
	long long value = 0;

	if (text[0] && (parse_whole(text, &end, &value) < 0 || value < 1 ||
			(*end && strcmp(end, "+") != 0)))
		return -EINVAL;
	*ret = *end ? -value : value;
	return 0;
}

/* Stores in *RET the index of TEXT in WORDS. Returns 0, or -EINVAL if no word matches. */
static int set_word(const char *text, const char *const *words, int *ret)
{
	for (int i = 0; words[i]; i++) {
		if (strcmp(text, words[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	return -EINVAL;
}

#define X(name, word) word,
static const char *const formats[] = { OPTION_FORMATS(X) NULL };
#undef X
#define X(name, word) " or " word
static const char all_formats[] = OPTION_FORMATS(X);
#undef X
static const char *const switches[] = { "off", "on", NULL };
static const char *const accumulations[] = { "auto", "on", "off", NULL };
static const char *const colors[] = { "auto", "always", "never", NULL };
static const char *const deepbinds[] = { "off", "cover", NULL };
static const char *const pools[] = { "off", "strict", "fast", NULL };
static const char *const sides[] = { "after", "before", NULL };
static const char *const backends[] = { "device", "managed", "stream-ordered", NULL };

static const struct {
	const char *metavar, *expects;
	const char *const *words; /* with a final NULL; NULL: the values are no words */
} types[] = {
#define X(name, c_type, metavar, expects, words) { metavar, expects, words },
	OPTION_TYPES(X)
#undef X
};

const char *option_word(enum option_id id, int value)
{
	const char *const *words = types[option_rows[id].type].words;

	for (int i = 0; words && words[i]; i++)
		if (i == value)
			return words[i];
	return "unknown";
}

/* Stores the set of levels that TEXT lists: bit I for the word I. */
static int set_guard(const char *text, int *ret)
{
	static const char *const levels[] = { "copies", "patterns", "pages" };
	int set = 0, i;

	for (const char *at = text;; at += strcspn(at, ",") + 1) {
		size_t length = strcspn(at, ",");

		for (i = 0; i < 3 && (strlen(levels[i]) != length ||
				      memcmp(levels[i], at, length) != 0);)
			i++;
		if (i == 3)
			break;
		set |= 1 << i;
		if (!at[length]) {
			*ret = set;
			return 0;
		}
	}
	if (strcmp(text, "off") != 0)
		return -EINVAL;
	*ret = 0;
	return 0;
}

static int set_number(const struct option_row *row, const char *text, long long *ret)
{
	const char *end;
	long long value;

	if (parse_whole(text, &end, &value) < 0 || *end || value < row->minimum ||
	    value > row->maximum || (row->minimum == 16 && value != 16 && value != 256))
		return -EINVAL;
	*ret = value;
	return 0;
}

/* Accepts USR1, SIGUSR1, RTMIN+3, RTMAX-3 and numbers, as kill(1) does. */
static int set_signal(const struct option_row *row, const char *text, long long *ret)
{
	/* in the order of their numbers, from 1 */
	static const char names[] =
		"HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD "
		"CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS ";
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text, *end = names;
	const bool from_last = strncasecmp(name, "RTMAX", 5) == 0;
	long long number = 0;

	for (int i = 1; *end; i++, end += strcspn(end, " ") + 1) {
		if (strlen(name) == strcspn(end, " ") &&
		    strncasecmp(name, end, strlen(name)) == 0) {
			*ret = i;
			return 0;
		}
	}
	if (!from_last && strncasecmp(name, "RTMIN", 5) != 0)
		return set_number(row, text, ret);
	if (name[5] && (name[5] != (from_last ? '-' : '+') ||
			parse_whole(name + 6, &end, &number) < 0 || *end))
		return -EINVAL;
	if (number > SIGRTMAX - SIGRTMIN)
		return -EINVAL;
	*ret = from_last ? SIGRTMAX - number : SIGRTMIN + number;
	return 0;
}

int option_set(struct options *options, enum option_id id, const char *text)
{
	const struct option_row *row = &option_rows[id];
	void *member = (char *)options + row->offset;

	switch (row->type) {
	case OPTION_TYPE_PATTERN:
	case OPTION_TYPE_PATH:
		*(const char **)member = text;
		return 0;
	case OPTION_TYPE_NUMBER:
		return set_number(row, text, member);
	case OPTION_TYPE_GUARD:
		return set_guard(text, member);
	case OPTION_TYPE_SIGNAL:
		return set_signal(row, text, member);
	case OPTION_TYPE_SIZE:
		return set_size(row, text, member);
	case OPTION_TYPE_AMOUNT:
		return set_amount(row, text, member);
	case OPTION_TYPE_NTH:
		return set_nth(text, member);
	case OPTION_TYPE_DURATION:
		return set_duration(row, text, member);
	default:
		return set_word(text, types[row->type].words, member);
	}
}

void options_defaults(struct options *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int id = 0; id < OPTION_COUNT; id++)
		option_set(ret, id, option_rows[id].default_text);
}

bool option_is_switch(enum option_id id)
{
	return option_rows[id].type == OPTION_TYPE_NUMBER && option_rows[id].maximum == 1;
}

const char *option_metavar(enum option_id id)
{
	return option_is_switch(id) ? "[0|1]" : types[option_rows[id].type].metavar;
}

/* One row for each description that depends on the limits of an option. */
static const struct {
	enum option_type type;
	long long minimum, maximum;
	const char *text;
} limited[] = {
	{ OPTION_TYPE_NUMBER, 0, 1, "0 or 1" },
	{ OPTION_TYPE_NUMBER, 0, 255, "a whole number from 0 to 255" },
	{ OPTION_TYPE_NUMBER, 0, 256, "a whole number from 0 to 256" },
	{ OPTION_TYPE_NUMBER, 16, 256, "16 or 256" },
	{ OPTION_TYPE_NUMBER, 0, 1000000, "a whole number from 0 to 1000000" },
	{ OPTION_TYPE_SIZE, 512, 1, "0, 1 or a size from 512 on such as 64KiB or 1GiB" },
	{ OPTION_TYPE_SIZE, 16384, 0, "0 or a size from 16KiB on such as 64MiB" },
	{ OPTION_TYPE_DURATION, 10, 31536000000, "a duration from 10ms on, such as 10s, 5m or 1h" },
	{ OPTION_TYPE_DURATION, 100, 31536000000,
	  "a duration from 100ms on, such as 10s, 5m or 1h" },
};

const char *option_expects(enum option_id id)
{
	const struct option_row *row = &option_rows[id];

	for (size_t i = 0; i < sizeof(limited) / sizeof(limited[0]); i++)
		if (limited[i].type == row->type && limited[i].minimum == row->minimum &&
		    limited[i].maximum == row->maximum)
			return limited[i].text;
	return types[row->type].expects;
}

int option_find(const char *name, size_t name_length)
{
	for (int id = 0; id < OPTION_COUNT; id++)
		if (strlen(option_rows[id].name) == name_length &&
		    memcmp(option_rows[id].name, name, name_length) == 0)
			return id;
	return -1;
}
