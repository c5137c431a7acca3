/* SPDX-License-Identifier: MIT
 *
 * Reads the balances, then the slots, then the balances again. If a call site has the same balances
 * and as many allocations as before, nothing happened to it in between, except in calls that had
 * begun before.
 */
#include "balances.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ledger/reader.h"
#include "ledger/shared.h"

/* Of all blocks (the last element), and of those that are hidden: by enum ledger_hidden. */
struct amounts {
	uint64_t bytes[LEDGER_HIDDEN_NOT + 1];
	uint32_t blocks[LEDGER_HIDDEN_NOT + 1];
};

struct sums {
	struct amounts balances, slots;
	uint64_t allocs;
	bool has; /* the call site was there before the slots were read */
};

struct comparison {
	struct ledger_view view;
	struct sums *sums; /* by the index of the call site in the file */
	unsigned int slack;
	struct balances *ret;
};

static struct sums *sums_of(const struct comparison *c, const struct ledger_site *site)
{
	return &c->sums[(size_t)((const uint8_t *)site - c->view.base) / sizeof(*site)];
}

static uint64_t load(const uint64_t *field)
{
	return atomic_load_explicit(&SHARED(*field), memory_order_acquire);
}

static uint32_t load32(const uint32_t *field)
{
	return atomic_load_explicit(&SHARED(*field), memory_order_acquire);
}

static bool read_balances(const struct comparison *c, const struct ledger_site *site,
			  struct sums *ret)
{
	const struct ledger_balance *own = ledger_balance_of(&c->view, site);
	const struct ledger_balance *others = ledger_others_balance_of(&c->view, site);

	if (!own || !others)
		return false;
	ret->allocs = load(&site->allocs);
	ret->balances.bytes[LEDGER_HIDDEN_NOT] = load(&own->bytes) + load(&others->bytes);
	ret->balances.blocks[LEDGER_HIDDEN_NOT] = load32(&own->blocks) + load32(&others->blocks);
	for (int i = 0; i < LEDGER_HIDDEN_NOT; i++) {
		ret->balances.bytes[i] = load(&others->hidden_bytes[i]);
		ret->balances.blocks[i] = load32(&others->hidden_blocks[i]);
	}
	return true;
}

static void read_sites(const struct comparison *c, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = ledger_next(&c->view, &walk, type, sizeof(*site))))
		sums_of(c, site)->has = read_balances(c, site, sums_of(c, site));
}

static void add(struct amounts *amounts, enum ledger_hidden hidden, uint64_t bytes)
{
	amounts->blocks[hidden]++;
	amounts->bytes[hidden] += bytes;
}

static void read_slots(const struct comparison *c, enum ledger_chunk_type type, uint64_t *count)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *slot;
	const struct ledger_site *site;
	struct ledger_block block;

	while ((slot = ledger_next(&c->view, &walk, type, sizeof(*slot)))) {
		enum ledger_hidden hidden;

		if (!ledger_read_slot(slot, &block) ||
		    !(site = ledger_any_site(&c->view, block.site)))
			continue;
		++*count;
		add(&sums_of(c, site)->slots, LEDGER_HIDDEN_NOT, block.bytes);
		hidden = ledger_block_hidden(block.state, block.marked);
		if (type == LEDGER_CHUNK_BLOCKS && hidden != LEDGER_HIDDEN_NOT)
			add(&sums_of(c, site)->slots, hidden, block.bytes);
	}
}

static void compare_site(const struct comparison *c, const struct ledger_site *site)
{
	const struct amounts *a = &sums_of(c, site)->balances, *b = &sums_of(c, site)->slots;
	struct sums again;

	memset(&again, 0, sizeof(again)); /* memcmp() compares unused bytes, too */
	if (!sums_of(c, site)->has || !read_balances(c, site, &again) ||
	    again.allocs != sums_of(c, site)->allocs ||
	    memcmp(&again.balances, a, sizeof(*a)) != 0) {
		c->ret->unsteady++;
		return;
	}
	c->ret->sites++;
	for (int i = 0; i <= LEDGER_HIDDEN_NOT; i++) {
		int blocks = (int)(a->blocks[i] - b->blocks[i]);

		c->ret->hidden += i == LEDGER_HIDDEN_NOT ? 0 : b->blocks[i];
		if ((!blocks && a->bytes[i] == b->bytes[i]) ||
		    (unsigned int)abs(blocks) + !blocks <= c->slack || c->ret->differ++)
			continue;
		snprintf(c->ret->first, sizeof(c->ret->first),
			 "call site at %zu, sum %d: balances %lld bytes in %d blocks, "
			 "slots %llu in %u", (size_t)((const uint8_t *)site - c->view.base), i,
			 (long long)a->bytes[i], (int)a->blocks[i],
			 (unsigned long long)b->bytes[i], b->blocks[i]);
	}
}

static void compare(struct comparison *c)
{
	static const enum ledger_chunk_type types[] = { LEDGER_CHUNK_SITES,
							LEDGER_CHUNK_SUBALLOCATION_SITES };

	for (int i = 0; i < 2; i++)
		read_sites(c, types[i]);
	read_slots(c, LEDGER_CHUNK_BLOCKS, &c->ret->blocks);
	read_slots(c, LEDGER_CHUNK_SUBALLOCATIONS, &c->ret->suballocations);
	for (int i = 0; i < 2; i++) {
		struct ledger_walk walk = { 0 };
		const struct ledger_site *site;

		while ((site = ledger_next(&c->view, &walk, types[i], sizeof(*site))))
			compare_site(c, site);
	}
}

bool balances_compare(const char *path, unsigned int slack, struct balances *ret)
{
	struct comparison c = { .slack = slack, .ret = ret };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool done = false;
	struct stat st;
	void *base;

	*ret = (struct balances){ 0 };
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (base == MAP_FAILED)
		return false;
	c.sums = calloc((size_t)st.st_size / sizeof(struct ledger_site) + 1, sizeof(*c.sums));
	if (c.sums && ledger_view(base, (size_t)st.st_size, &c.view) == LEDGER_OK) {
		compare(&c);
		done = true;
	}
	free(c.sums);
	munmap(base, (size_t)st.st_size);
	return done;
}
