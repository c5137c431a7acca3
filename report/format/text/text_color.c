/* SPDX-License-Identifier: MIT
 *
 * Colours: red what is wrong, green what is clean, yellow what deserves a look, cyan files with
 * lines, bold headings, and grey what is seldom read. The report's text has no control characters,
 * because names of the traced program are escaped.
 */
#include "report/subjects/formats.h"

#include <ctype.h>

#define RED "\x1b[1;31m"
#define GREEN "\x1b[1;32m"
#define YELLOW "\x1b[1;33m"
#define CYAN "\x1b[36m"
#define BOLD "\x1b[1m"
#define GREY "\x1b[2m"
#define RESET "\x1b[0m"

static bool begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
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

	while (digits < length && isdigit((unsigned char)text[length - 1 - digits]))
		digits++;
	return digits > 0 && digits < length && text[length - 1 - digits] == ':';
}

/* Writes TEXT with each "(FILE:LINE)" coloured. */
static void write_places(const char *text, FILE *out)
{
	const char *open, *close;

	while ((open = strchr(text, '(')) && (close = strchr(open, ')'))) {
		fwrite(text, 1, (size_t)(++open - text), out);
		text = open;
		if (ends_with_line(open, (size_t)(close - open))) {
			write_in(CYAN, open, (size_t)(close - open), out);
			text = close;
		}
	}
	fputs(text, out);
}

/* Writes a frame: "    #4 function /folder/file.c:12". It may have no file. */
static void write_frame(const char *line, FILE *out)
{
	const char *place = line;

	for (const char *at = line; (at = strstr(at, " /"));)
		place = ++at;
	if (!ends_with_line(line, strlen(line))) {
		write_in(GREY, line, strlen(line), out);
		return;
	}
	fwrite(line, 1, (size_t)(place - line), out);
	if (place == line)
		fputs(line, out);
	else
		write_in(CYAN, place, strlen(place), out);
}

/* Returns the colour for LINE, a verdict: the first line of the report or a line of the gate. */
static const char *verdict_color(const char *line)
{
	if (strstr(line, "gate failed") || strstr(line, "not everything was recorded"))
		return RED;
	if (strstr(line, "no leaks: ") || strstr(line, "gate passed"))
		return GREEN;
	return strstr(line, " per step ") || strstr(line, "no memory leaked; ") ||
			       (strstr(line, " accumulate") && !strstr(line, " never "))
		       ? YELLOW
		       : RED;
}

/* Writes a verdict: its beginning in the colour of the verdict, then the rest with coloured
 * places. */
static void write_verdict(const char *line, FILE *out)
{
	static const char *const ends[] = { " never ", " not freed so far", " at ", "; ", ": " };
	size_t from = begins(line, "gpuleak: ") ? strlen("gpuleak: ") : 0, count = strlen(line);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const char *end = strstr(line + from, ends[i]);

		if (end && (size_t)(end - line) < count)
			count = (size_t)(end - line);
	}
	write_in(verdict_color(line), line, count, out);
	write_places(line + count, out);
}

/* Returns true for "    #3 ..." and "    #0-#8 ...". */
static bool is_frame(const char *line)
{
	size_t blanks = strspn(line, " ");

	return blanks > 0 && line[blanks] == '#' && isdigit((unsigned char)line[blanks + 1]);
}

static void write_line(const char *line, bool first, FILE *out)
{
	size_t length = strlen(line);

	if ((first && begins(line, "gpuleak: ")) || begins(line, "gpuleak: gate ") ||
	    begins(line, "gate failed") || begins(line, "gate passed"))
		write_verdict(line, out);
	else if (is_frame(line))
		write_frame(line, out);
	else if (begins(line, "note: "))
		write_in(YELLOW, line, length, out);
	else if (length && line[length - 1] == ':' && line[0] != ' ')
		write_in(BOLD, line, length, out);
	else
		write_places(line, out);
}

void text_color(const char *text, FILE *out)
{
	for (bool first = true; *text; first = false) {
		size_t length = strcspn(text, "\n");
		FREE_AT_END char *line = strndup(text, length);

		write_line(line, first, out);
		text += length;
		if (*text == '\n')
			fputc(*text++, out);
	}
}
