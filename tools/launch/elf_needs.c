/* SPDX-License-Identifier: MIT
 *
 * Reads the dynamic section of an ELF file by its program headers, as the dynamic loader does.
 */
#include "tools/launch/elf_needs.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "tools/launch/system.h"

static const void *part(const struct elf_needs *needs, uint64_t at, uint64_t size)
{
	return at <= needs->size && size <= needs->size - at ? needs->bytes + at : NULL;
}

/* Copies program header NUMBER. Returns false if the file does not have it. */
static bool read_header(const struct elf_needs *needs, unsigned int number, ElfW(Phdr) *ret)
{
	const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)needs->bytes;
	const void *found = part(needs, elf->e_phoff + (uint64_t)number * sizeof(*ret),
				 sizeof(*ret));

	if (found)
		memcpy(ret, found, sizeof(*ret));
	return found != NULL;
}

/* Returns the bytes in the file for the address, up to the end of its segment, or NULL. */
static const char *at_address(const struct elf_needs *needs, uint64_t address, uint64_t *ret_size)
{
	const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)needs->bytes;
	ElfW(Phdr) header;

	for (unsigned int i = 0; i < elf->e_phnum && read_header(needs, i, &header); i++)
		if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
		    address - header.p_vaddr < header.p_filesz) {
			*ret_size = header.p_filesz - (address - header.p_vaddr);
			return part(needs, header.p_offset + (address - header.p_vaddr),
				    *ret_size);
		}
	return NULL;
}

static bool entry(const struct elf_needs *needs, size_t number, ElfW(Dyn) *ret)
{
	if (number >= needs->dynamic_count)
		return false;
	memcpy(ret, (const char *)needs->dynamic + number * sizeof(*ret), sizeof(*ret));
	return ret->d_tag != DT_NULL;
}

/* Returns the string at this offset, or NULL if it has no end. */
static const char *string(const struct elf_needs *needs, uint64_t at)
{
	if (at >= needs->string_size || !memchr(needs->strings + at, '\0', needs->string_size - at))
		return NULL;
	return needs->strings + at;
}

static void read_dynamic(struct elf_needs *needs)
{
	uint64_t size = 0;
	ElfW(Dyn) d;

	for (size_t i = 0; entry(needs, i, &d); i++)
		if (d.d_tag == DT_STRTAB)
			needs->strings = at_address(needs, d.d_un.d_ptr, &size);
	needs->string_size = needs->strings ? size : 0;
	for (size_t i = 0; entry(needs, i, &d); i++) {
		if (d.d_tag == DT_RPATH)
			needs->rpath = string(needs, d.d_un.d_val);
		if (d.d_tag == DT_RUNPATH)
			needs->runpath = string(needs, d.d_un.d_val);
	}
}

static int find_dynamic(struct elf_needs *needs)
{
	const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)needs->bytes;
	ElfW(Phdr) header;

	if (needs->size < sizeof(*elf) || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    elf->e_phentsize != sizeof(header))
		return -ENOEXEC;
	for (unsigned int i = 0; i < elf->e_phnum && read_header(needs, i, &header); i++)
		if (header.p_type == PT_DYNAMIC) {
			needs->dynamic = part(needs, header.p_offset, header.p_filesz);
			needs->dynamic_count =
				needs->dynamic ? header.p_filesz / sizeof(ElfW(Dyn)) : 0;
			read_dynamic(needs);
			return 0;
		}
	return -ENOEXEC;
}

int elf_needs_open(const char *path, struct elf_needs *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *bytes;
	int r = 0;

	*ret = (struct elf_needs){ 0 };
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(ElfW(Ehdr)))
		r = -ENOEXEC;
	if (r == 0) {
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED)
			r = -errno;
		else
			*ret = (struct elf_needs){ .bytes = bytes, .size = (size_t)st.st_size };
	}
	close(fd);
	if (r == 0)
		r = find_dynamic(ret);
	if (r < 0)
		elf_needs_close(ret);
	return r;
}

void elf_needs_close(struct elf_needs *needs)
{
	if (needs->bytes)
		munmap((void *)needs->bytes, needs->size);
	*needs = (struct elf_needs){ 0 };
}

const char *elf_needs_find(const struct elf_needs *needs, const char *prefix)
{
	const char *name;
	ElfW(Dyn) d;

	for (size_t i = 0; entry(needs, i, &d); i++) {
		name = d.d_tag == DT_NEEDED ? string(needs, d.d_un.d_val) : NULL;
		if (name && strncmp(name, prefix, strlen(prefix)) == 0)
			return name;
	}
	return NULL;
}

bool elf_needs_contains(const struct elf_needs *needs, const char *text)
{
	return needs->bytes && memmem(needs->bytes, needs->size, text, strlen(text));
}
