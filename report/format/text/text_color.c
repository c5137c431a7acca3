/* SPDX-License-Identifier: MIT
 *
 * Colours: red what is wrong, green what is clean, yellow what deserves a look, cyan files with
 * lines, bold headings, and grey what is seldom read. The report's text has no control characters,
 * because names of the traced program are escaped.
 */
#include "report/subjects/formats.h"

#include <stdbool.h>
#include <string.h>

#define RED "\x1b[1;31m"
#define GREEN "\x1b[1;32m"
#define YELLOW "\x1b[1;33m"
#define CYAN "\x1b[36m"
#define BOLD "\x1b[1m"
#define GREY "\x1b[2m"
#define RESET "\x1b[0m"

static bool begins(const char *line, size_t length, const char *with)
{
	return length >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

static const char *find(const char *line, size_t length, const char *part)
{
	return memmem(line, length, part, strlen(part));
}

static void write_in(const char *color, const char *text, size_t length, FILE *out)
{
	fputs(color, out);
	fwrite(text, 1, length, out);
	fputs(RESET, out);
}

/* Returns true if TEXT ends with ":" and digits, like "/folder/file.c:12". */
static bool ends_with_line(const char *text, size_t length)
{
	size_t digits = 0;

	while (digits < length && text[length - 1 - digits] >= '0' &&
	       text[length - 1 - digits] <= '9')
		digits++;
	return digits > 0 && digits < length && text[length - 1 - digits] == ':';
}

/* Writes TEXT with each "(FILE:LINE)" coloured. */
static void write_places(const char *text, size_t length, FILE *out)
{
	const char *end = text + length;

	while (text < end) {
		const char *open = memchr(text, '(', (size_t)(end - text));
		const char *close = open ? memchr(open, ')', (size_t)(end - open)) : NULL;

		if (!close) {
			fwrite(text, 1, (size_t)(end - text), out);
			return;
		}
		fwrite(text, 1, (size_t)(open + 1 - text), out);
		text = open + 1;
		if (ends_with_line(text, (size_t)(close - text))) {
			write_in(CYAN, text, (size_t)(close - text), out);
			text = close;
		}
	}
}

/* Writes a frame: "    #4 function /folder/file.c:12". It may have no file. */
static void write_frame(const char *line, size_t length, FILE *out)
{
	const char *place = NULL;

	if (!ends_with_line(line, length)) {
		write_in(GREY, line, length, out);
		return;
	}
	for (const char *at = line; at + 1 < line + length; at++)
		if (at[0] == ' ' && at[1] == '/')
			place = at + 1;
	if (!place) {
		fwrite(line, 1, length, out);
		return;
	}
	fwrite(line, 1, (size_t)(place - line), out);
	write_in(CYAN, place, (size_t)(line + length - place), out);
}

/* Returns the colour for LINE, a verdict: the first line of the report or a line of the gate. */
static const char *verdict_color(const char *line, size_t length)
{
	if (find(line, length, "gate failed") || find(line, length, "not everything was recorded"))
		return RED;
	if (begins(line, length, "gpuleak: no leaks; peak ") ||
	    (find(line, length, "no leaks: ") && !find(line, length, " error")))
		return GREEN;
	if (find(line, length, "gate passed"))
		return GREEN;
	return find(line, length, "no driver leaks") ? YELLOW : RED;
}

/* Writes a verdict: its beginning in the colour of the verdict, then the rest with coloured
 * places. */
static void write_verdict(const char *line, size_t length, FILE *out)
{
	static const char *const ends[] = { " never freed by ", " not freed so far by ", " by ",
					    "; ", ": " };
	size_t from = begins(line, length, "gpuleak: ") ? strlen("gpuleak: ") : 0, count = length;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const char *end = find(line + from, length - from, ends[i]);

		if (end && (size_t)(end - line) < count)
			count = (size_t)(end - line);
	}
	write_in(verdict_color(line, length), line, count, out);
	write_places(line + count, length - count, out);
}

/* Returns true for "    #3 ..." and "    #0-#8 ...". */
static bool is_frame(const char *line, size_t length)
{
	size_t blanks = 0;

	while (blanks < length && line[blanks] == ' ')
		blanks++;
	return blanks > 0 && blanks + 1 < length && line[blanks] == '#' &&
	       line[blanks + 1] >= '0' && line[blanks + 1] <= '9';
}

static void write_line(const char *line, size_t length, bool first, FILE *out)
{
	if ((first && begins(line, length, "gpuleak: ")) ||
	    begins(line, length, "gpuleak: gate ") || begins(line, length, "gate failed") ||
	    begins(line, length, "gate passed"))
		write_verdict(line, length, out);
	else if (is_frame(line, length))
		write_frame(line, length, out);
	else if (begins(line, length, "note: "))
		write_in(YELLOW, line, length, out);
	else if (length && line[length - 1] == ':' && line[0] != ' ')
		write_in(BOLD, line, length, out);
	else
		write_places(line, length, out);
}

void text_color(const char *text, size_t length, FILE *out)
{
	const char *end = text + length;
	bool first = true;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = newline ? (size_t)(newline - text) : (size_t)(end - text);

		write_line(text, line, first, out);
		if (newline)
			fputc('\n', out);
		text += line + (newline != NULL);
		first = false;
	}
}
