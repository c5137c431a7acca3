/* SPDX-License-Identifier: MIT
 *
 * Follows the loader's list (r_debug) of another process, and looks up symbols in the hash tables
 * that are mapped there. Nothing that is read is trusted: all loops have a limit.
 */
#include "tools/attach/remote.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "report/util/path.h"
#include "tools/launch/process.h"

#define PAGE 4096u /* the smallest size of a page */
#define DYNAMIC_MAX 256
#define HEADERS_MAX 64
#define CHAIN_MAX 100000
#define NAME_MAX_HERE 64 /* bytes; the names that are looked up are shorter */

bool remote_read(int pid, uint64_t address, void *ret, size_t size)
{
	const struct iovec here = { ret, size };
	const struct iovec there = { (void *)(uintptr_t)address, size };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

bool remote_write(int pid, uint64_t address, const void *bytes, size_t size)
{
	const struct iovec here = { (void *)(uintptr_t)bytes, size };
	const struct iovec there = { (void *)(uintptr_t)address, size };

	return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* Reads a text page by page, because the page after its end may not be mapped. */
static bool read_text(int pid, uint64_t address, char *ret, size_t size)
{
	size_t done = 0, part;

	for (; done + 1 < size; done += part) {
		part = PAGE - (address + done) % PAGE;
		part = part < size - 1 - done ? part : size - 1 - done;
		if (!remote_read(pid, address + done, ret + done, part))
			return false;
		if (memchr(ret + done, '\0', part))
			return true;
	}
	ret[size - 1] = '\0';
	return true;
}

/* A library of the process, or the program itself, whose name is "". */
struct remote_module {
	uint64_t bias, symbols, strings, hash;
	uint64_t list; /* address of the loader's list: only the program has it */
	uint64_t next; /* address of the next element of that list; 0: none */
};

/* Reads the dynamic section at AT. glibc relocates its addresses, other loaders do not. */
static void read_dynamic(int pid, uint64_t at, struct remote_module *ret)
{
	Elf64_Dyn entry;

	for (int i = 0; i < DYNAMIC_MAX; i++, at += sizeof(entry)) {
		uint64_t value;

		if (!remote_read(pid, at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
			return;
		value = entry.d_un.d_val;
		value += value < ret->bias ? ret->bias : 0;
		if (entry.d_tag == DT_SYMTAB)
			ret->symbols = value;
		else if (entry.d_tag == DT_STRTAB)
			ret->strings = value;
		else if (entry.d_tag == DT_GNU_HASH)
			ret->hash = value;
		else if (entry.d_tag == DT_DEBUG)
			ret->list = entry.d_un.d_val;
	}
}

/* Returns the address of the first element of the loader's list; 0 if the program is linked
 * statically, or has not begun. */
static uint64_t first_module(int pid)
{
	Elf64_auxv_t values[64];
	Elf64_Phdr header;
	struct remote_module program = { 0 };
	struct r_debug list;
	uint64_t at = 0, count = 0, dynamic = 0;
	char path[64];
	size_t bytes;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	bytes = file_head(path, (char *)values, sizeof(values));
	for (size_t i = 0; i < bytes / sizeof(values[0]); i++) {
		if (values[i].a_type == AT_PHDR)
			at = values[i].a_un.a_val;
		else if (values[i].a_type == AT_PHNUM)
			count = values[i].a_un.a_val;
	}
	for (uint64_t i = 0; i < count && i < HEADERS_MAX; i++) {
		if (!remote_read(pid, at + i * sizeof(header), &header, sizeof(header)))
			return 0;
		if (header.p_type == PT_PHDR)
			program.bias = at - header.p_vaddr;
		else if (header.p_type == PT_DYNAMIC)
			dynamic = header.p_vaddr;
	}
	if (dynamic)
		read_dynamic(pid, dynamic + program.bias, &program);
	return program.list && remote_read(pid, program.list, &list, sizeof(list))
		       ? (uint64_t)(uintptr_t)list.r_map : 0;
}

/* Reads the module at AT. Only if its file name begins with PREFIX, or that is NULL, reads its
 * tables. */
static bool read_module(int pid, uint64_t at, const char *prefix, struct remote_module *ret,
			char name[PATH_MAX])
{
	struct link_map map;

	if (!at || !remote_read(pid, at, &map, sizeof(map)) || !map.l_ld ||
	    !read_text(pid, (uint64_t)(uintptr_t)map.l_name, name, PATH_MAX))
		return false;
	*ret = (struct remote_module){ .bias = map.l_addr };
	ret->next = (uint64_t)(uintptr_t)map.l_next;
	if (!prefix || strncmp(path_last(name), prefix, strlen(prefix)) == 0)
		read_dynamic(pid, (uint64_t)(uintptr_t)map.l_ld, ret);
	return true;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* Returns the address of NAME if the symbol number INDEX of MODULE is its definition. */
static uint64_t symbol_at(int pid, const struct remote_module *module, uint32_t index,
			  const char *name)
{
	const uint64_t at = module->symbols + (uint64_t)index * sizeof(Elf64_Sym);
	char text[NAME_MAX_HERE];
	Elf64_Sym symbol;

	if (!remote_read(pid, at, &symbol, sizeof(symbol)) || symbol.st_shndx == SHN_UNDEF ||
	    ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
	    !read_text(pid, module->strings + symbol.st_name, text, sizeof(text)))
		return 0;
	return strcmp(text, name) == 0 ? module->bias + symbol.st_value : 0;
}

static uint64_t find_symbol(int pid, const struct remote_module *module, const char *name)
{
	struct { uint32_t buckets, first, bloom_words, shift; } head;
	const uint32_t hash = hash_of(name);
	uint64_t buckets, found = 0;
	uint32_t index, word = 0;

	if (!module->hash || !module->symbols || !module->strings ||
	    !remote_read(pid, module->hash, &head, sizeof(head)) || !head.buckets)
		return 0;
	buckets = module->hash + sizeof(head) + (uint64_t)head.bloom_words * 8;
	if (!remote_read(pid, buckets + (uint64_t)(hash % head.buckets) * 4, &index, 4) ||
	    index < head.first)
		return 0;
	for (int i = 0; i < CHAIN_MAX && !found && !(word & 1); i++, index++) {
		if (!remote_read(pid, buckets + ((uint64_t)head.buckets + index - head.first) * 4,
				 &word, 4))
			return 0;
		if ((word | 1) == (hash | 1))
			found = symbol_at(pid, module, index, name);
	}
	return found;
}

uint64_t remote_find(int pid, const char *prefix, const char *name, char library[PATH_MAX])
{
	struct remote_module module = { .next = first_module(pid) };
	uint64_t found = 0;

	while (!found && read_module(pid, module.next, prefix, &module, library))
		found = find_symbol(pid, &module, name);
	return found;
}
