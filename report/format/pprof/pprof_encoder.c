/* SPDX-License-Identifier: MIT
 *
 * Encodes the messages of pprof's profile.proto as protocol buffers, one after the other, and
 * compresses them with zlib. Numbers and bytes are the only wire types that profiles have.
 */
#include "report/format/pprof/pprof_encoder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "report/util/escape.h"
#include "report/util/protobuf.h"

#define PAIR_MAX (PROTO_HEAD_MAX + 2 * PROTO_NUMBER_MAX)

/* An entry of a table: an encoded message without its id, and its number. */
struct pprof_node {
	uint64_t number;
	struct pprof_node *next; /* of a mapping */
	bool has_functions;	 /* of a mapping */
	size_t size;
	unsigned char content[];
};

struct content {
	const void *bytes;
	size_t size;
};

/* Writes FIELD as a message with the fields 1 and 2. */
static unsigned char *put_pair(unsigned char *at, unsigned int field, uint64_t first,
			       uint64_t second)
{
	unsigned char pair[2 * PROTO_NUMBER_MAX];
	size_t size = (size_t)(put_number(put_number(pair, 1, first), 2, second) - pair);

	at = put_head(at, field, size);
	memcpy(at, pair, size);
	return at + size;
}

static void append(struct pprof *pprof, const void *bytes, size_t size)
{
	fwrite(bytes, 1, size, pprof->message.out);
}

/* Appends FIELD with the SIZE bytes at BODY. If ID is not 0, these bytes begin with the field of
 * the id. */
static void append_message(struct pprof *pprof, enum pprof_field field, uint64_t id,
			   const void *body, size_t size)
{
	unsigned char number[PROTO_NUMBER_MAX], head[PROTO_HEAD_MAX];
	size_t id_size = id ? (size_t)(put_number(number, 1, id) - number) : 0;

	append(pprof, head, (size_t)(put_head(head, field, id_size + size) - head));
	append(pprof, number, id_size);
	append(pprof, body, size);
}

static bool same_content(const void *value, const void *key)
{
	const struct pprof_node *node = value;
	const struct content *content = key;

	return node->size == content->size &&
	       memcmp(node->content, content->bytes, content->size) == 0;
}

/* Returns the entry with the SIZE bytes at BYTES. Sets *RET_NEW to true if this call made it.
 * Numbers begin with 1. */
static struct pprof_node *intern(struct pprof *pprof, struct table *table, const void *bytes,
				 size_t size, bool *ret_new)
{
	const struct content content = { bytes, size };
	uint64_t hash = hash_bytes(bytes, size, 0);
	struct pprof_node *node = table_find(table, hash, same_content, &content);

	*ret_new = !node;
	if (node)
		return node;
	node = arena_alloc(&pprof->arena, sizeof(*node) + size);
	table_add(&pprof->arena, table, hash, node);
	node->number = table->count;
	node->size = size;
	memcpy(node->content, bytes, size);
	return node;
}

void pprof_start(struct pprof *pprof)
{
	*pprof = (struct pprof){ 0 };
	pprof->next_mapping = &pprof->first_mapping;
	text_buffer_begin(&pprof->message);
	pprof_string(pprof, "");
}

void pprof_finish(struct pprof *pprof)
{
	arena_finish(&pprof->arena);
	text_buffer_finish(&pprof->message);
	*pprof = (struct pprof){ 0 };
}

void pprof_number(struct pprof *pprof, enum pprof_field field, uint64_t number)
{
	unsigned char bytes[PROTO_NUMBER_MAX];

	append(pprof, bytes, (size_t)(put_number(bytes, field, number) - bytes));
}

void pprof_type(struct pprof *pprof, enum pprof_field field, const char *type, const char *unit)
{
	unsigned char bytes[PAIR_MAX];
	uint64_t numbers[] = { pprof_string(pprof, type), pprof_string(pprof, unit) };

	append(pprof, bytes, (size_t)(put_pair(bytes, field, numbers[0], numbers[1]) - bytes));
}

uint64_t pprof_string(struct pprof *pprof, const char *text)
{
	/* proto3 rejects strings that are not valid UTF-8 */
	FREE_AT_END char *valid = PRINTED(to, print_escaped(to, text));
	size_t length = strlen(valid);
	bool is_new;
	const struct pprof_node *node =
		intern(pprof, &pprof->strings, valid, length, &is_new);

	if (is_new)
		append_message(pprof, PPROF_STRING, 0, valid, length);
	return node->number - 1;
}

/* Returns the id of the message with this BODY, and appends the message if it is new. */
static uint64_t number_message(struct pprof *pprof, struct table *table, enum pprof_field field,
			       const void *body, size_t size)
{
	bool is_new;
	struct pprof_node *node = intern(pprof, table, body, size, &is_new);

	if (is_new)
		append_message(pprof, field, node->number, body, size);
	return node->number;
}

uint64_t pprof_function(struct pprof *pprof, uint64_t name, uint64_t file)
{
	unsigned char body[3 * PROTO_NUMBER_MAX], *at = body;

	at = put_number(at, 2, name);
	at = put_number(at, 3, name); /* the name before demangling */
	at = put_number(at, 4, file);
	return number_message(pprof, &pprof->functions, PPROF_FUNCTION, body, (size_t)(at - body));
}

uint64_t pprof_mapping(struct pprof *pprof, uint64_t file, uint64_t build_id, bool has_functions)
{
	unsigned char body[2 * PROTO_NUMBER_MAX], *at = body;
	struct pprof_node *node;
	bool is_new;

	at = put_number(at, 5, file);
	at = put_number(at, 6, build_id);
	node = intern(pprof, &pprof->mappings, body, (size_t)(at - body), &is_new);
	if (is_new) {
		*pprof->next_mapping = node;
		pprof->next_mapping = &node->next;
	}
	node->has_functions |= has_functions;
	return node->number;
}

/* Writes the mappings at the end, because a later frame may show that a mapping has function names.
 * pprof then does not look these names up again. */
static void append_mappings(struct pprof *pprof)
{
	for (const struct pprof_node *node = pprof->first_mapping; node; node = node->next) {
		unsigned char body[6 * PROTO_NUMBER_MAX], *at = body + node->size;

		memcpy(body, node->content, node->size);
		for (unsigned int flag = 7; node->has_functions && flag <= 10; flag++)
			at = put_number(at, flag, 1);
		append_message(pprof, PPROF_MAPPING, node->number, body, (size_t)(at - body));
	}
}

uint64_t pprof_location(struct pprof *pprof, uint64_t mapping, uint64_t address,
			const struct pprof_line *lines, size_t count)
{
	unsigned char *body = malloc(2 * PROTO_NUMBER_MAX + count * PAIR_MAX), *at = body;
	uint64_t number;

	at = put_number(at, 2, mapping);
	at = put_number(at, 3, address);
	for (size_t i = 0; i < count; i++)
		at = put_pair(at, 4, lines[i].function, lines[i].line);
	number = number_message(pprof, &pprof->locations, PPROF_LOCATION, body,
				(size_t)(at - body));
	free(body);
	return number;
}

void pprof_sample(struct pprof *pprof, const uint64_t *locations, size_t location_count,
		  const uint64_t values[PPROF_VALUES], const struct pprof_label *labels,
		  size_t label_count)
{
	unsigned char *body = malloc((location_count + PPROF_VALUES) * PROTO_NUMBER_MAX +
				     label_count * PAIR_MAX), *at = body;

	for (size_t i = 0; i < location_count; i++)
		at = put_number(at, 1, locations[i]);
	for (size_t i = 0; i < PPROF_VALUES; i++)
		at = put_number(at, 2, values[i] > INT64_MAX ? INT64_MAX : values[i]);
	for (size_t i = 0; i < label_count; i++)
		if (labels[i].value)
			at = put_pair(at, 3, pprof_string(pprof, labels[i].key),
				      pprof_string(pprof, labels[i].value));
	append_message(pprof, PPROF_SAMPLE, 0, body, (size_t)(at - body));
	free(body);
}

void pprof_comment(struct pprof *pprof, const char *text)
{
	pprof_number(pprof, PPROF_COMMENT, pprof_string(pprof, text));
}

int pprof_pack(struct pprof *pprof, unsigned char **ret, size_t *ret_length)
{
	z_stream stream = { 0 };
	uLong bound;

	append_mappings(pprof);
	text_buffer_end(&pprof->message);
	if (pprof->message.length > UINT32_MAX / 2)
		return -EFBIG;
	/* 15 + 16: gzip, with the largest window */
	deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
	bound = deflateBound(&stream, pprof->message.length);
	*ret = malloc(bound);
	stream.next_in = (Bytef *)pprof->message.text;
	stream.avail_in = (uInt)pprof->message.length;
	stream.next_out = *ret;
	stream.avail_out = (uInt)bound;
	deflate(&stream, Z_FINISH);
	*ret_length = stream.total_out;
	deflateEnd(&stream);
	return 0;
}
