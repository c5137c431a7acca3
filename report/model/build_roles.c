/* SPDX-License-Identifier: MIT
 *
 * Finds the role of each frame: application, runtime, framework or interpreter. Many stacks
 * share few different frames, so the rules are applied once per function, file and module.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "report/model/builder.h"
#include "report/symbols/rules.h"
#include "report/symbols/symbolize.h"

struct known_frame {
	const char *function, *file, *module;
	struct rules_frame decision;
};

/* Compares pointers, because strings of one process are interned. The same text has at most two
 * pointers, which only costs another evaluation. */
static bool same_frame(const void *value, const void *key)
{
	const struct known_frame *known = value;
	const struct report_frame *frame = key;

	return known->function == frame->function && known->file == frame->file &&
	       known->module == frame->module;
}

static const struct rules_frame *find_frame(struct builder *b, const struct rules *rules,
					    const struct report_frame *frame)
{
	uint64_t hash = hash_number((uintptr_t)frame->function,
				    hash_number((uintptr_t)frame->file, 0));
	struct known_frame *known;

	hash = hash_number((uintptr_t)frame->module, hash);
	known = table_find(&b->known_frames, hash, same_frame, frame);
	if (known)
		return &known->decision;
	known = arena_alloc(b->arena, sizeof(*known));
	if (!known || table_add(&b->known_frames, hash, known) < 0)
		return NULL;
	*known = (struct known_frame){ frame->function, frame->file, frame->module,
				       rules_frame(rules, frame) };
	return &known->decision;
}

int build_roles(struct builder *b, struct report_frame *frames, size_t count,
		const char **ret_cache)
{
	const struct rules *rules = symbolizer_rules(b->symbolizer);
	struct rules_stack stack = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct rules_frame *decision = find_frame(b, rules, &frames[i]);

		if (!decision)
			return -ENOMEM;
		frames[i].role = decision->role;
		frames[i].thread = rules_thread(rules, decision);
		rules_add_frame(rules, &stack, decision);
	}
	*ret_cache = rules_cache(rules, &stack);
	return 0;
}
