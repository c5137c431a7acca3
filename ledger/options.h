/* SPDX-License-Identifier: MIT
 *
 * Turns options.def into a struct, default values and a parser. The library uses them for
 * GPULEAK_* variables, and the command uses them for flags. No allocation, no stdio, no getenv:
 * callers pass the text. The struct refers to the caller's strings and does not copy them. Any
 * thread may call the functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The report formats: X(NAME, word). report/format/formats.c maps them to their printers. */
#define OPTION_FORMATS(X)                                                             \
	X(TEXT, "text") X(JSON, "json") X(HTML, "html") X(JUNIT, "junit") X(SARIF, "sarif") \
	X(GITHUB, "github") X(FOLDED, "folded") X(PPROF, "pprof")                     \
	X(OPENMETRICS, "openmetrics") X(MEMORY_VIZ, "memory-viz") X(PERFETTO, "perfetto")
enum option_format {
#define X(name, word) OPTION_FORMAT_##name,
	OPTION_FORMATS(X)
#undef X
};
/* The groups of options in --help-all and in the manual: X(NAME, title), in their order. */
#define OPTION_GROUPS(X)                                                      \
	X(REPORT, "The report")                                               \
	X(GATE, "The gate: an exit status for CI")                            \
	X(RULES, "Which leaks count, and whose code a frame is")              \
	X(RECORD, "What is recorded")                                         \
	X(RUNNING, "While the program runs")                                  \
	X(CHOICE, "Which blocks are reported")                                \
	X(POOL, "One pool for all libraries of the process")                  \
	X(GUARD, "Accesses beyond a block, or after its free")                \
	X(FAULTS, "Out of memory on purpose")
enum option_group {
#define X(name, title) OPTION_GROUP_##name,
	OPTION_GROUPS(X)
#undef X
	OPTION_GROUP_COUNT
};
enum option_rank { OPTION_RANK_FIRST, OPTION_RANK_MORE };

enum option_pool { OPTION_POOL_OFF, OPTION_POOL_STRICT, OPTION_POOL_FAST };
enum option_backend {
	OPTION_BACKEND_DEVICE, OPTION_BACKEND_MANAGED, OPTION_BACKEND_STREAM_ORDERED
};
enum option_accumulation {
	OPTION_ACCUMULATION_AUTO, OPTION_ACCUMULATION_ON, OPTION_ACCUMULATION_OFF
};
/* The levels of the guard: the bits of a GUARD option. */
enum option_guard { GUARD_COPIES = 1, GUARD_PATTERNS = 2, GUARD_PAGES = 4 };
enum option_side { OPTION_SIDE_AFTER, OPTION_SIDE_BEFORE };
enum option_switch { OPTION_SWITCH_OFF, OPTION_SWITCH_ON };
enum option_color { OPTION_COLOR_AUTO, OPTION_COLOR_ALWAYS, OPTION_COLOR_NEVER };
enum option_deepbind { OPTION_DEEPBIND_OFF, OPTION_DEEPBIND_COVER };

/* The types of values: X(TYPE, C type, name of a value in --help, description of valid values, and
 * the words that are valid, or 0). option_expects() has the descriptions that depend on the row. */
#define OPTION_TYPES(X)                                                                     \
	X(PATTERN, const char *, "PATH", "a path", 0)                                       \
	X(PATH, const char *, "PATH", "a path", 0)                                          \
	X(FORMAT, int, "FORMAT", all_formats + 4, formats)                                  \
	X(SWITCH, int, "HOW", "on or off", switches)                                        \
	X(COLOR, int, "HOW", "auto, always or never", colors)                               \
	X(ACCUMULATION, int, "HOW", "auto, on or off", accumulations)                       \
	X(DEEPBIND, int, "HOW", "off or cover", deepbinds)                                  \
	X(POOL, int, "HOW", "off, strict or fast", pools)                                   \
	X(BACKEND, int, "HOW", "device, managed or stream-ordered", backends)               \
	X(GUARD, int, "LIST", "off, or a list with commas of copies, patterns and pages", 0)  \
	X(SIDE, int, "HOW", "after or before", sides)                                       \
	X(NUMBER, long long, "N", "a whole number from 0 to 86400", 0)                      \
	X(SIZE, long long, "SIZE", "a size such as 4096, 64KiB or 1GiB", 0)                 \
	X(AMOUNT, long long, "SIZE",                                                        \
	  "a size such as 64KiB or 1GiB, or a percentage of the device such as 50%", 0)     \
	X(SIGNAL, long long, "SIGNAL", "a signal such as USR1, RTMIN+3 or 12; or 0", 0)     \
	X(NTH, long long, "N", "N or N+, counted from 1", 0)                                \
	X(DURATION, long long, "TIME", "a duration such as 10s, 5m or 1h", 0)
enum option_type {
#define X(name, c_type, metavar, expects, words) OPTION_TYPE_##name,
	OPTION_TYPES(X)
#undef X
};
#define X(name, c_type, metavar, expects, words) typedef c_type option_value_##name;
OPTION_TYPES(X)
#undef X

struct options {
#define OPTION(name, flag, member, type, default_, minimum, maximum, group, rank, what) \
	option_value_##type member;
#include "ledger/options.def"
#undef OPTION
};

enum option_id {
#define OPTION(name, flag, member, type, default_, minimum, maximum, group, rank, what) \
	OPTION_##name,
#include "ledger/options.def"
#undef OPTION
	OPTION_COUNT
};

#define OPTION_BIT(id) ((uint64_t)1 << (id))
/* Options that affect the report or the result of the gate. The library does not use them in the
 * traced process. At exit it passes them to the command. */
#define OPTIONS_OF_REPORT                                                     \
	(OPTION_BIT(OPTION_REPORT) | OPTION_BIT(OPTION_FORMAT) |              \
	 OPTION_BIT(OPTION_SUPPRESSIONS) | OPTION_BIT(OPTION_MAX_LEAKED_BYTES) | \
	 OPTION_BIT(OPTION_RULES) | OPTION_BIT(OPTION_GATE_CACHES) |          \
	 OPTION_BIT(OPTION_GATE_HELD) | OPTION_BIT(OPTION_GATE_ACCUMULATION) | \
	 OPTION_BIT(OPTION_GATE_OBJECTS) | OPTION_BIT(OPTION_GATE_CONTEXT_ENDS) | \
	 OPTION_BIT(OPTION_COLOR) |                                           \
	 OPTION_BIT(OPTION_VERBOSE) | OPTION_BIT(OPTION_BASELINE) |           \
	 OPTION_BIT(OPTION_BUDGETS) | OPTION_BIT(OPTION_ONLY_AT) |            \
	 OPTION_BIT(OPTION_GEN_SUPPRESSIONS) | OPTION_BIT(OPTION_LSAN_SUPPRESSIONS) | \
	 OPTION_BIT(OPTION_MAX_GROWTH) | OPTION_BIT(OPTION_OLDER))
/* Options that turn the gate on. */
#define OPTIONS_OF_GATE                                                       \
	(OPTION_BIT(OPTION_MAX_LEAKED_BYTES) | OPTION_BIT(OPTION_BASELINE) |  \
	 OPTION_BIT(OPTION_BUDGETS) | OPTION_BIT(OPTION_ONLY_AT) |            \
	 OPTION_BIT(OPTION_MAX_GROWTH))

#define OPTION_UNSET (-1000LL) /* value of an AMOUNT or a SIZE that the user did not set */

struct option_row {
	const char *name; /* "REPORT" stands for the variable GPULEAK_REPORT */
	const char *flag; /* "report" stands for the flag --report */
	enum option_type type;
	const char *default_text;
	long long minimum, maximum;
	enum option_group group;
	enum option_rank rank;
	const char *what;
	size_t offset; /* of the member of struct options */
};
extern const struct option_row option_rows[OPTION_COUNT];

/* Returns the title of a group, without a colon. */
const char *option_group_title(enum option_group group);

/* Sets all options to their default values. */
void options_defaults(struct options *ret);

/* Converts a duration such as "10s" to milliseconds: see DURATION in options.def. Returns 0, or
 * -EINVAL and leaves *RET unchanged. */
int option_duration(const char *text, long long *ret);

/* Parses TEXT as the value of option ID and stores it in *OPTIONS. Returns 0, or -EINVAL and leaves
 * *OPTIONS unchanged. */
int option_set(struct options *options, enum option_id id, const char *text);

/* Returns an AMOUNT in bytes for a device with TOTAL bytes of memory; 0 if VALUE is OPTION_UNSET.
 * */
unsigned long long option_amount(long long value, unsigned long long total);

/* Returns the word of VALUE for an option whose values are words, otherwise "unknown". */
const char *option_word(enum option_id id, int value);

/* Returns true if option ID only takes 0 or 1. */
bool option_is_switch(enum option_id id);

/* Returns the name of a value of option ID in --help, for example "PATH". */
const char *option_metavar(enum option_id id);

/* Returns a description of valid values, for the error message about an invalid value. */
const char *option_expects(enum option_id id);

/* Returns the enum option_id of a variable, given the NAME_LENGTH bytes after "GPULEAK_", or -1. */
int option_find(const char *name, size_t name_length);
