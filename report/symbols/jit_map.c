/* SPDX-License-Identifier: MIT
 *
 * Reads the files into memory, because another process may change them meanwhile, and at most
 * BYTES_MAX of them. Uses only regular files of the traced process's user that were last written
 * while the process ran. An older file is left from another process that had the same pid, and is
 * ignored.
 */
#include "report/symbols/jit_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/symbols/elfsymbols.h"
#include "report/util/memory.h"

#define BYTES_MAX ((size_t)128 << 20)
#define ENTRIES_MAX 1000000
#define NAME_BYTES_MAX 1000 /* longer names are cut */
#define LATE_NS UINT64_C(10000000000) /* the runtime may write until the process is gone */

struct jit_map {
	struct elfsymbols *symbols; /* a later entry has a higher rank */
	struct report_arena arena;
	int count;
	bool cut; /* a part of the file was not read */
};

struct map_bytes {
	char *at;
	size_t size;
	bool cut; /* the file is larger than BYTES_MAX */
};

/* ---- the file ---- */

static uint64_t written_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

static bool is_of_process(const struct jit_process *process, const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == process->owner &&
	       (!process->ended_ns || written_ns(st) <= process->ended_ns + LATE_NS);
}

/* Opens the file at PATH and stores its attributes in *RET. A file that is older than the process
 * is handled as if it did not exist. Returns -1 with errno on failure. */
static int open_file(const struct jit_process *process, const char *path, struct stat *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || (fstat(fd, ret) == 0 && written_ns(ret) >= process->began_ns))
		return fd;
	close(fd);
	errno = ENOENT;
	return -1;
}

/* Returns the bytes of the file at PATH. `at` is NULL if there is no such file. If the file is not
 * usable, stores the reason in *PROBLEM, too. */
static struct map_bytes read_file(const struct jit_process *process, struct report_arena *arena,
			      const char *path, const char **problem)
{
	struct map_bytes ret = { 0 };
	void *bytes = NULL;
	struct stat st;
	int fd = open_file(process, path, &st);

	if (fd < 0 && errno != ENOENT)
		*problem = arena_printf(arena, "%s cannot be read (%s)", path, strerror(errno));
	if (fd < 0)
		return ret;
	if (!is_of_process(process, &st))
		*problem = arena_printf(arena, "%s is of another process or user", path);
	else if (read_to_end(fd, BYTES_MAX, &bytes, &ret.size) < 0)
		*problem = arena_printf(arena, "%s cannot be read", path);
	close(fd);
	ret.at = bytes;
	ret.cut = ret.size > BYTES_MAX;
	return ret;
}

static void add_entry(struct jit_map *map, uint64_t start, uint64_t bytes, const char *name,
		      size_t length)
{
	map->cut = map->cut || map->count == ENTRIES_MAX;
	if (map->cut || length == 0)
		return;
	if (length > NAME_BYTES_MAX)
		length = NAME_BYTES_MAX;
	elfsymbols_add(map->symbols, start, bytes, arena_text(&map->arena, name, length),
		       map->count++);
}

/* ---- perf maps: lines of "START SIZE NAME", both numbers hexadecimal ---- */

/* Reads a number and the blank after it. Returns NULL if there is none before END. */
static const char *read_hex(const char *at, const char *end, uint64_t *ret)
{
	const char *start;

	if (end - at > 2 && at[0] == '0' && at[1] == 'x')
		at += 2;
	start = at;
	*ret = 0;
	for (; at < end && strchr("0123456789abcdefABCDEF", *at) && *at; at++)
		*ret = *ret << 4 | (uint64_t)(*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
	return at > start && at - start <= 16 && at < end && *at == ' ' ? at + 1 : NULL;
}

/* Ignores lines that are no entries. So does the last one without its end, which is cut off. */
static void parse_map(struct jit_map *map, const struct map_bytes *bytes)
{
	const char *line = bytes->at, *end = bytes->at + bytes->size, *next;

	for (; line < end && (next = memchr(line, '\n', (size_t)(end - line))); line = next + 1) {
		uint64_t start, size;
		const char *at = read_hex(line, next, &start);

		at = at ? read_hex(at, next, &size) : NULL;
		if (at)
			add_entry(map, start, size, at, strnlen(at, (size_t)(next - at)));
	}
}

/* ---- jitdump: see tools/perf/Documentation/jitdump-specification.txt of Linux ---- */

struct dump_header {
	uint32_t magic, version, bytes, machine, pad, pid;
	uint64_t time_ns, flags;
};
#define DUMP_MAGIC 0x4a695444u
#define DUMP_LOAD 0 /* the type of a record */

struct dump_record {
	uint32_t type, bytes;
	uint64_t time_ns;
};

struct dump_load { /* followed by the name with a NUL, and the code */
	uint32_t pid, thread;
	uint64_t virtual_address, start, bytes, number;
};

static void parse_load(struct jit_map *map, const char *at, size_t size)
{
	struct dump_load load;

	if (size <= sizeof(load))
		return;
	memcpy(&load, at, sizeof(load));
	add_entry(map, load.start, load.bytes, at + sizeof(load),
		  strnlen(at + sizeof(load), size - sizeof(load)));
}

/* Code that a JIT compiler moved (record type 1) has no name at its new place. */
static void parse_dump(struct jit_map *map, const struct jit_process *process,
		       const struct map_bytes *bytes)
{
	struct dump_header header;
	struct dump_record record;
	size_t at;

	if (bytes->size < sizeof(header))
		return;
	memcpy(&header, bytes->at, sizeof(header));
	if (header.magic != DUMP_MAGIC || header.pid != (uint32_t)process->pid ||
	    header.bytes < sizeof(header))
		return;
	for (at = header.bytes; at < bytes->size && bytes->size - at >= sizeof(record);
	     at += record.bytes) {
		memcpy(&record, bytes->at + at, sizeof(record));
		if (record.bytes < sizeof(record) || record.bytes > bytes->size - at)
			return;
		if (record.type == DUMP_LOAD)
			parse_load(map, bytes->at + at + sizeof(record),
				   record.bytes - sizeof(record));
	}
}

/* ---- all files ---- */

static void read_into(struct jit_map *map, const struct jit_process *process,
		      struct report_arena *arena, const char *path, bool is_dump,
		      const char **problem)
{
	struct map_bytes bytes = { NULL };

	if (map->count == 0)
		bytes = read_file(process, arena, path, problem);
	if (!bytes.at)
		return;
	if (is_dump)
		parse_dump(map, process, &bytes);
	else
		parse_map(map, &bytes);
	free(bytes.at);
	map->cut = map->cut || bytes.cut;
	*problem = map->count == 0 ? arena_printf(arena, "%s has no names", path)
		   : map->cut ? arena_printf(arena, "%s is too large: not all names are used", path)
			      : NULL;
}

struct jit_map *jit_map_read(const struct jit_process *process, struct report_arena *arena,
			     const char **ret_problem)
{
	struct jit_map *map = calloc(1, sizeof(*map));

	*ret_problem = NULL;
	map->symbols = elfsymbols_create_empty();
	read_into(map, process, arena, arena_printf(arena, "/tmp/perf-%d.map", process->pid),
		  false, ret_problem);
	read_into(map, process, arena, arena_printf(arena, "/tmp/jit-%d.dump", process->pid), true,
		  ret_problem);
	if (process->cwd && process->cwd[0] == '/')
		read_into(map, process, arena,
			  arena_printf(arena, "%s/jit-%d.dump", process->cwd, process->pid), true,
			  ret_problem);
	elfsymbols_sort(map->symbols);
	if (map->count)
		return map;
	jit_map_destroy(map);
	return NULL;
}

void jit_map_destroy(struct jit_map *map)
{
	if (!map)
		return;
	elfsymbols_destroy(map->symbols);
	arena_finish(&map->arena);
	free(map);
}

/* ---- names ---- */

/* Splits "FILE:LINE:COLUMN", or "FILE:LINE" of Node 18, at AT. FILE may contain colons. */
static bool split_file(struct jit_map *map, const char *at, struct jit_name *ret)
{
	const char *last = strrchr(at, ':'), *line = last ? last : at;
	unsigned int number;
	int length = 0;

	while (line > at && *--line != ':')
		;
	if (line == at || sscanf(line, ":%9u%n", &number, &length) != 1 || line + length != last)
		line = last;
	if (!line || line == at || sscanf(line, ":%9u%n", &number, &length) != 1 ||
	    (line == last && line[length]))
		return false;
	ret->file = arena_text(&map->arena, at, (size_t)(line - at));
	ret->line = number;
	return true;
}

/* V8 writes "JS:*step /app/a.js:3:15", where the star is the kind of the code, which changes while
 * the function becomes hot. */
static bool split_v8(struct jit_map *map, const char *name, struct jit_name *ret)
{
	static const char *const starts[] = { "JS:", "LazyCompile:", "Function:", "Eval:",
					      "Script:" };
	const char *file = strchr(name, ' ');
	size_t skip = 0;

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(name, starts[i], strlen(starts[i])) == 0)
			skip = strlen(starts[i]);
	if (!skip || !file || !split_file(map, file + 1, ret))
		return false;
	name += skip + (strchr("~*^+", name[skip]) != NULL);
	ret->function = file > name ? arena_text(&map->arena, name, (size_t)(file - name))
				    : "(anonymous)";
	return true;
}

/* .NET writes "void [App] Pool::Give(int32)[Tier0]": the last part changes when the function is
 * compiled again. */
static const char *without_tier(struct jit_map *map, const char *name)
{
	const char *open = strrchr(name, '[');
	size_t length = open ? strcspn(open + 1, "]") : 0;

	return open && open > name && length && strcmp(open + 1 + length, "]") == 0
		       ? arena_text(&map->arena, name, (size_t)(open - name))
		       : name;
}

static struct jit_name split(struct jit_map *map, const char *name)
{
	struct jit_name ret = { NULL };

	if (name && !split_v8(map, name, &ret))
		ret.function = without_tier(map, name);
	return ret;
}

struct jit_name jit_map_find(struct jit_map *map, uint64_t address)
{
	const char *name, *earlier;
	struct jit_name ret;

	name = elfsymbols_last(map->symbols, address, &earlier);
	ret = split(map, name);
	ret.earlier = split(map, earlier).function;
	if (ret.earlier && strcmp(ret.earlier, ret.function) == 0)
		ret.earlier = NULL;
	return ret;
}
