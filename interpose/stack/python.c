/* SPDX-License-Identifier: MIT
 *
 * Finds the interpreter, selects the offsets of its version, and walks the frames of the calling
 * thread. Does not link libpython: all functions are looked up by name. Each pointer is checked
 * before it is followed, so a build with other offsets ends the walk and does not crash the
 * process.
 */
#include "interpose/stack/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "interpose/base/fork_guard.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/observations.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"

#define STEPS_MAX 1024u   /* most frames, shims included, that one walk reads */
#define FOUND_MAX 4       /* most interpreters that one process may load one after the other */
#define OFFSET_MAX 4096u  /* larger offsets in _Py_DebugOffsets are rejected */
#define TAG_BITS 3u       /* tag bits of a _PyStackRef */

/* Inlined so that offsets are constants, see python_key_of(). */
#define INLINE static inline __attribute__((always_inline))

_Atomic(const struct python *) python_now READ_BY_ALL;
_Atomic uint32_t python_wanted READ_BY_ALL = 1, python_looked READ_BY_ALL;

static const struct python_offsets known[] = {
#define NONE PYTHON_NONE
#define PYTHON(minor, frame, inner, previous, code, at, owner, entry, table, first_line, filename, \
	       name, lines, bytecode, version, ascii, compact, interpreters)                       \
	{ minor, frame, inner, previous, code, at, owner, entry, PYTHON_##table, first_line,       \
	  filename, name, lines, bytecode, version, ascii, compact, interpreters },
#include "interpose/stack/python_offsets.def"
#undef NONE
};
#define KNOWN (sizeof(known) / sizeof(known[0]))
#define NEWEST (known[KNOWN - 1].minor)

/* The interpreters that were found. They are never freed, because other threads may use them. */
static struct python pythons[FOUND_MAX];
/* What python_check() returned for each of them; only for those that are newer than NEWEST. */
static _Atomic(enum python_layout) layouts[FOUND_MAX];

/* ---- finding ---- */

struct library {
	bool found;
	char path[PATH_MAX];
};

static int is_python(struct dl_phdr_info *info, size_t size, void *data)
{
	static const char start[] = "libpython3.";
	const char *path = info->dlpi_name;
	const char *name = path ? strrchr(path, '/') : NULL;
	struct library *ret = data;
	size_t length = path ? strlen(path) : 0;

	(void)size;
	if (!name || strncmp(name + 1, start, sizeof(start) - 1) != 0 ||
	    length >= sizeof(ret->path))
		return 0;
	memcpy(ret->path, path, length + 1);
	ret->found = true;
	return 1;
}

/* Returns the address of the interpreter's symbol NAME, or NULL. Searches the libpython that the
 * application opened with dlopen(), if LIBRARY names one. Otherwise searches the program and the
 * libraries that it is linked with. */
static void *find_symbol(const struct library *library, const char *name)
{
	struct dlerror_state state;
	void *found;

	if (library->found)
		return resolve_in(library->path, name);
	dlerror_take(&state);
	found = lookup_real(RTLD_DEFAULT, name);
	dlerror_give_back(&state);
	return found;
}

static const char this_thread_name[] = "PyGILState_GetThisThreadState";

static bool find_functions(const struct library *library, struct python *ret)
{
	ret->this_thread = (const char *(*)(void))find_symbol(library, this_thread_name);
	ret->finalizing = (int (*)(void))find_symbol(library, "Py_IsFinalizing"); /* 3.13 on */
	if (!ret->finalizing)
		ret->finalizing = (int (*)(void))find_symbol(library, "_Py_IsFinalizing");
	ret->first_interpreter = (void *(*)(void))find_symbol(library, "PyInterpreterState_Head");
	ret->next_interpreter = (void *(*)(void *))find_symbol(library, "PyInterpreterState_Next");
	ret->instruction = (int (*)(void *))find_symbol(
		library, "PyUnstable_InterpreterFrame_GetLasti"); /* 3.12 on */
	ret->code_type = find_symbol(library, "PyCode_Type");
	ret->text_type = find_symbol(library, "PyUnicode_Type");
	ret->bytes_type = find_symbol(library, "PyBytes_Type");
	return ret->this_thread && ret->finalizing && ret->first_interpreter &&
	       ret->next_interpreter && ret->code_type && ret->text_type && ret->bytes_type;
}

static unsigned int parse_number(const char **text)
{
	unsigned int value = 0;

	for (; **text >= '0' && **text <= '9' && value < 1000; ++*text)
		value = value * 10 + (unsigned int)(**text - '0');
	return value;
}

/* Stores the part of Py_GetVersion() before the blank in RET, "3.11.2" of "3.11.2 (main, ...".
 * Returns false if the text is not a version of Python 3. */
static bool read_version(const struct library *library, char *ret, size_t size, int *ret_minor)
{
	const char *(*version)(void) = (const char *(*)(void))find_symbol(library, "Py_GetVersion");
	const char *text = version ? version() : NULL;
	size_t length;

	if (!text || strncmp(text, "3.", 2) != 0)
		return false;
	length = strcspn(text, " ");
	if (length >= size)
		length = size - 1;
	memcpy(ret, text, length);
	ret[length] = '\0';
	text += 2;
	*ret_minor = (int)parse_number(&text);
	return true;
}

/* Replaces OFFSETS by those of the table that CPython 3.13 and later contain (_Py_DebugOffsets).
 * Reads the table as version 3.LAYOUT has it. Rejects a table of another version or with impossible
 * values. Returns NULL, or the reason why the interpreter is not supported. */
static const char *read_own_offsets(const struct library *library, int layout,
				    struct python_offsets *offsets)
{
	static const struct { int minor; size_t field; unsigned int place; } own[] = {
#define NONE PYTHON_NONE
#define PYTHON(...)
#define PYTHON_OWN(minor, field, place) \
		{ minor, offsetof(struct python_offsets, field), place },
#include "interpose/stack/python_offsets.def"
#undef NONE
	};
	const char *runtime = find_symbol(library, "_PyRuntime");
	uint64_t version, free_threaded, value;
	int bare = offsets->compact - offsets->ascii;

	if (!runtime || memcmp(runtime, "xdebugpy", 8) != 0)
		return "it lacks the table with the layout of its frames (_Py_DebugOffsets)";
	memcpy(&version, runtime + 8, sizeof(version));
	memcpy(&free_threaded, runtime + 16, sizeof(free_threaded));
	if (version >> 16 != (3u << 8 | (unsigned int)offsets->minor))
		return "its table with the layout of its frames has another version";
	if (free_threaded)
		return "gpuleak does not support free-threaded builds";
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (own[i].minor != layout)
			continue;
		memcpy(&value, runtime + own[i].place, sizeof(value));
		if (value >= OFFSET_MAX)
			return "its table with the layout of its frames has impossible values";
		*(int *)(void *)((char *)offsets + own[i].field) = (int)value;
	}
	offsets->compact = offsets->ascii + bare;
	return NULL;
}

static const char not_known[] =
	"this version of Python is newer or older than those that gpuleak supports";

/* Sets RET->at for CPython 3.MINOR. Returns NULL, or the reason why this interpreter is not
 * supported. A newer version must have a table like the newest known one; without proof that
 * co_version is at its place, it is not used. */
static const char *choose_offsets(const struct library *library, int minor, struct python *ret)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (known[i].minor != minor)
			continue;
		ret->at = known[i];
		return minor >= 13 ? read_own_offsets(library, minor, &ret->at) : NULL;
	}
	ret->at = known[KNOWN - 1];
	ret->at.minor = minor;
	ret->at.version = PYTHON_NONE;
	return minor > NEWEST && !read_own_offsets(library, NEWEST, &ret->at) ? NULL : not_known;
}

static void leave_alone(const struct python *python, const char *version, const char *why)
{
	observation_record(OBSERVED_PYTHON_LEFT, version,
			   lookup_module_name((void *)python->this_thread), why);
}

/* Locking: the caller holds the lock of python_names. Makes PYTHON the current interpreter. */
static void publish_python(const struct python *python)
{
	static unsigned int count;

	for (unsigned int i = 0; i < count; i++) {
		if (memcmp(&pythons[i], python, sizeof(*python)) != 0)
			continue;
		atomic_store_explicit(&python_now, &pythons[i], memory_order_release);
		return;
	}
	if (count == FOUND_MAX)
		return;
	pythons[count] = *python;
	atomic_store_explicit(&python_now, &pythons[count++], memory_order_release);
}

static void look_for_python(struct recorder *recorder)
{
	struct library library = { false };
	struct python python;
	char *version = python.version;
	const char *why;
	int minor;

	memset(&python, 0, sizeof(python)); /* publish_python() compares the padding too */
	if (!find_symbol(&library, this_thread_name))
		fork_guard_iterate(is_python, &library);
	if (!find_functions(&library, &python) ||
	    !read_version(&library, version, sizeof(python.version), &minor)) {
		atomic_store_explicit(&python_now, NULL, memory_order_release);
		if (resolve_is_loaded("libpypy"))
			observation_record(OBSERVED_PYTHON_LEFT, "PyPy", NULL,
					   "gpuleak supports only CPython");
		return;
	}
	why = choose_offsets(&library, minor, &python);
	observation_record(OBSERVED_PYTHON, version, lookup_module_name((void *)python.this_thread),
			   NULL);
	if (why) {
		leave_alone(&python, version, why);
		return;
	}
	lock_take(&recorder->python->lock);
	publish_python(&python);
	lock_give(&recorder->python->lock);
}

void python_look(struct recorder *recorder)
{
	uint32_t wanted = atomic_load(&python_wanted);

	if (recorder->stack_depth > 0)
		look_for_python(recorder);
	atomic_store(&python_looked, wanted);
}

/* ---- walking ---- */

/* Returns true if the calling thread's state may be freed. While the interpreter finalizes, it
 * frees the states of other threads. The thread that finalizes it is nearly always the process's
 * first. */
INLINE bool may_go_away(const struct python *python)
{
	return !thread_self.is_first && __builtin_expect(python->finalizing() != 0, 0);
}

static __attribute__((noinline)) void differs(const struct python *python)
{
	if (atomic_exchange(&python_now, NULL))
		leave_alone(python, "of unknown build",
			    "it was built in an unusual way, so gpuleak does not find its frames");
}

static __attribute__((noinline)) void has_others(const struct python *python)
{
	leave_alone(python, "before 3.12",
		    "while there are sub-interpreters, gpuleak cannot distinguish their frames");
}

/* Returns true if PYTHON, which is newer than the newest row, has the offsets of its own table. The
 * first thread that runs Python checks it; until then no frame is read. */
static __attribute__((noinline)) bool layout_holds(const struct python *python, uintptr_t thread)
{
	_Atomic(enum python_layout) *layout = &layouts[python - pythons];
	enum python_layout now = atomic_load_explicit(layout, memory_order_relaxed);
	int saved = errno;

	if (now == PYTHON_LAYOUT_UNKNOWN) {
		now = python_check(python, thread);
		atomic_store_explicit(layout, now, memory_order_relaxed);
	}
	errno = saved;
	if (now == PYTHON_LAYOUT_WRONG && atomic_exchange(&python_now, NULL))
		leave_alone(python, python->version, not_known);
	return now == PYTHON_LAYOUT_HOLDS;
}

/* Returns the innermost frame of the calling thread, or 0 if there is none or it must not be read.
 * Before 3.12 PyGILState_GetThisThreadState() returns the state of one interpreter only, so frames
 * are not read while there are sub-interpreters. */
INLINE uintptr_t first_frame(const struct python *python, const struct python_offsets *at)
{
	uintptr_t thread = (uintptr_t)python->this_thread(), frame;

	if (!thread || may_go_away(python))
		return 0;
	if (!at->interpreters) {
		void *first = python->first_interpreter();

		if (!first)
			return 0;
		if (__builtin_expect(python->next_interpreter(first) != NULL, 0)) {
			has_others(python);
			return 0;
		}
	}
	if (at->minor > NEWEST && !layout_holds(python, thread))
		return 0;
	frame = python_word(thread + (unsigned int)at->frame);
	if (at->inner == PYTHON_NONE)
		return frame;
	return python_plausible(frame) ? python_word(frame + (unsigned int)at->inner) : 0;
}

struct walk {
	const struct python *python;
	const struct python_offsets *at;
	uintptr_t frame; /* the next one; 0: none */
	bool is_shim;    /* it is a shim frame */
	bool odd; /* a frame's code pointer did not lead to a code object */
	unsigned int steps;
};

/* Makes FRAME the next one, if it can be a frame. */
INLINE void set_frame(struct walk *walk, uintptr_t frame)
{
	const struct python_offsets *at = walk->at;

	walk->frame = python_plausible(frame) ? frame : 0;
	walk->is_shim = walk->frame && at->owner != PYTHON_NONE &&
			*(const uint8_t *)(frame + (unsigned int)at->owner) >= PYTHON_OWNER_SHIM;
}

INLINE struct walk walk_from(const struct python *python, const struct python_offsets *at)
{
	struct walk walk = { .python = python, .at = at };

	set_frame(&walk, first_frame(python, at));
	return walk;
}

/* Returns true if CPython called the evaluation loop for FRAME, which WALK has left. Before 3.11 it
 * does so for each frame. In 3.11 the frame has a flag. Since 3.12 a shim frame follows. */
INLINE bool is_entry(const struct walk *walk, uintptr_t frame)
{
	if (walk->at->entry != PYTHON_NONE)
		return *(const uint8_t *)(frame + (unsigned int)walk->at->entry) != 0;
	return walk->at->owner == PYTHON_NONE || !walk->frame || walk->is_shim;
}

INLINE bool step(struct walk *walk, struct python_frame *ret)
{
	const struct python *python = walk->python;
	const struct python_offsets *at = walk->at;

	while (walk->frame && walk->steps++ < STEPS_MAX) {
		uintptr_t frame = walk->frame, code;
		bool is_shim = walk->is_shim;

		set_frame(walk, python_word(frame + (unsigned int)at->previous));
		if (is_shim)
			continue;
		code = python_word(frame + (unsigned int)at->code) & ~(uintptr_t)TAG_BITS;
		if (!python_plausible(code) ||
		    python_word(code + PYTHON_TYPE) != (uintptr_t)python->code_type) {
			walk->odd = true;
			continue;
		}
		ret->code = code | is_entry(walk, frame);
		ret->at = at->bytecode == PYTHON_NONE
				  ? *(const uint32_t *)(frame + (unsigned int)at->at)
				  : python_word(frame + (unsigned int)at->at);
		return true;
	}
	return false;
}

void python_read(const struct python *python, unsigned int depth, struct python_chain *ret)
{
	struct walk walk = walk_from(python, &python->at);
	struct python_frame more;

	ret->frames = 0;
	while (ret->frames < depth && step(&walk, &ret->frame[ret->frames]))
		ret->frames++;
	ret->cut = ret->frames == depth && step(&walk, &more);
}

/* Stores the addresses of the _PyCFrame records of 3.11 in RET and returns their number. Each
 * call of the evaluation loop has such a record as a local variable. Records are linked at
 * offset 16; the outermost is in the thread state. (Since 3.12 the shim frame is the local
 * variable instead.) */
static unsigned int records(const struct python *python, uintptr_t *ret)
{
	const uintptr_t thread = (uintptr_t)python->this_thread();
	uintptr_t record = thread ? python_word(thread + (unsigned int)python->at.frame) : 0;
	unsigned int count = 0;

	for (; python_plausible(record) && record - thread >= OFFSET_MAX &&
	       count < LEDGER_FRAMES_MAX; record = python_word(record + 16))
		ret[count++] = record;
	return count;
}

unsigned int python_calls(unsigned int depth, uintptr_t *ret)
{
	const struct python *python = atomic_load_explicit(&python_now, memory_order_acquire);
	struct python_frame frame;
	struct walk walk;
	unsigned int count = 0;

	if (!python || python->at.owner == PYTHON_NONE)
		return 0;
	walk = walk_from(python, &python->at);
	if (python->at.minor == 11)
		return walk.frame ? records(python, ret) : 0;
	for (unsigned int i = 0; i < depth && step(&walk, &frame); i++)
		if ((frame.code & 1) && walk.frame)
			ret[count++] = walk.frame;
	return count;
}

/* ---- chain keys ----
 *
 * The key of a chain is a hash of the code objects and instructions of its frames. Code objects
 * are freed and their addresses reused, so the address alone does not identify one. From 3.12 on
 * a code object has a version number that no other one ever had. Before 3.12 the key contains
 * parts of the code object's name, file name and line table instead, to need few loads.
 *
 * So before 3.12 two code objects can get the same key, and then the second function is recorded as
 * the first. That needs all of the following: the second one replaces the first at the same
 * address; name, first line and file name are equal; the line tables have the same length and are
 * equal in their first 24 and last 8 bytes. If CPython has not computed the hash of a text, only
 * its length, first 8 and last 16 bytes are compared.
 */

#define MIX 0x9e3779b97f4a7c15u

static inline uint64_t unaligned(uintptr_t at)
{
	uint64_t word;

	memcpy(&word, (const void *)at, sizeof(word));
	return word;
}

/* Returns a hash of the first and last of the BYTES bytes at AT. Names of generated files differ
 * there. */
static inline uint64_t ends(uintptr_t at, uint64_t bytes)
{
	const uint8_t *byte = (const uint8_t *)at;
	uint32_t first, last;

	if (bytes >= 16)
		return (unaligned(at + bytes - 8) ^ unaligned(at + bytes - 16) * MIX) * MIX ^
		       unaligned(at) << 7;
	if (bytes >= 8)
		return unaligned(at + bytes - 8) * MIX ^ unaligned(at) << 7;
	if (bytes >= 4) {
		memcpy(&first, byte, sizeof(first));
		memcpy(&last, byte + bytes - sizeof(last), sizeof(last));
		return ((uint64_t)first << 32 | last) * MIX;
	}
	return bytes ? (byte[0] << 16 | byte[bytes / 2] << 8 | byte[bytes - 1]) * MIX : 0;
}

/* Returns CPython's hash of the string if it was computed, otherwise a hash of its ends. */
INLINE uint64_t text_identity(const struct python_offsets *at, uintptr_t text)
{
	uint64_t hash, length;
	uint32_t state;

	if (!python_plausible(text))
		return 0;
	hash = python_word(text + PYTHON_HASH);
	if (hash != UINT64_MAX)
		return hash;
	length = python_word(text + PYTHON_SIZE);
	state = *(const uint32_t *)(text + PYTHON_STATE);
	if (length > LEDGER_STRING_MAX || !(state & 0x20))
		return text ^ length;
	text += (unsigned int)(state & 0x40 ? at->ascii : at->compact);
	return ends(text, length * (state >> 2 & 7)) + length;
}

/* Returns a hash of a line table's length, its last 8 bytes and, from 24 bytes on, its first 24. */
static inline uint64_t lines_identity(uintptr_t lines)
{
	uint64_t length;
	uintptr_t at = lines + PYTHON_BYTES;

	if (!python_plausible(lines))
		return 0;
	length = python_word(lines + PYTHON_SIZE);
	if (length >= 24 && length < UINT32_MAX)
		return (unaligned(at + length - 8) + length) * MIX ^
		       python_word(at) * (MIX + 2) ^ python_word(at + 8) * (MIX + 4) ^
		       python_word(at + 16) * (MIX + 6);
	return ends(at, length < 24 ? length : 0) + length;
}

/* The latest file name that was hashed. Adjacent frames are mostly of the same file. */
struct file {
	uintptr_t name;
	uint64_t identity;
};

INLINE uint64_t identity(const struct python_offsets *at, uintptr_t code, struct file *file)
{
	uintptr_t name;
	uint64_t hash;

	if (at->version != PYTHON_NONE) {
		hash = *(const uint32_t *)(code + (unsigned int)at->version);
		if (hash)
			return hash << 32;
	}
	name = python_word(code + (unsigned int)at->filename);
	if (name != file->name)
		*file = (struct file){ name, text_identity(at, name) };
	hash = text_identity(at, python_word(code + (unsigned int)at->name)) +
	       *(const uint32_t *)(code + (unsigned int)at->first_line);
	hash = (hash ^ file->identity << 1) * MIX;
	return hash + lines_identity(python_word(code + (unsigned int)at->lines));
}

uint64_t python_identity(const struct python *python, uintptr_t code)
{
	struct file file = { 0 };

	return identity(&python->at, code, &file);
}

/* Adds a frame to the hash of the frames that it called. Deliberately short, because each step
 * depends on the previous one. */
INLINE uint64_t add_to_key(uint64_t hash, uint64_t word)
{
	return ((hash << 23 | hash >> 41) + (word ^ word >> 32)) * MIX;
}

INLINE uint64_t finish_key(uint64_t hash, bool cut)
{
	if (cut)
		hash = ~hash;
	return hash ? hash : 1;
}

/* Returns the key from the versions of code objects. Returns 0 if there are no frames, if a code
 * object has no version, if a frame's code pointer does not lead to a code object, or if the thread
 * has more than STEPS_MAX frames. Has fewer instructions for a frame than step() and identity(),
 * because it runs for each allocation. DEPTH is not 0. */
INLINE uint64_t key_of_versions(const struct python *python, const struct python_offsets *at,
				unsigned int depth)
{
	struct walk walk = walk_from(python, at);
	uint64_t hash = MIX;

	for (unsigned int left = depth, steps = 0; walk.frame && steps < STEPS_MAX; steps++) {
		uintptr_t frame = walk.frame, code;
		bool is_shim = walk.is_shim;
		uint32_t version;

		set_frame(&walk, python_word(frame + (unsigned int)at->previous));
		if (is_shim)
			continue;
		if (left-- == 0)
			return finish_key(hash, true);
		code = python_word(frame + (unsigned int)at->code) & ~(uintptr_t)TAG_BITS;
		if (!python_plausible(code) ||
		    python_word(code + PYTHON_TYPE) != (uintptr_t)python->code_type)
			return 0;
		version = *(const uint32_t *)(code + (unsigned int)at->version);
		if (!version)
			return 0;
		/* The instruction's address is even, and identifies the code object, too. */
		hash = add_to_key(hash, (python_word(frame + (unsigned int)at->at) |
					 is_entry(&walk, frame)) * MIX +
						version * (uint64_t)(MIX ^ MIX << 32));
	}
	return walk.frame || hash == MIX ? 0 : finish_key(hash, false);
}

INLINE uint64_t chain_key_of(const struct python *python, const struct python_offsets *at,
		       unsigned int depth)
{
	struct walk walk;
	struct file file = { 0 };
	struct python_frame frame;
	uint64_t hash = MIX;
	unsigned int frames = 0;

	if (at->version != PYTHON_NONE && at->bytecode != PYTHON_NONE) {
		hash = key_of_versions(python, at, depth);
		if (__builtin_expect(hash != 0, 1))
			return hash;
		hash = ~MIX;
	}
	walk = walk_from(python, at);
	for (; frames < depth && step(&walk, &frame); frames++)
		hash = add_to_key(hash, (frame.code * MIX ^ frame.at) * MIX +
						identity(at, frame.code & ~(uintptr_t)1, &file) *
							(MIX | 1 << 20));
	if (frames == 0) {
		if (__builtin_expect(walk.odd, 0))
			differs(python);
		return 0;
	}
	return finish_key(hash, frames == depth && step(&walk, &frame));
}

/* The compiler makes one function for each version with fixed offsets. That is a third faster. */
HOT_CALL uint64_t python_key_of(const struct python *python, unsigned int depth)
{
	switch (python->at.minor) {
	case 8:
	case 9: /* same offsets */
		return chain_key_of(python, &known[1], depth);
	case 10:
		return chain_key_of(python, &known[2], depth);
	case 11:
		return chain_key_of(python, &known[3], depth);
	case 12:
		return chain_key_of(python, &known[4], depth);
	}
	return chain_key_of(python, &python->at, depth);
}
