/* SPDX-License-Identifier: MIT
 *
 * Uses libelf in a child process, which passes the facts back as bytes.
 */
#include "tools/doctor/elf_facts.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <libelf.h>

#include "tools/doctor/probe.h"
#include "tools/launch/system.h"

#define READ_SECONDS 20 /* PyTorch's libraries have gigabytes, maybe on a network */

struct reading {
	const char *path;
	const char *const *names; /* for elf_count_exports() */
};

static Elf *open_elf(const char *path, int *ret_fd)
{
	struct stat st;

	*ret_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*ret_fd < 0 || fstat(*ret_fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    elf_version(EV_CURRENT) == EV_NONE)
		return NULL;
	return elf_begin(*ret_fd, ELF_C_READ_MMAP, NULL);
}

static void read_headers(Elf *elf, int fd, struct elf_facts *ret)
{
	GElf_Ehdr header;
	GElf_Phdr program;
	size_t count = 0;

	if (!gelf_getehdr(elf, &header))
		return;
	ret->is_elf = true;
	ret->machine = header.e_machine;
	elf_getphdrnum(elf, &count);
	for (size_t i = 0; i < count; i++) {
		ssize_t n;

		if (!gelf_getphdr(elf, (int)i, &program) || program.p_type != PT_INTERP)
			continue;
		n = pread(fd, ret->interpreter, sizeof(ret->interpreter) - 1,
			  (off_t)program.p_offset);
		ret->interpreter[n > 0 ? n : 0] = '\0';
		if (n > 0 && program.p_filesz < (GElf_Xword)n)
			ret->interpreter[program.p_filesz] = '\0';
	}
}

static void read_sections(Elf *elf, struct elf_facts *ret)
{
	size_t names;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return;
	while ((section = elf_nextscn(elf, section)) != NULL) {
		const char *name = gelf_getshdr(section, &header)
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;

		if (!name)
			continue;
		ret->has_debug_info |= strcmp(name, ".debug_info") == 0 ||
				       strcmp(name, ".zdebug_info") == 0;
		ret->has_symbols |= strcmp(name, ".symtab") == 0;
		ret->has_unwind_tables |= strcmp(name, ".eh_frame") == 0;
		ret->has_cuda_code |= strcmp(name, ".nv_fatbin") == 0;
	}
}

/* Calls TAKE for each dynamic symbol with a name. */
static void each_symbol(Elf *elf, void (*take)(const char *name, bool defined, void *data),
			void *data)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Sym symbol;

	while ((section = elf_nextscn(elf, section)) != NULL) {
		Elf_Data *symbols;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM ||
		    !header.sh_entsize)
			continue;
		symbols = elf_getdata(section, NULL);
		for (size_t i = 0; symbols && i < header.sh_size / header.sh_entsize; i++) {
			const char *name = gelf_getsym(symbols, (int)i, &symbol)
						   ? elf_strptr(elf, header.sh_link, symbol.st_name)
						   : NULL;

			if (name && *name)
				take(name, symbol.st_shndx != SHN_UNDEF, data);
		}
	}
}

static void take_symbol(const char *name, bool defined, void *data)
{
	struct elf_facts *ret = data;

	ret->has_memory_sanitizer |= defined && strcmp(name, "__msan_init") == 0;
	ret->uses_dlmopen |= !defined && strcmp(name, "dlmopen") == 0;
}

static void read_build_id(Elf *elf, char *ret, size_t size)
{
	const void *id;
	ssize_t bytes = dwelf_elf_gnu_build_id(elf, &id);

	for (ssize_t i = 0; i < bytes && (size_t)(2 * i + 2) < size; i++)
		snprintf(ret + 2 * i, 3, "%02x", ((const unsigned char *)id)[i]);
}

static void read_debug_link(Elf *elf, char *ret, size_t size)
{
	GElf_Word checksum;
	const char *name = dwelf_elf_gnu_debuglink(elf, &checksum);

	if (name && strlen(name) < size && !strchr(name, '/'))
		strcpy(ret, name);
}

static void read_facts(FILE *out, void *data)
{
	const struct reading *reading = data;
	struct elf_facts facts = { 0 };
	int fd;
	Elf *elf = open_elf(reading->path, &fd);

	if (elf && elf_kind(elf) == ELF_K_ELF) {
		read_headers(elf, fd, &facts);
		read_sections(elf, &facts);
		read_build_id(elf, facts.build_id, sizeof(facts.build_id));
		read_debug_link(elf, facts.debug_link, sizeof(facts.debug_link));
		each_symbol(elf, take_symbol, &facts);
	}
	if (fd >= 0)
		fwrite(&facts, sizeof(facts), 1, out);
}

int elf_facts_read(const char *path, struct elf_facts *ret)
{
	struct reading reading = { .path = path };
	AT_END(probe_finish) struct probe probe = { 0 };
	int r = probe_call(read_facts, &reading, READ_SECONDS, &probe);

	if (r == 0 && probe_succeeded(&probe) && probe.length == sizeof(*ret))
		memcpy(ret, probe.text, sizeof(*ret));
	else if (r == 0)
		r = -EIO;
	return r;
}

struct export_count {
	const char *const *names;
	int count;
};

static void count_symbol(const char *name, bool defined, void *data)
{
	struct export_count *counted = data;

	for (size_t i = 0; defined && counted->names[i]; i++)
		counted->count += strcmp(counted->names[i], name) == 0;
}

static void read_exports(FILE *out, void *data)
{
	const struct reading *reading = data;
	struct export_count counted = { reading->names, 0 };
	int fd;
	Elf *elf = open_elf(reading->path, &fd);

	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return;
	each_symbol(elf, count_symbol, &counted);
	fprintf(out, "%d", counted.count);
}

int elf_count_exports(const char *path, const char *const names[])
{
	struct reading reading = { .path = path, .names = names };
	AT_END(probe_finish) struct probe probe = { 0 };
	int r = probe_call(read_exports, &reading, READ_SECONDS, &probe);

	if (r < 0)
		return r;
	return probe_succeeded(&probe) && probe.length ? atoi(probe.text) : -EIO;
}
