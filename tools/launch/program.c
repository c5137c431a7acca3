/* SPDX-License-Identifier: MIT
 *
 * Inspects a program file before it is started, to explain why nothing will be recorded. Only
 * reads files. If a check fails, the program is started anyway, and the kernel reports the
 * error.
 */
#include "tools/launch/program.h"

#include <elf.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "report/util/path.h"
#include "tools/launch/system.h"

#define SCRIPTS_MAX 4 /* limit of nested script interpreters; the kernel has one, too */

static int try_path(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

/* Searches NAME in the directories of PATH. If a file is not executable, continues: a later
 * directory may have an executable one. Returns 0 or -errno. */
static int search(const char *name, char *ret, size_t size)
{
	const char *at = getenv("PATH");
	int result = -ENOENT;

	if (!at)
		at = "/bin:/usr/bin";
	for (;;) {
		size_t length = strcspn(at, ":");
		int n = snprintf(ret, size, "%.*s%s%s", (int)length, at, length ? "/" : "", name);
		int r = n < 0 || (size_t)n >= size ? -ENAMETOOLONG : try_path(ret);

		if (r == 0)
			return 0;
		if (r == -EACCES)
			result = r;
		if (!at[length])
			return result;
		at += length + 1;
	}
}

int program_status(int r)
{
	return r == -ENOENT || r == -ENOTDIR ? 127 : 126;
}

/* Finds the interpreter in the first line of a script. */
static int script_interpreter(char *head, char *ret, size_t size)
{
	char *line = head + 2;
	size_t length;

	line[strcspn(line, "\n")] = '\0';
	line += strspn(line, " \t");
	length = strcspn(line, " \t\r");
	if (length == 0 || length >= size)
		return -ENOEXEC;
	memcpy(ret, line, length);
	ret[length] = '\0';
	return 0;
}

static unsigned int our_machine(void)
{
#if defined(__x86_64__)
	return EM_X86_64;
#elif defined(__aarch64__)
	return EM_AARCH64;
#else
	return EM_NONE;
#endif
}

/* Returns true if PATH is the dynamic loader. It has no interpreter itself, but it preloads
 * libraries. */
static bool is_loader(const char *path)
{
	const char *base = path_last(path);

	return strncmp(base, "ld-", 3) == 0 || strncmp(base, "ld.", 3) == 0;
}

/* Returns true for musl's loader. It cannot load a library linked with glibc: it prints errors and
 * exits with status 127. */
static bool is_musl_loader(const char *path)
{
	return strncmp(path_last(path), "ld-musl-", strlen("ld-musl-")) == 0;
}

/* Returns 1 with the interpreter's path in RET, 0 if the program headers have none, -1 if they
 * cannot be read. */
static int read_interpreter(int fd, const ElfW(Ehdr) *header, char ret[PATH_MAX])
{
	ElfW(Phdr) program;
	ssize_t n;

	if (header->e_phentsize != sizeof(program))
		return -1;
	for (unsigned int i = 0; i < header->e_phnum; i++) {
		off_t at = (off_t)header->e_phoff + (off_t)(i * sizeof(program));

		if (pread(fd, &program, sizeof(program), at) != (ssize_t)sizeof(program))
			return -1;
		if (program.p_type != PT_INTERP)
			continue;
		n = pread(fd, ret, PATH_MAX - 1, (off_t)program.p_offset);
		ret[n > 0 ? n : 0] = '\0';
		return 1;
	}
	return 0;
}

static const char *elf_trouble(int fd, const char *path, const ElfW(Ehdr) *header,
			       struct program *program)
{
	static char musl[PATH_MAX + 100];
	char interpreter[PATH_MAX] = "";
	int has_one;

	program->advice = "use a build of the program for the processor of libgpuleak.so";
	if (header->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return "and libgpuleak.so are not both 64-bit (or both 32-bit)";
	if (our_machine() != EM_NONE && header->e_machine != our_machine())
		return "is a program for another processor than libgpuleak.so";
	has_one = read_interpreter(fd, header, interpreter);
	if (is_musl_loader(path) || is_musl_loader(interpreter)) {
		program->refuses_library = true;
		program->advice = "use a build of the program for glibc";
		snprintf(musl, sizeof(musl), "uses the musl C library (%s), which libgpuleak.so "
			 "does not support", has_one == 1 ? interpreter : path);
		return musl;
	}
	program->advice = "link the program dynamically (the CUDA runtime may be static)";
	if (has_one == 0 && !is_loader(path))
		return "is statically linked: no library can be preloaded into it";
	return NULL;
}

/* Returns why the loader will ignore LD_PRELOAD for PATH (set-user-ID or similar), or NULL. */
static const char *privilege_trouble(const char *path, const struct stat *st)
{
	struct statvfs vfs;

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	    (statvfs(path, &vfs) == 0 && (vfs.f_flag & ST_NOSUID)))
		return NULL;
	if ((st->st_mode & S_ISUID) && st->st_uid != getuid())
		return "is setuid: the loader ignores LD_PRELOAD for it";
	if ((st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st->st_gid != getgid())
		return "is setgid: the loader ignores LD_PRELOAD for it";
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return "has file capabilities: the loader ignores LD_PRELOAD for it";
	return NULL;
}

/* Inspects PATH. If it is a script, returns 1 and replaces PATH by the path of its interpreter.
 * Otherwise returns 0 and sets *RET_TROUBLE if the library cannot be preloaded. */
static int check_program(char *path, size_t size, struct program *program, const char **ret_trouble)
{
	union {
		char text[512];
		ElfW(Ehdr) elf;
	} head = { .text = "" };
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;
	int r = 0;

	if (fd < 0) /* executable, but not readable */
		return 0;
	n = pread(fd, head.text, sizeof(head.text) - 1, 0);
	if (n > 2 && head.text[0] == '#' && head.text[1] == '!') {
		r = script_interpreter(head.text, path, size) == 0;
	} else if (n >= (ssize_t)sizeof(head.elf) && memcmp(head.text, ELFMAG, SELFMAG) == 0) {
		*ret_trouble = elf_trouble(fd, path, &head.elf, program);
		if (!*ret_trouble && fstat(fd, &st) == 0) {
			program->advice = "run a copy of the file, which has no such privilege, or "
					  "let the program start gpuleak, as in sudo gpuleak run";
			*ret_trouble = privilege_trouble(path, &st);
		}
	}
	close(fd);
	return r;
}

int program_find(const char *name, struct program *ret)
{
	char path[PATH_MAX];
	const char *trouble = NULL;
	int r;

	ret->deaf[0] = '\0';
	ret->advice = NULL;
	ret->refuses_library = false;
	if (!*name)
		return -ENOENT;
	if (strlen(name) >= sizeof(ret->path))
		return -ENAMETOOLONG;
	if (strchr(name, '/')) {
		strcpy(ret->path, name);
		r = try_path(name);
	} else {
		r = search(name, ret->path, sizeof(ret->path));
	}
	if (r < 0)
		return r;
	strcpy(path, ret->path);
	for (int i = 0; i < SCRIPTS_MAX && check_program(path, sizeof(path), ret, &trouble) == 1;
	     i++)
		;
	if (trouble)
		snprintf(ret->deaf, sizeof(ret->deaf), "%s %s", path, trouble);
	return 0;
}
