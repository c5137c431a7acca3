/* SPDX-License-Identifier: MIT
 *
 * Parses option values. Must not print, allocate or read the environment: the library calls it
 * inside the traced process.
 */
#include "ledger/options.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define OPTION_TYPE_PATTERN OPTION_PATTERN
#define OPTION_TYPE_PATH OPTION_PATH
#define OPTION_TYPE_FORMAT OPTION_FORMAT_
#define OPTION_TYPE_SWITCH OPTION_SWITCH_
#define OPTION_TYPE_COLOR OPTION_COLOR_
#define OPTION_TYPE_ACCUMULATION OPTION_ACCUMULATION_
#define OPTION_TYPE_DEEPBIND OPTION_DEEPBIND_
#define OPTION_TYPE_POOL OPTION_POOL_
#define OPTION_TYPE_BACKEND OPTION_BACKEND_
#define OPTION_TYPE_NUMBER OPTION_NUMBER
#define OPTION_TYPE_SIZE OPTION_SIZE
#define OPTION_TYPE_AMOUNT OPTION_AMOUNT
#define OPTION_TYPE_NTH OPTION_NTH
#define OPTION_TYPE_DURATION OPTION_DURATION

const struct option_row option_rows[OPTION_COUNT] = {
#define OPTION(name, flag, member, type, default_, minimum, maximum, group, rank, what) \
	{ #name, flag, OPTION_TYPE_##type, default_, minimum, maximum,                  \
	  OPTION_GROUP_##group, OPTION_RANK_##rank, what },
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
	static const struct { const char *suffix; int shift; } units[] = {
		{ "", 0 },     { "B", 0 },    { "K", 10 },   { "KiB", 10 }, { "M", 20 },
		{ "MiB", 20 }, { "G", 30 },   { "GiB", 30 }, { "T", 40 },   { "TiB", 40 },
	};
	const char *suffix;
	long long value;

	if (parse_whole(text, &suffix, &value) < 0)
		return -EINVAL;
	while (*suffix == ' ')
		suffix++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(suffix, units[i].suffix) != 0)
			continue;
		if (value > LLONG_MAX >> units[i].shift)
			return -EINVAL;
		*ret = value << units[i].shift;
		return 0;
	}
	return -EINVAL;
}

static int set_size(const struct option_row *row, const char *text, long long *ret)
{
	long long value = OPTION_UNSET;

	if ((text[0] || row->default_text[0]) &&
	    (parse_size(text, &value) < 0 || (value > 1 && value < row->minimum)))
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
static int parse_amount(const struct option_row *row, const char *text, long long *ret)
{
	const char *end;
	long long value;

	if (!text[0]) {
		*ret = OPTION_UNSET;
		return 0;
	}
	if (parse_whole(text, &end, &value) == 0 && strcmp(end, "%") == 0) {
		if (value < 1 || value > 100)
			return -EINVAL;
		*ret = -value;
		return 0;
	}
	if (parse_size(text, &value) < 0 || value < row->minimum)
		return -EINVAL;
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

static int parse_nth(const char *text, long long *ret)
{
	const char *end;
	long long value;

	if (!text[0]) {
		*ret = 0;
		return 0;
	}
	if (parse_whole(text, &end, &value) < 0 || value < 1 || (*end && strcmp(end, "+") != 0))
		return -EINVAL;
	*ret = *end ? -value : value;
	return 0;
}

/* Stores in *RET the index of TEXT in WORDS. Returns 0, or -EINVAL if no word matches. */
static int parse_word(const char *text, const char *const *words, int *ret)
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
static const char *const backends[] = { "device", "managed", "stream-ordered", NULL };

const char *option_word(enum option_id id, int value)
{
	const char *const *words = id == OPTION_FORMAT	       ? formats
				   : id == OPTION_SUBALLOCATIONS ? switches
				   : id == OPTION_ACCUMULATION ? accumulations
				   : id == OPTION_COLOR	       ? colors
				   : id == OPTION_DEEPBIND     ? deepbinds
				   : id == OPTION_POOL	       ? pools
				   : id == OPTION_POOL_BACKEND ? backends
							       : NULL;

	for (int i = 0; words && words[i]; i++)
		if (i == value)
			return words[i];
	return "unknown";
}

static int set_number(const struct option_row *row, const char *text, long long *ret)
{
	const char *end;
	long long value;

	if (parse_whole(text, &end, &value) < 0 || *end || value < row->minimum ||
	    value > row->maximum)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int set_text(const char *text, const char **ret)
{
	*ret = text;
	return 0;
}

#define SET_PATTERN(id, text, member) set_text(text, member)
#define SET_PATH(id, text, member) set_text(text, member)
#define SET_FORMAT(id, text, member) parse_word(text, formats, member)
#define SET_SWITCH(id, text, member) parse_word(text, switches, member)
#define SET_ACCUMULATION(id, text, member) parse_word(text, accumulations, member)
#define SET_COLOR(id, text, member) parse_word(text, colors, member)
#define SET_DEEPBIND(id, text, member) parse_word(text, deepbinds, member)
#define SET_POOL(id, text, member) parse_word(text, pools, member)
#define SET_BACKEND(id, text, member) parse_word(text, backends, member)
#define SET_NUMBER(id, text, member) set_number(&option_rows[id], text, member)
#define SET_SIZE(id, text, member) set_size(&option_rows[id], text, member)
#define SET_AMOUNT(id, text, member) parse_amount(&option_rows[id], text, member)
#define SET_NTH(id, text, member) parse_nth(text, member)
#define SET_DURATION(id, text, member) set_duration(&option_rows[id], text, member)

int option_set(struct options *options, enum option_id id, const char *text)
{
	switch (id) {
#define OPTION(name, flag, member, type, default_, minimum, maximum, group, rank, what) \
	case OPTION_##name:                                                             \
		return SET_##type(id, text, &options->member);
#include "ledger/options.def"
#undef OPTION
	case OPTION_COUNT:
		break;
	}
	return -EINVAL;
}

void options_defaults(struct options *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int id = 0; id < OPTION_COUNT; id++)
		option_set(ret, id, option_rows[id].default_text);
}

bool option_is_switch(enum option_id id)
{
	return option_rows[id].type == OPTION_NUMBER && option_rows[id].maximum == 1;
}

const char *option_expects(enum option_id id)
{
	switch (option_rows[id].type) {
	case OPTION_PATTERN:
	case OPTION_PATH:
		return "a path";
	case OPTION_FORMAT_:
		return all_formats + strlen(" or ");
	case OPTION_SWITCH_:
		return "on or off";
	case OPTION_ACCUMULATION_:
		return "auto, on or off";
	case OPTION_COLOR_:
		return "auto, always or never";
	case OPTION_DEEPBIND_:
		return "off or cover";
	case OPTION_POOL_:
		return "off, strict or fast";
	case OPTION_BACKEND_:
		return "device, managed or stream-ordered";
	case OPTION_AMOUNT:
		return "a size such as 64KiB or 1GiB, or a percentage of the device such as 50%";
	case OPTION_NTH:
		return "N or N+, counted from 1";
	case OPTION_NUMBER:
		return option_is_switch(id)		? "0 or 1"
		       : option_rows[id].maximum == 64	? "a whole number from 0 to 64"
		       : option_rows[id].maximum == 255 ? "a whole number from 0 to 255"
		       : option_rows[id].maximum == 256 ? "a whole number from 0 to 256"
							: "a whole number from 0 to 86400";
	case OPTION_SIZE:
		if (option_rows[id].minimum)
			return "0, 1 or a size from 512 on such as 64KiB or 1GiB";
		return "a size such as 4096, 64KiB or 1GiB";
	case OPTION_DURATION:
		if (option_rows[id].minimum == 10)
			return "a duration from 10ms on, such as 10s, 5m or 1h";
		if (option_rows[id].minimum == 100)
			return "a duration from 100ms on, such as 10s, 5m or 1h";
		return "a duration such as 10s, 5m or 1h";
	}
	return "";
}

int option_find(const char *name, size_t name_length)
{
	for (int id = 0; id < OPTION_COUNT; id++)
		if (strlen(option_rows[id].name) == name_length &&
		    memcmp(option_rows[id].name, name, name_length) == 0)
			return id;
	return -1;
}
