/* SPDX-License-Identifier: MIT
 *
 * Parses and applies rules; the first matching rule is used. The cost per frame is limited by
 * the length of the rules and of the frame's names.
 */
#include "report/symbols/rules.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/lines.h"
#include "report/util/report_arena.h"
#include "report/symbols/rule.h"
#include "report/util/wildcard.h"

static const struct {
	const char *word;
	enum frame_role role;
} verbs[RULE_VERBS] = {
	[RULE_APPLICATION] = { "application", FRAME_APPLICATION },
	[RULE_RUNTIME] = { "runtime", FRAME_RUNTIME },
	[RULE_FRAMEWORK] = { "framework", FRAME_FRAMEWORK },
	[RULE_INTERPRETER] = { "interpreter", FRAME_INTERPRETER },
	[RULE_PACKAGE] = { "package", FRAME_APPLICATION },
	[RULE_CACHE] = { "cache", FRAME_APPLICATION },
	[RULE_LIBRARY] = { "library", FRAME_APPLICATION },
	[RULE_THREAD] = { "thread", FRAME_APPLICATION },
	[RULE_MANAGED] = { "managed", FRAME_APPLICATION },
};

static const char *const fields[RULE_FIELDS] = { "module", "function", "file", "path" };
#define FIELDS_IN_WORDS "module:PATTERN, function:PATTERN, file:PATTERN and path:PATTERN"

#define RULES_ALL_MAX (RULES_MAX + RULES_SHIPPED_MAX)

/* What the rules decided for a frame. It depends only on function, file and module. */
struct rules_frame {
	enum frame_role role;
	enum frame_code code;
	/* 1 + index of the first rule for a cache or a library that matches; 0: none matches */
	unsigned int cache_rule;
	bool in_library;     /* a rule for a library matches */
	/* 1 + index of the first rule for a thread that matches; 0: none matches */
	unsigned int thread_rule;
	/* the same for an interpreter */
	unsigned int managed_rule;
};

/* The state while the rules are applied to a stack, from the innermost frame outwards. */
struct rules_stack {
	/* the earliest such rule of all frames so far: see struct rules_frame */
	unsigned int cache_rule;
	/* rule for a library that applies unless the application itself called the library */
	unsigned int rule_of_library;
};

struct rules {
	struct report_arena arena; /* for the names and patterns of the user's rules */
	size_t count;
	struct rule list[RULES_ALL_MAX];
	unsigned char given[RULES_ALL_MAX]; /* bit mask of the targets that have a pattern */
	struct wildcard wildcards[RULE_TARGETS][RULES_ALL_MAX]; /* of the patterns */
};

static int parse_verb(struct line *line, enum rule_verb *ret)
{
	struct line_part word;
	int r = line_text(line, &word);

	if (r < 0)
		return r;
	for (*ret = 0; *ret < RULE_VERBS; ++*ret)
		if (word_is(word, verbs[*ret].word))
			return 0;
	return line_fail(line, "cannot read '%s'; a rule begins with application, runtime, "
			 "framework, interpreter, package, cache, library, thread or managed",
			 QUOTED(word));
}

static int parse_name(struct line *line, struct rules *rules, const char **ret)
{
	bool quoted = line->length > 0 && line->at[0] == '"';
	struct line_part word;
	int r = line_text(line, &word);

	if (r < 0)
		return r;
	if (!quoted) {
		if (word_is(word, "none"))
			return 0;
		return line_fail(line, "a name in quotes, or the word none, must follow cache, "
				 "library, thread or managed");
	}
	if (word.length == 0 || word.length > RULES_NAME_MAX)
		return line_fail(line, "the name in quotes must have 1 to %d bytes",
				 RULES_NAME_MAX);
	*ret = arena_text(&rules->arena, word.text, word.length);
	return 0;
}

/* Reads how many blocks a list of pending frees may have, if that follows the name of a cache. */
static int parse_limit(struct line *line, struct rule *rule)
{
	struct line_part word;
	uint64_t limit = 0;

	if (rule->verb != RULE_CACHE || !rule->name || !memchr("0123456789", *line->at, 10))
		return 0;
	word = line_word(line, " \t");
	if (word_number(word, 10, &limit) < 0 || limit < 1 || limit > UINT32_MAX)
		return line_fail(line, "'%s' is not a number of blocks", QUOTED(word));
	rule->limit = (uint32_t)limit;
	return 0;
}

/* Reads the pattern of FIELD into RULE. */
static int parse_pattern(struct line *line, int field, struct rules *rules, struct rule *rule)
{
	struct line_part pattern;
	int target = field, r = line_text(line, &pattern);

	if (r < 0)
		return r;
	if (pattern.length > WILDCARD_BYTES_MAX)
		return line_fail(line, "the pattern is longer than %d bytes", WILDCARD_BYTES_MAX);
	if (pattern.length == 0 && pattern.text[-1] != '"')
		return line_fail(line, "%s: has no pattern; write \"\" for frames whose %s is not "
				 "known", fields[field], fields[field]);
	if (field == RULE_MODULE && memchr(pattern.text, '/', pattern.length))
		target = RULE_MODULE_PATH;
	rule->patterns[target] = arena_text(&rules->arena, pattern.text, pattern.length);
	return 0;
}

static int parse_parts(struct line *line, struct rules *rules, struct rule *rule)
{
	unsigned int given = 0;
	int field, r = parse_verb(line, &rule->verb);

	if (r == 0 && rule->verb >= RULE_CACHE)
		r = parse_name(line, rules, &rule->name);
	if (r == 0 && line->length > 0)
		r = parse_limit(line, rule);
	if (r == 0 && line->length == 0)
		return line_fail(line, "the rule matches nothing; accepted are " FIELDS_IN_WORDS);
	while (r == 0 && line->length > 0) {
		field = line_type(line, fields, RULE_FIELDS);
		if (field < 0)
			return line_fail(line, "cannot read '%s'; accepted are " FIELDS_IN_WORDS,
					 QUOTED(line_word(line, " \t")));
		if (given & 1u << field)
			return line_fail(line, "%s: is given twice", fields[field]);
		given |= 1u << field;
		r = parse_pattern(line, field, rules, rule);
	}
	return r;
}

/* RULES must have room. */
static void add_rule(struct rules *rules, const struct rule *rule)
{
	const size_t at = rules->count++;

	rules->list[at] = *rule;
	for (int target = 0; target < RULE_TARGETS; target++) {
		const char *pattern = rule->patterns[target];

		if (!pattern)
			continue;
		rules->given[at] |= (unsigned char)(1u << target);
		rules->wildcards[target][at] =
			(struct wildcard){ pattern, strlen(pattern), true, true };
	}
}

static int parse_rule(void *data, struct line *line)
{
	struct rules *rules = data;
	struct rule rule = { 0 };
	int r;

	if (rules->count == RULES_MAX)
		return lines_fail(line->file, -E2BIG, "more than %d rules", RULES_MAX);
	r = parse_parts(line, rules, &rule);
	if (r == 0)
		add_rule(rules, &rule);
	return r;
}

int rules_parse(const char *text, size_t length, const char *name, struct rules **ret,
		char *error, size_t error_size)
{
	struct lines lines = { "rule", name, RULES_BYTES_MAX, 0, error, error_size };
	struct rules *rules = calloc(1, sizeof(*rules));
	int r = lines_each(&lines, text, length, parse_rule, rules);

	if (r < 0) {
		rules_destroy(rules);
		return r;
	}
	for (size_t i = 0; i < shipped_rule_count; i++)
		add_rule(rules, &shipped_rules[i]);
	*ret = rules;
	return 0;
}

struct rules *rules_shipped(void)
{
	struct rules *ret = NULL;
	char ignored[64];

	rules_parse("", 0, "", &ret, ignored, sizeof(ignored));
	return ret;
}

size_t rules_size(const struct rules *rules)
{
	return rules->count;
}

const struct rule *rules_at(const struct rules *rules, size_t i)
{
	return &rules->list[i];
}

void rules_drop(struct rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->count; i++)
		if (rules->list[i].name && strcmp(rules->list[i].name, name) == 0)
			rules->list[i].name = NULL;
}

void rules_destroy(struct rules *rules)
{
	if (!rules)
		return;
	arena_finish(&rules->arena);
	free(rules);
}

/* Sets the bit of TARGET in MATCHED for each rule whose pattern for it matches NAME. Only an empty
 * pattern matches an unknown name (NULL or ""). */
static void match_name(const struct rules *rules, enum rule_field target, const char *name,
		       unsigned char *matched)
{
	const unsigned char bit = (unsigned char)(1u << target);

	if (name && *name) {
		wildcards_match(rules->wildcards[target], rules->count, name, bit, matched);
		return;
	}
	for (size_t i = 0; i < rules->count; i++)
		if (rules->given[i] & bit && rules->wildcards[target][i].length == 0)
			matched[i] |= bit;
}

/* For each rule, stores in MATCHED the bit mask of the targets whose patterns match FRAME. */
static void match_frame(const struct rules *rules, const struct report_frame *frame,
			unsigned char *matched)
{
	const char *slash = frame->module ? strrchr(frame->module, '/') : NULL;

	memset(matched, 0, rules->count);
	match_name(rules, RULE_MODULE, slash ? slash + 1 : frame->module, matched);
	match_name(rules, RULE_MODULE_PATH, frame->module, matched);
	match_name(rules, RULE_FUNCTION, frame->function, matched);
	match_name(rules, RULE_FILE, frame->file, matched);
	match_name(rules, RULE_PATH, frame->file, matched);
	match_name(rules, RULE_PATH, frame->module, matched);
}

/* Returns true if an earlier rule than RULE already decided for the frame what RULE would
 * decide. */
static bool is_decided(const struct rule *rule, const struct rules_frame *frame, bool has_role)
{
	return rule->verb == RULE_CACHE	    ? frame->cache_rule != 0
	       : rule->verb == RULE_LIBRARY ? frame->cache_rule && frame->in_library
	       : rule->verb == RULE_THREAD  ? frame->thread_rule != 0
	       : rule->verb == RULE_MANAGED ? frame->managed_rule || !rule->patterns[RULE_FUNCTION]
					    : has_role;
}

static struct rules_frame decide_frame(const struct rules *rules, const struct report_frame *frame)
{
	struct rules_frame ret = { .role = FRAME_APPLICATION };
	unsigned char matched[RULES_ALL_MAX];
	bool has_role = false;

	match_frame(rules, frame, matched);
	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->list[i];

		if (matched[i] != rules->given[i] || is_decided(rule, &ret, has_role))
			continue;
		if (rule->verb < RULE_CACHE) {
			ret.role = verbs[rule->verb].role;
			ret.code = rule->verb == RULE_PACKAGE ? FRAME_PACKAGE : FRAME_OWN;
			has_role = true;
			continue;
		}
		if (rule->verb >= RULE_THREAD) {
			*(rule->verb == RULE_THREAD ? &ret.thread_rule : &ret.managed_rule) =
				(unsigned int)i + 1;
			continue;
		}
		ret.in_library |= rule->verb == RULE_LIBRARY;
		if (!ret.cache_rule)
			ret.cache_rule = (unsigned int)i + 1;
	}
	return ret;
}

static void set_if_earlier(unsigned int *cache_rule, unsigned int other)
{
	if (other && (!*cache_rule || other < *cache_rule))
		*cache_rule = other;
}

/* If a framework called the library, memory that the library allocates internally counts as a
 * cache, because the application cannot free it. If the application called the library, the memory
 * is a leak: the application did not destroy the library's handle. Frames of other libraries and
 * runtimes may be in between. */
static void add_frame(const struct rules *rules, struct rules_stack *stack,
		      const struct rules_frame *frame)
{
	const struct rule *rule = frame->cache_rule ? &rules->list[frame->cache_rule - 1] : NULL;

	if (rule)
		set_if_earlier(rule->verb == RULE_LIBRARY ? &stack->rule_of_library
							  : &stack->cache_rule,
			       frame->cache_rule);
	if (frame->in_library || frame->role == FRAME_RUNTIME || frame->role == FRAME_INTERPRETER)
		return;
	if (frame->role != FRAME_APPLICATION)
		set_if_earlier(&stack->cache_rule, stack->rule_of_library);
	stack->rule_of_library = 0;
}

static const char *name_of(const struct rules *rules, unsigned int rule)
{
	return rule ? rules->list[rule - 1].name : NULL;
}

/* ---- stacks ---- */

struct known_frame {
	const char *key[3]; /* function, file, module */
	bool decided;
	struct rules_frame decision;
};

/* If a text has several addresses, its frames are only evaluated several times. */
static const struct rules_frame *find_frame(const struct rules *rules, struct table *table,
					    struct report_arena *arena,
					    const struct report_frame *frame)
{
	const char *const key[] = { frame->function, frame->file, frame->module };
	struct known_frame *known = table_intern(arena, table, key, sizeof(key), sizeof(*known));

	if (!known->decided)
		known->decision = decide_frame(rules, frame);
	known->decided = true;
	return &known->decision;
}

const struct rule *rules_apply(const struct rules *rules, struct table *known,
			       struct report_arena *arena, struct report_frame *frames,
			       size_t count)
{
	struct rules_stack stack = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct rules_frame *decision = find_frame(rules, known, arena, &frames[i]);

		frames[i].role = decision->role;
		frames[i].code = decision->code;
		frames[i].thread = name_of(rules, decision->thread_rule);
		frames[i].interprets = name_of(rules, decision->managed_rule);
		add_frame(rules, &stack, decision);
	}
	set_if_earlier(&stack.cache_rule, stack.rule_of_library);
	return name_of(rules, stack.cache_rule) ? &rules->list[stack.cache_rule - 1] : NULL;
}

const char *rules_managed(const struct rules *rules, const char *module)
{
	const struct report_frame frame = { .module = module };
	unsigned char matched[RULES_ALL_MAX];

	match_frame(rules, &frame, matched);
	for (size_t i = 0; i < rules->count; i++)
		if (rules->list[i].verb == RULE_MANAGED && matched[i] == rules->given[i])
			return rules->list[i].name;
	return NULL;
}
