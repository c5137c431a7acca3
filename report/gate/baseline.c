/* SPDX-License-Identifier: MIT
 *
 * Reads and writes baselines. A line that it cannot parse is an error.
 */
#include "report/gate/baseline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/util/lines.h"
#include "report/analyze/leak_totals.h"

#define HEAD "gpuleak-baseline"
#define VERSION "1"
#define WORD_ENDS " \t#" /* a comment may follow a word without a blank */
#define ENTRY "FINGERPRINT BYTES BLOCKS # PLACE"

struct baseline_reading {
	struct baseline *baseline;
	bool headed; /* the first line was read */
};

static int parse_head(struct line *line)
{
	struct line_part word = line_word(line, WORD_ENDS), version = line_word(line, WORD_ENDS);
	char shown[LINES_QUOTE];

	if (!word_is(word, HEAD) || line->length > 0)
		return lines_fail(line->file, -EINVAL, "cannot read '%s'; a baseline begins with '"
				  HEAD " " VERSION "'", lines_quote(word, shown));
	if (!word_is(version, VERSION))
		return lines_fail(line->file, -EINVAL,
				  "the baseline has version '%s'; this version "
				  "of gpuleak reads version " VERSION,
				  lines_quote(version, shown));
	return 0;
}

static int add_entry(struct baseline *baseline, const struct line *line,
		     struct baseline_entry entry)
{
	struct baseline_entry *entries;
	int r;

	entries = lines_grow(line->file, baseline->entries, baseline->count, sizeof(*entries),
			     BASELINE_ENTRIES_MAX, &r);
	if (!entries)
		return r;
	baseline->entries = entries;
	entry.line = line->file->line;
	entry.place = strndup(line->at, line->length);
	if (!entry.place)
		return lines_fail(line->file, -ENOMEM, "out of memory");
	baseline->entries[baseline->count++] = entry;
	return 0;
}

static int parse_entry(void *data, struct line *line)
{
	struct baseline_entry entry = { 0 };
	struct baseline_reading *reading = data;
	char shown[LINES_QUOTE];
	struct line_part word;

	if (!reading->headed) {
		reading->headed = true;
		return parse_head(line);
	}
	word = line_word(line, WORD_ENDS);
	if (word.length != FINGERPRINT_TEXT - 1 || word_number(word, 16, &entry.fingerprint) < 0)
		return lines_fail(line->file, -EINVAL, "'%s' is not a fingerprint; a line is "
				  ENTRY, lines_quote(word, shown));
	word = line_word(line, WORD_ENDS);
	if (word_number(word, 10, &entry.bytes) < 0)
		return lines_fail(line->file, -EINVAL, "'%s' is not a number of bytes; a line is "
				  ENTRY, lines_quote(word, shown));
	word = line_word(line, WORD_ENDS);
	if (word_number(word, 10, &entry.blocks) < 0)
		return lines_fail(line->file, -EINVAL, "'%s' is not a number of blocks; a line is "
				  ENTRY, lines_quote(word, shown));
	if (line->length > 0 && line->at[0] != '#') {
		word = (struct line_part){ line->at, line->length };
		return lines_fail(line->file, -EINVAL,
				  "'%s' follows the number of blocks; a line "
				  "is " ENTRY,
				  lines_quote(word, shown));
	}
	if (line->length > 0)
		line_skip(line, 1);
	return add_entry(reading->baseline, line, entry);
}

static int compare_entries(const void *left, const void *right)
{
	const struct baseline_entry *a = left, *b = right;

	if (a->fingerprint != b->fingerprint)
		return a->fingerprint < b->fingerprint ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

/* Returns an error if a fingerprint occurs twice, for example after a merge of two branches,
 * because the correct numbers are unknown. */
static int check_twice(struct lines *file, const struct baseline *baseline)
{
	for (size_t i = 1; i < baseline->count; i++) {
		const struct baseline_entry *entry = &baseline->entries[i];

		if (entry[-1].fingerprint != entry->fingerprint)
			continue;
		file->line = entry->line;
		return lines_fail(file, -EINVAL,
				  "this line repeats the fingerprint of line %u: "
				  "keep one of the two lines",
				  entry[-1].line);
	}
	return 0;
}

int baseline_parse(const char *text, size_t length, const char *name, struct baseline **ret,
		   char *error, size_t error_size)
{
	struct lines file = { "baseline", name, LINES_BYTES_MAX, 0, error, error_size };
	struct baseline *baseline = calloc(1, sizeof(*baseline));
	struct baseline_reading reading = { .baseline = baseline };
	int r;

	if (!baseline || !(baseline->name = strdup(name)))
		r = lines_fail(&file, -ENOMEM, "out of memory");
	else
		r = lines_each(&file, text, length, parse_entry, &reading);
	if (r == 0 && baseline->count) {
		qsort(baseline->entries, baseline->count, sizeof(*baseline->entries),
		      compare_entries);
		r = check_twice(&file, baseline);
	}
	if (r < 0)
		baseline_destroy(baseline);
	else
		*ret = baseline;
	return r;
}

int baseline_load(const char *path, struct baseline **ret, char *error, size_t error_size)
{
	return baseline_parse(NULL, 0, path, ret, error, error_size);
}

static int compare_to_key(const void *key, const void *value)
{
	const struct baseline_entry *entry = value;
	uint64_t wanted = *(const uint64_t *)key;

	return wanted < entry->fingerprint ? -1 : wanted > entry->fingerprint;
}

const struct baseline_entry *baseline_find(const struct baseline *baseline, uint64_t fingerprint)
{
	if (!baseline || baseline->count == 0)
		return NULL;
	return bsearch(&fingerprint, baseline->entries, baseline->count,
		       sizeof(*baseline->entries), compare_to_key);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Writes the place of a leak without line number and directory, because these may change while the
 * leak stays the same. */
static void write_place(FILE *out, const struct report_leak *leak)
{
	const struct report_frame *frame = report_stack_culprit(leak->stack);
	const char *file = frame ? frame->file ? frame->file : frame->module : NULL;

	print_escaped(out, leak->api);
	fputc(' ', out);
	print_escaped(out, leak->kind);
	fputc(' ', out);
	print_escaped(out, frame && frame->function ? frame->function : "???");
	if (!file)
		return;
	fputs(" (", out);
	print_escaped(out, last_part(file));
	fputc(')', out);
}

void baseline_write(const struct leak_totals *totals, FILE *out)
{
	char text[FINGERPRINT_TEXT];

	fputs("# Known leaks: gpuleak run --baseline FILE fails for what goes beyond them.\n"
	      "# Written by --update-baseline. " ENTRY "\n" HEAD " " VERSION "\n", out);
	for (size_t i = 0; i < totals->count; i++) {
		const struct leak_total *entry = &totals->entries[i];

		fprintf(out, "%s %" PRIu64 " %" PRIu64 " # ",
			report_fingerprint_text(entry->fingerprint, text), entry->bytes,
			entry->blocks);
		write_place(out, entry->largest);
		fputc('\n', out);
	}
}

void baseline_destroy(struct baseline *baseline)
{
	if (!baseline)
		return;
	for (size_t i = 0; i < baseline->count; i++)
		free(baseline->entries[i].place);
	free(baseline->entries);
	free(baseline->name);
	free(baseline);
}
