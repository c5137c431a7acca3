/* SPDX-License-Identifier: MIT
 *
 * Creates SARIF objects. Paths become URIs (RFC 3986): every byte that is not allowed in a path
 * is percent-encoded, so that a file name cannot change the rest of the URI.
 */
#include "report/format/sarif/sarif_helpers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/format/json/json_helpers.h"
#include "report/model/model.h"
#include "report/symbols/source.h"

#define BASE "SRCROOT"
/* GitHub accepts 1,000 locations per result, including the location of the result itself */
#define FRAMES_MAX 900

json_t *sarif_message(const char *text)
{
	json_t *ret = json_object();

	json_set(&ret, "text", json_text(text));
	return ret;
}

static int plain(unsigned char c)
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

	if (!text)
		return NULL;
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
	json_t *ret = json_object(), *base = json_object();

	json_set(&base, "uri", uri("file://", root->path, "/"));
	json_set(&ret, BASE, base);
	return ret;
}

static json_t *artifact(const struct source_root *root, const char *file)
{
	const char *relative = source_relative(root, file);
	json_t *ret = json_object();

	json_set(&ret, "uri", relative ? uri("", relative, "") : uri("file://", file, ""));
	if (relative && root->path[0])
		json_set(&ret, "uriBaseId", json_string(BASE));
	return ret;
}

static json_t *physical(const struct source_root *root, const struct report_frame *frame)
{
	const char *file = frame->file ? frame->file : frame->module;
	json_t *ret = json_object(), *part;

	if (file && (file[0] == '/' || source_relative(root, file)))
		json_set(&ret, "artifactLocation", artifact(root, file));
	if (frame->file && frame->line && json_object_get(ret, "artifactLocation")) {
		part = json_object();
		json_set(&part, "startLine", json_number(frame->line));
		json_set(&ret, "region", part);
	}
	if (frame->language == FRAME_NATIVE) {
		part = json_object();
		/* The offset is relative to the module; without a module it is an address of the
		 * process. */
		json_set(&part, frame->module ? "offsetFromParent" : "absoluteAddress",
			 json_number(frame->offset));
		json_set(&part, "kind", json_string("instruction"));
		json_set(&ret, "address", part);
	}
	return ret;
}

static json_t *logical(const char *function)
{
	json_t *ret = json_array(), *item = json_object();

	json_set(&item, "fullyQualifiedName", json_text(function));
	json_set(&item, "kind", json_string("function"));
	json_append(&ret, item);
	return ret;
}

json_t *sarif_location(const struct source_root *root, const struct report_frame *frame)
{
	json_t *ret = json_object(), *place;

	if (!frame)
		return ret;
	place = physical(root, frame);
	/* The schema requires a file or an address in a location. */
	if (json_object_get(place, "artifactLocation") || json_object_get(place, "address"))
		json_set(&ret, "physicalLocation", place);
	else
		json_decref(place);
	if (frame->function)
		json_set(&ret, "logicalLocations", logical(frame->function));
	return ret;
}

json_t *sarif_stack(const struct source_root *root, const struct report_stack *stack,
		    const char *what)
{
	json_t *ret = json_object(), *frames = json_array();

	for (size_t i = 0; i < stack->count && i < FRAMES_MAX && frames; i++) {
		json_t *frame = json_object();

		json_set(&frame, "location", sarif_location(root, &stack->frames[i]));
		if (stack->frames[i].module)
			json_set(&frame, "module", json_text(stack->frames[i].module));
		json_append(&frames, frame);
	}
	json_set(&ret, "message", sarif_message(what));
	json_set(&ret, "frames", frames);
	return ret;
}

static json_t *rule(const char *id, const char *name, const char *words, const char *help,
		    const char *level)
{
	json_t *ret = json_object(), *defaults = json_object();

	json_set(&defaults, "level", json_string(level));
	json_set(&ret, "id", json_string(id));
	json_set(&ret, "name", json_string(name));
	json_set(&ret, "shortDescription", sarif_message(words));
	json_set(&ret, "fullDescription", sarif_message(help));
	json_set(&ret, "help", sarif_message(help));
	json_set(&ret, "defaultConfiguration", defaults);
	return ret;
}

json_t *sarif_rules(void)
{
	static const struct {
		const char *id, *name, *words, *help, *level;
	} rules[] = {
		{ "leak", "GpuMemoryLeak", "GPU memory that was never freed",
		  "This memory was allocated here and not freed when the process ended. Free it "
		  "where its last user is done, or suppress it with a line leak:PATTERN.",
		  "error" },
		{ "double-free", "GpuDoubleFree", "GPU memory that was freed twice",
		  "The block had been freed already. If another block got its address meanwhile, "
		  "that one is gone now.", "error" },
		{ "invalid-free", "GpuInvalidFree", "A free of what was never allocated",
		  "No allocation returned this address or handle.", "error" },
		{ "interior-free", "GpuInteriorFree", "A free of an address inside a block",
		  "A block is freed by the address that its allocation returned.", "error" },
		{ "mismatched-free", "GpuMismatchedFree", "A free by the wrong call",
		  "The call is not the one that frees this kind of memory.", "error" },
		{ "free-after-context", "GpuFreeAfterContext", "A free after the block's context",
		  "The block had ended with its context.", "error" },
		{ "cache", "GpuMemoryHeldByCache", "GPU memory that a framework's cache holds",
		  "A cache that keeps memory for reuse had it when the process ended: no leak.",
		  "note" },
	};
	json_t *ret = json_array();

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && ret; i++)
		json_append(&ret, rule(rules[i].id, rules[i].name, rules[i].words, rules[i].help,
				       rules[i].level));
	return ret;
}
