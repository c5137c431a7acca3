/* SPDX-License-Identifier: MIT
 *
 * Caches modules and locations, and opens module files. Uses a file only if its build id equals
 * that in the ledger. Without debug information uses ELF symbols, but only for addresses within
 * the size of a symbol.
 */
#include "report/symbols/symbolize.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/symbols/debuginfo.h"
#include "report/symbols/demangle.h"
#include "report/symbols/elfsymbols.h"
#include "report/symbols/frame_record.h"
#include "report/symbols/jit_map.h"
#include "report/util/memory.h"
#include "report/util/report_arena.h"
#include "report/symbols/rules.h"
#include "ledger/temporary_path.h"

#define BUILD_ID_MAX 64
#define DEBUG_FOLDER "/usr/lib/debug/.build-id"
#define PROCESSES_MAX 16u
#define FOUND_MAX (PATH_MAX + 32)

struct symbol_module {
	const char *path;
	uint8_t build_id[BUILD_ID_MAX];
	size_t build_id_bytes;
	const char *build_id_text; /* hexadecimal digits; NULL: no build id */
	const char *problem;
	bool opened; /* an attempt to open the file was made */
	Dwfl *dwfl; /* NULL: there is no file with the right build id */
	Dwfl_Module *file;
	struct debuginfo *debuginfo; /* NULL: no debug information, or not read yet */
	Dwarf_Addr debuginfo_bias;
	bool debuginfo_read; /* an attempt was made */
	bool separate; /* FILE is a separate debug file: no code and no unwind tables */
	struct elfsymbols *symbols; /* NULL: not loaded yet */
	struct elfsymbols *copied; /* names that the ledger has; NULL: none */
	bool is_temporary;
	bool is_jit; /* of symbolizer_jit(): no file; `path` identifies the process */
	struct jit_map *jit; /* NULL: none */
};

struct symbol_lookup {
	struct symbol_place place;
	const struct symbol_location *location; /* NULL: not looked up yet */
	const struct symbol_location *start;    /* the same, but with a name only */
};

struct symbolizer {
	unsigned int flags;
	struct report_arena arena;
	struct table modules;
	struct table locations; /* of struct symbol_lookup, by place */
	struct table lines; /* of struct symbol_location, by functions and lines */
	struct table texts;
	struct demangler demangler;
	struct rules *rules;
	int process[PROCESSES_MAX]; /* see symbolizer_add_process() */
	size_t process_count;
};

void symbolizer_add_process(struct symbolizer *symbolizer, int pid)
{
	if (symbolizer->process_count < PROCESSES_MAX)
		symbolizer->process[symbolizer->process_count++] = pid;
}

/* Calls dwfl_standard_find_debuginfo() without DEBUGINFOD_URLS, because with this variable it would
 * use the network. */
static int find_debuginfo(Dwfl_Module *file, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file_name, const char *debuglink, GElf_Word crc,
			  char **debuginfo_name)
{
	static const char variable[] = "DEBUGINFOD_URLS";
	const char *set = getenv(variable);
	char *saved = set ? strdup(set) : NULL;
	int fd;

	unsetenv(variable);
	fd = dwfl_standard_find_debuginfo(file, userdata, name, base, file_name, debuglink, crc,
					  debuginfo_name);
	if (saved)
		setenv(variable, saved, 1);
	free(saved);
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

struct symbolizer *symbolizer_create(unsigned int flags)
{
	struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

	symbolizer->rules = rules_shipped();
	symbolizer->flags = flags;
	elf_version(EV_CURRENT);
	return symbolizer;
}

struct rules *symbolizer_rules(const struct symbolizer *symbolizer)
{
	return symbolizer->rules;
}

void symbolizer_set_rules(struct symbolizer *symbolizer, struct rules *rules)
{
	rules_destroy(symbolizer->rules);
	symbolizer->rules = rules;
}

static void close_module(struct symbol_module *module)
{
	debuginfo_destroy(module->debuginfo);
	elfsymbols_destroy(module->symbols);
	elfsymbols_destroy(module->copied);
	jit_map_destroy(module->jit);
	if (module->dwfl)
		dwfl_end(module->dwfl);
}

void symbolizer_destroy(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (size_t i = 0; i < symbolizer->modules.size; i++)
		if (symbolizer->modules.slots[i].value)
			close_module(symbolizer->modules.slots[i].value);
	rules_destroy(symbolizer->rules);
	arena_finish(&symbolizer->arena);
	free(symbolizer);
}

static void write_build_id(const struct symbol_module *module, char ret[2 * BUILD_ID_MAX + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < module->build_id_bytes; i++) {
		ret[2 * i] = digits[module->build_id[i] >> 4];
		ret[2 * i + 1] = digits[module->build_id[i] & 15];
	}
	ret[2 * module->build_id_bytes] = '\0';
}

static bool same_module(const void *value, const void *key)
{
	const struct symbol_module *a = value, *b = key;

	return a->build_id_bytes == b->build_id_bytes &&
	       memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0 &&
	       a->is_temporary == b->is_temporary && a->is_jit == b->is_jit &&
	       ((a->is_temporary && a->build_id_bytes) || strcmp(a->path, b->path) == 0);
}

struct symbol_module *symbolizer_module(struct symbolizer *symbolizer, const char *path,
					const uint8_t *build_id, size_t build_id_bytes)
{
	struct symbol_module key = { .path = path }, *module;
	char hex[2 * BUILD_ID_MAX + 1];
	uint64_t hash;

	if (build_id_bytes > BUILD_ID_MAX)
		build_id_bytes = BUILD_ID_MAX;
	memcpy(key.build_id, build_id, build_id_bytes);
	key.build_id_bytes = build_id_bytes;
	key.is_temporary = path_is_temporary(path, strlen(path));
	hash = hash_bytes(build_id, build_id_bytes,
			  key.is_temporary && build_id_bytes ? 0
							     : hash_bytes(path, strlen(path), 0));
	module = table_find(&symbolizer->modules, hash, same_module, &key);
	if (module)
		return module;
	module = arena_alloc(&symbolizer->arena, sizeof(*module));
	key.path = arena_intern(&symbolizer->arena, &symbolizer->texts, path, strlen(path));
	write_build_id(&key, hex);
	if (build_id_bytes)
		key.build_id_text = arena_text(&symbolizer->arena, hex, strlen(hex));
	*module = key;
	table_add(&symbolizer->arena, &symbolizer->modules, hash, module);
	return module;
}

struct symbol_module *symbolizer_jit(struct symbolizer *symbolizer,
				     const struct jit_process *process)
{
	struct symbol_module key = { .is_jit = true, .opened = true }, *module;
	uint64_t hash;

	key.path = arena_printf(&symbolizer->arena, "%d %" PRIu64, process->pid,
				process->start_ticks);
	hash = hash_bytes(key.path, strlen(key.path), 0);
	module = table_find(&symbolizer->modules, hash, same_module, &key);
	if (module)
		return module;
	module = arena_alloc(&symbolizer->arena, sizeof(*module));
	*module = key;
	if (!(symbolizer->flags & SYMBOLIZER_NO_FILES))
		module->jit = jit_map_read(process, &symbolizer->arena, &module->problem);
	table_add(&symbolizer->arena, &symbolizer->modules, hash, module);
	return module;
}

void symbol_module_add(struct symbolizer *symbolizer, struct symbol_module *module,
		       uint64_t start, uint64_t bytes, const char *name)
{
	if (module->opened) /* another process had the module, too */
		return;
	if (!module->copied)
		module->copied = elfsymbols_create_empty();
	elfsymbols_add(module->copied, start, bytes,
		       arena_intern(&symbolizer->arena, &symbolizer->texts, name, strlen(name)),
		       name[0] != '_');
}

bool symbol_module_is_named(const struct symbol_module *module)
{
	return module->jit != NULL;
}

const char *symbol_module_problem(const struct symbol_module *module)
{
	return module->problem;
}

/* Opens a regular file without blocking. The path comes from a ledger, so it may be any file. */
static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

/* Returns 1 if the file open at FD has the module's build id. Returns 0 if the file has another
 * build id, or if the module has none. Returns -1 if it is not an ELF file. */
static int has_build_id(const struct symbol_module *module, int fd)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	const void *id;
	ssize_t bytes;
	int ret = -1;

	if (elf && elf_kind(elf) == ELF_K_ELF) {
		bytes = dwelf_elf_gnu_build_id(elf, &id);
		ret = bytes > 0 && bytes == (ssize_t)module->build_id_bytes &&
		      memcmp(id, module->build_id, (size_t)bytes) == 0;
	}
	elf_end(elf);
	return ret;
}

static void use_file(struct symbol_module *module, const char *path, int fd)
{
	module->dwfl = dwfl_begin(&callbacks);
	if (module->dwfl) {
		dwfl_report_begin(module->dwfl);
		module->file = dwfl_report_elf(module->dwfl, path, path, fd, 0, true);
		dwfl_report_end(module->dwfl, NULL, NULL);
	}
	if (!module->file)
		close(fd);
}

/* Returns the debug information of MODULE, which has a file, or NULL. Reads it at the first call:
 * if it is compressed, reading takes longer than all the rest of a small report. */
static struct debuginfo *read_debuginfo(struct symbol_module *module)
{
	Dwarf *dwarf = module->debuginfo_read ? NULL
		       : dwfl_module_getdwarf(module->file, &module->debuginfo_bias);

	module->debuginfo_read = true;
	if (dwarf)
		module->debuginfo = debuginfo_create(dwarf);
	return module->debuginfo;
}

/* Opens the module's separate debug file, which is found by build id. It has all symbols, too. */
static int open_debug_file(const struct symbol_module *module, char *path, size_t path_size)
{
	const char *hex = module->build_id_text;
	int fd;

	if (module->build_id_bytes < 3)
		return -ENOENT;
	snprintf(path, path_size, DEBUG_FOLDER "/%.2s/%s.debug", hex, hex + 2);
	fd = open_regular(path);
	if (fd >= 0 && has_build_id(module, fd) != 1) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

/* Opens the file at PATH if its build id proves that it is the module. Otherwise returns -1 and
 * stores the reason. */
static int open_module_file(struct symbolizer *symbolizer, struct symbol_module *module,
			    const char *path, bool deleted)
{
	int fd = open_regular(path);
	int same;

	if (fd < 0) {
		module->problem =
			arena_printf(&symbolizer->arena,
				     "%s cannot be read (%s): its %s are missing", path,
				     strerror(fd == -EINVAL ? ENOEXEC : -fd),
				     module->copied ? "lines" : "symbols");
		return -1;
	}
	same = has_build_id(module, fd);
	if (same == 1 || (same == 0 && module->build_id_bytes == 0 && !deleted))
		return fd;
	close(fd);
	module->problem = arena_printf(&symbolizer->arena,
				       "%s %s: its %s are missing", path,
				       same < 0 ? "is no longer an ELF file"
						: "was rebuilt after the run",
				       module->copied ? "lines" : "symbols");
	return -1;
}

/* Opens the file of a process that has the module's build id. PATH is the module's. */
static int open_of_process(const struct symbolizer *symbolizer,
			   const struct symbol_module *module, const char *path,
			   char ret_path[FOUND_MAX])
{
	for (size_t i = 0; i < 2 * symbolizer->process_count; i++) {
		bool is_program = i % 2;
		int fd;

		snprintf(ret_path, FOUND_MAX, "/proc/%d/%s%s", symbolizer->process[i / 2],
			 is_program ? "exe" : "root", is_program ? "" : path);
		fd = open_regular(ret_path);
		if (fd >= 0 && has_build_id(module, fd) == 1)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

static void open_module(struct symbolizer *symbolizer, struct symbol_module *module)
{
	static const char deleted[] = " (deleted)";
	size_t length = strlen(module->path);
	char found[FOUND_MAX];
	bool was_deleted = false, is_separate;
	int fd;
	const char *path = module->path;

	if (module->opened)
		return;
	module->opened = true;
	if ((symbolizer->flags & SYMBOLIZER_NO_FILES) || path[0] != '/')
		return; /* modules such as [vdso] have no file */
	if (length > sizeof(deleted) && !strcmp(path + length - sizeof(deleted) + 1, deleted)) {
		was_deleted = true;
		path = arena_text(&symbolizer->arena, path, length - sizeof(deleted) + 1);
	}
	fd = open_module_file(symbolizer, module, path, was_deleted);
	if (fd < 0) {
		fd = open_of_process(symbolizer, module, path, found);
		is_separate = fd < 0;
		if (is_separate)
			fd = open_debug_file(module, found, sizeof(found));
		if (fd < 0)
			return;
		module->separate = is_separate;
		module->problem = NULL;
		path = found;
	}
	use_file(module, path, fd);
}

/* Returns the interned TEXT; NULL for NULL. */
static const char *intern(struct symbolizer *symbolizer, const char *text)
{
	return text ? arena_intern(&symbolizer->arena, &symbolizer->texts, text, strlen(text))
		    : NULL;
}

/* Stores in FRAME the names of the function that the linker calls NAME. */
static void set_function(struct symbolizer *symbolizer, const char *name, bool is_ada,
			 struct report_frame *frame)
{
	struct demangled names = demangle(&symbolizer->demangler, name, is_ada);

	frame->function = intern(symbolizer, names.name);
	frame->old_function = intern(symbolizer, names.old_name);
	free(names.name);
	free(names.old_name);
}

const char *symbolizer_demangled(struct symbolizer *symbolizer, const char *name)
{
	struct report_frame frame;

	set_function(symbolizer, name, false, &frame);
	return frame.function;
}

static bool is_part(const char *part, size_t length, const char *name)
{
	return strlen(name) == length && memcmp(part, name, length) == 0;
}

/* Writes PATH without "." and ".." to RET, which has room for one byte more than PATH. Uses only
 * the text, because symbolic links of the build machine are not known. */
static void normalize(const char *path, char *ret)
{
	char *start = ret, *to;
	size_t depth = 0;

	if (*path == '/')
		*start++ = '/';
	to = start;
	while (*path) {
		size_t length = strcspn(path, "/");
		int up = is_part(path, length, "..");

		if (up && depth) {
			for (to--; to > start && to[-1] != '/'; to--)
				;
			depth--;
		} else if (length && !is_part(path, length, ".") && !(up && start != ret)) {
			depth += !up;
			memcpy(to, path, length);
			to += length;
			*to++ = '/';
		}
		path += length + (path[length] == '/');
	}
	if (to > start)
		to--;
	*to = '\0';
}

static const char *absolute_source(struct symbolizer *symbolizer,
				   const struct debuginfo_frame *frame)
{
	const char *directory = frame->directory, *ret;
	bool whole = frame->file[0] == '/' || !directory || directory[0] != '/';
	char *path = text_format("%s%s%s", whole ? "" : directory, whole ? "" : "/", frame->file);
	char *normal = malloc(strlen(path) + 2);

	normalize(path, normal);
	ret = arena_intern(&symbolizer->arena, &symbolizer->texts, normal, strlen(normal));
	free(normal);
	free(path);
	return ret;
}

/* Returns true if no unwind table that is loaded with the module covers ADDRESS. .debug_frame does
 * not count: libunwind does not read it. Go has frame records instead, so it lacks nothing. */
static bool lacks_unwind_table(struct symbol_module *module, GElf_Addr address)
{
	Dwarf_Addr bias;
	Dwarf_CFI *tables = dwfl_module_eh_cfi(module->file, &bias);
	Dwarf_Frame *frame = NULL;
	bool found = tables && dwarf_cfi_addrframe(tables, address - bias, &frame) == 0;

	free(frame);
	return !module->separate && !found &&
	       !elf_section(dwfl_module_getelf(module->file, &bias), ".go.buildinfo");
}

/* Returns true if the walk left out the caller of the function at ADDRESS. The function has no
 * unwind table. */
static bool lacks_frame_record(struct symbol_module *module, GElf_Addr address)
{
	GElf_Addr bias;
	Elf *file = dwfl_module_getelf(module->file, &bias);

	return file && frame_record_is_missing_at(file, address - bias);
}

static const char *symbol_name(struct symbol_module *module, GElf_Addr address)
{
	if (!module->symbols)
		module->symbols = elfsymbols_create(module->file);
	return elfsymbols_find(module->symbols, address);
}

/* Writes the frame of the location from the names that the ledger has. Returns the number of
 * frames, 0 if no name fits. */
static size_t look_up_copied(struct symbolizer *symbolizer, struct symbol_module *module,
			     uint64_t offset, struct report_frame *frame)
{
	const char *name = module->copied && !(symbolizer->flags & SYMBOLIZER_NO_FILES)
				   ? elfsymbols_find(module->copied, offset)
				   : NULL;

	if (name)
		set_function(symbolizer, name, false, frame);
	return name != NULL;
}

/* Writes the frame of code that was compiled while the program ran. */
static size_t look_up_jit(struct symbolizer *symbolizer, struct symbol_module *module,
			  uint64_t address, struct report_frame *frame)
{
	struct jit_name name = jit_map_find(module->jit, address);

	if (!name.function)
		return 0;
	*frame = (struct report_frame){ .function = intern(symbolizer, name.function),
					.file = intern(symbolizer, name.file), .line = name.line,
					.is_jit = true };
	if (name.earlier && !module->problem)
		module->problem = arena_printf(&symbolizer->arena,
					       "%s may be another function: the code of %s was at "
					       "the same address earlier",
					       name.function, name.earlier);
	return 1;
}

/* Writes the frames of the location from debug information and symbols. Returns their number. */
static size_t look_up(struct symbolizer *symbolizer, struct symbol_module *module, uint64_t offset,
		      struct report_frame frames[DEBUGINFO_FRAMES_MAX])
{
	struct debuginfo_frame found[DEBUGINFO_FRAMES_MAX];
	const char *symbol;
	GElf_Addr bias;
	size_t count = 0;
	bool lacks, skips;

	if (module->jit)
		return look_up_jit(symbolizer, module, offset, frames);
	if (!module->file || !dwfl_module_getelf(module->file, &bias))
		return look_up_copied(symbolizer, module, offset, frames);
	if (read_debuginfo(module))
		count = debuginfo_frames(module->debuginfo,
					 offset + bias - module->debuginfo_bias, found);
	if (count == 0) {
		found[0] = (struct debuginfo_frame){ 0 };
		count = 1;
	}
	/* In debug information of gcc, C++ functions with internal linkage have only a short
	 * name. */
	symbol = symbol_name(module, offset + bias);
	lacks = lacks_unwind_table(module, offset + bias);
	skips = lacks && lacks_frame_record(module, offset + bias);
	if (symbol && (!found[count - 1].function ||
		       (is_mangled(symbol) && !is_mangled(found[count - 1].function))))
		found[count - 1].function = symbol;
	for (size_t i = 0; i < count; i++) {
		frames[i] = (struct report_frame){ 0 };
		frames[i].no_unwind_table = lacks;
		frames[i].no_frame_record = skips;
		if (found[i].function && found[i].function[0])
			set_function(symbolizer, found[i].function, found[i].is_ada, &frames[i]);
		if (found[i].file)
			frames[i].file = absolute_source(symbolizer, &found[i]);
		if (frames[i].file && found[i].line > 0)
			frames[i].line = (unsigned int)found[i].line;
	}
	return count;
}

/* Returns true if two locations have the same functions and lines. */
static bool same_lines(const void *value, const void *key)
{
	const struct symbol_location *a = value, *b = key;

	for (size_t i = 0; i < a->count && i < b->count; i++)
		if (a->frames[i].function != b->frames[i].function ||
		    a->frames[i].file != b->frames[i].file ||
		    a->frames[i].line != b->frames[i].line ||
		    a->frames[i].module != b->frames[i].module ||
		    a->frames[i].no_frame_record != b->frames[i].no_frame_record)
			return false;
	return a->count == b->count;
}

/* A compiler may repeat the code of a line, for example for one and for several threads. A user
 * cannot distinguish such calls. Returns the first location with the lines of LOCATION. */
static const struct symbol_location *intern_lines(struct symbolizer *symbolizer,
						  const struct symbol_location *location)
{
	const struct symbol_location *known;
	uint64_t hash = location->count;

	for (size_t i = 0; i < location->count; i++) {
		if (!location->frames[i].function || location->frames[i].line == 0)
			return location;
		hash = hash_number((uintptr_t)location->frames[i].function,
				   hash_number(location->frames[i].line, hash));
	}
	known = table_find(&symbolizer->lines, hash, same_lines, location);
	if (!known)
		table_add(&symbolizer->arena, &symbolizer->lines, hash, (void *)location);
	return known ? known : location;
}

/* ---- the outermost frames, which start a program or a thread ---- */

static bool is_libc(const char *module)
{
	return strstr(module, "/libc.so.6") != NULL;
}

bool symbol_is_start(const char *function, const char *module)
{
	static const char *const names[] = {
		"_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main",
		"start_thread", "clone", "clone3", "__clone3",
	};

	for (size_t i = 0; function && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(function, names[i]) == 0)
			return true;
	return !function && module && is_libc(module);
}

/* Returns the name of PLACE without a version if it is one of symbol_is_start(), in the C library
 * or the program's _start(). Else returns NULL. */
static const char *start_at(struct symbolizer *symbolizer, const struct symbol_place *place)
{
	struct symbol_module *module = place->module;
	const char *name = NULL;
	GElf_Addr bias;

	if (module)
		open_module(symbolizer, module);
	if (module && module->file && dwfl_module_getelf(module->file, &bias))
		name = symbol_name(module, place->offset + bias);
	if (!name || (strcmp(name, "_start") != 0 && !is_libc(module->path)))
		return NULL;
	name = arena_intern(&symbolizer->arena, &symbolizer->texts, name, strcspn(name, "@"));
	return symbol_is_start(name, NULL) ? name : NULL;
}

/* Returns the number of PLACES before those at the end that only start the program or the thread.
 * Leaves out __libc_start_main() if it calls the program itself: it can have inlined calls then. */
static size_t places_before_starts(struct symbolizer *symbolizer, const struct symbol_place *places,
				   size_t count)
{
	const char *name, *innermost = NULL;

	while (count && (name = start_at(symbolizer, &places[count - 1]))) {
		innermost = name;
		count--;
	}
	return count + (innermost && strncmp(innermost, "__libc_start_main",
					     strlen("__libc_start_main")) == 0);
}

/* Looks up PLACE, which has no location yet. NAME is its function's name if nothing else about it
 * is needed, else NULL. */
static const struct symbol_location *new_location(struct symbolizer *symbolizer,
						  const struct symbol_place *place,
						  const char *name)
{
	struct report_frame frames[DEBUGINFO_FRAMES_MAX] = { { .function = name } }, *kept;
	struct symbol_module *module = place->module;
	struct symbol_location *location;
	size_t count = 0;

	if (module && !name) {
		open_module(symbolizer, module);
		count = look_up(symbolizer, module, place->offset, frames);
	}
	if (count == 0)
		count = 1;
	kept = arena_alloc(&symbolizer->arena, count * sizeof(*kept));
	location = arena_alloc(&symbolizer->arena, sizeof(*location));
	memcpy(kept, frames, count * sizeof(*kept));
	for (size_t i = 0; i < count; i++) {
		kept[i].module = module && !module->is_jit ? module->path : NULL;
		kept[i].build_id = module ? module->build_id_text : NULL;
		kept[i].no_debuginfo = module && module->file && !module->debuginfo;
		kept[i].offset = place->offset;
	}
	*location = (struct symbol_location){ kept, count };
	return intern_lines(symbolizer, location);
}

void symbolizer_locations(struct symbolizer *symbolizer, const struct symbol_place *places,
			  size_t count, bool names_starts, const struct symbol_location **ret)
{
	size_t before = names_starts ? places_before_starts(symbolizer, places, count) : count;

	for (size_t i = 0; i < count; i++) {
		struct symbol_lookup *lookup =
			table_intern(&symbolizer->arena, &symbolizer->locations, &places[i],
				     sizeof(places[i]), sizeof(*lookup));
		/* The file of the program's own _start() can decide its role. */
		bool named = i >= before && is_libc(places[i].module->path);
		const char *name = named ? start_at(symbolizer, &places[i]) : NULL;
		const struct symbol_location **location =
			name ? &lookup->start : &lookup->location;

		if (!*location)
			*location = new_location(symbolizer, &places[i], name);
		ret[i] = *location;
	}
}
