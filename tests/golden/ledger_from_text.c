/* SPDX-License-Identifier: MIT
 *
 * Writes the ledger that a text describes: ledger_from_text FIXTURE LEDGER. A line is one record,
 * made of words. NAME is a word of its own by which later lines find the record:
 *
 *   ended STATUS                                       the process ended by exit with this status
 *   stack NAME FUNCTION@FILE:LINE...                   frames of Python, innermost first
 *   site NAME API KIND DEVICE STACK ALLOCS BYTES       a call site
 *   tensors NAME DEVICE STACK ALLOCS BYTES             a call site of suballocations
 *   block SITE ADDRESS BYTES                           a live block of a site
 *   tensor SITE ADDRESS BYTES                          a live block of a site of suballocations
 *   error TYPE API RESULT ADDRESS STACK SITE BYTES     a wrong free of a block of SITE
 *   ended-with SITE API STACK BLOCKS BYTES             blocks of a site that ended with a context
 *   ended-before SITE BLOCKS BYTES                     the same, recorded by an older library
 *   parked WHEN POOL DEVICE TIME_NS RESERVED USED THRESHOLD
 *                                                      of the driver; WHEN: exit, peak, number
 *   fact KIND SUBJECT COUNT                            an observation
 *   trouble NUMBER COUNT                               a counter of what was not recorded
 *   step NUMBER TIME_NS LIVE LABEL                     a step
 *   sample TIME_NS LIVE                                a moment of the timeline
 *
 * Aborts if the text has another line.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_builder.h"

#define NAMES_MAX 64
#define WORDS_MAX 40

struct text_ledger {
	struct ledger_builder builder;
	struct {
		char name[32];
		uint32_t ref;
	} names[NAMES_MAX];
	size_t name_count;
};

struct text_line {
	char *words[WORDS_MAX];
	size_t count;
};

static uint64_t number(const char *word)
{
	char *end;
	uint64_t value = strtoull(word, &end, 0);

	if (*end)
		abort();
	return value;
}

/* Returns the ref of the record called NAME, 0 if there is none. */
static uint32_t lookup(const struct text_ledger *ledger, const char *name)
{
	for (size_t i = 0; i < ledger->name_count; i++)
		if (strcmp(ledger->names[i].name, name) == 0)
			return ledger->names[i].ref;
	return 0;
}

static uint32_t find_ref(const struct text_ledger *ledger, const char *name)
{
	uint32_t ref = lookup(ledger, name);

	if (!ref) {
		fprintf(stderr, "no record has the name %s\n", name);
		abort();
	}
	return ref;
}

static void add_name(struct text_ledger *ledger, const char *name, uint32_t ref)
{
	if (ledger->name_count == NAMES_MAX || strlen(name) >= sizeof(ledger->names[0].name) ||
	    lookup(ledger, name)) {
		fprintf(stderr, "the name %s is too long, or another record has it\n", name);
		abort();
	}
	strcpy(ledger->names[ledger->name_count].name, name);
	ledger->names[ledger->name_count++].ref = ref;
}

static void add_stack(struct text_ledger *ledger, const struct text_line *line)
{
	uint32_t codes[WORDS_MAX], numbers[WORDS_MAX];
	unsigned int count = 0;

	for (size_t i = 2; i < line->count; i++) {
		char *file = strchr(line->words[i], '@'), *place = strrchr(line->words[i], ':');

		if (!file || !place || place < file)
			abort();
		*file = *place = '\0';
		codes[count] = builder_code(&ledger->builder, line->words[i], file + 1);
		numbers[count++] = (uint32_t)number(place + 1);
	}
	add_name(ledger, line->words[1], builder_python_stack(&ledger->builder, NULL, 0, codes,
							      numbers, count));
}

static void add_site(struct text_ledger *ledger, char *const *words)
{
	add_name(ledger, words[1],
		 builder_row(&ledger->builder, words[2], words[3], atoi(words[4]),
			     find_ref(ledger, words[5]), number(words[6]), number(words[7])));
}

static void add_tensors(struct text_ledger *ledger, char *const *words)
{
	add_name(ledger, words[1],
		 builder_suballocation_row(&ledger->builder, atoi(words[2]),
					   find_ref(ledger, words[3]), number(words[4]),
					   number(words[5])));
}

static void add_error(struct text_ledger *ledger, char *const *words)
{
	uint32_t site_ref = find_ref(ledger, words[6]);
	struct ledger_site site;
	struct ledger_error error = {
		.type = builder_string(&ledger->builder, words[1]),
		.api = builder_string(&ledger->builder, words[2]),
		.result = atoi(words[3]),
		.address = number(words[4]),
		.stack = find_ref(ledger, words[5]),
		.block_bytes = number(words[7]),
	};

	memcpy(&site, builder_at(&ledger->builder, site_ref), sizeof(site));
	error.block_address = error.address;
	error.allocated = (struct ledger_event){ .api = site.api, .stack = site.stack };
	error.kind = site.kind;
	error.device = site.device;
	builder_error(&ledger->builder, &error);
	builder_header(&ledger->builder)->errors++;
}

/* Counts BLOCKS and BYTES of a site as ended with their context. */
static void count_context_end(struct ledger_builder *builder, uint32_t site_ref, uint64_t blocks,
			      uint64_t bytes)
{
	struct ledger_site *site = builder_at(builder, site_ref);

	site->with_context += blocks;
	site->with_context_bytes += bytes;
}

static void add_context_end(struct ledger_builder *builder, uint32_t site_ref, const char *api,
			    uint32_t stack, char *const *amounts)
{
	const struct ledger_context_end end = {
		.site = site_ref, .blocks = number(amounts[0]), .bytes = number(amounts[1]),
		.api = builder_string(builder, api), .stack = stack,
	};

	builder_context_end(builder, &end);
	count_context_end(builder, site_ref, end.blocks, end.bytes);
}

static void add_parked(struct ledger_builder *builder, char *const *words)
{
	const struct ledger_parked parked = {
		.when = strcmp(words[1], "exit") == 0   ? LEDGER_PARKED_EXIT
			: strcmp(words[1], "peak") == 0 ? LEDGER_PARKED_PEAK
							: (uint32_t)number(words[1]),
		.pool = number(words[2]), .device = atoi(words[3]), .time_ns = number(words[4]),
		.reserved_bytes = number(words[5]), .used_bytes = number(words[6]),
		.threshold = number(words[7]), .began = 1, .done = 1,
	};

	builder_parked(builder, &parked);
}

/* Adds a record without a name. Returns false if the line is no such record. */
static bool add_nameless(struct text_ledger *ledger, char *const *words, size_t count)
{
	struct ledger_builder *builder = &ledger->builder;

	if (strcmp(words[0], "ended") == 0 && count == 2)
		builder_header(builder)->status = atoi(words[1]);
	else if (strcmp(words[0], "block") == 0 && count == 4)
		builder_block(builder, find_ref(ledger, words[1]), number(words[2]),
			      number(words[3]));
	else if (strcmp(words[0], "tensor") == 0 && count == 4)
		builder_suballocation(builder, find_ref(ledger, words[1]), number(words[2]),
				      number(words[3]));
	else if (strcmp(words[0], "ended-with") == 0 && count == 6)
		add_context_end(builder, find_ref(ledger, words[1]), words[2],
				find_ref(ledger, words[3]), &words[4]);
	else if (strcmp(words[0], "ended-before") == 0 && count == 4)
		count_context_end(builder, find_ref(ledger, words[1]), number(words[2]),
				  number(words[3]));
	else if (strcmp(words[0], "parked") == 0 && count == 8)
		add_parked(builder, words);
	else if (strcmp(words[0], "fact") == 0 && count == 4)
		builder_fact(builder, words[1], words[2], NULL, NULL, (uint32_t)number(words[3]));
	else if (strcmp(words[0], "trouble") == 0 && count == 3 &&
		 number(words[1]) < LEDGER_TROUBLE_SLOTS)
		builder_header(builder)->trouble[number(words[1])] = number(words[2]);
	else if (strcmp(words[0], "step") == 0 && count == 5)
		builder_step(builder, (uint32_t)number(words[1]), number(words[2]),
			     number(words[3]), words[4]);
	else if (strcmp(words[0], "sample") == 0 && count == 3)
		builder_sample(builder, number(words[1]), number(words[2]));
	else
		return false;
	return true;
}

static void add_line(struct text_ledger *ledger, const struct text_line *line)
{
	char *const *words = line->words;

	if (strcmp(words[0], "stack") == 0 && line->count >= 2) {
		add_stack(ledger, line);
	} else if (strcmp(words[0], "site") == 0 && line->count == 8) {
		add_site(ledger, words);
	} else if (strcmp(words[0], "tensors") == 0 && line->count == 6) {
		add_tensors(ledger, words);
	} else if (strcmp(words[0], "error") == 0 && line->count == 8) {
		add_error(ledger, words);
	} else if (!add_nameless(ledger, words, line->count)) {
		fprintf(stderr, "no record is called %s, or it has other words\n", words[0]);
		abort();
	}
}

static void read_text(struct text_ledger *ledger, FILE *text)
{
	char buffer[4096];

	while (fgets(buffer, sizeof(buffer), text)) {
		struct text_line line = { .count = 0 };
		char *rest = NULL;

		for (char *word = strtok_r(buffer, " \n", &rest); word && *word != '#';
		     word = strtok_r(NULL, " \n", &rest)) {
			if (line.count == WORDS_MAX)
				abort();
			line.words[line.count++] = word;
		}
		if (line.count > 0)
			add_line(ledger, &line);
	}
}

int main(int argc, char **argv)
{
	struct text_ledger ledger = { .name_count = 0 };
	FILE *in, *out;

	if (argc != 3)
		return 2;
	in = fopen(argv[1], "r");
	out = fopen(argv[2], "wb");
	if (!in || !out)
		abort();
	builder_init(&ledger.builder);
	read_text(&ledger, in);
	if (fwrite(ledger.builder.bytes, ledger.builder.size, 1, out) != 1 || fclose(out) != 0)
		abort();
	builder_finish(&ledger.builder);
	fclose(in);
	return 0;
}
