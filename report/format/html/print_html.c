/* SPDX-License-Identifier: MIT
 *
 * Fills in the HTML page: the JSON report as data, and the text report for the first line and
 * for browsers without scripts. Escapes both. Must not contain words about leaks, or layout.
 */
#include "report/subjects/formats.h"

#include <errno.h>
#include <string.h>

#include "report/format/html/html_data.h"
#include "report/format/html/html_page.h"
#include "report/util/text_buffer.h"

/* limit for the text report in the page: the page has the same contents as tables */
#define TEXT_MAX ((size_t)256 << 10)

/* Writes the LENGTH bytes of TEXT as text of an HTML element. Need not escape control characters,
 * because the text report has none. */
static void write_text(FILE *out, const char *text, size_t length)
{
	const char *end = text + length;

	for (; text < end; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else
			fputc(*text, out);
	}
}

/* Writes the first line of TEXT without "gpuleak: ". */
static void write_headline(FILE *out, const char *text)
{
	static const char name[] = "gpuleak: ";

	if (strncmp(text, name, sizeof(name) - 1) == 0)
		text += sizeof(name) - 1;
	write_text(out, text, strcspn(text, "\n"));
}

static void write_whole_text(FILE *out, const char *text)
{
	size_t length = strlen(text);

	if (length <= TEXT_MAX) {
		write_text(out, text, length);
		return;
	}
	for (length = TEXT_MAX; length > 0 && text[length - 1] != '\n'; length--)
		;
	write_text(out, text, length);
	fputs("(cut off: --format text prints the whole report)\n", out);
}

static int write_page(FILE *out, const char *text, const json_t *data)
{
	int r = 0;

	for (size_t i = 0; i < html_page_size && r == 0; i++) {
		const struct html_part *part = &html_page[i];

		fwrite(part->text, 1, part->size, out);
		if (strcmp(part->then, "headline") == 0)
			write_headline(out, text);
		else if (strcmp(part->then, "text") == 0)
			write_whole_text(out, text);
		else if (strcmp(part->then, "data") == 0)
			r = html_data_write(data, out);
	}
	return r == 0 && ferror(out) ? -EIO : r;
}

int print_html(const struct report *report, const struct judgement *judgement, FILE *out)
{
	json_t *data = html_data(report, judgement);
	FREE_AT_END char *words = PRINTED(to, print_text(report, judgement, to));
	int r = write_page(out, words, data);

	json_decref(data);
	return r;
}
