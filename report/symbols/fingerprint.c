/* SPDX-License-Identifier: MIT
 *
 * FNV-1a over strings with their final NULs. Other tools can compute the hash from a JSON
 * report. Leaves out everything that a rebuild on another machine may change.
 */
#include "report/symbols/fingerprint.h"
#include "report/util/path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ledger/temporary_path.h"
#include "report/symbols/frame.h"

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static uint64_t add_byte(uint64_t hash, unsigned char byte)
{
	return (hash ^ byte) * FNV_PRIME;
}

/* Adds the first LENGTH bytes of TEXT and a NUL to HASH. */
static uint64_t add_text(uint64_t hash, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = add_byte(hash, (unsigned char)text[i]);
	return add_byte(hash, 0);
}

/* Returns the length of NAME without the suffix of a cloned or split function, which depends on
 * optimization. */
static size_t function_length(const char *name)
{
	static const char *const ends[] = { ".constprop.", ".isra.", ".part.", ".cold",
					    ".lto_priv.", ".llvm.", " [clone " };
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const char *at = strstr(name, ends[i]);

		if (at && at != name && (size_t)(at - name) < length)
			length = (size_t)(at - name);
	}
	return length;
}

/* Adds the first LENGTH bytes of NAME and a NUL to HASH, without the numbers of what has no name in
 * the source: {lambda()#2} and $_2 become {lambda()} and $_. */
static uint64_t add_unnumbered(uint64_t hash, const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		size_t digits = strspn(name + i + 1, "0123456789");

		if (name[i] == '#' && digits && name[i + 1 + digits] == '}') {
			i += digits;
			continue;
		}
		hash = add_byte(hash, (unsigned char)name[i]);
		if (name[i] == '_' && i && name[i - 1] == '$')
			i += digits;
	}
	return add_byte(hash, 0);
}

/* Returns the length of NAME without a version: "libfoo.so.1.2" counts as libfoo.so. */
static size_t module_length(const char *name)
{
	const char *version = strstr(name, ".so.");

	return version ? (size_t)(version - name) + 3 : strlen(name);
}

enum version {
	VERSION_1,
	VERSION_2,
	/* as version 1, but a frame without a function counts by its module's build id, if any */
	VERSION_OF_STACK,
};

/* Returns true if FRAME, which has no function, counts by its module's build id. */
static bool counts_by_build(const struct report_frame *frame, enum version version)
{
	return frame->build_id &&
	       (version == VERSION_OF_STACK ||
		(version == VERSION_2 && path_is_temporary(frame->module, strlen(frame->module))));
}

static uint64_t function_hash(const struct report_frame *frame, enum version version)
{
	const char *name = frame->function;

	if (!name)
		return FNV_START;
	if (version == VERSION_2)
		return add_unnumbered(FNV_START, name, function_length(name));
	if (frame->old_function)
		name = frame->old_function;
	return add_text(FNV_START, name, function_length(name));
}

static uint64_t frame_hash(const struct report_frame *frame, enum version version)
{
	uint64_t hash = function_hash(frame, version);
	char offset[24];
	const char *name;

	/* Version 1 is older than the names of such code. */
	if (frame->is_jit && version != VERSION_2)
		return FNV_START;
	if (frame->file) {
		name = path_last(frame->file);
		return add_text(hash, name, strlen(name));
	}
	/* A program may be renamed, so its module name does not count for a frame with a function.
	 * Without a module the offset is an address, which differs in every run. */
	if (!frame->function && frame->module) {
		name = path_last(frame->module);
		if (counts_by_build(frame, version))
			hash = add_text(hash, frame->build_id, strlen(frame->build_id));
		else
			hash = add_text(hash, name, module_length(name));
		snprintf(offset, sizeof(offset), "+0x%" PRIx64, frame->offset);
		hash = add_text(hash, offset, strlen(offset));
	}
	return hash;
}

/* Returns true if FRAME belongs to the application. For version 1, so does all code that was
 * compiled at run time: it had no name by which a rule could match. */
static bool is_application(const struct report_frame *frame, enum version version)
{
	return frame->role == FRAME_APPLICATION || (frame->is_jit && version != VERSION_2);
}

static bool has_application(const struct report_frame *frames, size_t count, enum version version)
{
	for (size_t i = 0; i < count; i++)
		if (is_application(&frames[i], version))
			return true;
	return false;
}

/* Adds the application's frames to HASH, or all FRAMES if none belongs to the application. */
static uint64_t add_frames(uint64_t hash, const struct report_frame *frames, size_t count,
			   enum version version)
{
	int all = !has_application(frames, count, version);
	uint64_t last = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t one;

		if (!all && !is_application(&frames[i], version))
			continue;
		one = frame_hash(&frames[i], version);
		if (one == last)
			continue;
		for (int byte = 0; byte < 8; byte++)
			hash = add_byte(hash, (unsigned char)(one >> (8 * byte)));
		last = one;
	}
	return hash;
}

static uint64_t call_hash(const char *api, const char *kind, const struct report_stack *stack,
			  enum version version)
{
	uint64_t hash = add_text(FNV_START, api, strlen(api));

	hash = add_text(hash, kind, strlen(kind));
	if (stack->partial)
		hash = add_text(hash, FINGERPRINT_PARTIAL, strlen(FINGERPRINT_PARTIAL));
	return add_frames(hash, stack->frames, stack->count, version);
}

uint64_t report_fingerprint(const char *api, const char *kind, const struct report_stack *stack)
{
	return call_hash(api, kind, stack, VERSION_1);
}

uint64_t report_fingerprint2(const char *api, const char *kind, const struct report_stack *stack)
{
	return call_hash(api, kind, stack, VERSION_2);
}

int report_stack_fingerprint(const struct report_frame *frames, size_t count, uint64_t *ret)
{
	enum frame_role role = has_application(frames, count, VERSION_OF_STACK)
				       ? FRAME_APPLICATION
				       : FRAME_FRAMEWORK;

	for (size_t i = 0; i < count; i++) {
		if (frames[i].role != role || frames[i].is_jit ||
		    (!frames[i].function && !frames[i].file && !frames[i].module))
			continue;
		*ret = add_frames(FNV_START, frames, count, VERSION_OF_STACK);
		return 0;
	}
	return -ENOENT;
}

char *report_fingerprint_text(uint64_t value, bool partial, char ret[FINGERPRINT_TEXT])
{
	snprintf(ret, FINGERPRINT_TEXT, "%016" PRIx64 "%s", value,
		 partial ? FINGERPRINT_PARTIAL : "");
	return ret;
}
