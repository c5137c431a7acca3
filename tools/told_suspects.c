/* SPDX-License-Identifier: MIT
 *
 * Compares the suspects of a process with those that were printed before.
 */
#include "tools/told_suspects.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/analyze/live.h"
#include "report/describe/describe_stack.h"
#include "report/subjects/subject_words.h"
#include "report/util/text_buffer.h"

struct told_suspect {
	char *api, *kind, *place;
	int device;
	uint32_t stack_ref;
	uint64_t rate; /* as printed last */
	bool grows;    /* it is a suspect in the current call of told_suspects_update() */
	struct told_suspect *next;
};

static uint64_t rate_of(const struct report_suspect *suspect)
{
	return suspect->bytes_per_step ? suspect->bytes_per_step : suspect->blocks_per_step;
}

static struct told_suspect *find(const struct told_suspects *told,
				 const struct report_suspect *suspect)
{
	struct told_suspect *known = told->first;

	while (known && (known->stack_ref != suspect->stack_ref ||
			 known->device != suspect->device ||
			 strcmp(known->api, suspect->api) != 0 ||
			 strcmp(known->kind, suspect->kind) != 0))
		known = known->next;
	return known;
}

static void destroy(struct told_suspect *known)
{
	free(known->api);
	free(known->kind);
	free(known->place);
	free(known);
}

/* Returns the text of the suspect's place. */
static char *place_of(const struct report_suspect *suspect)
{
	struct text_buffer place;

	text_buffer_begin(&place);
	describe_place_and_caller(place.out, suspect->stack);
	text_buffer_end(&place);
	return place.text;
}

static void add(struct told_suspects *told, const struct report_suspect *suspect)
{
	struct told_suspect *known = calloc(1, sizeof(*known));

	known->api = strdup(suspect->api);
	known->kind = strdup(suspect->kind);
	known->place = place_of(suspect);
	known->device = suspect->device;
	known->stack_ref = suspect->stack_ref;
	known->rate = rate_of(suspect);
	known->grows = true;
	known->next = told->first;
	told->first = known;
}

/* Prints "; suspect in pid 12: 1.0 MiB per step at keep (/srv/app.c:24)". */
static void print(FILE *out, int pid, const char *now, const struct report_suspect *suspect)
{
	fprintf(out, "; suspect in pid %d: %s", pid, now);
	describe_growth_rate(out, suspect);
	fputs(" at ", out);
	describe_place_and_caller(out, suspect->stack);
}

/* Removes the suspects that do not grow any more, and prints them. */
static void remove_ended(struct told_suspects *told, int pid, FILE *out)
{
	struct told_suspect **at = &told->first;

	while (*at) {
		struct told_suspect *known = *at;

		if (known->grows) {
			at = &known->next;
			continue;
		}
		fprintf(out, "; no longer growing in pid %d: %s", pid, known->place);
		*at = known->next;
		destroy(known);
	}
}

void told_suspects_update(struct told_suspects *told, const struct live *live, FILE *out)
{
	struct report_suspect suspect;
	int pid = live->process->pid;

	for (struct told_suspect *known = told->first; known; known = known->next)
		known->grows = false;
	for (size_t at = 0; live_next_suspect(live, &at, &suspect);) {
		struct told_suspect *known = find(told, &suspect);
		uint64_t rate = rate_of(&suspect);

		if (!known) {
			print(out, pid, "", &suspect);
			add(told, &suspect);
			continue;
		}
		known->grows = true;
		if (rate / 2 < known->rate && rate > known->rate / 2)
			continue;
		print(out, pid, "now ", &suspect);
		known->rate = rate;
	}
	remove_ended(told, pid, out);
}

void told_suspects_finish(struct told_suspects *told)
{
	while (told->first) {
		struct told_suspect *next = told->first->next;

		destroy(told->first);
		told->first = next;
	}
}
