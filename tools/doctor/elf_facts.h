/* SPDX-License-Identifier: MIT
 *
 * Reads from an ELF file what decides if gpuleak can record the program. Runs no code of the file.
 * The file may be damaged: a child process reads it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct elf_facts {
	bool is_elf;
	unsigned int machine;       /* EM_X86_64 ... */
	char interpreter[PATH_MAX]; /* the dynamic loader; "": none */
	char build_id[2 * 64 + 1];  /* in hexadecimal digits; "": none */
	char debug_link[NAME_MAX + 1]; /* name of the file with debug information; "": none */
	bool has_debug_info, has_symbols, has_unwind_tables;
	bool has_cuda_code;         /* nvcc made a part of it */
	bool has_memory_sanitizer;
	bool uses_dlmopen;
};

/* Returns 0, or -errno if the file cannot be read. A file that is not ELF is no error. */
int elf_facts_read(const char *path, struct elf_facts *ret);

/* Returns how many of NAMES, which end with NULL, the library at PATH exports; -errno on error. */
int elf_count_exports(const char *path, const char *const names[]);
