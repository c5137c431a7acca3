/* SPDX-License-Identifier: MIT
 *
 * The page that html/embed.py makes of html/template.html, report.css and report.js, in parts:
 * between them stands what differs from report to report.
 */
#ifndef GPULEAK_REPORT_HTML_PAGE_H
#define GPULEAK_REPORT_HTML_PAGE_H

#include <stddef.h>

struct html_part {
	const char *text;
	size_t size;
	const char *then; /* what follows it: "headline", "text", "data"; "" after the last */
};

extern const struct html_part html_page[];
extern const size_t html_page_size;

#endif
