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
#include "report/symbols/rules_text.h"
#include "report/util/wildcard.h"

enum verb { APPLICATION, RUNTIME, FRAMEWORK, INTERPRETER, CACHE, LIBRARY, THREAD, VERBS };

static const struct {
	const char *word;
	enum frame_role role;
} verbs[VERBS] = {
	[APPLICATION] = { "application", FRAME_APPLICATION },
	[RUNTIME] = { "runtime", FRAME_RUNTIME },
	[FRAMEWORK] = { "framework", FRAME_FRAMEWORK },
	[INTERPRETER] = { "interpreter", FRAME_INTERPRETER },
	[CACHE] = { "cache", FRAME_APPLICATION },
	[LIBRARY] = { "library", FRAME_APPLICATION },
	[THREAD] = { "thread", FRAME_APPLICATION },
};

enum field { MODULE, FUNCTION, FILE_, PATH, FIELDS };

static const char *const fields[FIELDS] = { "module", "function", "file", "path" };
#define FIELDS_IN_WORDS "module:PATTERN, function:PATTERN, file:PATTERN and path:PATTERN"

/* One rule. It matches if all its wildcards match. */
struct rule {
	enum verb verb;
	/* name of a cache, a library or a thread; NULL: "none", or the rule gives a role */
	const char *name;
	unsigned int given; /* bit mask of the fields that have a wildcard */
	/* the module's pattern applies to its path, not to its last component */
	bool whole_path;
	struct wildcard wildcards[FIELDS];
};

struct rules {
	struct report_arena arena; /* for the names, and for the patterns of the user's rules */
	bool is_shipped;           /* the rules being parsed are in rules_text */
	size_t count;
	struct rule list[RULES_MAX];
};

static int no_memory(const struct lines *lines)
{
	return lines_fail(lines, -ENOMEM, "out of memory");
}

static int parse_verb(struct line *line, enum verb *ret)
{
	char shown[LINES_QUOTE];
	struct line_part word;
	int r = line_text(line, &word);

	if (r < 0)
		return r;
	for (int verb = 0; verb < VERBS; verb++) {
		if (word_is(word, verbs[verb].word)) {
			*ret = (enum verb)verb;
			return 0;
		}
	}
	return lines_fail(line->file, -EINVAL,
			  "cannot read '%s'; a rule begins with application, runtime, framework, "
			  "interpreter, cache, library or thread",
			  lines_quote(word, shown));
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
		return lines_fail(line->file, -EINVAL,
				  "expected is the name in quotes, or none");
	}
	if (word.length == 0 || word.length > RULES_NAME_MAX)
		return lines_fail(line->file, -EINVAL, "a name has 1 to %d bytes", RULES_NAME_MAX);
	*ret = arena_text(&rules->arena, word.text, word.length);
	return *ret ? 0 : no_memory(line->file);
}

/* Returns -EINVAL and a message about the pattern of FIELD. */
static int fail_pattern(const struct line *line, int field, size_t length)
{
	if (length > WILDCARD_BYTES_MAX)
		return lines_fail(line->file, -EINVAL, "the pattern is longer than %d bytes",
				  WILDCARD_BYTES_MAX);
	return lines_fail(line->file, -EINVAL,
			  "%s: has no pattern; \"\" matches where the %s is not known",
			  fields[field], fields[field]);
}

static int fail_field(struct line line)
{
	char shown[LINES_QUOTE];

	return lines_fail(line.file, -EINVAL, "cannot read '%s'; accepted are " FIELDS_IN_WORDS,
			  lines_quote(line_word(&line, " \t"), shown));
}

static int parse_parts(struct line *line, struct rules *rules, struct rule *rule)
{
	struct line_part pattern;
	int field, r = parse_verb(line, &rule->verb);

	if (r == 0 && rule->verb >= CACHE)
		r = parse_name(line, rules, &rule->name);
	if (r == 0 && line->length == 0)
		return lines_fail(line->file, -EINVAL,
				  "the rule matches nothing; accepted are " FIELDS_IN_WORDS);
	while (r == 0 && line->length > 0) {
		field = line_type(line, fields, FIELDS);
		if (field < 0)
			return fail_field(*line);
		if (rule->given & 1u << field)
			return lines_fail(line->file, -EINVAL, "%s: is given twice", fields[field]);
		r = line_text(line, &pattern);
		if (r < 0)
			break;
		if (pattern.length > WILDCARD_BYTES_MAX ||
		    (pattern.length == 0 && pattern.text[-1] != '"'))
			return fail_pattern(line, field, pattern.length);
		if (!rules->is_shipped) {
			pattern.text = arena_text(&rules->arena, pattern.text, pattern.length);
			if (!pattern.text)
				return no_memory(line->file);
		}
		if (field == MODULE)
			rule->whole_path = memchr(pattern.text, '/', pattern.length) != NULL;
		rule->given |= 1u << field;
		rule->wildcards[field] =
			(struct wildcard){ pattern.text, pattern.length, true, true };
	}
	return r;
}

static int parse_rule(void *data, struct line *line)
{
	struct rules *rules = data;
	int r;

	if (rules->count == RULES_MAX)
		return lines_fail(line->file, -E2BIG, "more than %d rules", RULES_MAX);
	r = parse_parts(line, rules, &rules->list[rules->count]);
	rules->count += r == 0;
	return r;
}

static struct lines lines_of(const char *name, char *error, size_t error_size)
{
	return (struct lines){ "rule", name, RULES_BYTES_MAX, 0, error, error_size };
}

int rules_parse(const char *text, size_t length, const char *name, struct rules **ret,
		char *error, size_t error_size)
{
	struct lines theirs = lines_of(name, error, error_size);
	struct lines shipped = lines_of("gpuleak.rules", error, error_size);
	struct rules *rules = calloc(1, sizeof(*rules));
	int r;

	if (!rules)
		return no_memory(&theirs);
	r = lines_each(&theirs, text, length, parse_rule, rules);
	rules->is_shipped = true;
	if (r == 0)
		r = lines_each(&shipped, rules_text, rules_text_length, parse_rule, rules);
	if (r < 0)
		rules_destroy(rules);
	else
		*ret = rules;
	return r;
}

int rules_shipped(struct rules **ret)
{
	char ignored[64];

	return rules_parse("", 0, "", ret, ignored, sizeof(ignored));
}

int rules_load(const char *path, struct rules **ret, char *error, size_t error_size)
{
	return rules_parse(NULL, 0, path, ret, error, error_size);
}

size_t rules_size(const struct rules *rules)
{
	return rules->count;
}

void rules_destroy(struct rules *rules)
{
	if (!rules)
		return;
	arena_finish(&rules->arena);
	free(rules);
}

/* The names of a frame to which patterns apply; "" if unknown. */
struct names {
	const char *module, *path, *function, *file;
};

static struct names names_of(const struct report_frame *frame)
{
	const char *path = frame->module ? frame->module : "";
	const char *slash = strrchr(path, '/');

	return (struct names){ slash ? slash + 1 : path, path,
			       frame->function ? frame->function : "",
			       frame->file ? frame->file : "" };
}

/* Returns true if WILDCARD matches NAME. An unknown NAME ("") matches only an empty pattern. */
static bool field_matches(const struct wildcard *wildcard, const char *name)
{
	const char *star = memchr(wildcard->text, '*', wildcard->length);
	size_t head = star ? (size_t)(star - wildcard->text) : wildcard->length;

	if (!*name || !wildcard->length)
		return !*name && !wildcard->length;
	/* usually the text before the first star decides */
	return strncmp(name, wildcard->text, head) == 0 && wildcard_matches(wildcard, name);
}

static bool rule_matches(const struct rule *rule, const struct names *names)
{
	const char *const texts[FIELDS] = { rule->whole_path ? names->path : names->module,
					    names->function, names->file, names->file };

	for (int field = 0; field < FIELDS; field++) {
		if (!(rule->given & 1u << field) ||
		    field_matches(&rule->wildcards[field], texts[field]))
			continue;
		if (field != PATH || !field_matches(&rule->wildcards[field], names->path))
			return false;
	}
	return true;
}

/* Returns true if an earlier rule than RULE already decided the same about the frame. */
static bool is_decided(const struct rule *rule, const struct rules_frame *frame, bool has_role)
{
	switch (rule->verb) {
	case CACHE:
		return frame->cache_rule != 0;
	case LIBRARY:
		return frame->cache_rule && frame->in_library;
	case THREAD:
		return frame->thread_rule != 0;
	default:
		return has_role;
	}
}

struct rules_frame rules_frame(const struct rules *rules, const struct report_frame *frame)
{
	const struct names names = names_of(frame);
	struct rules_frame ret = { .role = FRAME_APPLICATION };
	bool has_role = false;

	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->list[i];

		if (is_decided(rule, &ret, has_role) || !rule_matches(rule, &names))
			continue;
		if (rule->verb < CACHE) {
			ret.role = verbs[rule->verb].role;
			has_role = true;
			continue;
		}
		if (rule->verb == THREAD) {
			ret.thread_rule = (unsigned int)i + 1;
			continue;
		}
		ret.in_library |= rule->verb == LIBRARY;
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
void rules_add_frame(const struct rules *rules, struct rules_stack *stack,
		     const struct rules_frame *frame)
{
	const struct rule *rule = frame->cache_rule ? &rules->list[frame->cache_rule - 1] : NULL;

	if (rule)
		set_if_earlier(rule->verb == LIBRARY ? &stack->library : &stack->cache_rule,
			       frame->cache_rule);
	if (frame->in_library || frame->role == FRAME_RUNTIME || frame->role == FRAME_INTERPRETER)
		return;
	if (frame->role != FRAME_APPLICATION)
		set_if_earlier(&stack->cache_rule, stack->library);
	stack->library = 0;
}

const char *rules_cache(const struct rules *rules, const struct rules_stack *stack)
{
	unsigned int cache_rule = stack->cache_rule;

	set_if_earlier(&cache_rule, stack->library);
	return cache_rule ? rules->list[cache_rule - 1].name : NULL;
}

const char *rules_thread(const struct rules *rules, const struct rules_frame *frame)
{
	return frame->thread_rule ? rules->list[frame->thread_rule - 1].name : NULL;
}
