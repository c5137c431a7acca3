/* SPDX-License-Identifier: MIT
 *
 * Reads the variables of a module's image: names, sizes and initial values, from an ELF file, from
 * PTX, or from a fat binary with one of them. Does not read code. The application passes an image
 * without its size, so the offsets in the image are trusted.
 */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin/driver/variable.h"

/* What nvcc writes: a wrapper in the program's data, and the fat binary that it leads to. */
enum { WRAPPER_MAGIC = 0x466243b1, FAT_PTX = 1, FAT_ELF = 2, FAT_COMPRESSED = 0xa000 };
#define FAT_MAGIC 0xba55ed50u

struct fat_wrapper {
	uint32_t magic, version;
	const void *fat;
	void *file;
};
struct fat_header {
	uint32_t magic;
	uint16_t version, header;
	uint64_t bytes; /* of all entries */
};
struct fat_entry {
	uint16_t kind, version;
	uint32_t header;
	uint64_t bytes;
	uint32_t unused[6];
	uint64_t flags;
};

static struct variable *add(struct variables *to, const char *name, size_t length, size_t bytes)
{
	struct variable *v = calloc(1, sizeof(*v) + length + 1);

	if (!v)
		return NULL;
	memcpy(v->name, name, length);
	v->bytes = bytes;
	v->next = to->first;
	to->first = v;
	return v;
}

struct variable *variable_add(struct variables *to, const char *name, size_t bytes)
{
	return add(to, name, strlen(name), bytes);
}

static void set_initial(struct variable *v, const void *from, size_t bytes)
{
	v->initial = calloc(1, v->bytes);
	if (v->initial)
		memcpy(v->initial, from, bytes < v->bytes ? bytes : v->bytes);
}

/* ---- ELF ---- */

static void read_symbol(const char *elf, const Elf64_Shdr *sections, const char *names,
			const Elf64_Sym *symbol, const char *name, struct variables *to)
{
	const Elf64_Shdr *in = &sections[symbol->st_shndx];
	const char *section = names + in->sh_name;
	size_t offset = symbol->st_value;
	struct variable *v;

	if (strncmp(section, ".nv.global", 10) != 0 && strncmp(section, ".nv.constant", 12) != 0)
		return; /* shared and local memory */
	if (offset > in->sh_size || symbol->st_size > in->sh_size - offset)
		return;
	v = variable_add(to, name, symbol->st_size);
	if (v && in->sh_type != SHT_NOBITS)
		set_initial(v, elf + in->sh_offset + offset, symbol->st_size);
	if (v)
		v->managed = symbol->st_other & 4; /* STO_CUDA_MANAGED */
}

static void read_elf(const char *elf, struct variables *to)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(elf + head->e_shoff);
	const char *names = elf + sections[head->e_shstrndx].sh_offset;

	for (int i = 0; i < head->e_shnum; i++) {
		const Elf64_Shdr *table = &sections[i];
		const Elf64_Sym *symbols = (const Elf64_Sym *)(elf + table->sh_offset);
		const char *words;

		if (table->sh_type != SHT_SYMTAB || table->sh_link >= head->e_shnum)
			continue;
		words = elf + sections[table->sh_link].sh_offset;
		for (size_t n = 0; n < table->sh_size / sizeof(*symbols); n++)
			if (ELF64_ST_TYPE(symbols[n].st_info) == STT_OBJECT && symbols[n].st_size &&
			    symbols[n].st_shndx != SHN_UNDEF && symbols[n].st_shndx < head->e_shnum)
				read_symbol(elf, sections, names, &symbols[n],
					    words + symbols[n].st_name, to);
	}
}

static bool is_elf(const char *image)
{
	return strncmp(image, ELFMAG, SELFMAG) == 0 && image[EI_CLASS] == ELFCLASS64;
}

/* ---- PTX ---- */

/* Skips blanks and comments. */
static const char *next(const char *at)
{
	for (;;) {
		const char *end;

		at += strspn(at, " \t\r\n");
		if (strncmp(at, "//", 2) == 0)
			at += strcspn(at, "\n");
		else if (strncmp(at, "/*", 2) == 0 && (end = strstr(at + 2, "*/")))
			at = end + 2;
		else
			return at;
	}
}

static size_t word_length(const char *at)
{
	size_t length = *at == '.' || *at == '%';

	if (*at == '"')
		return 1 + strcspn(at + 1, "\"") + (strchr(at + 1, '"') != NULL);
	while (isalnum((unsigned char)at[length]) || (at[length] && strchr("_$", at[length])))
		length++;
	return length ? length : *at != '\0';
}

static bool is_word(const char *at, const char *word)
{
	return word_length(at) == strlen(word) && strncmp(at, word, strlen(word)) == 0;
}

/* Returns the position behind the bracket that closes the one at AT. */
static const char *behind_bracket(const char *at)
{
	int depth = 0;

	for (; *at; at = next(at + word_length(at))) {
		depth += *at == '{' || *at == '(';
		depth -= *at == '}' || *at == ')';
		if (!depth)
			return at + 1;
	}
	return at;
}

/* Writes the value at AT, of an element of BYTES bytes, to OUT: a number, or a float as its bits.
 * An address stays 0. */
static void read_value(const char *at, char *out, size_t bytes)
{
	bool is_bits = at[0] == '0' && at[1] && strchr("fFdD", at[1]);
	uint64_t value = is_bits ? strtoull(at + 2, NULL, 16)
			 : *at == '-' ? (uint64_t)strtoll(at, NULL, 0)
			 : isdigit((unsigned char)*at) ? strtoull(at, NULL, 0)
						       : 0;

	memcpy(out, &value, bytes < sizeof(value) ? bytes : sizeof(value));
}

/* Reads `= VALUE` or `= { VALUE, ... }` at AT for elements of SIZE bytes. */
static void read_initial(const char *at, struct variable *v, size_t size)
{
	size_t offset = 0;

	v->initial = calloc(1, v->bytes);
	for (at = next(at + 1); v->initial && *at && *at != ';'; at = next(at + word_length(at)))
		if (*at == ',') {
			offset += size;
		} else if (*at != '{' && *at != '}' && offset + size <= v->bytes) {
			read_value(at, v->initial + offset, size);
			if (*at == '-')
				at = next(at + 1);
		}
}

/* Returns the bytes of an element of type WORD (".u32"), or 0 if it is no type. */
static size_t type_size(const char *word)
{
	size_t bits = word[0] == '.' && word[1] && strchr("busf", word[1])
			      ? strtoul(word + 2, NULL, 10)
			      : 0;

	return bits / 8;
}

/* Reads a declaration behind `.global` or `.const`: `.attribute(.managed) .align 4 .b8 name[2][3] =
 * {...};`. Returns the position of its end. */
static const char *read_declaration(const char *at, bool is_extern, struct variables *to)
{
	size_t size = 0, count = 1, length;
	bool managed = false;
	struct variable *v;
	const char *name;

	for (at = next(at); *at == '.'; at = next(at + word_length(at))) {
		if (is_word(at, ".align"))
			at = next(at + word_length(at)); /* its number */
		else if (is_word(at, ".attribute")) {
			at = next(at + word_length(at));
			managed |= strncmp(next(at + 1), ".managed", 8) == 0;
			at = behind_bracket(at) - 1;
		} else if (type_size(at))
			size = type_size(at);
		else if (is_word(at, ".v2") || is_word(at, ".v4"))
			count = (size_t)(at[2] - '0');
	}
	name = at;
	length = word_length(at);
	for (at = next(at + length); *at == '['; at = next(strchr(at, ']') + 1)) {
		count *= strtoul(at + 1, NULL, 0);
		if (!strchr(at, ']'))
			return at + strlen(at);
	}
	v = is_extern || !size || !count ? NULL : add(to, name, length, size * count);
	if (v)
		v->managed = managed;
	if (v && *at == '=')
		read_initial(at, v, size);
	return at + strcspn(at, ";");
}

static void read_ptx(const char *at, struct variables *to)
{
	bool is_extern = false;

	for (at = next(at); *at; at = next(at)) {
		if (*at == '{' || *at == '(') {
			at = behind_bracket(at);
			continue;
		}
		if (is_word(at, ".global") || is_word(at, ".const")) {
			at = read_declaration(at + word_length(at), is_extern, to);
			is_extern = false;
			continue;
		}
		if (is_word(at, ".extern"))
			is_extern = true;
		else if (*at == ';' || is_word(at, ".visible") || is_word(at, ".func"))
			is_extern = false;
		at += word_length(at);
	}
}

/* ---- all ---- */

/* Reads the first entry of KIND that is not compressed. Returns false if no entry is. */
static bool read_entry(const struct fat_header *fat, int kind, struct variables *to)
{
	const char *at = (const char *)fat + fat->header, *end = at + fat->bytes;

	while (at < end) {
		const struct fat_entry *e = (const struct fat_entry *)at;
		const char *content = at + e->header;

		if (e->kind == kind && !(e->flags & FAT_COMPRESSED) &&
		    (kind != FAT_ELF || is_elf(content))) {
			if (kind == FAT_ELF)
				read_elf(content, to);
			else
				read_ptx(content, to);
			return true;
		}
		at = content + e->bytes;
	}
	return false;
}

static uint32_t magic_of(const char *image)
{
	uint32_t magic = 0;

	/* a short text ends before its fourth byte */
	memcpy(&magic, image, strnlen(image, sizeof(magic)));
	return magic;
}

void image_read(const void *image, struct variables *to)
{
	const struct fat_header *fat = image;

	if (!image)
		return;
	if (magic_of(image) == WRAPPER_MAGIC)
		fat = ((const struct fat_wrapper *)image)->fat;
	if (magic_of((const char *)fat) == FAT_MAGIC)
		to->unreadable = !read_entry(fat, FAT_ELF, to) && !read_entry(fat, FAT_PTX, to);
	else if (is_elf((const char *)fat))
		read_elf((const char *)fat, to);
	else
		read_ptx((const char *)fat, to);
}

void image_read_file(const char *path, struct variables *to)
{
	FILE *file = path ? fopen(path, "re") : NULL;
	char *content = NULL;
	size_t size = 0;
	FILE *copy = file ? open_memstream(&content, &size) : NULL;

	for (int c; copy && (c = getc(file)) != EOF;)
		putc(c, copy);
	if (copy && fclose(copy) == 0)
		image_read(content, to);
	free(content);
	if (file)
		fclose(file);
}
