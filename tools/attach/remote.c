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

/* Returns the value of entry TAG of the dynamic section at DYNAMIC; 0 if there is none. */
static uint64_t dynamic_value(int pid, uint64_t dynamic, int64_t tag)
{
	for (int i = 0; i < DYNAMIC_MAX; i++) {
		const uint64_t at = dynamic + (uint64_t)i * sizeof(Elf64_Dyn);
		Elf64_Dyn entry;

		if (!remote_read(pid, at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
			return 0;
		if (entry.d_tag == tag)
			return entry.d_un.d_val;
	}
	return 0;
}

/* Returns the address in entry TAG. glibc relocates these entries, other loaders do not. */
static uint64_t dynamic_address(int pid, const struct remote_module *module, int64_t tag)
{
	const uint64_t value = dynamic_value(pid, module->dynamic, tag);

	return value && value < module->bias ? value + module->bias : value;
}

/* Returns the address of the program's dynamic section; 0 if it has none. */
static uint64_t program_dynamic(int pid)
{
	char path[64];
	Elf64_auxv_t values[64];
	Elf64_Phdr header;
	uint64_t at = 0, count = 0, bias = 0, dynamic = 0;
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
			bias = at - header.p_vaddr;
		else if (header.p_type == PT_DYNAMIC)
			dynamic = header.p_vaddr;
	}
	return dynamic ? dynamic + bias : 0;
}

static bool read_module(int pid, uint64_t at, struct remote_module *ret)
{
	struct link_map map;

	if (!at || !remote_read(pid, at, &map, sizeof(map)) || !map.l_ld)
		return false;
	ret->bias = map.l_addr;
	ret->dynamic = (uint64_t)(uintptr_t)map.l_ld;
	ret->next = (uint64_t)(uintptr_t)map.l_next;
	return read_text(pid, (uint64_t)(uintptr_t)map.l_name, ret->name, sizeof(ret->name));
}

bool remote_first(int pid, struct remote_module *ret)
{
	const uint64_t dynamic = program_dynamic(pid);
	const uint64_t at = dynamic ? dynamic_value(pid, dynamic, DT_DEBUG) : 0;
	struct r_debug list;

	return at && remote_read(pid, at, &list, sizeof(list)) &&
	       read_module(pid, (uint64_t)(uintptr_t)list.r_map, ret);
}

bool remote_next(int pid, struct remote_module *module)
{
	return read_module(pid, module->next, module);
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
	const uint64_t symbols = dynamic_address(pid, module, DT_SYMTAB);
	const uint64_t strings = dynamic_address(pid, module, DT_STRTAB);
	char text[NAME_MAX_HERE];
	const uint64_t at = symbols + (uint64_t)index * sizeof(Elf64_Sym);
	Elf64_Sym symbol;

	if (!symbols || !strings || !remote_read(pid, at, &symbol, sizeof(symbol)) ||
	    symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
	    !read_text(pid, strings + symbol.st_name, text, sizeof(text)))
		return 0;
	return strcmp(text, name) == 0 ? module->bias + symbol.st_value : 0;
}

uint64_t remote_symbol(int pid, const struct remote_module *module, const char *name)
{
	const uint64_t table = dynamic_address(pid, module, DT_GNU_HASH);
	struct { uint32_t buckets, first, bloom_words, shift; } head;
	const uint32_t hash = hash_of(name);
	uint64_t buckets, found = 0;
	uint32_t index, word = 0;

	if (!table || !remote_read(pid, table, &head, sizeof(head)) || !head.buckets)
		return 0;
	buckets = table + sizeof(head) + (uint64_t)head.bloom_words * 8;
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

uint64_t remote_find(int pid, const char *prefix, const char *name, struct remote_module *ret)
{
	uint64_t found = 0;

	for (bool more = remote_first(pid, ret); more; more = remote_next(pid, ret)) {
		if (!prefix || strncmp(path_last(ret->name), prefix, strlen(prefix)) == 0)
			found = remote_symbol(pid, ret, name);
		if (found)
			return found;
	}
	return 0;
}
