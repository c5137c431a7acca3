/* SPDX-License-Identifier: MIT
 *
 * Figures: numbers of a process, or of each of its things, such as pools. A row is all that makes a
 * figure a key of JSON, a metric and a property of JUnit. Also has the parts of OpenMetrics, for
 * metrics that are not numbers of a struct.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct finding;
struct report;
struct report_process;
struct report_site;

struct figure {
	const char *key; /* of JSON and JUnit; NULL: it is not there */
	size_t member;   /* offset of a uint64_t in the item */
	uint64_t (*value)(const void *item); /* computes the number; NULL: use `member` */
	/* 1 + the offset of another member: if that is 0, JSON does not have the key. 0: always */
	size_t only_if;
	const char *help;   /* of the metric; NULL: the figure is no metric */
	const char *metric; /* its name, if it is not the key; a total ends with "_total" */
	bool is_first;      /* its metric comes before those of the other rows */
	bool in_junit;
	/* The HTML page shows the figure as a number, or as a column of a table. */
	struct {
		unsigned int place; /* smallest first; 0: the page does not show it */
		const char *title;
		const char *note; /* words below the number; NULL: the number of blocks */
		bool only_if_any; /* the page leaves it out if its blocks are 0 */
		bool is_bad;      /* the page shows it red if its blocks are not 0 */
	} page;
};

struct figures {
	const char *prefix; /* of the metrics' names */
	const struct figure *list;
	size_t count;
	/* Returns item I of PROCESS, or NULL after the last one. Prints the item's labels to
	 * LABELS, unless that is NULL. */
	const void *(*item)(const struct report_process *process, size_t i, FILE *labels);
	bool is_optional; /* there is no metric if no process has an item */
};

/* Initialize `list` and `count`, and the key and the place of a row. */
#define FIGURES(rows) .list = rows, .count = sizeof(rows) / sizeof((rows)[0])
#define FIGURE(type, name) .member = offsetof(struct type, name)
#define FIGURE_IF(type, name) .only_if = 1 + offsetof(struct type, name)

/* The value of a number that is not known: null in JSON, and no metric. No other number has it. */
#define FIGURE_UNKNOWN (UINT64_MAX - 1)

uint64_t figure_value(const struct figure *figure, const void *item);
/* Sets the keys in OBJECT. */
void figures_add_json(json_t *object, const struct figures *figures, const void *item);
/* Returns the title of each figure that is in the HTML page, in their order there. */
json_t *figures_page_json(const struct figures *figures);
void figures_print_metrics(FILE *out, const struct report *report, const struct figures *figures);

/* ---- OpenMetrics ---- */

#define METRIC_ITEMS_MAX 100 /* of one process; a valid ledger has fewer kinds than 20 */
#define METRIC_SITES_MAX 50

/* Returns the number of processes that have metrics. */
size_t metric_processes(const struct report *report);
/* TYPE NULL: a total, see print_openmetrics.c. */
void metric_family(FILE *out, const char *name, const char *type, const char *help);
/* Begins a series of process I. */
void metric_begin(FILE *out, const char *name, const struct report *report, size_t i);
void metric_label(FILE *out, const char *name, const char *value);
void metric_device(FILE *out, int device);
/* The labels of SITE. FINDING has its stack, fingerprint and ordinal. */
void metric_site(FILE *out, const struct report_site *site, const struct finding *finding);
void metric_end(FILE *out, uint64_t value);
/* Prints the metrics PREFIX_bytes and PREFIX_blocks of the call sites of FINDINGS, of which only
 * the first COUNT, the largest, are written. WHAT is "Leaked", with BLOCKS, the word for blocks. */
void metric_sites(FILE *out, const struct report *report, const char *prefix, const char *what,
		  const char *blocks, const struct finding *findings, size_t count);
