/* SPDX-License-Identifier: MIT
 *
 * SARIF 2.1.0 for code scanning. A result has the application's line, a fingerprint that does
 * not depend on line numbers, and a mark if it is suppressed. GitHub rejects a file beyond its
 * limits, so the last result sums up the rest.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>
#include <time.h>
#include <zlib.h>

#include "report/describe/json_helpers.h"
#include "report/format/json/json_report.h"
#include "report/format/sarif/sarif_helpers.h"
#include "report/gate/judge.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/symbols/source.h"

#define SCHEMA "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/" \
	       "sarif-schema-2.1.0.json"
#define RESULTS_MAX 25000u
#define GZIP_MAX 10000000u /* GitHub's limit of 10 MB after compression */

struct sarif {
	const struct report *report;
	const struct judgement *judgement;
	struct findings findings;
	struct source_root root;
	size_t results_max;
};

static const char *level(const struct sarif *sarif, const struct finding *finding)
{
	if (finding->class == FINDING_CACHED || finding->class == FINDING_KEPT)
		return "note";
	if (finding->site)
		return "warning";
	if (finding->class != FINDING_LEAK && finding->class != FINDING_CONTEXT_END)
		return "error";
	return judgement_fails(sarif->judgement) ? "error" : "warning";
}

static json_t *suppressions(const struct finding *finding)
{
	return JSON_ARRAY(JSON_OBJECT(
		{ "kind", json_string("external") },
		{ "justification", JSON_PRINTED(to, finding_exemption(to, finding)) }));
}

static bool is_known(const struct report_event *event)
{
	return event->api && event->stack;
}

static void append_event(const struct sarif *sarif, json_t *stacks, json_t *related,
			 const struct report_event *event, const char *what)
{
	const struct report_frame *frame;
	json_t *location;

	if (!is_known(event) || event->stack->count == 0)
		return;
	json_array_append_new(stacks, sarif_stack(&sarif->root, event->stack, what));
	frame = report_stack_culprit(event->stack);
	location = sarif_location(&sarif->root, frame);
	json_set(location, "message", sarif_message(what));
	json_array_append_new(related, location);
}

/* Returns the label of the stack at which FINDING was found. */
static const char *stack_label(const struct finding *finding)
{
	const struct report_error *error = finding->errors ? finding->errors->error : NULL;

	if (!error)
		return finding->refusal ? "wanted at" : "allocated at";
	if (is_known(&error->earlier_freed))
		return "freed a second time at; the first free may be the invalid one";
	return error->is_access ? "found at" : "invalid free at";
}

static void set_stacks(const struct sarif *sarif, json_t *result, const struct finding *finding)
{
	json_t *stacks = json_array(), *related = json_array();
	const struct report_error *error = finding->errors ? finding->errors->error : NULL;

	if (finding->stack->count)
		json_array_append_new(stacks, sarif_stack(&sarif->root, finding->stack,
							  stack_label(finding)));
	if (error) {
		append_event(sarif, stacks, related, &error->allocated,
			     strcmp(error->type, "freed-while-mapped") == 0 ? "mapped at"
									    : "allocated at");
		append_event(sarif, stacks, related, &error->freed,
			     is_known(&error->earlier_freed) ? "first freed at (possible cause)"
			     : error->is_access		     ? "freed at"
							     : "first freed at");
		for (size_t i = 0; error->overwrite && i < error->overwrite->suspects; i++)
			append_event(sarif, stacks, related, &error->overwrite->call[i],
				     "may have written it");
		append_event(sarif, stacks, related, &error->earlier_allocated,
			     "the earlier block of this address was allocated at");
		append_event(sarif, stacks, related, &error->earlier_freed,
			     "the earlier block of this address was freed at");
	}
	if (finding->end)
		append_event(sarif, stacks, related, &finding->end->ended, "context ended at");
	json_set(result, "stacks", stacks);
	json_set(result, "relatedLocations", related);
}

static json_t *refusal_properties(const struct report_out_of_memory *refusal)
{
	return JSON_OBJECT(
		{ "api", json_text(refusal->site->api) },
		{ "device", json_integer(refusal->site->device) },
		{ "bytes", json_number(refusal->bytes) },
		{ "times", json_number(refusal->times) });
}

static json_t *part_json(const struct finding *part)
{
	return JSON_OBJECT(
		{ "fingerprint", json_string(FINGERPRINT(part->fingerprint,
							 part->stack->partial)) },
		{ "bytes", json_number(part->bytes) },
		{ "blocks", json_number(part->blocks) });
}

static json_t *parts_json(const struct finding *finding)
{
	json_t *ret = json_array();

	for (const struct finding *part = finding->parts; part; part = part->next)
		json_array_append_new(ret, part_json(part));
	return ret;
}

static json_t *properties(const struct finding *finding)
{
	const struct report_error *error = finding->errors ? finding->errors->error : NULL;
	const char *kind = error ? error->kind : finding->leak->site->kind;
	const struct report_suballocations *site = finding->site;
	const char *cache = site ? site->live.cache : NULL;

	return JSON_OBJECT(
		{ "api", json_text(error ? error->api : finding->leak->site->api) },
		{ "kind", JSON_IF(kind, json_text(kind)) },
		{ "device", json_integer(error ? error->device : finding->leak->site->device) },
		{ "bytes", json_number(error ? error->block_bytes : finding->bytes) },
		{ error ? "times" : "blocks", json_number(finding->blocks) },
		{ "cache", JSON_IF(cache, json_text(cache)) },
		{ "parts", JSON_IF(finding->parts, parts_json(finding)) },
		{ "allocatedBlocks", JSON_IF(site, json_number(site->allocated_blocks)) });
}

static json_t *fingerprints(const struct finding *finding)
{
	return JSON_OBJECT(
		{ FINGERPRINT_NAME, json_string(FINGERPRINT(finding->fingerprint,
							finding->stack->partial)) },
		{ FINGERPRINT_NAME2, json_string(FINGERPRINT(finding->fingerprint2,
							 finding->stack->partial)) });
}

/* Returns the list with the place of the finding. */
static json_t *locations(const struct sarif *sarif, const struct finding *finding)
{
	const struct report_frame *frame = finding_frame(finding);

	return JSON_ARRAY(sarif_location(&sarif->root,
					 frame ? frame : report_stack_culprit(finding->stack)));
}

static json_t *result(const struct sarif *sarif, const struct finding *finding)
{
	bool suppressed = finding->class == FINDING_SUPPRESSED;
	bool is_named = sarif->report->count > 1;
	json_t *ret = JSON_OBJECT(
		{ "ruleId", json_text(finding_rule(finding)) },
		{ "level", json_string(level(sarif, finding)) },
		{ "message", JSON_OBJECT(
			{ "text", JSON_PRINTED(to, finding_message(to, finding, is_named)) }) },
		{ "locations", locations(sarif, finding) },
		{ "partialFingerprints", fingerprints(finding) },
		{ "occurrenceCount", json_number(finding->blocks ? finding->blocks : 1) });

	set_stacks(sarif, ret, finding);
	JSON_ADD(ret,
		 { "suppressions", suppressed ? suppressions(finding) : json_array() },
		 { "provenance",
		   JSON_OBJECT({ "invocationIndex", json_number(finding->process_index) }) },
		 { "properties", finding->refusal ? refusal_properties(finding->refusal)
						  : properties(finding) });
	return ret;
}

/* Returns one result that sums up all findings from FIRST on, at the place of the first one. */
static json_t *rest(const struct sarif *sarif, size_t first)
{
	const struct finding *worst = &sarif->findings.all[first];
	uint64_t blocks = 0, bytes = 0;
	char text[200];

	for (size_t i = first; i < sarif->findings.count; i++) {
		blocks += sarif->findings.all[i].blocks;
		bytes += sarif->findings.all[i].bytes;
	}
	snprintf(text, sizeof(text), "and %zu more, the first of them here: %" PRIu64 " blocks, %"
		 PRIu64 " bytes; --format json has all of them", sarif->findings.count - first,
		 blocks, bytes);
	return JSON_OBJECT(
		{ "ruleId", json_text(finding_rule(worst)) },
		{ "level", json_string(worst->class == FINDING_SUPPRESSED ? "note"
									  : level(sarif, worst)) },
		{ "message", sarif_message(text) },
		{ "locations", locations(sarif, worst) });
}

static json_t *results(const struct sarif *sarif)
{
	size_t count = sarif->findings.count, shown = count;
	json_t *ret = json_array();

	if (count > sarif->results_max)
		shown = sarif->results_max - 1;
	for (size_t i = 0; i < shown; i++)
		json_array_append_new(ret, result(sarif, &sarif->findings.all[i]));
	if (shown < count)
		json_array_append_new(ret, rest(sarif, shown));
	return ret;
}

static json_t *notification(const char *text, const char *level_word)
{
	return JSON_OBJECT(
		{ "level", json_string(level_word) },
		{ "message", sarif_message(text) });
}

/* Adds to INVOCATION the notifications about missing records of PROCESS or, if it is NULL, of the
 * whole report. Returns true if nothing is missing. */
static bool set_success(const struct findings *findings, const struct report_process *process,
			json_t *invocation)
{
	json_t *list = json_array();
	bool is_complete;

	for (size_t i = 0; i < findings->gap_count; i++)
		if (findings->gaps[i].process == process)
			json_array_append_new(list, notification(findings->gaps[i].text, "error"));
	is_complete = json_array_size(list) == 0;
	for (size_t i = 0; process && !process->incomplete && i < process->note_count; i++)
		json_array_append_new(list, notification(process->notes[i], "note"));
	JSON_ADD(invocation,
		 { "executionSuccessful", json_boolean(is_complete) },
		 { "toolExecutionNotifications", list });
	return is_complete;
}

static json_t *arguments(const struct report_process *process)
{
	size_t count = process->command_count;

	return JSON_LIST(process->command + (count > 0), count - (count > 0), json_text_at);
}

/* Returns NS as a time in UTC, without the key if SARIF cannot express it. */
static json_t *utc(uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000u);
	struct tm tm;
	char text[64];

	if (!gmtime_r(&seconds, &tm) || tm.tm_year < 70 || tm.tm_year > 9999 - 1900)
		return json_left_out();
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

static json_t *invocation(const struct findings *findings, const struct report_process *process)
{
	bool has_exited = process->ended == REPORT_EXIT || process->ended == REPORT__EXIT;
	bool is_killed = process->ended == REPORT_SIGNAL;
	json_t *ret = JSON_OBJECT(
		{ "processId", json_integer(process->pid) },
		{ "properties", JSON_OBJECT({ "name", json_text(process->program) }) },
		{ "arguments", arguments(process) },
		{ "machine", JSON_IF(process->host, json_text(process->host)) },
		{ "startTimeUtc", utc(process->start_real_ns) },
		{ "exitCode", JSON_IF(has_exited, json_integer(process->status)) },
		{ "exitSignalNumber", JSON_IF(is_killed, json_integer(process->status)) });

	set_success(findings, process, ret);
	return ret;
}

static json_t *invocations(const struct sarif *sarif)
{
	const struct report *report = sarif->report;
	json_t *ret = json_array(), *whole = json_object();

	for (size_t i = 0; i < report->count; i++)
		json_array_append_new(ret, invocation(&sarif->findings, report->processes[i]));
	/* Missing records about the whole report have their own invocation. */
	if (set_success(&sarif->findings, NULL, whole))
		json_decref(whole);
	else
		json_array_append_new(ret, whole);
	return ret;
}

static json_t *tool(void)
{
	return JSON_OBJECT({ "driver", JSON_OBJECT(
		{ "name", json_string("gpuleak") },
		{ "semanticVersion", json_string(GPULEAK_VERSION) },
		{ "rules", sarif_rules() }) });
}

static json_t *run(const struct sarif *sarif)
{
	const struct judgement *judgement = sarif->judgement;

	return JSON_OBJECT(
		{ "tool", tool() },
		{ "columnKind", json_string("unicodeCodePoints") },
		{ "originalUriBaseIds", JSON_IF(sarif->root.path[0], sarif_base(&sarif->root)) },
		{ "invocations", invocations(sarif) },
		{ "results", results(sarif) },
		{ "properties",
		  JSON_OBJECT({ "gate", JSON_IF(judgement, json_gate(judgement)) }) });
}

/* Returns the report as text. */
static char *dump(const struct sarif *sarif)
{
	json_t *root = JSON_OBJECT(
		{ "$schema", json_string(SCHEMA) },
		{ "version", json_string("2.1.0") },
		{ "runs", JSON_ARRAY(run(sarif)) });
	char *ret = PRINTED(to, json_dump_shown(root, to, 1));

	json_decref(root);
	return ret;
}

/* Returns true if TEXT is small enough after compression. All uploaders compress it. */
static bool fits(const char *text)
{
	uLong length = strlen(text);
	uLongf packed = compressBound(length);
	unsigned char *to;
	bool ret;

	if (length <= GZIP_MAX)
		return true;
	to = malloc(packed);
	ret = compress2(to, &packed, (const Bytef *)text, length, 6) == Z_OK &&
	      packed <= GZIP_MAX - 1024;
	free(to);
	return ret;
}

int print_sarif(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct sarif sarif = { .report = report, .judgement = judgement,
			       .findings = findings_build_merged(report),
			       .results_max = RESULTS_MAX };
	char *words;

	source_root_find(&sarif.root);
	words = dump(&sarif);
	while (!fits(words) && sarif.results_max > 1) {
		free(words);
		sarif.results_max /= 2;
		words = dump(&sarif);
	}
	findings_finish(&sarif.findings);
	fprintf(out, "%s\n", words);
	free(words);
	return ferror(out) ? -EIO : 0;
}
