/* SPDX-License-Identifier: MIT
 *
 * The HTML page in parts; the contents of a report come between the parts. html/embed_page.py
 * makes it from html/template.html, report.css and report.js.
 */
#ifndef GPULEAK_REPORT_HTML_PAGE_H
#define GPULEAK_REPORT_HTML_PAGE_H

#include <stddef.h>

struct html_part {
	const char *text;
	size_t size;
	/* what comes after this part: "headline", "text", "data"; "" after the last part */
	const char *then;
};

extern const struct html_part html_page[];
extern const size_t html_page_size;

#endif
