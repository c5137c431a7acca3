/* SPDX-License-Identifier: MIT
 *
 * Parses lines of SUBJECT:PATTERN LIMIT. The limit is the last word, because a pattern may
 * contain blanks.
 */
#include "report/gate/budgets.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/model.h"
#include "ledger/options.h"
#include "report/describe/kinds.h"
#include "report/util/lines.h"

static const char *const subjects[] = {
	[BUDGET_KIND] = "kind", [BUDGET_API] = "api", [BUDGET_DEVICE] = "device",
	[BUDGET_SITE] = "site", [BUDGET_CACHE] = "cache",
	[BUDGET_ACCUMULATION] = "accumulation", [BUDGET_OBJECT] = "object",
};
#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

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
static int parse_limit(struct line *line, struct budget *rule)
{
	struct line_part word = line_last_word(line);
	char shown[LINES_QUOTE];

	rule->in_blocks = word_is(word, "blocks") || word_is(word, "block");
	if (rule->in_blocks)
		word = line_last_word(line);
	rule->is_plain = word_number(word, 10, &rule->limit) == 0;
	if ((rule->in_blocks ? word_number(word, 10, &rule->limit)
			     : parse_bytes(word, &rule->limit)) == 0)
		return 0;
	return lines_fail(line->file, -EINVAL, "'%s' is not a limit; a line ends with a size such "
			  "as 64MiB, or with a number and the word blocks",
			  lines_quote(word, shown));
}

static int parse_device(const struct line *line, struct budget *rule)
{
	struct line_part word = { line->at, line->length };
	char shown[LINES_QUOTE];
	uint64_t device;

	if (word_number(word, 10, &device) < 0 || device > INT_MAX)
		return lines_fail(line->file, -EINVAL,
				  "'%s' is not the number of a device; write for example "
				  "device:0 4GiB",
				  lines_quote(word, shown));
	rule->device = (int)device;
	return 0;
}

/* Objects have no bytes, so their limit is a number. */
static int check_object(const struct line *line, struct budget *rule)
{
	if (!rule->is_plain)
		return lines_fail(line->file, -EINVAL, "objects have no bytes: a budget for them "
				  "ends with a number");
	rule->in_blocks = true;
	return object_check(line->file, (struct line_part){ line->at, line->length });
}

static int parse_subject(struct line *line, struct budget *rule)
{
	struct line_part whole = { line->at, line->length };
	char shown[LINES_QUOTE];
	int subject;

	if (word_is(whole, "peak") && !rule->in_blocks) {
		rule->subject = BUDGET_PEAK;
		return 0;
	}
	subject = line_type(line, subjects, SUBJECTS);
	if (subject < 0)
		return lines_fail(line->file, -EINVAL,
				  "cannot read '%s'; a budget begins with kind:, api:, device:, "
				  "site:, cache:, accumulation:, object: or peak",
				  lines_quote(whole, shown));
	line_skip(line, 0);
	rule->subject = (enum budget_subject)subject;
	if (rule->subject == BUDGET_DEVICE)
		return parse_device(line, rule);
	if (rule->subject == BUDGET_KIND && line->length > 0 &&
	    kind_check(line->file, (struct line_part){ line->at, line->length }) < 0)
		return -EINVAL;
	if (rule->subject == BUDGET_OBJECT && check_object(line, rule) < 0)
		return -EINVAL;
	return frame_pattern_parse(&rule->pattern, line, "");
}

static void rule_finish(struct budget *rule)
{
	free(rule->text);
	frame_pattern_finish(&rule->pattern);
}

static int parse_budget(void *data, struct line *line)
{
	struct budgets *budgets = data;
	struct budget rule = { .line = line->file->line };
	struct budget *rules;
	struct line_part subject;
	int r;

	rules = lines_grow(line->file, budgets->rules, budgets->count, sizeof(*rules), BUDGETS_MAX,
			   &r);
	if (!rules)
		return r;
	budgets->rules = rules;
	r = parse_limit(line, &rule);
	subject = (struct line_part){ line->at, line->length };
	if (r == 0)
		r = parse_subject(line, &rule);
	if (r == 0 && !(rule.text = strndup(subject.text, subject.length)))
		r = lines_fail(line->file, -ENOMEM, "out of memory");
	if (r < 0)
		rule_finish(&rule);
	else
		budgets->rules[budgets->count++] = rule;
	return r;
}

int budgets_parse(const char *text, size_t length, const char *name, struct budgets **ret,
		  char *error, size_t error_size)
{
	struct lines file = { "budget", name, LINES_BYTES_MAX, 0, error, error_size };
	struct budgets *budgets = calloc(1, sizeof(*budgets));
	int r;

	if (!budgets || !(budgets->name = strdup(name)))
		r = lines_fail(&file, -ENOMEM, "out of memory");
	else
		r = lines_each(&file, text, length, parse_budget, budgets);
	if (r < 0)
		budgets_destroy(budgets);
	else
		*ret = budgets;
	return r;
}

int budgets_load(const char *path, struct budgets **ret, char *error, size_t error_size)
{
	return budgets_parse(NULL, 0, path, ret, error, error_size);
}

bool budget_covers(const struct budget *rule, const struct report_leak *leak)
{
	switch (rule->subject) {
	case BUDGET_KIND:
		return strcmp(leak->kind, rule->pattern.text) == 0;
	case BUDGET_API:
		return strcmp(leak->api, rule->pattern.text) == 0;
	case BUDGET_DEVICE:
		return leak->device == rule->device;
	case BUDGET_SITE:
		return frame_pattern_match_any(&rule->pattern, leak->stack->frames,
					     leak->stack->count);
	case BUDGET_CACHE:
		return frame_pattern_match(&rule->pattern, leak->cache);
	case BUDGET_OBJECT:
		return leak->is_object &&
		       strcmp(object_name(leak->kind), rule->pattern.text) == 0;
	case BUDGET_ACCUMULATION:
	case BUDGET_PEAK:
		break;
	}
	return false;
}

bool budget_covers_accumulation(const struct budget *rule, const struct report_stack *stack)
{
	return rule->subject == BUDGET_ACCUMULATION &&
	       frame_pattern_match_any(&rule->pattern, stack->frames, stack->count);
}

void budgets_destroy(struct budgets *budgets)
{
	if (!budgets)
		return;
	for (size_t i = 0; i < budgets->count; i++)
		rule_finish(&budgets->rules[i]);
	free(budgets->rules);
	free(budgets->name);
	free(budgets);
}
