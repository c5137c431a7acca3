/* SPDX-License-Identifier: MIT
 *
 * Reads the symbol table of the module's file if that still is the mapped one, or else the table
 * that the loader uses, which has only exported functions. Must not map the file: reading a mapping
 * of a file that another process truncates raises SIGBUS.
 */
#include "interpose/stack/modules.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "interpose/base/arena.h"
#include "interpose/recorder/recorder.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"

#define COPIED_MAX (4u << 20) /* in the ledger, for all modules of a process */
#define TABLE_MAX (8u << 20)  /* of a file */
#define SECTIONS_MAX 512
#define TIME_MAX_NS 100000000u /* for one module */
#define READ_BYTES (256u << 10)

struct copying {
	struct recorder *recorder;
	const struct ledger_module *row;
	uint32_t module;
	uint32_t *copied;
	uint32_t copied_max;
	uint64_t until;
};

struct symbol_table {
	const ElfW(Sym) *symbols;
	size_t count;
	const char *names;
	size_t names_bytes;
};

static bool is_late(const struct copying *copying)
{
	return clock_ns(CLOCK_MONOTONIC) > copying->until;
}

static bool add_symbol(const struct copying *copying, const ElfW(Sym) *symbol, const char *name,
		       size_t length)
{
	struct ledger_writer *writer = &copying->recorder->writer;
	struct ledger_symbol row = {
		.start = symbol->st_value,
		.bytes = symbol->st_size < UINT32_MAX ? (uint32_t)symbol->st_size : UINT32_MAX,
		.module = copying->module,
	};

	*copying->copied += (uint32_t)(sizeof(row) + sizeof(struct ledger_string) + length + 7);
	if (*copying->copied > copying->copied_max)
		return false;
	row.name = ledger_add_string(writer, name, length);
	return row.name && ledger_add_symbol(writer, &row);
}

static void add_symbols(const struct copying *copying, const struct symbol_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const ElfW(Sym) *symbol = &table->symbols[i];
		unsigned int type = ELF64_ST_TYPE(symbol->st_info);
		size_t length;

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !symbol->st_size ||
		    symbol->st_shndx == SHN_UNDEF || symbol->st_name >= table->names_bytes)
			continue;
		length = strnlen(table->names + symbol->st_name,
				 table->names_bytes - symbol->st_name);
		if (!add_symbol(copying, symbol, table->names + symbol->st_name, length) ||
		    (i % 256 == 0 && is_late(copying)))
			return;
	}
}

/* ---- the file ---- */

static bool read_at(const struct copying *copying, int fd, void *to, size_t bytes, uint64_t from)
{
	for (size_t done = 0; done < bytes;) {
		size_t part = bytes - done < READ_BYTES ? bytes - done : READ_BYTES;
		ssize_t got = nocancel_pread(fd, (char *)to + done, part, (off_t)(from + done));

		if (got <= 0 || is_late(copying))
			return false;
		done += (size_t)got;
	}
	return true;
}

/* Returns true if the file is the mapped one: it begins with the same headers and build id. */
static bool is_mapped(const struct copying *copying, int fd)
{
	char bytes[1024];

	return read_at(copying, fd, bytes, sizeof(bytes), 0) &&
	       memcmp(bytes, (const void *)copying->row->start, sizeof(bytes)) == 0;
}

/* Copies the symbols of section I of the COUNT SECTIONS. */
static bool copy_section(const struct copying *copying, int fd, const ElfW(Shdr) *sections,
			 unsigned int count, unsigned int i)
{
	const ElfW(Shdr) *symbols = &sections[i], *names;
	struct symbol_table table;
	size_t bytes;
	char *memory;
	bool ret;

	names = symbols->sh_link < count ? &sections[symbols->sh_link] : NULL;
	if (!names || symbols->sh_size > TABLE_MAX || names->sh_size > TABLE_MAX)
		return false;
	bytes = symbols->sh_size + names->sh_size;
	if (bytes == 0 || bytes > ledger_address_space_left() / 8)
		return false;
	memory = pages_map(bytes);
	if (!memory)
		return false;
	table = (struct symbol_table){ (void *)memory, symbols->sh_size / sizeof(ElfW(Sym)),
				       memory + symbols->sh_size, names->sh_size };
	ret = read_at(copying, fd, memory, symbols->sh_size, symbols->sh_offset) &&
	      read_at(copying, fd, memory + symbols->sh_size, names->sh_size, names->sh_offset);
	if (ret)
		add_symbols(copying, &table);
	munmap(memory, bytes);
	return ret;
}

static bool copy_sections(const struct copying *copying, int fd, const ElfW(Ehdr) *header)
{
	static const unsigned int types[] = { SHT_SYMTAB, SHT_DYNSYM };
	const size_t bytes = header->e_shnum * sizeof(ElfW(Shdr));
	ElfW(Shdr) *sections = NULL;
	bool ret = false;

	if (header->e_shnum && header->e_shnum <= SECTIONS_MAX &&
	    header->e_shentsize == sizeof(*sections))
		sections = pages_map(bytes);
	if (!sections)
		return false;
	if (read_at(copying, fd, sections, bytes, header->e_shoff))
		for (unsigned int i = 0; i < 2 * header->e_shnum && !ret; i++)
			ret = sections[i % header->e_shnum].sh_type == types[i / header->e_shnum] &&
			      copy_section(copying, fd, sections, header->e_shnum,
					   i % header->e_shnum);
	munmap(sections, bytes);
	return ret;
}

/* O_NONBLOCK: the path may be that of a FIFO by now. */
static bool copy_from_file(const struct copying *copying)
{
	const struct ledger_string *string = ledger_at(&copying->recorder->writer,
						       copying->row->path);
	char path[PATH_MAX];
	ElfW(Ehdr) header;
	struct stat st;
	bool ret;
	int fd;

	if (!copying->row->path || !string->length || string->length >= sizeof(path))
		return false;
	memcpy(path, string->bytes, string->length);
	path[string->length] = '\0';
	fd = nocancel_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return false;
	ret = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	      read_at(copying, fd, &header, sizeof(header), 0) &&
	      memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
	      header.e_ident[EI_CLASS] == ELFCLASS64 && is_mapped(copying, fd) &&
	      copy_sections(copying, fd, &header);
	nocancel_close(fd);
	return ret;
}

/* ---- the loader's table ---- */

static bool is_inside(const struct copying *copying, uint64_t address, uint64_t bytes)
{
	return address >= copying->row->start && address < copying->row->end &&
	       bytes <= copying->row->end - address;
}

/* Returns the number of symbols of the hash table at HASH (DT_GNU_HASH), or 0. The last symbol is
 * at the end of the chain of the largest bucket. */
static size_t count_hashed(const struct copying *copying, uint64_t hash)
{
	const uint32_t *head = (const uint32_t *)hash, *buckets, *chain;
	uint32_t last = 0;

	if (!hash || !is_inside(copying, hash, 4 * sizeof(*head)))
		return 0;
	buckets = head + 4 + 2 * (size_t)head[2];
	chain = buckets + head[0];
	if (!is_inside(copying, (uint64_t)buckets, sizeof(*buckets) * (uint64_t)head[0]))
		return 0;
	for (uint32_t i = 0; i < head[0]; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < head[1])
		return 0;
	while (is_inside(copying, (uint64_t)(chain + (last - head[1])), sizeof(*chain)))
		if (chain[last++ - head[1]] & 1)
			return last;
	return 0;
}

/* The loader replaced the addresses in the section by those in memory. */
static void copy_from_memory(const struct copying *copying, uint64_t dynamic)
{
	struct symbol_table table = { 0 };
	uint64_t hash = 0;

	for (const ElfW(Dyn) *at = (const ElfW(Dyn) *)dynamic;
	     dynamic && is_inside(copying, (uint64_t)at, sizeof(*at)) && at->d_tag != DT_NULL;
	     at++) {
		if (at->d_tag == DT_SYMTAB)
			table.symbols = (const ElfW(Sym) *)at->d_un.d_ptr;
		else if (at->d_tag == DT_STRTAB)
			table.names = (const char *)at->d_un.d_ptr;
		else if (at->d_tag == DT_STRSZ)
			table.names_bytes = at->d_un.d_val;
		else if (at->d_tag == DT_GNU_HASH)
			hash = at->d_un.d_ptr;
	}
	table.count = count_hashed(copying, hash);
	if (is_inside(copying, (uint64_t)table.symbols, table.count * sizeof(*table.symbols)) &&
	    is_inside(copying, (uint64_t)table.names, table.names_bytes))
		add_symbols(copying, &table);
}

/* Returns how many bytes of the ledger the copies may take. Blocks need the room more than names,
 * where RLIMIT_FSIZE or RLIMIT_AS is small. */
static uint32_t most_copied(const struct recorder *recorder)
{
	uint64_t ret = COPIED_MAX;
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur / 8 < ret)
		ret = limit.rlim_cur / 8;
	if (recorder->writer.reserved_bytes / 8 < ret)
		ret = recorder->writer.reserved_bytes / 8;
	return (uint32_t)ret;
}

void module_symbols_copy(struct recorder *recorder, uint32_t module, uint64_t dynamic,
			 uint32_t *copied)
{
	const struct copying copying = {
		.recorder = recorder,
		.row = ledger_at(&recorder->writer, module),
		.module = module,
		.copied = copied,
		.copied_max = most_copied(recorder),
		.until = clock_ns(CLOCK_MONOTONIC) + TIME_MAX_NS,
	};

	if (*copied < copying.copied_max && !copy_from_file(&copying))
		copy_from_memory(&copying, dynamic);
}
