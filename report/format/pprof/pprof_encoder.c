/* SPDX-License-Identifier: MIT
 *
 * Builds protobuf-c messages in an arena, packs them with protobuf-c and compresses them with
 * zlib.
 */
#include "report/format/pprof/pprof_encoder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "report/util/escape.h"
#include "report/util/text_buffer.h"

/* An entry of a table: the content and its number. */
struct pprof_node {
	uint64_t number;
	size_t size;
	unsigned char content[];
};

struct content {
	const void *bytes;
	size_t size;
};

static bool same_content(const void *value, const void *key)
{
	const struct pprof_node *node = value;
	const struct content *content = key;

	return node->size == content->size &&
	       memcmp(node->content, content->bytes, content->size) == 0;
}

/* Returns the number of the SIZE bytes at BYTES. If they are new, returns 0 and stores in *RET the
 * node that the caller fills in. */
static uint64_t pprof_intern(struct pprof *pprof, struct table *table, const void *bytes,
			     size_t size, struct pprof_node **ret)
{
	const struct content content = { bytes, size };
	uint64_t hash = hash_bytes(bytes, size, 0);
	struct pprof_node *node = table_find(table, hash, same_content, &content);

	*ret = NULL;
	if (node)
		return node->number;
	node = arena_alloc(&pprof->arena, sizeof(*node) + size + 1);
	if (!node || table_add(table, hash, node) < 0) {
		pprof->failed = 1;
		return 0;
	}
	node->size = size;
	memcpy(node->content, bytes, size);
	*ret = node;
	return 0;
}

/* Appends ITEM to LIST and returns its index. */
static size_t append(struct pprof *pprof, struct pprof_list *list, void *item)
{
	if (list->count == list->size) {
		size_t size = list->size ? 2 * list->size : 64;
		void **items = reallocarray(list->items, size, sizeof(*items));

		if (!items) {
			pprof->failed = 1;
			return 0;
		}
		list->items = items;
		list->size = size;
	}
	list->items[list->count] = item;
	return list->count++;
}

void pprof_start(struct pprof *pprof)
{
	*pprof = (struct pprof){ 0 };
	pprof__profile__init(&pprof->profile);
	pprof_string(pprof, "");
}

void pprof_finish(struct pprof *pprof)
{
	struct table *const tables[] = { &pprof->strings, &pprof->functions, &pprof->locations,
					 &pprof->mappings };
	struct pprof_list *const lists[] = { &pprof->string_list, &pprof->function_list,
					     &pprof->location_list, &pprof->mapping_list,
					     &pprof->sample_list, &pprof->comment_list };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		table_finish(tables[i]);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		free(lists[i]->items);
	arena_finish(&pprof->arena);
	*pprof = (struct pprof){ 0 };
}

int64_t pprof_string(struct pprof *pprof, const char *text)
{
	struct text_buffer valid; /* proto3 rejects strings that are not valid UTF-8 */
	struct pprof_node *node = NULL;
	uint64_t number = 0;

	if (text_buffer_begin(&valid) < 0) {
		pprof->failed = 1;
		return 0;
	}
	print_escaped(valid.out, text);
	if (text_buffer_end(&valid) == 0)
		number = pprof_intern(pprof, &pprof->strings, valid.text, valid.length, &node);
	else
		pprof->failed = 1;
	text_buffer_finish(&valid);
	if (!node)
		return (int64_t)number;
	node->number = append(pprof, &pprof->string_list, node->content);
	return (int64_t)node->number;
}

uint64_t pprof_function(struct pprof *pprof, int64_t name, int64_t file)
{
	const int64_t key[] = { name, file };
	struct pprof_node *node;
	uint64_t number = pprof_intern(pprof, &pprof->functions, key, sizeof(key), &node);
	Pprof__Function *function;

	if (!node)
		return number;
	function = arena_alloc(&pprof->arena, sizeof(*function));
	if (!function) {
		pprof->failed = 1;
		return 0;
	}
	pprof__function__init(function);
	node->number = append(pprof, &pprof->function_list, function) + 1;
	function->id = node->number;
	function->name = name;
	function->system_name = name;
	function->filename = file;
	return node->number;
}

uint64_t pprof_mapping(struct pprof *pprof, int64_t file, int64_t build_id, int has_functions)
{
	const int64_t key[] = { file, build_id };
	struct pprof_node *node;
	uint64_t number = pprof_intern(pprof, &pprof->mappings, key, sizeof(key), &node);
	Pprof__Mapping *mapping;

	if (node) {
		mapping = arena_alloc(&pprof->arena, sizeof(*mapping));
		if (!mapping) {
			pprof->failed = 1;
			return 0;
		}
		pprof__mapping__init(mapping);
		number = node->number = append(pprof, &pprof->mapping_list, mapping) + 1;
		mapping->id = number;
		mapping->filename = file;
		mapping->build_id = build_id;
	} else if (number == 0) {
		return 0;
	}
	mapping = pprof->failed ? NULL : pprof->mapping_list.items[number - 1];
	/* Mark the function names as complete, so that pprof does not look them up again. */
	if (mapping && has_functions)
		mapping->has_functions = mapping->has_filenames = mapping->has_line_numbers =
			mapping->has_inline_frames = 1;
	return number;
}

static Pprof__Line *make_line(struct pprof *pprof, const struct pprof_line *from)
{
	Pprof__Line *line = arena_alloc(&pprof->arena, sizeof(*line));

	if (!line) {
		pprof->failed = 1;
		return NULL;
	}
	pprof__line__init(line);
	line->function_id = from->function;
	line->line = from->line;
	return line;
}

uint64_t pprof_location(struct pprof *pprof, uint64_t mapping, uint64_t address,
			const struct pprof_line *lines, size_t count)
{
	uint64_t head[] = { mapping, address };
	size_t size = sizeof(head) + count * sizeof(*lines);
	unsigned char *key = arena_alloc(&pprof->arena, size);
	Pprof__Location *location = arena_alloc(&pprof->arena, sizeof(*location));
	struct pprof_node *node;
	uint64_t number;

	if (!key || !location) {
		pprof->failed = 1;
		return 0;
	}
	memcpy(key, head, sizeof(head));
	memcpy(key + sizeof(head), lines, count * sizeof(*lines));
	number = pprof_intern(pprof, &pprof->locations, key, size, &node);
	if (!node)
		return number;
	pprof__location__init(location);
	node->number = append(pprof, &pprof->location_list, location) + 1;
	location->id = node->number;
	location->mapping_id = mapping;
	location->address = address;
	location->line = arena_alloc(&pprof->arena, count * sizeof(*location->line) + 1);
	pprof->failed |= !location->line;
	for (size_t i = 0; i < count && !pprof->failed; i++)
		location->line[location->n_line++] = make_line(pprof, &lines[i]);
	return node->number;
}

static Pprof__Label *make_label(struct pprof *pprof, const struct pprof_label *from)
{
	Pprof__Label *label = arena_alloc(&pprof->arena, sizeof(*label));

	if (!label) {
		pprof->failed = 1;
		return NULL;
	}
	pprof__label__init(label);
	label->key = pprof_string(pprof, from->key);
	label->str = pprof_string(pprof, from->value);
	return label;
}

void pprof_sample(struct pprof *pprof, const uint64_t *locations, size_t location_count,
		  const uint64_t values[PPROF_VALUES], const struct pprof_label *labels,
		  size_t label_count)
{
	Pprof__Sample *sample = arena_alloc(&pprof->arena, sizeof(*sample));
	uint64_t *ids = arena_alloc(&pprof->arena, (location_count + 1) * sizeof(*ids));
	int64_t *value = arena_alloc(&pprof->arena, PPROF_VALUES * sizeof(*value));
	Pprof__Label **label = arena_alloc(&pprof->arena, (label_count + 1) * sizeof(*label));

	pprof->failed |= !sample || !ids || !value || !label;
	if (pprof->failed)
		return;
	pprof__sample__init(sample);
	memcpy(ids, locations, location_count * sizeof(*ids));
	for (size_t i = 0; i < PPROF_VALUES; i++)
		value[i] = values[i] > INT64_MAX ? INT64_MAX : (int64_t)values[i];
	for (size_t i = 0; i < label_count; i++)
		label[i] = make_label(pprof, &labels[i]);
	sample->location_id = ids;
	sample->n_location_id = location_count;
	sample->value = value;
	sample->n_value = PPROF_VALUES;
	sample->label = label;
	sample->n_label = label_count;
	append(pprof, &pprof->sample_list, sample);
}

void pprof_comment(struct pprof *pprof, const char *text)
{
	append(pprof, &pprof->comment_list, (void *)(intptr_t)pprof_string(pprof, text));
}

/* Compresses LENGTH bytes of PLAIN as gzip. Returns 0 or -ENOMEM. */
static int compress_gzip(unsigned char *plain, size_t length, unsigned char **ret,
			 size_t *ret_length)
{
	z_stream stream = { 0 };
	uLong bound;
	int r = -ENOMEM;

	if (length > UINT32_MAX / 2 ||
	    deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	bound = deflateBound(&stream, length);
	*ret = malloc(bound);
	stream.next_in = plain;
	stream.avail_in = (uInt)length;
	stream.next_out = *ret;
	stream.avail_out = (uInt)bound;
	if (*ret && deflate(&stream, Z_FINISH) == Z_STREAM_END) {
		*ret_length = stream.total_out;
		r = 0;
	} else {
		free(*ret);
	}
	deflateEnd(&stream);
	return r;
}

static void fill_profile(struct pprof *pprof, int64_t *comments)
{
	Pprof__Profile *profile = &pprof->profile;

	profile->string_table = (char **)pprof->string_list.items;
	profile->n_string_table = pprof->string_list.count;
	profile->function = (Pprof__Function **)pprof->function_list.items;
	profile->n_function = pprof->function_list.count;
	profile->location = (Pprof__Location **)pprof->location_list.items;
	profile->n_location = pprof->location_list.count;
	profile->mapping = (Pprof__Mapping **)pprof->mapping_list.items;
	profile->n_mapping = pprof->mapping_list.count;
	profile->sample = (Pprof__Sample **)pprof->sample_list.items;
	profile->n_sample = pprof->sample_list.count;
	for (size_t i = 0; i < pprof->comment_list.count; i++)
		comments[i] = (intptr_t)pprof->comment_list.items[i];
	profile->comment = comments;
	profile->n_comment = pprof->comment_list.count;
}

int pprof_pack(struct pprof *pprof, unsigned char **ret, size_t *ret_length)
{
	int64_t *comments = calloc(pprof->comment_list.count + 1, sizeof(*comments));
	unsigned char *plain = NULL;
	size_t length;
	int r = -ENOMEM;

	if (comments && !pprof->failed) {
		fill_profile(pprof, comments);
		length = pprof__profile__get_packed_size(&pprof->profile);
		plain = malloc(length + 1);
		if (plain) {
			pprof__profile__pack(&pprof->profile, plain);
			r = compress_gzip(plain, length, ret, ret_length);
		}
	}
	free(plain);
	free(comments);
	return r;
}
