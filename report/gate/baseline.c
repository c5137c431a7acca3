/* SPDX-License-Identifier: MIT
 *
 * Reads and writes baselines. A line that it cannot parse is an error.
 */
#include "report/gate/baseline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/util/lines.h"
#include "report/util/path.h"
#include "report/analyze/leak_totals.h"
#include "report/util/memory.h"

#define HEAD "gpuleak-baseline"
#define VERSION "1"
#define WORD_ENDS " \t#" /* a comment may follow a word without a blank */
#define ENTRY "FINGERPRINT BYTES BLOCKS # PLACE"

static int parse_head(struct line *line)
{
	struct line_part word = line_word(line, WORD_ENDS), version = line_word(line, WORD_ENDS);

	if (!word_is(word, HEAD) || line->length > 0)
		return line_fail(line, "cannot read '%s'; a baseline begins with '" HEAD " " VERSION
				 "'", QUOTED(word));
	if (!word_is(version, VERSION))
		return line_fail(line, "the baseline has version '%s'; this version of gpuleak "
				 "reads version " VERSION, QUOTED(version));
	return 1;
}

static int bad_word(struct line *line, struct line_part word, const char *what)
{
	return line_fail(line, "'%s' is not a %s; a line is " ENTRY, QUOTED(word), what);
}

static int parse_number(struct line *line, const char *what, uint64_t *ret)
{
	struct line_part word = line_word(line, WORD_ENDS);

	return word_number(word, 10, ret) == 0 ? 0 : bad_word(line, word, what);
}

static int parse_fingerprint(struct line *line, struct pattern_rule *ret)
{
	struct line_part word = line_word(line, WORD_ENDS), digits = word;

	ret->partial = word.length == FINGERPRINT_TEXT - 1 &&
		       memcmp(word.text + FINGERPRINT_DIGITS, FINGERPRINT_PARTIAL,
			      sizeof(FINGERPRINT_PARTIAL) - 1) == 0;
	if (ret->partial)
		digits.length = FINGERPRINT_DIGITS;
	if (digits.length == FINGERPRINT_DIGITS && word_number(digits, 16, &ret->fingerprint) == 0)
		return 0;
	return bad_word(line, word, "fingerprint");
}

static int parse_entry(struct pattern_file *file, struct line *line, struct pattern_rule *ret)
{
	int r;

	if (!file->headed) {
		file->headed = true;
		return parse_head(line);
	}
	r = parse_fingerprint(line, ret);
	if (r == 0)
		r = parse_number(line, "number of bytes", &ret->bytes);
	if (r == 0)
		r = parse_number(line, "number of blocks", &ret->blocks);
	if (r < 0)
		return r;
	if (line->length > 0 && line->at[0] != '#')
		return line_fail(line, "'%s' follows the number of blocks; a line is " ENTRY,
				 QUOTED(line_rest(line)));
	if (line->length > 0)
		line_skip(line, 1);
	ret->text = strndup(line->at, line->length);
	return 0;
}

static int compare_entries(const void *left, const void *right)
{
	const struct pattern_rule *a = left, *b = right;

	return compare_numbers(a->fingerprint, b->fingerprint) ?: compare_numbers(a->line, b->line);
}

/* Orders the entries. Returns an error if a fingerprint occurs twice, for example after a merge of
 * two branches, because the correct numbers are unknown. */
static int check_twice(struct pattern_file *baseline, struct lines *lines)
{
	SORT(baseline->rules, baseline->count, compare_entries);
	for (size_t i = 1; i < baseline->count; i++) {
		const struct pattern_rule *entry = &baseline->rules[i];

		if (entry[-1].fingerprint != entry->fingerprint)
			continue;
		lines->line = entry->line;
		return lines_fail(lines, -EINVAL, "this line repeats the fingerprint of line %u: "
				  "keep one of the two lines", entry[-1].line);
	}
	return 0;
}

const struct pattern_syntax baseline_syntax = { "baseline", BASELINE_ENTRIES_MAX, parse_entry,
						check_twice };

static int compare_to_key(const void *key, const void *value)
{
	const struct pattern_rule *entry = value;

	return compare_numbers(*(const uint64_t *)key, entry->fingerprint);
}

const struct pattern_rule *baseline_find(const struct pattern_file *baseline, uint64_t fingerprint)
{
	if (!baseline || baseline->count == 0)
		return NULL;
	return bsearch(&fingerprint, baseline->rules, baseline->count, sizeof(*baseline->rules),
		       compare_to_key);
}

uint64_t baseline_key(const struct report_site *site, const void *baseline)
{
	uint64_t first = report_site_fingerprint(site), second = report_site_fingerprint2(site);

	return !baseline_find(baseline, second) && baseline_find(baseline, first) ? first : second;
}

/* Writes the place of a leak without line number and directory, because these may change while the
 * leak stays the same. */
static void write_place(FILE *out, const struct report_leak *leak)
{
	const struct report_frame *frame = report_stack_culprit(leak->site->stack);
	const char *file = frame ? frame->file ? frame->file : frame->module : NULL;

	eprintf(out, "%s %s %s", leak->site->api, leak->site->kind,
		frame && frame->function ? frame->function : "???");
	if (file)
		eprintf(out, " (%s)", path_last(file));
}

void baseline_write(const struct leak_totals *totals, FILE *out)
{
	fputs("# Known leaks: gpuleak run --baseline FILE fails for what goes beyond them.\n"
	      "# Written by --update-baseline. " ENTRY "\n" HEAD " " VERSION "\n", out);
	EACH_ITEM(totals->entries, totals->count, entry) {
		fprintf(out, "%s %" PRIu64 " %" PRIu64 " # ",
			FINGERPRINT(entry->fingerprint, entry->largest->site->stack->partial),
			entry->bytes, entry->blocks);
		write_place(out, entry->largest);
		fputc('\n', out);
	}
}
