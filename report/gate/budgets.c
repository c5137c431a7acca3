/* SPDX-License-Identifier: MIT
 *
 * Lines of SUBJECT:WHAT LIMIT. The limit is what stands last, since patterns may hold blanks.
 */
#include "report/gate/budgets.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/model.h"
#include "ledger/options.h"
#include "report/describe/kinds.h"
#include "report/util/lines.h"

#define SUBJECTS "kind:, api:, device:, site:, cache: and peak"

struct parse {
	struct budgets *budgets;
	size_t room;
};

/* Cuts the last word off the LENGTH bytes at TEXT. */
static size_t cut_word(const char *text, size_t *length, const char **ret)
{
	size_t end = *length, at = end;

	while (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\t')
		at--;
	*ret = text + at;
	*length = at;
	lines_trim(&text, length);
	return end - at;
}

static int copy_word(const char *word, size_t length, char *ret, size_t size)
{
	if (length >= size)
		return -EINVAL;
	memcpy(ret, word, length);
	ret[length] = '\0';
	return 0;
}

/* A whole number of any base-ten length that fits. */
static int parse_count(const char *word, uint64_t *ret)
{
	char *end;

	if (!*word || word[strspn(word, "0123456789")])
		return -EINVAL;
	errno = 0;
	*ret = strtoull(word, &end, 10);
	return errno ? -EINVAL : 0;
}

static int parse_limit(const struct lines *file, const char *text, size_t *length,
		       struct budget *rule)
{
	struct options parser;
	char limit[32], shown[LINES_QUOTE];
	const char *word;
	size_t n = cut_word(text, length, &word);
	int r;

	if ((n == 6 && memcmp(word, "blocks", 6) == 0) ||
	    (n == 5 && memcmp(word, "block", 5) == 0)) {
		rule->in_blocks = 1;
		n = cut_word(text, length, &word);
	}
	r = copy_word(word, n, limit, sizeof(limit));
	if (r == 0 && rule->in_blocks)
		r = parse_count(limit, &rule->limit);
	else if (r == 0 && (r = option_set(&parser, OPTION_MAX_LEAKED_BYTES, limit)) == 0)
		rule->limit = (uint64_t)parser.max_leaked_bytes;
	if (r == 0)
		return 0;
	return lines_fail(file, -EINVAL, "'%s' is no limit; a line ends with a size such as "
			     "64MiB, or with a number and the word blocks",
			     lines_quote(word, n, shown));
}

static int parse_device(const struct lines *file, const char *what, size_t length,
			struct budget *rule)
{
	char word[16], shown[LINES_QUOTE];
	uint64_t device;

	if (copy_word(what, length, word, sizeof(word)) < 0 || parse_count(word, &device) < 0 ||
	    device > INT_MAX)
		return lines_fail(file, -EINVAL, "'%s' is no device; expected is its number",
				     lines_quote(what, length, shown));
	rule->device = (int)device;
	return 0;
}

static int parse_subject(const struct lines *file, const char *text, size_t length,
			 struct budget *rule)
{
	static const char *const words[] = {
		[BUDGET_KIND] = "kind:", [BUDGET_API] = "api:", [BUDGET_DEVICE] = "device:",
		[BUDGET_SITE] = "site:", [BUDGET_CACHE] = "cache:",
	};
	char shown[LINES_QUOTE];
	size_t n;
	int r;

	if (length == 4 && memcmp(text, "peak", 4) == 0 && !rule->in_blocks) {
		rule->subject = BUDGET_PEAK;
		return 0;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		n = strlen(words[i]);
		if (length < n || memcmp(text, words[i], n) != 0)
			continue;
		rule->subject = (enum budget_subject)i;
		text += n;
		length -= n;
		lines_trim(&text, &length);
		if (rule->subject == BUDGET_DEVICE)
			return parse_device(file, text, length, rule);
		if (rule->subject == BUDGET_KIND && length > 0 &&
		    kind_check(file, text, length) < 0)
			return -EINVAL;
		r = frame_pattern_compile(&rule->pattern, text, length);
		return r == 0 ? 0
		       : lines_fail(file, r, "%s", r == -ENOMEM ? "out of memory"
				       : r == -E2BIG ? "the pattern is too long"
						     : "nothing stands behind the colon");
	}
	return lines_fail(file, -EINVAL, "'%s' has no budget; known are " SUBJECTS,
			     lines_quote(text, length, shown));
}

static void rule_finish(struct budget *rule)
{
	free(rule->text);
	frame_pattern_finish(&rule->pattern);
}

static int parse_line(void *data, const struct lines *file, const char *text, size_t length)
{
	struct budget rule = { .line = file->line };
	struct parse *parse = data;
	struct budgets *budgets = parse->budgets;
	int r;

	if (budgets->count == BUDGETS_MAX)
		return lines_fail(file, -E2BIG, "more than %d budgets", BUDGETS_MAX);
	if (budgets->count == parse->room) {
		size_t room = parse->room ? parse->room * 2 : 16;
		struct budget *rules = reallocarray(budgets->rules, room, sizeof(*rules));

		if (!rules)
			return lines_fail(file, -ENOMEM, "out of memory");
		budgets->rules = rules;
		parse->room = room;
	}
	r = parse_limit(file, text, &length, &rule);
	if (r == 0)
		r = parse_subject(file, text, length, &rule);
	if (r == 0 && !(rule.text = strndup(text, length)))
		r = lines_fail(file, -ENOMEM, "out of memory");
	if (r < 0)
		rule_finish(&rule);
	else
		budgets->rules[budgets->count++] = rule;
	return r;
}

/* Reads TEXT, or the file itself if that is NULL. */
static int read_budgets(struct lines *file, const char *text, size_t length,
			struct budgets **ret)
{
	struct parse parse = { .budgets = calloc(1, sizeof(*parse.budgets)) };
	int r;

	if (!parse.budgets || !(parse.budgets->name = strdup(file->name))) {
		budgets_destroy(parse.budgets);
		return lines_fail(file, -ENOMEM, "out of memory");
	}
	r = text ? lines_each(file, text, length, parse_line, &parse)
		 : lines_load(file, parse_line, &parse);
	if (r < 0)
		budgets_destroy(parse.budgets);
	else
		*ret = parse.budgets;
	return r;
}

int budgets_parse(const char *text, size_t length, const char *name, struct budgets **ret,
		  char *error, size_t error_size)
{
	struct lines file = { "budget", name, LINES_BYTES_MAX, 0, error, error_size };

	return read_budgets(&file, text, length, ret);
}

int budgets_load(const char *path, struct budgets **ret, char *error, size_t error_size)
{
	struct lines file = { "budget", path, LINES_BYTES_MAX, 0, error, error_size };

	return read_budgets(&file, NULL, 0, ret);
}

int budget_covers(const struct budget *rule, const struct report_leak *leak)
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
	case BUDGET_PEAK:
		break;
	}
	return 0;
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
