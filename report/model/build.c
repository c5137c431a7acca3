/* SPDX-License-Identifier: MIT
 *
 * Starts and ends the reading of a ledger, and runs the steps that several subjects need. This file
 * itself reads the identity of the process. An invalid reference in the ledger becomes the value
 * "unknown", and the report gets a note. Each step takes at most O(N log N) time for a ledger of N
 * bytes.
 */

#include "report/load/load.h"
#include "report/model/builder.h"
#include "report/suppress/suppress.h"
#include "report/util/path.h"

const char build_unknown[] = "unknown";

static void read_command(struct builder *b)
{
	uint32_t length = 0;
	const char *bytes = ledger_string(b->view, ledger_header(b->view)->command, &length);
	const char *end = bytes ? bytes + length : NULL;
	size_t count = 0;
	const char **words;

	words = arena_alloc(b->arena, (length + 1) * sizeof(*words));
	while (bytes && bytes < end) {
		size_t word = strnlen(bytes, (size_t)(end - bytes));

		words[count++] = arena_text(b->arena, bytes, word);
		bytes += word + 1;
	}
	b->process->command = words;
	b->process->command_count = count;
}

void build_identity(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_process *process = b->process;
	const char *path;

	read_command(b);
	process->exe = build_text(b, header->exe);
	process->host = build_text(b, header->host);
	process->pid = header->pid;
	process->start_real_ns = header->start_real_ns;
	process->no_gpu = header->no_gpu;
	process->attached = header->attached != 0;
	process->attached_ns = process->attached ? build_now(b) : 0;
	process->before_attach_bytes = header->before_attach_bytes;
	process->frees_before = header->frees_before;
	path = process->exe ? process->exe : process->command_count ? process->command[0] : "?";
	process->program = path_last(path);
	process->ledger = arena_printf(b->arena, "%s", b->ledger->name);
}

void build_ended(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	enum report_ended ended = header->ended == LEDGER_EXIT	 ? REPORT_EXIT
				  : header->ended == LEDGER_DETACHED ? REPORT_RUNNING
				  : header->ended == LEDGER__EXIT ? REPORT__EXIT
				  : header->ended == LEDGER_EXEC  ? REPORT_EXEC
								  : REPORT_UNKNOWN;

	if (header->ended == LEDGER_DETACHED ||
	    (header->ended == LEDGER_RUNNING &&
	     process_alive(header->pid, header->start_ticks, b->process->host)))
		ended = REPORT_RUNNING;
	report_process_set_ended(b->process, ended, header->status);
}

struct report_sample *build_samples(struct builder *b, enum ledger_chunk_type type,
				    size_t *ret_count)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_sample *sample;
	struct report_sample *ret = NULL;

	*ret_count = 0;
	while ((sample = ledger_next(b->view, &walk, type, sizeof(*sample))))
		*ARENA_ADD(b->arena, ret, *ret_count) =
			(struct report_sample){ sample->time_ns, sample->live_bytes };
	return ret;
}

/* ---- steps ---- */

/* STEP(function, needs): the steps that several subjects need, in their order. NEEDS are the steps
 * that must run before it; N(function) is one of them. */
#define STEPS                                                                                     \
	STEP(build_identity, 0)                                                                   \
	STEP(build_ended, N(build_identity))                                                      \
	STEP(build_program, 0)                                                                    \
	STEP(build_modules, N(build_identity)) /* of the stacks */                                \
	STEP(build_age, N(build_identity))                                                        \
	STEP(build_reasons, 0)                                                                    \
	STEP(build_groups, N(build_modules) | N(build_age) | N(build_reasons))                    \
	STEP(build_heaps, N(build_modules))                                                       \
	STEP(build_division, N(build_groups))                                                     \
	STEP(build_group_histories, N(build_groups))                                              \
	STEP(build_sums, N(build_groups))                                                         \
	STEP(classify_groups, N(build_division) | N(build_group_histories) | N(build_program))    \
	STEP(build_sites, N(classify_groups))

enum {
#define STEP(function, needs) STEP_##function,
	STEPS
#undef STEP
};

#define N(function) (1u << STEP_##function)
#define STEP(function, needs) \
	_Static_assert((needs) >> STEP_##function == 0, #function " needs only earlier steps");
STEPS
#undef STEP
#undef N

void build_shared(struct builder *b)
{
#define STEP(function, needs) function(b);
	STEPS
#undef STEP
}

/* Returns the set of chunk types that VIEW has: bit n for type n. */
static uint64_t types_of(const struct ledger_view *view)
{
	uint64_t types = 0;

	for (uint32_t i = 1; i < view->chunks; i++) {
		const struct ledger_chunk *chunk = ledger_chunk(view, i);

		types |= chunk && chunk->type < 64 ? (uint64_t)1 << chunk->type : 0;
	}
	return types;
}

void build_start(struct builder *b, const struct loaded_ledger *ledger,
		 struct symbolizer *symbolizer)
{
	*b = (struct builder){ .ledger = ledger, .view = &ledger->view, .choice = &ledger->choice,
			       .chunks = types_of(&ledger->view), .symbolizer = symbolizer,
			       .process = calloc(1, sizeof(*b->process)),
			       .arena = calloc(1, sizeof(*b->arena)),
			       .frames_left = ledger->view.bytes / sizeof(uint64_t),
			       .letters_left = ledger->view.bytes };
	b->process->arena = b->arena;
}

void report_process_destroy(struct report_process *process)
{
	if (!process)
		return;
	pattern_file_destroy(process->program_suppressions);
	arena_finish(process->arena);
	free(process->arena);
	free(process);
}
