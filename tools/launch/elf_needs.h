/* SPDX-License-Identifier: MIT
 *
 * Which libraries an ELF file needs, and in which directories the dynamic loader searches them.
 * Trusts nothing in the file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct elf_needs {
	const char *bytes; /* the file */
	size_t size;
	const char *strings; /* of the dynamic section; NULL if the file has no such section */
	size_t string_size;
	const char *rpath, *runpath; /* NULL if the file does not set it */
	const void *dynamic;
	size_t dynamic_count;
};

/* Maps the file at PATH. Returns 0, or -errno; -ENOEXEC if it is not a dynamically linked program
 * for this machine's word size. The caller releases *RET with elf_needs_close(). */
int elf_needs_open(const char *path, struct elf_needs *ret);
void elf_needs_close(struct elf_needs *needs);

/* Returns the first needed library whose name begins with PREFIX, or NULL. */
const char *elf_needs_find(const struct elf_needs *needs, const char *prefix);

/* Returns true if the file contains TEXT. */
bool elf_needs_contains(const struct elf_needs *needs, const char *text);
