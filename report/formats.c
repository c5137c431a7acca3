/* SPDX-License-Identifier: MIT
 *
 * The list of formats. A new one is a word in ledger/options.c, a row here and a file of its
 * own, print_*.c.
 */
#include "formats.h"

#include "print_html.h"
#include "print_json.h"
#include "print_text.h"

static const struct report_format formats[] = {
	[OPTION_FORMAT_TEXT] = { .print = print_text },
	[OPTION_FORMAT_JSON] = { .print = print_json, .complete = 1 },
	[OPTION_FORMAT_HTML] = { .print = print_html, .complete = 1 },
};

const struct report_format *report_format(enum option_format format)
{
	return &formats[format];
}
