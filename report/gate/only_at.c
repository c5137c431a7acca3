/* SPDX-License-Identifier: MIT
 *
 * Parses lines of TYPE:PATTERN. A site is allowed if one line matches.
 */
#include "report/gate/only_at.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/model.h"
#include "report/model/model_sites.h"
#include "report/describe/kinds.h"
#include "report/util/lines.h"
#include "report/suppress/frame_pattern.h"

enum only_at_type { SITE, KIND, API, TYPES };

static const char *const types[TYPES] = { "site", "kind", "api" };

struct only_at_rule {
	enum only_at_type type;
	struct frame_pattern pattern;
};

struct only_at {
	char *name;
	struct only_at_rule *rules;
	size_t count;
};

static int parse_rule(struct line *line, struct only_at_rule *ret)
{
	struct line_part whole = { line->at, line->length };
	char shown[LINES_QUOTE];
	int type = line_type(line, types, TYPES);

	if (type < 0)
		return lines_fail(line->file, -EINVAL, "cannot read '%s'; accepted are "
				  "site:PATTERN, kind:KIND and api:CALL",
				  lines_quote(whole, shown));
	line_skip(line, 0);
	ret->type = (enum only_at_type)type;
	if (ret->type == KIND && line->length > 0 &&
	    kind_check(line->file, (struct line_part){ line->at, line->length }) < 0)
		return -EINVAL;
	return frame_pattern_parse(&ret->pattern, line, " (site:* matches each call site)");
}

static int parse_policy_line(void *data, struct line *line)
{
	struct only_at *policy = data;
	struct only_at_rule *rules, rule = { 0 };
	int r;

	rules = lines_grow(line->file, policy->rules, policy->count, sizeof(*rules), ONLY_AT_MAX,
			   &r);
	if (!rules)
		return r;
	policy->rules = rules;
	r = parse_rule(line, &rule);
	if (r == 0)
		policy->rules[policy->count++] = rule;
	return r;
}

int only_at_parse(const char *text, size_t length, const char *name, struct only_at **ret,
		  char *error, size_t error_size)
{
	struct lines file = { "policy", name, LINES_BYTES_MAX, 0, error, error_size };
	struct only_at *policy = calloc(1, sizeof(*policy));
	int r;

	if (!policy || !(policy->name = strdup(name)))
		r = lines_fail(&file, -ENOMEM, "out of memory");
	else
		r = lines_each(&file, text, length, parse_policy_line, policy);
	if (r < 0)
		only_at_destroy(policy);
	else
		*ret = policy;
	return r;
}

int only_at_load(const char *path, struct only_at **ret, char *error, size_t error_size)
{
	return only_at_parse(NULL, 0, path, ret, error, error_size);
}

static bool allows(const struct only_at_rule *rule, const struct report_site *site)
{
	if (rule->type == SITE)
		return frame_pattern_match_any(&rule->pattern, site->stack->frames,
					     site->stack->count);
	return strcmp(rule->pattern.text, rule->type == KIND ? site->kind : site->api) == 0;
}

bool only_at_allows(const struct only_at *policy, const struct report_site *site)
{
	for (size_t i = 0; i < policy->count; i++)
		if (allows(&policy->rules[i], site))
			return true;
	return false;
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
