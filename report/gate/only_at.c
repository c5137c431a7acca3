/* SPDX-License-Identifier: MIT
 *
 * Lines of TYPE:WHAT. A place is allowed if one of them says so.
 */
#include "report/gate/only_at.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/model.h"
#include "report/model/model_sites.h"
#include "report/describe/kinds.h"
#include "report/util/lines.h"
#include "report/suppress/frame_pattern.h"

enum type { SITE, KIND, API, TYPES };

static const char *const types[TYPES] = { "site:", "kind:", "api:" };

struct rule {
	enum type type;
	struct frame_pattern pattern;
};

struct only_at {
	char *name;
	struct rule *rules;
	size_t count, room;
};

static int parse_rule(const struct lines *file, const char *text, size_t length,
		      struct rule *ret)
{
	char shown[LINES_QUOTE];
	int r;

	for (int i = 0; i < TYPES; i++) {
		size_t n = strlen(types[i]);

		if (length < n || memcmp(text, types[i], n) != 0)
			continue;
		text += n;
		length -= n;
		lines_trim(&text, &length);
		ret->type = (enum type)i;
		if (ret->type == KIND && length > 0 && kind_check(file, text, length) < 0)
			return -EINVAL;
		r = frame_pattern_compile(&ret->pattern, text, length);
		if (r == -EINVAL)
			return lines_fail(file, r, "nothing stands behind the colon "
					     "(site:* is everything)");
		return r == 0 ? 0 : lines_fail(file, r, "the pattern is too long");
	}
	return lines_fail(file, -EINVAL, "cannot read '%s'; accepted are site:PATTERN, "
			     "kind:KIND and api:CALL", lines_quote(text, length, shown));
}

static int parse_line(void *data, const struct lines *file, const char *text, size_t length)
{
	struct only_at *policy = data;
	struct rule rule = { 0 };
	int r = parse_rule(file, text, length, &rule);

	if (r < 0)
		return r;
	if (policy->count == policy->room && policy->count < ONLY_AT_MAX) {
		size_t room = policy->room ? policy->room * 2 : 16;
		struct rule *rules = reallocarray(policy->rules, room, sizeof(*rules));

		if (rules) {
			policy->rules = rules;
			policy->room = room;
		}
	}
	if (policy->count == policy->room) {
		frame_pattern_finish(&rule.pattern);
		return lines_fail(file, -E2BIG, policy->count < ONLY_AT_MAX
						   ? "out of memory" : "more than 65536 rules");
	}
	policy->rules[policy->count++] = rule;
	return 0;
}

/* Reads TEXT, or the file itself if that is NULL. */
static int read_policy(struct lines *file, const char *text, size_t length,
		       struct only_at **ret)
{
	struct only_at *policy = calloc(1, sizeof(*policy));
	int r = -ENOMEM;

	if (policy && (policy->name = strdup(file->name)))
		r = text ? lines_each(file, text, length, parse_line, policy)
			 : lines_load(file, parse_line, policy);
	else
		lines_fail(file, r, "out of memory");
	if (r < 0)
		only_at_destroy(policy);
	else
		*ret = policy;
	return r;
}

int only_at_parse(const char *text, size_t length, const char *name, struct only_at **ret,
		  char *error, size_t error_size)
{
	struct lines file = { "policy", name, LINES_BYTES_MAX, 0, error, error_size };

	return read_policy(&file, text, length, ret);
}

int only_at_load(const char *path, struct only_at **ret, char *error, size_t error_size)
{
	struct lines file = { "policy", path, LINES_BYTES_MAX, 0, error, error_size };

	return read_policy(&file, NULL, 0, ret);
}

static int allows(const struct rule *rule, const struct report_site *site)
{
	if (rule->type == SITE)
		return frame_pattern_match_any(&rule->pattern, site->stack->frames,
					     site->stack->count);
	return strcmp(rule->pattern.text, rule->type == KIND ? site->kind : site->api) == 0;
}

int only_at_allows(const struct only_at *policy, const struct report_site *site)
{
	for (size_t i = 0; i < policy->count; i++)
		if (allows(&policy->rules[i], site))
			return 1;
	return 0;
}

const char *only_at_name(const struct only_at *policy)
{
	return policy->name;
}

void only_at_destroy(struct only_at *policy)
{
	if (!policy)
		return;
	for (size_t i = 0; i < policy->count; i++)
		frame_pattern_finish(&policy->rules[i].pattern);
	free(policy->rules);
	free(policy->name);
	free(policy);
}
