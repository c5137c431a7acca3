/* SPDX-License-Identifier: MIT
 *
 * Adds processes to a report and sums them up. Returns properties of a process that several
 * formats need. Must not read ledgers, and must not print.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/format.h"
#include "ledger/no_gpu.h"
#include "report/model/model.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"
#include "report/symbols/fingerprint.h"

void report_process_set_ended(struct report_process *process, enum report_ended ended, int status)
{
	process->ended = ended;
	process->status = ended == REPORT_EXIT || ended == REPORT__EXIT || ended == REPORT_SIGNAL
				  ? status
				  : 0;
}

const char *report_ended_word(enum report_ended ended)
{
	static const char *const words[] = {
		[REPORT_UNKNOWN] = "unknown", [REPORT_RUNNING] = "running", [REPORT_EXIT] = "exit",
		[REPORT__EXIT] = "_exit", [REPORT_SIGNAL] = "signal", [REPORT_EXEC] = "exec",
	};

	return words[ended];
}

/* A table, because sigabbrev_np() needs glibc 2.32. */
#define NAME(name) [SIG##name] = #name
static const char *const names[] = {
	NAME(HUP), NAME(INT), NAME(QUIT), NAME(ILL), NAME(TRAP), NAME(ABRT), NAME(BUS), NAME(FPE),
	NAME(KILL), NAME(USR1), NAME(SEGV), NAME(USR2), NAME(PIPE), NAME(ALRM), NAME(TERM),
	NAME(STKFLT), NAME(CHLD), NAME(CONT), NAME(STOP), NAME(TSTP), NAME(TTIN), NAME(TTOU),
	NAME(URG), NAME(XCPU), NAME(XFSZ), NAME(VTALRM), NAME(PROF), NAME(WINCH), NAME(POLL),
	NAME(PWR), NAME(SYS),
};

const char *signal_name(int signal)
{
	return signal > 0 && (size_t)signal < sizeof(names) / sizeof(names[0]) ? names[signal]
									       : NULL;
}

uint64_t report_accesses(const struct report *report)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < report->count; i++)
		for (size_t at = 0; at < report->processes[i]->error_count; at++)
			ret += report->processes[i]->errors[at].is_access;
	return ret;
}

bool report_is_suballocation(const struct report_leak *leak)
{
	return strcmp(leak->site->kind, LEDGER_KIND_SUBALLOCATION) == 0;
}

const char *report_framework_of(const char *api)
{
	return api && strncmp(api, "c10::", 5) == 0 ? "PyTorch" : NULL;
}

/* If the stack has no symbols, no rule finds the cache's name by a function. */
const char *report_cache_of(const struct report_site *site)
{
	if (!site->stack->cache && report_framework_of(site->api))
		return "PyTorch caching allocator";
	return site->stack->cache ?: report_heap_of(site);
}

const char *report_heap_of(const struct report_site *site)
{
	const size_t length = strlen(LEDGER_HEAP_CALL);

	return site->api && strncmp(site->api, LEDGER_HEAP_CALL, length) == 0 ? site->api + length
									       : site->heap;
}

bool kind_is_object(const char *kind)
{
	return strncmp(kind, LEDGER_KIND_OBJECT, strlen(LEDGER_KIND_OBJECT)) == 0;
}

uint64_t report_site_fingerprint(const struct report_site *site)
{
	return site->fingerprint ? site->fingerprint
				 : report_fingerprint(site->api, site->kind, site->stack);
}

uint64_t report_site_fingerprint2(const struct report_site *site)
{
	return site->fingerprint2 ? site->fingerprint2
	       : site->fingerprint ? site->fingerprint
				   : report_fingerprint2(site->api, site->kind, site->stack);
}

enum { GRADE_MAX = 9 };

/* Returns how well FRAME names a place for the application's author. */
static int grade(const struct report_frame *frame)
{
	bool has_line = frame->file && frame->line, is_app = frame->role == FRAME_APPLICATION;

	if (frame->role == FRAME_RUNTIME || frame->role == FRAME_INTERPRETER)
		return 0;
	if (!is_app || frame->code == FRAME_PACKAGE)
		return is_app + (has_line ? 5 : frame->function ? 2 : 1);
	return frame->code == FRAME_WRAPPER ? 7
	       : has_line		     ? GRADE_MAX
	       : frame->function	     ? 8
	       : frame->module		     ? 4 /* "???" of a program without symbols */
					     : 1;
}

const struct report_frame *report_stack_culprit(const struct report_stack *stack)
{
	const struct report_frame *ret = stack->count ? stack->frames : NULL;
	int highest = ret ? grade(ret) : 0;

	for (size_t i = 1; i < stack->count && highest < GRADE_MAX; i++) {
		int one = grade(&stack->frames[i]);

		if (one <= highest)
			continue;
		ret = &stack->frames[i];
		highest = one;
	}
	return ret;
}

const struct report_frame *report_stack_wrapper(const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	while (frame && frame > stack->frames)
		if ((--frame)->code == FRAME_WRAPPER)
			return frame;
	return NULL;
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
	return text ? hash_bytes(text, strlen(text), seed) : hash_number(0, seed);
}

/* Without a line, all code of a function counts as one: a compiler may repeat the code of a loop.
 * Without a function, its offset counts. Without a stack only the call is known. */
uint64_t report_site_line(const struct report_site *site)
{
	const struct report_frame *frame = report_stack_culprit(site->stack);
	uint64_t hash = hash_text(site->kind, (uint64_t)site->device);

	if (!frame)
		return hash_text(site->api, hash);
	hash = hash_number(frame->waiting, hash_text(frame->function, hash));
	hash = hash_text(frame->line ? frame->file : frame->module, hash);
	return hash_number(frame->line || frame->function ? frame->line : frame->offset, hash);
}

const char *report_stack_thread(const struct report_stack *stack)
{
	const char *name = NULL;

	for (size_t i = 0; i < stack->count; i++) {
		if (stack->frames[i].role == FRAME_APPLICATION)
			return NULL;
		if (!name)
			name = stack->frames[i].thread;
	}
	return name;
}

/* Adds all members, which are counters of the same type. */
static void add_summary(struct report_summary *to, const struct report_summary *from)
{
	uint64_t *sums = (uint64_t *)to;
	const uint64_t *values = (const uint64_t *)from;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*sums); i++)
		sums[i] = add_bounded(sums[i], values[i]);
}

static void add_remark_once(struct report *report, const char *text)
{
	for (size_t i = 0; i < report->remark_count; i++)
		if (strcmp(report->remarks[i], text) == 0)
			return;
	report_add_remark(report, text);
}

static void remark_on_no_gpu(struct report *report, uint32_t no_gpu)
{
	if (no_gpu & LEDGER_NO_GPU)
		add_remark_once(report, "no GPU was used: a stand-in driver answered "
					"(--fake-gpu)");
	if (no_gpu & LEDGER_NO_GPU_LAUNCH_REFUSED)
		add_remark_once(report, "kernel launches failed with cudaErrorNotSupported, "
					"because there is no GPU: --fake-kernels lets them "
					"succeed and do nothing");
}

void report_add_process(struct report *report, struct report_process *process)
{
	*LIST_ADD(report->processes, report->count) = process;
	add_summary(&report->summary, &process->summary);
	report->incomplete |= process->incomplete;
	remark_on_no_gpu(report, process->no_gpu);
}

static void add_sentence(char ***list, size_t *count, const char *text)
{
	*LIST_ADD(*list, *count) = strdup(text);
}

void report_add_note(struct report *report, const char *text)
{
	add_sentence(&report->notes, &report->note_count, text);
}

void report_add_remark(struct report *report, const char *text)
{
	add_sentence(&report->remarks, &report->remark_count, text);
}

static int compare_processes(const void *left, const void *right)
{
	const struct report_process *a = *(struct report_process *const *)left;
	const struct report_process *b = *(struct report_process *const *)right;

	return b->ranked - a->ranked ?: (a->ranked ? compare_ints(a->rank, b->rank) : 0)
	       ?: compare_texts(a->host, b->host) ?: compare_ints(a->pid, b->pid)
	       ?: compare_numbers(a->start_real_ns, b->start_real_ns)
	       ?: strcmp(a->ledger, b->ledger);
}

void report_sort(struct report *report)
{
	SORT(report->processes, report->count, compare_processes);
}

void report_finish(struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		report_process_destroy(report->processes[i]);
	for (size_t i = 0; i < report->note_count; i++)
		free(report->notes[i]);
	for (size_t i = 0; i < report->remark_count; i++)
		free(report->remarks[i]);
	free(report->processes);
	free(report->notes);
	free(report->remarks);
	*report = (struct report){ 0 };
}
