/* SPDX-License-Identifier: MIT
 *
 * Writes each metric family with all of its series. Totals have no TYPE line: OpenMetrics
 * requires the counter's name without _total in this line, the older format requires the name
 * with _total, and each reader rejects the other form. Writes no timestamps, because
 * node_exporter's textfile collector rejects them.
 */
#include "report/format/print_openmetrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/subjects/findings.h"
#include "report/gate/judge.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_pool.h"
#include "report/model/model_sites.h"
#include "report/model/model_suballocations.h"
#include "report/subjects/subject_words.h"
#include "report/describe/kinds.h"
#include "report/util/number.h"
#include "report/util/text_buffer.h"

#define SITES_MAX 50
#define KINDS_MAX 100 /* of each process; a valid ledger has fewer than 20 */
#define TYPES_MAX 20
#define PROCESSES_MAX 1000

static void family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n", name, help);
	if (type)
		fprintf(out, "# TYPE %s %s\n", name, type);
}

static void label(FILE *out, const char *name, const char *value, const char *before)
{
	struct text_buffer words;

	text_buffer_begin(&words);
	print_escaped(words.out, value);
	text_buffer_end(&words);
	fprintf(out, "%s%s=\"", before, name);
	for (const char *at = words.text; *at; at++) {
		if (*at == '\\' || *at == '"') /* newlines are already escaped */
			fputc('\\', out);
		fputc(*at, out);
	}
	fputc('"', out);
	text_buffer_finish(&words);
}

/* Begins a series of process I. After an exec a process has two ledgers with the same pid. The
 * label "image" then numbers the programs from the second on. */
static void begin(FILE *out, const char *name, const struct report *report, size_t i)
{
	const struct report_process *process = report->processes[i];
	unsigned int image = 1;

	for (size_t before = 0; before < i; before++)
		image += report->processes[before]->pid == process->pid;
	fprintf(out, "%s{pid=\"%d\"", name, process->pid);
	label(out, "program", process->program, ",");
	if (image > 1)
		fprintf(out, ",image=\"%u\"", image);
}

static void device_label(FILE *out, int device)
{
	if (device >= 0)
		fprintf(out, ",device=\"%d\"", device);
	else
		fputs(",device=\"unknown\"", out);
}

static void end(FILE *out, uint64_t value)
{
	fprintf(out, "} %" PRIu64 "\n", value);
}

static size_t processes(const struct report *report)
{
	return report->count < PROCESSES_MAX ? report->count : PROCESSES_MAX;
}

/* A value in a process's summary, or in one of its kinds or pools. `member` is the offset of the
 * field. */
struct figure {
	const char *name, *type, *help;
	size_t member;
};

static uint64_t member(const void *whole, size_t offset)
{
	uint64_t ret;

	memcpy(&ret, (const char *)whole + offset, sizeof(ret));
	return ret;
}

static void print_summaries(FILE *out, const struct report *report)
{
#define FIGURE(name, type, member, help) \
	{ "gpuleak_" name, type, help, offsetof(struct report_summary, member) }
	static const struct figure figures[] = {
		FIGURE("leaked_bytes", "gauge", leaked_bytes,
		       "Leaked bytes, without suppressed ones and caches."),
		FIGURE("leaked_blocks", "gauge", leaked_blocks,
		       "Leaked blocks, without suppressed ones and caches."),
		FIGURE("suppressed_bytes", "gauge", suppressed_bytes,
		       "Bytes that would be leaked, but are suppressed."),
		FIGURE("cached_bytes", "gauge", cached_bytes,
		       "Bytes that a framework's cache holds."),
		FIGURE("peak_bytes", "gauge", peak_bytes, "Highest number of live bytes."),
	};
#undef FIGURE

	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		family(out, figures[f].name, figures[f].type, figures[f].help);
		for (size_t i = 0; i < processes(report); i++) {
			begin(out, figures[f].name, report, i);
			end(out, member(&report->processes[i]->summary, figures[f].member));
		}
	}
}

static void print_out_of_memory(FILE *out, const struct report *report)
{
	family(out, "gpuleak_out_of_memory_total", NULL,
	       "Requests that were refused because memory ran out.");
	for (size_t i = 0; i < processes(report); i++) {
		begin(out, "gpuleak_out_of_memory_total", report, i);
		end(out, report->processes[i]->refused);
	}
	family(out, "gpuleak_out_of_memory_recovered_total", NULL,
	       "Refused requests after which the same thread got as much memory.");
	for (size_t i = 0; i < processes(report); i++) {
		begin(out, "gpuleak_out_of_memory_recovered_total", report, i);
		end(out, report->processes[i]->recovered);
	}
}

/* Prints the peak of each memory. These peaks may be at different times. */
static void print_peaks(FILE *out, const struct report *report)
{
	family(out, "gpuleak_memory_peak_bytes", "gauge",
	       "Highest number of live bytes of a device, or of host memory.");
	for (size_t i = 0; i < processes(report); i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->peak_count; j++) {
			const struct report_peak *peak = &process->peaks[j];

			begin(out, "gpuleak_memory_peak_bytes", report, i);
			label(out, "memory", peak_memory_word(peak), ",");
			if (peak->memory != LEDGER_MEMORY_HOST)
				device_label(out, peak->device);
			end(out, peak->bytes);
		}
	}
}

static void print_kinds(FILE *out, const struct report *report)
{
#define FIGURE(name, type, member, help) \
	{ "gpuleak_" name, type, help, offsetof(struct report_kind, member) }
	static const struct figure figures[] = {
		FIGURE("live_bytes", "gauge", live_bytes, "Bytes that are allocated now."),
		FIGURE("live_blocks", "gauge", live_blocks, "Blocks that are allocated now."),
		FIGURE("allocated_bytes_total", NULL, allocated_bytes,
		       "Bytes that were ever allocated."),
		FIGURE("allocated_blocks_total", NULL, allocated_blocks,
		       "Blocks that were ever allocated."),
		FIGURE("freed_blocks_total", NULL, freed_blocks, "Blocks that were freed."),
	};
#undef FIGURE

	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		family(out, figures[f].name, figures[f].type, figures[f].help);
		for (size_t i = 0; i < processes(report); i++) {
			const struct report_process *process = report->processes[i];

			for (size_t k = 0; k < process->kind_count && k < KINDS_MAX; k++) {
				begin(out, figures[f].name, report, i);
				device_label(out, process->kinds[k].device);
				label(out, "kind", process->kinds[k].kind, ",");
				end(out, member(&process->kinds[k], figures[f].member));
			}
		}
	}
}

static void print_pools(FILE *out, const struct report *report)
{
#define FIGURE(name, type, member, help) \
	{ "gpuleak_pool_" name, type, help, offsetof(struct ledger_pool, member) }
	static const struct figure figures[] = {
		FIGURE("reserved_bytes", "gauge", reserved,
		       "Bytes that the pool allocated from the driver."),
		FIGURE("cached_bytes", "gauge", cached,
		       "Free bytes in the pool that the next allocation can get at once."),
		FIGURE("pending_bytes", "gauge", pending,
		       "Bytes that were freed and the device may still be using."),
		FIGURE("peak_reserved_bytes", "gauge", peak_reserved,
		       "Highest number of bytes that the pool had allocated from the driver."),
		FIGURE("hits_total", NULL, hits, "Allocations served without the driver."),
		FIGURE("driver_allocations_total", NULL, native_allocs,
		       "Allocations that went to the driver."),
		FIGURE("waits_total", NULL, waits, "Frees that waited for the device."),
		FIGURE("trims_total", NULL, trims, "How often the pool returned memory to the "
						   "driver."),
	};
#undef FIGURE
	size_t pools = 0;

	for (size_t i = 0; i < processes(report); i++)
		pools += report->processes[i]->pools ? report->processes[i]->pools->count : 0;
	for (size_t f = 0; pools && f < sizeof(figures) / sizeof(figures[0]); f++) {
		family(out, figures[f].name, figures[f].type, figures[f].help);
		for (size_t i = 0; i < processes(report); i++) {
			const struct report_pools *all = report->processes[i]->pools;

			for (size_t p = 0; all && p < all->count; p++) {
				begin(out, figures[f].name, report, i);
				device_label(out, all->pools[p].device);
				fprintf(out, ",pool=\"%zu\"", p);
				label(out, "api", all->pools[p].api, ",");
				label(out, "kind", all->pools[p].kind, ",");
				end(out, member(&all->pools[p].count, figures[f].member));
			}
		}
	}
}

/* Prints nothing if no process created an object. */
static void print_objects(FILE *out, const struct report *report)
{
#define FIGURE(name, type, member, help) \
	{ "gpuleak_objects" name, type, help, offsetof(struct report_object_kind, member) }
	static const struct figure figures[] = {
		FIGURE("", "gauge", live, "Objects that are not memory and not destroyed."),
		FIGURE("_created_total", NULL, counts.created,
		       "Objects that are not memory and were created."),
		FIGURE("_destroyed_total", NULL, counts.destroyed,
		       "Objects that are not memory and were destroyed."),
	};
#undef FIGURE
	size_t kinds = 0;

	for (size_t i = 0; i < processes(report); i++)
		kinds += report->processes[i]->object_kind_count;
	for (size_t f = 0; kinds && f < sizeof(figures) / sizeof(figures[0]); f++) {
		family(out, figures[f].name, figures[f].type, figures[f].help);
		for (size_t i = 0; i < processes(report); i++) {
			const struct report_process *process = report->processes[i];

			for (size_t k = 0; k < process->object_kind_count && k < KINDS_MAX; k++) {
				begin(out, figures[f].name, report, i);
				label(out, "kind", object_name(process->object_kinds[k].kind),
				      ",");
				end(out, member(&process->object_kinds[k], figures[f].member));
			}
		}
	}
}

/* Number of errors of one known type. A damaged ledger may have any type. */
struct counted {
	const char *type;
	uint64_t count;
};

static size_t count_types(const struct report_process *process, struct counted counted[TYPES_MAX])
{
	size_t types = 0;

	for (size_t i = 0; i < process->error_count; i++) {
		const char *type = process->errors[i].type;
		size_t at = 0;

		if (error_words(type) == type)
			continue;
		while (at < types && strcmp(counted[at].type, type) != 0)
			at++;
		if (at == TYPES_MAX)
			continue;
		if (at == types)
			counted[types++] = (struct counted){ type, 0 };
		counted[at].count++;
	}
	return types;
}

static void print_errors(FILE *out, const struct report *report)
{
	static const char name[] = "gpuleak_errors_total";

	family(out, name, NULL, "Invalid frees, by type.");
	for (size_t i = 0; i < processes(report); i++) {
		const struct report_process *process = report->processes[i];
		struct counted counted[TYPES_MAX];
		size_t types = count_types(process, counted);
		uint64_t known = 0;

		for (size_t at = 0; at < types; at++) {
			begin(out, name, report, i);
			label(out, "type", counted[at].type, ",");
			end(out, counted[at].count);
			known += counted[at].count;
		}
		/* Invalid frees without a record, or of a type that has no series above. Written
		 * even if there are 0, so that the set of series does not change. */
		begin(out, name, report, i);
		label(out, "type", "other", ",");
		end(out, process->summary.errors > known ? process->summary.errors - known : 0);
	}
}

static void print_site(FILE *out, const struct report *report, const char *name,
		       const struct finding *finding, uint64_t value)
{
	const struct report_frame *frame = report_stack_culprit(finding->stack);
	const char *place = frame ? frame->file ? frame->file : frame->module : NULL;
	const char *slash = place ? strrchr(place, '/') : NULL;
	char site[FINDING_NAME_MAX];

	begin(out, name, report, finding->process_index);
	device_label(out, finding->leak->device);
	label(out, "kind", finding->leak->kind, ",");
	label(out, "api", finding->leak->api, ",");
	label(out, "function", frame && frame->function ? frame->function : "", ",");
	label(out, "file", slash && slash[1] ? slash + 1 : place ? place : "", ",");
	label(out, "site", finding_name(finding, site), ",");
	if (finding->leak->mapping)
		label(out, "reason", "released but never unmapped", ",");
	end(out, value);
}

/* Prints the largest call sites of all processes: the limit is for all processes together, so that
 * many leaking processes do not create many series. */
static void print_sites(FILE *out, const struct report *report, const struct findings *findings)
{
	const struct finding *leaks = findings->all + findings_first(findings, FINDING_LEAK);
	size_t count = findings->counts[FINDING_LEAK];

	count = count < SITES_MAX ? count : SITES_MAX;
	family(out, "gpuleak_site_leaked_bytes", "gauge",
	       "Leaked bytes by call site, only of the largest sites.");
	for (size_t i = 0; i < count; i++)
		print_site(out, report, "gpuleak_site_leaked_bytes", &leaks[i], leaks[i].bytes);
	family(out, "gpuleak_site_leaked_blocks", "gauge",
	       "Leaked blocks by call site, only of the largest sites.");
	for (size_t i = 0; i < count; i++)
		print_site(out, report, "gpuleak_site_leaked_blocks", &leaks[i],
			   leaks[i].blocks);
}

/* Live suballocations of one pool on one device. */
struct pool_sum {
	const char *cache;
	int device;
	uint64_t bytes, blocks;
};

static size_t sum_pools(const struct report_process *process, struct pool_sum sums[KINDS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; process->has_suballocations && i < process->suballocation_count; i++) {
		const struct report_leak *live = &process->suballocations[i].live;
		const char *cache = live->cache ? live->cache : "";
		size_t at = 0;

		while (at < count && (sums[at].device != live->device ||
				      strcmp(sums[at].cache, cache) != 0))
			at++;
		if (at == KINDS_MAX)
			continue;
		if (at == count)
			sums[count++] = (struct pool_sum){ cache, live->device, 0, 0 };
		sums[at].bytes = add_bounded(sums[at].bytes, live->bytes);
		sums[at].blocks = add_bounded(sums[at].blocks, live->blocks);
	}
	return count;
}

static void print_suballocated(FILE *out, const struct report *report, bool bytes)
{
	const char *name = bytes ? "gpuleak_suballocated_bytes" : "gpuleak_suballocated_blocks";
	struct pool_sum sums[KINDS_MAX];

	family(out, name, "gauge",
	       bytes ? "Bytes of live tensors and arrays inside the blocks that a framework caches."
		     : "Live tensors and arrays inside the blocks that a framework caches.");
	for (size_t i = 0; i < processes(report); i++) {
		size_t count = sum_pools(report->processes[i], sums);

		for (size_t at = 0; at < count; at++) {
			begin(out, name, report, i);
			device_label(out, sums[at].device);
			label(out, "cache", sums[at].cache, ",");
			end(out, bytes ? sums[at].bytes : sums[at].blocks);
		}
	}
}

static void print_accumulating(FILE *out, const struct report *report,
			       const struct findings *findings)
{
	static const char name[] = "gpuleak_accumulating_sites";
	const struct finding *sites =
		findings->all + findings_first(findings, FINDING_ACCUMULATING);
	size_t count = findings->counts[FINDING_ACCUMULATING];

	family(out, name, "gauge", "Call sites whose tensors or blocks accumulate.");
	for (size_t i = 0; i < processes(report); i++) {
		uint64_t of_process = 0;

		if (!report->processes[i]->has_suballocations &&
		    !report->processes[i]->has_counted_blocks)
			continue;
		for (size_t at = 0; at < count; at++)
			of_process += sites[at].process_index == i;
		begin(out, name, report, i);
		end(out, of_process);
	}
	count = count < SITES_MAX ? count : SITES_MAX;
	family(out, "gpuleak_site_accumulated_bytes", "gauge",
	       "Accumulated bytes by call site, only of the largest sites.");
	for (size_t i = 0; i < count; i++)
		print_site(out, report, "gpuleak_site_accumulated_bytes", &sites[i],
			   sites[i].bytes);
	family(out, "gpuleak_site_accumulated_blocks", "gauge",
	       "Accumulated tensors or blocks by call site, only of the largest sites.");
	for (size_t i = 0; i < count; i++)
		print_site(out, report, "gpuleak_site_accumulated_blocks", &sites[i],
			   sites[i].blocks);
}

/* Prints nothing if no process has suballocations, or blocks that were counted. */
static void print_suballocations(FILE *out, const struct report *report,
				 const struct findings *findings)
{
	bool any = false, counted = false;

	for (size_t i = 0; i < processes(report); i++) {
		any |= report->processes[i]->has_suballocations;
		counted |= report->processes[i]->has_counted_blocks;
	}
	if (any) {
		print_suballocated(out, report, true);
		print_suballocated(out, report, false);
	}
	if (any || counted)
		print_accumulating(out, report, findings);
}

static void ignore_gap(void *data, const struct report_process *process, const char *text)
{
	(void)data;
	(void)process;
	(void)text;
}

static void print_state(FILE *out, const struct report *report, const struct judgement *judgement)
{
	family(out, "gpuleak_processes", "gauge", "Processes that the report is about.");
	fprintf(out, "gpuleak_processes %zu\n", report->count);
	family(out, "gpuleak_running", "gauge", "1 for a process that still runs.");
	for (size_t i = 0; i < processes(report); i++) {
		begin(out, "gpuleak_running", report, i);
		end(out, report->processes[i]->ended == REPORT_RUNNING);
	}
	family(out, "gpuleak_gaps", "gauge",
	       "Reasons why the figures are incomplete: running processes, calls that were not "
	       "recorded.");
	fprintf(out, "gpuleak_gaps %zu\n", findings_gaps(report, ignore_gap, NULL));
	if (!judgement)
		return;
	family(out, "gpuleak_gate", "gauge",
	       "The gate's verdict: 0 passed, 23 failed, 24 nothing to judge.");
	fprintf(out, "gpuleak_gate %d\n", (int)judgement->verdict);
}

int print_openmetrics(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct findings findings = findings_build(report);

	print_state(out, report, judgement);
	print_summaries(out, report);
	print_out_of_memory(out, report);
	print_peaks(out, report);
	print_kinds(out, report);
	print_objects(out, report);
	print_errors(out, report);
	print_sites(out, report, &findings);
	print_suballocations(out, report, &findings);
	print_pools(out, report);
	fputs("# EOF\n", out);
	findings_finish(&findings);
	return ferror(out) ? -EIO : 0;
}
