/* SPDX-License-Identifier: MIT
 *
 * What writes a report, a comparison or the screen of `gpuleak top`. report/format/ has one file
 * for each of them. enum option_format has the words of --format. docs/reference/formats.md
 * describes the formats. Includes what most of them need.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/options.h"
#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/subjects/findings.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/text_buffer.h"

struct diff;
struct judgement;
struct live;
struct live_view;

/* Writes all of REPORT to OUT. JUDGEMENT is NULL if no gate was requested. Names in a report come
 * from the traced program and may have any bytes, so each format escapes them. Returns 0, or -errno
 * if writing to OUT failed. */
typedef int print_format(const struct report *report, const struct judgement *judgement, FILE *out);

struct report_format {
	print_format *print;
	/* NULL, or a function that writes a summary. The command appends the summary to the file
	 * that the environment variable `summary_variable` names. */
	print_format *summary;
	const char *summary_variable;
	size_t summary_bytes_max; /* limit of the size of the whole file */
	bool for_files; /* not readable for people, so it is not written to a terminal */
	bool all_sites; /* loaded_ledger.all_sites must be set */
	bool whole_trace; /* loaded_ledger.whole_trace must be set */
	unsigned int moments; /* for loaded_ledger.moments */
	bool only_memory; /* the format cannot contain invalid frees and notes */
	/* the format contains the memory of devices even if the report has no findings */
	bool complete;
};

const struct report_format *report_format(enum option_format format);

/* The report for people. The first line is a summary. Does not print JUDGEMENT; the caller does. */
print_format print_text;
/* Writes only the first line that print_text() writes. WHOLE: see describe_stack.h, here and
 * below. */
void print_text_headline(const struct report *report, FILE *out, bool whole);
/* One JSON object and a newline. One process is the object itself; several processes or none are a
 * list with sums. Unknown strings are null, unknown lines 0. Bytes that are not UTF-8 become
 * U+FFFD, and numbers above 2^63-1 become 2^63-1. */
print_format print_json;
print_format print_html;
/* One test suite per process, with one test case per leak and per invalid free, and three cases
 * that always exist. */
print_format print_junit;
/* One run with one invocation per process. If there are more findings than GitHub accepts, the last
 * result sums up the others. */
print_format print_sarif;
/* At most 10 workflow commands of each type, because GitHub shows no more. */
print_format print_github;
/* The summary of a step in Markdown; its length is not limited. */
print_format print_github_summary;
/* One line per leak: the frames from the outermost to the call, and the bytes. */
print_format print_folded;
/* One sample per call site, including sites whose blocks were all freed. */
print_format print_pprof;
/* A pickle for PyTorch's memory viewer: the memory at the end, or at the moment of --at, and the
 * events of the trace until then. The devices of several processes follow each other. */
print_format print_memory_viz;
/* The trace for perfetto: counters by kind and cache, instants for steps and refused requests. */
print_format print_perfetto;
/* Text that is also valid in the older Prometheus text format, which node_exporter's textfile
 * collector reads. The number of time series is limited, even if there are many leaks. */
print_format print_openmetrics;

/* Writes TEXT, a text report with complete lines, to OUT with colours: adds only ANSI sequences. A
 * line that this function does not know stays as it is. Does not decide whether colours are
 * wanted. */
void text_color(const char *text, FILE *out);

/* Writes a comment and a suppression for each leak of REPORT that has a stack. A call site that
 * accumulates counts as a leak here. The pattern is the application's innermost function that is in
 * no other leak's stack. If there is none, it is the application's innermost function, and the
 * comment has the number of other leaks that it suppresses. If main is the application's only named
 * function, the pattern is the stack's fingerprint. Returns 0 or -EIO. */
int gen_suppressions(const struct report *report, FILE *out, bool whole);

/* Write DIFF to OUT. Return 0 or -EIO. */
int diff_print_text(const struct diff *diff, FILE *out);
int diff_print_json(const struct diff *diff, FILE *out);

/* Prints NOW, as VIEW says. Also prints the changes since EARLIER, which was read SECONDS ago. For
 * the first screen EARLIER is NULL, and no changes are printed. Leaves out columns and shortens
 * paths that do not fit; lines may still be longer than the screen. */
void text_live(FILE *out, const struct live *now, const struct live *earlier, double seconds,
	       const struct live_view *view);
