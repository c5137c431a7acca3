/* SPDX-License-Identifier: MIT
 *
 * Colours are added to lines that are cut already, by their beginnings. Names of the watched
 * program are escaped, so a line has no other control characters.
 */
#include "tools/top_screen.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define KEYS_COLUMNS 66 /* a narrower screen gets a short line of keys */
#define BOLD "\x1b[1m"
#define REVERSE "\x1b[7m"
#define GREEN "\x1b[32m"
#define YELLOW "\x1b[33m"
#define RESET "\x1b[0m"

const struct top_order top_orders[TOP_ORDERS] = {
	{ 'b', "bytes", "live bytes", LIVE_BY_BYTES },
	{ 'n', "blocks", "live blocks", LIVE_BY_BLOCKS },
	{ 'g', "growth", "growth since last frame", LIVE_BY_GROWTH },
	{ 'r', "rate", "bytes allocated since then", LIVE_BY_RATE },
};

void top_print_keys(FILE *out, enum live_order order, size_t columns)
{
	const bool is_short = columns < KEYS_COLUMNS;

	fputs(is_short ? "sort:" : "sort by:", out);
	for (size_t i = 0; i < TOP_ORDERS; i++)
		fprintf(out, "%s%s%c%s%s", is_short ? " " : "  ",
			top_orders[i].order == order ? "*" : "", top_orders[i].key,
			is_short ? "" : " ", is_short ? "" : top_orders[i].word);
	fputs(is_short ? "  ? help  q quit" : "    ? help  q quit", out);
}

void top_print_help(FILE *out)
{
	fputs("gpuleak top: keys and columns\n\n"
	      "Keys sort the call sites by\n", out);
	for (size_t i = 0; i < TOP_ORDERS; i++)
		fprintf(out, "  %c  %s\n", top_orders[i].key, top_orders[i].column);
	fputs("  ?  this page; any key goes back\n"
	      "  q  quit; the process runs on\n\n"
	      "live         allocated and not freed\n"
	      "blocks       number of these blocks\n"
	      "growth       change since last frame\n"
	      "allocated/s  also what was freed\n"
	      "where        place of the allocation\n"
	      "suspect      grows from step to step\n\n"
	      "A narrow screen has fewer columns.\n"
	      "More: gpuleak help services\n", out);
}

static bool begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

static bool is_heading(const char *line)
{
	const char *where = strstr(line, "  where");

	return begins(line, "gpuleak top: ") || begins(line, "device  kind") ||
	       begins(line, "pool (") || (where && !where[strlen("  where")]);
}

/* Returns the length of a size with a sign at TEXT, such as "+2.0 MiB", or 0. */
static size_t growth_length(const char *text)
{
	size_t length;

	if ((*text != '+' && *text != '-') || !isdigit((unsigned char)text[1]))
		return 0;
	length = 1 + strspn(text + 1, "0123456789,.");
	if (text[length] == ' ')
		length += 1 + strspn(text + length + 1, "bytesKMGTPEiB");
	return length;
}

void top_write_line(const char *line, FILE *out)
{
	const char *color = begins(line, "sort") ? REVERSE
			    : begins(line, "suspect: ") || strstr(line, ", accumulating: ") ? YELLOW
			    : is_heading(line) ? BOLD : NULL;

	if (color) {
		fprintf(out, "%s%s%s", color, line, RESET);
		return;
	}
	while (*line) {
		const char before = *line++;
		const size_t length = before == ' ' || before == '(' ? growth_length(line) : 0;

		fputc(before, out);
		if (!length)
			continue;
		fprintf(out, "%s%.*s%s", *line == '+' ? YELLOW : GREEN, (int)length, line, RESET);
		line += length;
	}
}
