/* SPDX-License-Identifier: MIT
 *
 * Reads the observations about the program: its rank in a parallel job and its own suppressions.
 * If the text of the suppressions is invalid, adds a note.
 */
#include <errno.h>
#include <limits.h>

#include "report/load/load.h"
#include "report/model/builder.h"
#include "report/suppress/suppress.h"

#define LSAN_NAME "__lsan_default_suppressions"

static void read_rank(struct builder *b, const char *subject, const char *variable, uint32_t size)
{
	struct report_process *process = b->process;
	unsigned long number;
	char *end;

	if (!subject || !*subject || subject[strspn(subject, "0123456789")])
		return;
	errno = 0;
	number = strtoul(subject, &end, 10);
	if (errno || number > INT_MAX)
		return;
	process->ranked = true;
	process->rank = (int)number;
	process->rank_variable = variable;
	process->ranks = size > number && size <= INT_MAX ? (int)size : 0;
}

struct parts {
	const char *part[LEDGER_LSAN_PARTS_MAX];
	bool cut;
};

static const char *join(struct builder *b, const struct parts *parts)
{
	size_t length = 0, at = 0;
	char *text;

	for (size_t i = 0; i < LEDGER_LSAN_PARTS_MAX; i++)
		length += parts->part[i] ? strlen(parts->part[i]) : 0;
	text = arena_alloc(b->arena, length + 1);
	for (size_t i = 0; i < LEDGER_LSAN_PARTS_MAX; i++) {
		if (!parts->part[i])
			continue;
		strcpy(text + at, parts->part[i]);
		at += strlen(parts->part[i]);
	}
	return text;
}

static void read_suppressions(struct builder *b, const struct parts *parts)
{
	const char *text = join(b, parts);
	char error[256] = "";

	if (!*text)
		return;
	b->process->program_suppressions = pattern_file_parse_good(
		&suppression_syntax, text, strlen(text), LSAN_NAME, error, sizeof(error));
	if (*error)
		b->program_note = arena_printf(
			b->arena, "the program's own suppressions: %s: the line is ignored", error);
	else if (parts->cut)
		b->program_note = "the program's own suppressions (" LSAN_NAME
				  ") are longer than 64 KiB: the rest is ignored";
}

void build_program(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	struct parts parts = { 0 };
	const struct ledger_observation *record;

	for (unsigned int i = 0; i < LEDGER_OBSERVATIONS_MAX; i++) {
		const char *kind, *subject, *variable;

		record = ledger_next_observation(b->view, &walk);
		if (!record)
			break;
		kind = build_text(b, record->kind);
		if (!kind || !build_is_of_program(kind))
			continue;
		subject = build_text(b, record->subject);
		variable = build_text(b, record->module);
		if (strcmp(kind, LEDGER_OBSERVED_RANK) == 0)
			read_rank(b, subject, variable, record->count);
		else if (strcmp(kind, LEDGER_OBSERVED_LSAN) == 0 && record->count >= 1 &&
			 record->count <= LEDGER_LSAN_PARTS_MAX)
			parts.part[record->count - 1] = subject;
		parts.cut |= strcmp(kind, LEDGER_OBSERVED_LSAN) == 0 && record->detail != 0;
	}
	if (b->ledger->program_suppressions)
		read_suppressions(b, &parts);
}

bool build_is_of_program(const char *kind)
{
	return strcmp(kind, LEDGER_OBSERVED_RANK) == 0 || strcmp(kind, LEDGER_OBSERVED_LSAN) == 0 ||
	       strcmp(kind, LEDGER_OBSERVED_STATIC_OBJECT) == 0;
}
