/* SPDX-License-Identifier: MIT
 *
 * Creates SARIF objects. Paths become URIs (RFC 3986): every byte that is not allowed in a path
 * is percent-encoded, so that a file name cannot change the rest of the URI.
 */
#include "report/format/sarif/sarif_helpers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/symbols/source.h"

#define BASE "SRCROOT"
/* GitHub accepts 1,000 locations per result, including the location of the result itself */
#define FRAMES_MAX 900

json_t *sarif_message(const char *text)
{
	return JSON_OBJECT({ "text", json_text(text) });
}

static bool plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       strchr("/-._~+@", c) != NULL;
}

/* Returns PREFIX, the encoded PATH and SUFFIX as one string. */
static json_t *uri(const char *prefix, const char *path, const char *suffix)
{
	char *text = malloc(strlen(prefix) + 3 * strlen(path) + strlen(suffix) + 1);
	char *to = text;
	json_t *ret;

	to += sprintf(to, "%s", prefix);
	for (; *path; path++)
		to += plain((unsigned char)*path)
			      ? sprintf(to, "%c", *path)
			      : sprintf(to, "%%%02X", (unsigned int)(unsigned char)*path);
	strcpy(to, suffix);
	ret = json_string(text);
	free(text);
	return ret;
}

json_t *sarif_base(const struct source_root *root)
{
	return JSON_OBJECT({ BASE, JSON_OBJECT({ "uri", uri("file://", root->path, "/") }) });
}

static json_t *artifact(const struct source_root *root, const char *file)
{
	const char *relative = source_relative(root, file);
	bool has_base = relative && root->path[0];

	return JSON_OBJECT(
		{ "uri", relative ? uri("", relative, "") : uri("file://", file, "") },
		{ "uriBaseId", JSON_IF(has_base, json_string(BASE)) });
}

static json_t *address(const struct report_frame *frame)
{
	/* The offset is relative to the module; without a module it is an address of the
	 * process. */
	return JSON_OBJECT(
		{ frame->module ? "offsetFromParent" : "absoluteAddress",
		  json_number(frame->offset) },
		{ "kind", json_string("instruction") });
}

/* Returns the place of FRAME. Leaves out the key if neither a file nor an address is known, because
 * the schema requires one of them. */
static json_t *physical(const struct source_root *root, const struct report_frame *frame)
{
	const char *file = frame->file ? frame->file : frame->module;
	bool has_file = file && (file[0] == '/' || source_relative(root, file));
	bool has_line = has_file && frame->file && frame->line;
	bool has_address = frame->language == FRAME_NATIVE;

	if (!has_file && !has_address)
		return json_left_out();
	return JSON_OBJECT(
		{ "artifactLocation", JSON_IF(has_file, artifact(root, file)) },
		{ "region", JSON_IF(has_line,
				    JSON_OBJECT({ "startLine", json_number(frame->line) })) },
		{ "address", JSON_IF(has_address, address(frame)) });
}

static json_t *logical(const char *function)
{
	return JSON_ARRAY(JSON_OBJECT(
		{ "fullyQualifiedName", json_text(function) },
		{ "kind", json_string("function") }));
}

json_t *sarif_location(const struct source_root *root, const struct report_frame *frame)
{
	const char *function = frame ? frame->function : NULL;

	return JSON_OBJECT(
		{ "physicalLocation", JSON_IF(frame, physical(root, frame)) },
		{ "logicalLocations", JSON_IF(function, logical(function)) });
}

json_t *sarif_stack(const struct source_root *root, const struct report_stack *stack,
		    const char *what)
{
	json_t *frames = json_array();

	for (size_t i = 0; i < stack->count && i < FRAMES_MAX; i++) {
		const struct report_frame *frame = &stack->frames[i];

		json_array_append_new(frames, JSON_OBJECT(
			{ "location", sarif_location(root, frame) },
			{ "module", JSON_IF(frame->module, json_text(frame->module)) }));
	}
	return JSON_OBJECT(
		{ "message", sarif_message(what) },
		{ "frames", frames });
}

struct sarif_rule {
	const char *id, *name, *words, *help, *level;
};

static json_t *rule_json(const void *item)
{
	const struct sarif_rule *rule = item;

	return JSON_OBJECT(
		{ "id", json_string(rule->id) },
		{ "name", json_string(rule->name) },
		{ "shortDescription", sarif_message(rule->words) },
		{ "fullDescription", sarif_message(rule->help) },
		{ "help", sarif_message(rule->help) },
		{ "defaultConfiguration", JSON_OBJECT({ "level", json_string(rule->level) }) });
}

/* The rule of a type of accesses, which the guard finds. */
#define ACCESS(id, name, words, help) { id, name, words, help, "error" },

static const struct sarif_rule rules[] = {
	{ "leak", "GpuMemoryLeak", "GPU memory that was never freed",
	  "This memory was allocated here and not freed when the process ended. Free it "
	  "where its last user is done, or suppress it with a line leak:PATTERN.",
	  "error" },
	{ "ended-with-context", "GpuMemoryEndedWithContext",
	  "GPU memory that was live when its context ended",
	  "This memory was never freed: the driver returned it when the context was "
	  "destroyed or reset. Free it before that call, or set "
	  "GPULEAK_GATE_CONTEXT_ENDS=0 if the program leaves this to the driver.",
	  "error" },
	{ "out-of-memory", "GpuOutOfMemory", "A request for GPU memory that was refused",
	  "There was not enough GPU memory for this request, and the program ended. The "
	  "message names what held the memory at that moment.",
	  "error" },
	{ "accumulation", "GpuMemoryAccumulates",
	  "GPU memory of which the program keeps more and more",
	  "The program keeps what this line allocates, for example tensors in a list, so "
	  "its memory grows as long as the loop runs. Keep numbers instead of tensors, or "
	  "drop what is not needed any more.",
	  "warning" },
	{ "double-free", "GpuDoubleFree", "GPU memory that was freed twice",
	  "The block had been freed already. If another block got its address meanwhile, "
	  "the other block is gone now.", "error" },
	{ "invalid-free", "GpuInvalidFree", "A free of what was never allocated",
	  "No allocation returned this address or handle.", "error" },
	{ "interior-free", "GpuInteriorFree", "A free of an address inside a block",
	  "A block is freed by the address that its allocation returned.", "error" },
	{ "mismatched-free", "GpuMismatchedFree", "A free by the wrong call",
	  "The call is not the one that frees this kind of memory.", "error" },
	{ "freed-while-mapped", "GpuFreedWhileMapped",
	  "A reservation that was freed while a part of it was mapped",
	  "The driver refuses this free. Call cuMemUnmap for each mapping of the "
	  "reservation first.", "error" },
	{ "free-after-context", "GpuFreeAfterContext", "A free after the block's context",
	  "The destruction of the context had already freed the block.", "error" },
	ACCESS("copy-out-of-bounds", "GpuCopyOutOfBounds",
	       "A copy or memset beyond the end of a GPU block",
	       "The range of the call is not inside the block at its address.")
	ACCESS("copy-after-free", "GpuCopyAfterFree",
	       "A copy or memset from or into freed GPU memory",
	       "The block at this address had been freed.")
	ACCESS("write-out-of-bounds", "GpuWriteOutOfBounds", "A write beyond a GPU block",
	       "A launch since the last check has overwritten bytes beside the block.")
	ACCESS("write-after-free", "GpuWriteAfterFree", "A write into freed GPU memory",
	       "Bytes of the block were overwritten after its free.")
	ACCESS("access-fault", "GpuAccessFault",
	       "An access to GPU memory that is not mapped",
	       "A kernel accessed memory behind a block, or a freed block.")
	{ "cache", "GpuMemoryHeldByCache", "GPU memory that a framework's cache holds",
	  "A cache that keeps memory for reuse had it when the process ended: no leak.",
	  "note" },
	{ "kept", "GpuMemoryKept", "GPU memory that was kept while gpuleak was attached",
	  "The process may free it later: leaks are not judged.", "note" },
};

json_t *sarif_rules(void)
{
	return JSON_LIST(rules, sizeof(rules) / sizeof(rules[0]), rule_json);
}
