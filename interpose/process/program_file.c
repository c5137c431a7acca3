/* SPDX-License-Identifier: MIT
 *
 * Searches PATH, and reads the first bytes of a program or of a script's interpreter. What lies
 * further behind in a file counts as usual.
 */
#include "interpose/process/follow.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/base/at_end.h"
#include "ledger/nocancel.h"

#define HEAD_BYTES 4096
#define SCRIPTS_MAX 4 /* the kernel has such a limit, too */

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

/* Stores the path that execvp would execute. Returns false if execvp would find no program. */
static bool find_in_path(const char *file, char ret[PATH_MAX])
{
	const char *path = getenv("PATH"), *end;
	size_t length;

	if (!path)
		path = "/bin:/usr/bin";
	for (;; path = end + 1) {
		end = strchrnul(path, ':');
		length = (size_t)(end - path);
		if (length + strlen(file) + 2 < PATH_MAX) {
			memcpy(ret, path, length);
			ret[length] = '/';
			strcpy(ret + length + (length > 0), file);
			if (access(ret, X_OK) == 0)
				return true;
		}
		if (!*end)
			return false;
	}
}

/* Stores the path of FILE. Returns false if it cannot be executed. */
static bool find(const char *file, enum program_search search, char ret[PATH_MAX])
{
	if (!file || strlen(file) >= PATH_MAX)
		return false;
	if (search == PROGRAM_IN_PATH && !strchr(file, '/'))
		return find_in_path(file, ret);
	strcpy(ret, file);
	return access(file, X_OK) == 0;
}

bool program_file_runs(const char *file, enum program_search search)
{
	KEEP_ERRNO;
	char path[PATH_MAX];

	return search == PROGRAM_UNKNOWN || find(file, search, path);
}

/* Returns the number of bytes read, with a NUL behind them. */
static size_t read_head(const char *path, char ret[HEAD_BYTES + 1])
{
	int fd = nocancel_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	ssize_t n = fd < 0 ? 0 : nocancel_read(fd, ret, HEAD_BYTES);

	if (fd >= 0)
		nocancel_close(fd);
	ret[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* Replaces PATH by the interpreter in the first line of the script HEAD. */
static bool find_interpreter(char *head, char path[PATH_MAX])
{
	char *name = head + 2 + strspn(head + 2, " \t");
	size_t length = strcspn(name, " \t\r\n");

	if (length == 0 || length >= PATH_MAX)
		return false;
	memcpy(path, name, length);
	path[length] = '\0';
	return true;
}

/* Returns true if INTERPRETER, a dynamic loader, is musl's. */
static bool is_musl(const char *interpreter)
{
	return strncmp(basename(interpreter), "ld-musl-", 8) == 0;
}

static bool elf_refuses(const char *head, size_t length)
{
	ElfW(Ehdr) header;
	ElfW(Phdr) program;

	if (length < sizeof(header) || memcmp(head, ELFMAG, SELFMAG) != 0)
		return false;
	memcpy(&header, head, sizeof(header));
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != MACHINE)
		return true;
	for (size_t i = 0; i < header.e_phnum; i++) {
		const size_t at = header.e_phoff + i * sizeof(program);

		if (header.e_phoff > length || at + sizeof(program) > length)
			return false;
		memcpy(&program, head + at, sizeof(program));
		if (program.p_type == PT_INTERP)
			return program.p_offset < length && is_musl(head + program.p_offset);
	}
	return false;
}

bool program_file_refuses(const char *file, enum program_search search)
{
	char path[PATH_MAX], head[HEAD_BYTES + 1];
	size_t length = 0;
	KEEP_ERRNO;
	bool found = search != PROGRAM_UNKNOWN && find(file, search, path);

	for (int i = 0; found && i < SCRIPTS_MAX; i++) {
		length = read_head(path, head);
		if (strncmp(head, "#!", 2) != 0 || !find_interpreter(head, path))
			break;
	}
	return found && elf_refuses(head, length);
}
