/* SPDX-License-Identifier: MIT
 *
 * Lists the addresses of the live blocks of a group, for a caller that compares them with objects
 * of its own.
 */
#include <errno.h>
#include <string.h>

#include "report/model/builder.h"

int build_add_address(struct builder *b, struct report_leak *leak, const struct ledger_block *block)
{
	struct report_addresses *list = leak->addresses;

	if (!list)
		list = leak->addresses = arena_alloc(b->arena, sizeof(*list));
	if (!list)
		return -ENOMEM;
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 4;
		uint64_t *larger = arena_alloc(b->arena, room * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		if (list->count)
			memcpy(larger, list->list, list->count * sizeof(*larger));
		list->list = larger;
		list->room = room;
	}
	list->site = block->site;
	list->list[list->count++] = block->address;
	return 0;
}
