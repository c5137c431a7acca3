/* SPDX-License-Identifier: MIT
 *
 * Parses lines of SUBJECT:PATTERN, in budgets with a limit. The limit is the last word, because a
 * pattern may contain blanks.
 */
#include "report/gate/gate_rules.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "ledger/options.h"
#include "report/describe/kinds.h"
#include "report/model/model.h"

static const char *const subjects[GATE_PEAK] = {
	[GATE_SITE] = "site",	  [GATE_KIND] = "kind",	  [GATE_API] = "api",
	[GATE_DEVICE] = "device", [GATE_CACHE] = "cache", [GATE_ACCUMULATION] = "accumulation",
	[GATE_OBJECT] = "object", [GATE_RANGE] = "range",
};

static int parse_bytes(struct line_part word, uint64_t *ret)
{
	struct options parser;
	char limit[32];
	int r;

	if (word.length >= sizeof(limit))
		return -EINVAL;
	memcpy(limit, word.text, word.length);
	limit[word.length] = '\0';
	r = option_set(&parser, OPTION_MAX_LEAKED_BYTES, limit);
	if (r == 0)
		*ret = (uint64_t)parser.max_leaked_bytes;
	return r;
}

/* Reads the limit at the end of LINE: a size, or a number followed by "blocks". */
static int parse_limit(struct line *line, struct pattern_rule *rule)
{
	struct line_part word = line_last_word(line);

	rule->in_blocks = word_is(word, "blocks") || word_is(word, "block");
	if (rule->in_blocks)
		word = line_last_word(line);
	rule->is_plain = word_number(word, 10, &rule->limit) == 0;
	if ((rule->in_blocks ? word_number(word, 10, &rule->limit)
			     : parse_bytes(word, &rule->limit)) == 0)
		return 0;
	return line_fail(line, "'%s' is not a limit; a line ends with a size such as 64MiB, or "
			 "with a number and the word blocks", QUOTED(word));
}

static int parse_device(const struct line *line, struct pattern_rule *rule)
{
	struct line_part word = line_rest(line);
	uint64_t device;

	if (word_number(word, 10, &device) < 0 || device > INT_MAX)
		return line_fail(line, "'%s' is not the number of a device; write for example "
				 "device:0 4GiB", QUOTED(word));
	rule->device = (int)device;
	return 0;
}

/* Objects have no bytes, so their limit is a number. */
static int check_object(const struct line *line, struct line_part name, struct pattern_rule *rule)
{
	if (!rule->is_plain)
		return line_fail(line, "objects have no bytes: a budget for them ends with a "
				 "number");
	rule->in_blocks = true;
	return object_check(line->file, name);
}

/* Reads the rest of LINE, whose subject is in RULE. HINT: see frame_pattern_parse(). */
static int parse_pattern(struct line *line, struct pattern_rule *rule, const char *hint)
{
	struct line_part rest;

	line_skip(line, 0);
	rest = line_rest(line);
	if (rule->subject == GATE_DEVICE)
		return parse_device(line, rule);
	if (rule->subject == GATE_KIND && rest.length > 0 && kind_check(line->file, rest) < 0)
		return -EINVAL;
	if (rule->subject == GATE_OBJECT && check_object(line, rest, rule) < 0)
		return -EINVAL;
	return frame_pattern_parse(&rule->pattern, line, hint);
}

static int parse_budget(struct pattern_file *file, struct line *line, struct pattern_rule *ret)
{
	struct line_part whole;
	int r = parse_limit(line, ret);

	(void)file;
	if (r < 0)
		return r;
	whole = line_rest(line);
	ret->text = strndup(whole.text, whole.length);
	if (word_is(whole, "peak") && !ret->in_blocks) {
		ret->subject = GATE_PEAK;
		return 0;
	}
	ret->subject = line_type(line, subjects, GATE_PEAK);
	if (ret->subject < 0)
		return line_fail(line, "cannot read '%s'; a budget begins with kind:, api:, "
				 "device:, site:, cache:, accumulation:, object:, range: or peak",
				 QUOTED(whole));
	return parse_pattern(line, ret, "");
}

static int parse_site(struct pattern_file *file, struct line *line, struct pattern_rule *ret)
{
	(void)file;
	ret->subject = line_type(line, subjects, POLICY_SUBJECTS);
	if (ret->subject < 0)
		return line_fail(line, "cannot read '%s'; accepted are site:PATTERN, kind:KIND and "
				 "api:CALL", QUOTED(line_rest(line)));
	return parse_pattern(line, ret, " (site:* matches each call site)");
}

const struct pattern_syntax budget_syntax = { "budget", BUDGETS_MAX, parse_budget, NULL };
const struct pattern_syntax only_at_syntax = { "policy", ONLY_AT_MAX, parse_site, NULL };

bool budget_covers(const struct pattern_rule *rule, const struct report_leak *leak)
{
	switch (rule->subject) {
	case GATE_SITE:
	case GATE_ACCUMULATION:
		return frame_pattern_match_any(&rule->pattern, leak->site->stack->frames,
					       leak->site->stack->count);
	case GATE_KIND:
		return strcmp(leak->site->kind, rule->pattern.text) == 0;
	case GATE_API:
		return strcmp(leak->site->api, rule->pattern.text) == 0;
	case GATE_DEVICE:
		return leak->site->device == rule->device;
	case GATE_CACHE:
		return frame_pattern_match(&rule->pattern, leak->cache);
	}
	return false;
}

bool only_at_allows(const struct pattern_file *policy, const struct report_site *site)
{
	const struct report_leak allocated = { .site = site };

	for (size_t i = 0; i < policy->count; i++)
		if (budget_covers(&policy->rules[i], &allocated))
			return true;
	return false;
}
