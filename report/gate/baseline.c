/* SPDX-License-Identifier: MIT
 *
 * Reads by lines, refuses what it does not understand, and writes what it would read.
 */
#include "report/gate/baseline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/util/lines.h"
#include "report/analyze/leak_totals.h"

#define HEAD "gpuleak-baseline"
#define VERSION "1"
#define ENTRY "FINGERPRINT BYTES BLOCKS # PLACE"

struct parse {
	struct baseline *baseline;
	size_t room;
	int headed;
};

/* The word at *TEXT, of *LENGTH bytes left; moves both behind it. */
static size_t next_word(const char **text, size_t *length, const char **ret)
{
	size_t n = 0;

	lines_trim(text, length);
	while (n < *length && !strchr(" \t#", (*text)[n]))
		n++;
	*ret = *text;
	*text += n;
	*length -= n;
	return n;
}

static int parse_digits(const char *word, size_t length, unsigned int base, uint64_t *ret)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		char c = word[i];
		unsigned int digit = c >= '0' && c <= '9'   ? (unsigned int)(c - '0')
				     : c >= 'a' && c <= 'f' ? (unsigned int)(c - 'a') + 10
							    : 99;

		if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return -EINVAL;
	}
	*ret = value;
	return length ? 0 : -EINVAL;
}

static int is_word(const char *word, size_t length, const char *wanted)
{
	return length == strlen(wanted) && memcmp(word, wanted, length) == 0;
}

static int parse_head(const struct lines *file, const char *text, size_t length)
{
	const char *word, *version;
	char shown[LINES_QUOTE];
	size_t n = next_word(&text, &length, &word), v = next_word(&text, &length, &version);

	lines_trim(&text, &length);
	if (!is_word(word, n, HEAD) || length > 0)
		return lines_fail(file, -EINVAL, "cannot read '%s'; a baseline begins with '"
				     HEAD " " VERSION "'", lines_quote(word, n, shown));
	if (!is_word(version, v, VERSION))
		return lines_fail(file, -EINVAL, "a baseline of version '%s'; this gpuleak "
				     "reads version " VERSION, lines_quote(version, v, shown));
	return 0;
}

static int add(struct parse *parse, const struct lines *file, struct baseline_entry entry,
	       const char *place, size_t length)
{
	struct baseline *baseline = parse->baseline;

	if (baseline->count == BASELINE_ENTRIES_MAX)
		return lines_fail(file, -E2BIG, "more than %d leaks", BASELINE_ENTRIES_MAX);
	if (baseline->count == parse->room) {
		size_t room = parse->room ? parse->room * 2 : 16;
		struct baseline_entry *entries = reallocarray(baseline->entries, room,
							      sizeof(*entries));

		if (!entries)
			return lines_fail(file, -ENOMEM, "out of memory");
		baseline->entries = entries;
		parse->room = room;
	}
	entry.line = file->line;
	entry.place = strndup(place, length);
	if (!entry.place)
		return lines_fail(file, -ENOMEM, "out of memory");
	baseline->entries[baseline->count++] = entry;
	return 0;
}

static int parse_line(void *data, const struct lines *file, const char *text, size_t length)
{
	struct baseline_entry entry = { 0 };
	struct parse *parse = data;
	const char *word;
	char shown[LINES_QUOTE];
	size_t n;

	if (!parse->headed) {
		parse->headed = 1;
		return parse_head(file, text, length);
	}
	n = next_word(&text, &length, &word);
	if (n != FINGERPRINT_TEXT - 1 || parse_digits(word, n, 16, &entry.fingerprint) < 0)
		return lines_fail(file, -EINVAL, "'%s' is no fingerprint; a line is " ENTRY,
				     lines_quote(word, n, shown));
	n = next_word(&text, &length, &word);
	if (parse_digits(word, n, 10, &entry.bytes) < 0)
		return lines_fail(file, -EINVAL, "'%s' is no number of bytes; a line is " ENTRY,
				     lines_quote(word, n, shown));
	n = next_word(&text, &length, &word);
	if (parse_digits(word, n, 10, &entry.blocks) < 0)
		return lines_fail(file, -EINVAL, "'%s' is no number of blocks; a line is " ENTRY,
				     lines_quote(word, n, shown));
	lines_trim(&text, &length);
	if (length > 0 && text[0] != '#')
		return lines_fail(file, -EINVAL, "'%s' is too much; a line is " ENTRY,
				     lines_quote(text, length, shown));
	if (length > 0) {
		text++;
		length--;
		lines_trim(&text, &length);
	}
	return add(parse, file, entry, text, length);
}

static int compare_entries(const void *left, const void *right)
{
	const struct baseline_entry *a = left, *b = right;

	if (a->fingerprint != b->fingerprint)
		return a->fingerprint < b->fingerprint ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

/* What a merge of two branches leaves: which of the two numbers is meant nobody can tell. */
static int check_twice(struct lines *file, const struct baseline *baseline)
{
	for (size_t i = 1; i < baseline->count; i++) {
		const struct baseline_entry *entry = &baseline->entries[i];

		if (entry[-1].fingerprint != entry->fingerprint)
			continue;
		file->line = entry->line;
		return lines_fail(file, -EINVAL, "the leak of line %u a second time: keep one "
				     "of the two lines", entry[-1].line);
	}
	return 0;
}

/* Reads TEXT, or the file itself if that is NULL. */
static int read_baseline(struct lines *file, const char *text, size_t length,
			 struct baseline **ret)
{
	struct parse parse = { .baseline = calloc(1, sizeof(*parse.baseline)) };
	struct baseline *baseline = parse.baseline;
	int r;

	if (!baseline || !(baseline->name = strdup(file->name))) {
		baseline_destroy(baseline);
		return lines_fail(file, -ENOMEM, "out of memory");
	}
	r = text ? lines_each(file, text, length, parse_line, &parse)
		 : lines_load(file, parse_line, &parse);
	if (r == 0 && baseline->count) {
		qsort(baseline->entries, baseline->count, sizeof(*baseline->entries),
		      compare_entries);
		r = check_twice(file, baseline);
	}
	if (r < 0)
		baseline_destroy(baseline);
	else
		*ret = baseline;
	return r;
}

int baseline_parse(const char *text, size_t length, const char *name, struct baseline **ret,
		   char *error, size_t error_size)
{
	struct lines file = { "baseline", name, LINES_BYTES_MAX, 0, error, error_size };

	return read_baseline(&file, text, length, ret);
}

int baseline_load(const char *path, struct baseline **ret, char *error, size_t error_size)
{
	struct lines file = { "baseline", path, LINES_BYTES_MAX, 0, error, error_size };

	return read_baseline(&file, NULL, 0, ret);
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

/* Without lines and directories, which change without the leak. */
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

void baseline_write(const struct tally *tally, FILE *out)
{
	char text[FINGERPRINT_TEXT];

	fputs("# Known leaks: gpuleak run --baseline FILE fails for what goes beyond them.\n"
	      "# Written by --update-baseline. " ENTRY "\n" HEAD " " VERSION "\n", out);
	for (size_t i = 0; i < tally->count; i++) {
		const struct tally_entry *entry = &tally->entries[i];

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
