/* SPDX-License-Identifier: MIT
 *
 * Kinds of memory. Only metrics have them.
 */
#include "report/subjects/subject.h"

#include "report/model/model.h"
#include "report/subjects/figures.h"

static const struct figure rows[] = {
	{ FIGURE(report_kind, live_bytes), .metric = "live_bytes",
	  .help = "Bytes that are allocated now." },
	{ FIGURE(report_kind, live_blocks), .metric = "live_blocks",
	  .help = "Blocks that are allocated now." },
	{ FIGURE(report_kind, allocated_bytes), .metric = "allocated_bytes_total",
	  .help = "Bytes that were ever allocated." },
	{ FIGURE(report_kind, allocated_blocks), .metric = "allocated_blocks_total",
	  .help = "Blocks that were ever allocated." },
	{ FIGURE(report_kind, freed_blocks), .metric = "freed_blocks_total",
	  .help = "Blocks that were freed." },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_kind *kind = process->kinds + i;

	if (i >= process->kind_count || i >= METRIC_ITEMS_MAX)
		return NULL;
	if (labels) {
		metric_device(labels, kind->device);
		metric_label(labels, "kind", kind->kind);
	}
	return kind;
}

static const struct figures figures = { .prefix = "gpuleak_", FIGURES(rows), .item = item };

const struct subject subject_kinds = { .figures = &figures };
