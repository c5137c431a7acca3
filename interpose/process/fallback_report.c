/* SPDX-License-Identifier: MIT
 *
 * Prints a short report of the process's own ledger if the gpuleak command cannot print it: the
 * call sites with live blocks, errors, and requests that ran out of memory. Owns the words and the
 * order of that report. Allocates nothing, reads no file, and looks symbols up only in what the
 * loader has in memory.
 */
#include "interpose/process/reporter.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "ledger/options.h"
#include "ledger/totals.h"
#include "interpose/base/config.h"
#include "interpose/base/message.h"

/* number of groups that are listed: a group is the call sites with one stack, call, kind and
 * device */
#define GROUPS_MAX 100
#define STRING_MAX 256u /* longer strings are cut */

struct page_text {
	const struct ledger_view *view;
	int fd;
	bool unwritten; /* a part could not be written, and nothing follows it */
	struct text text;
	char bytes[4096];
};

static void flush(struct page_text *out)
{
	out->unwritten = out->unwritten || !write_without_hanging(out->fd, out->bytes,
							(size_t)(out->text.at - out->bytes));
	out->text = (struct text){ out->bytes, sizeof(out->bytes) - 1 };
}

static void add_string(struct page_text *out, uint32_t ref)
{
	uint32_t length;
	const char *bytes = ledger_string(out->view, ref, &length);

	if (bytes)
		text_add_bytes(&out->text, bytes, length < STRING_MAX ? length : STRING_MAX);
	else
		text_add(&out->text, "?");
}

/* Adds a line. In FORM, %n is a uint64_t, %x one in hexadecimal, %s a string, and %r a ref to a
 * string of the ledger. */
static void add_line(struct page_text *out, const char *form, ...)
{
	const char *end;
	va_list values;

	va_start(values, form);
	for (; *(end = strchrnul(form, '%')); form = end + 2) {
		text_add_bytes(&out->text, form, (size_t)(end - form));
		if (end[1] == 'n')
			text_add_number(&out->text, va_arg(values, uint64_t));
		else if (end[1] == 'x')
			text_add_hex(&out->text, va_arg(values, uint64_t));
		else if (end[1] == 's')
			text_add(&out->text, va_arg(values, const char *));
		else
			add_string(out, va_arg(values, uint32_t));
	}
	va_end(values);
	text_add(&out->text, form);
	text_end_line(&out->text);
	if (out->text.left < sizeof(out->bytes) / 2)
		flush(out);
}

static void add_frame(struct page_text *out, uint64_t number, uint64_t pc)
{
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)(pc - 1), &info) || !info.dli_fname) {
		add_line(out, "    #%n %x", number, pc - 1);
		return;
	}
	add_line(out, "    #%n %s%s(%s+%x)", number, info.dli_sname ? info.dli_sname : "",
		 info.dli_sname ? " " : "", basename(info.dli_fname),
		 pc - 1 - (uint64_t)(uintptr_t)info.dli_fbase);
}

/* Adds one line for each frame of the stack. Python frames follow the native ones, because this
 * form of the report does not combine the two. */
static void add_stack(struct page_text *out, uint32_t ref)
{
	const struct ledger_stack *stack = ledger_stack(out->view, ref);
	const struct ledger_python *python =
		stack && stack->python ? ledger_python(out->view, stack->python) : NULL;

	if (!stack)
		add_line(out, "    (no stack recorded)");
	for (unsigned int i = 0; stack && i < stack->frames; i++)
		add_frame(out, i, stack->pc[i]);
	for (unsigned int i = 0; python && i < python->frames; i++) {
		const struct ledger_code *code = ledger_code(out->view, python->frame[i].code);

		add_line(out, "    Python: %r (%r:%n)", code ? code->function : 0,
			 code ? code->file : 0,
			 (uint64_t)LEDGER_PYTHON_LINE(python->frame[i].line));
	}
}

/* Returns what SITE has live; nothing if it is an object that is not memory. */
static struct ledger_live live_of(const struct ledger_view *view, const struct ledger_site *site)
{
	return ledger_site_is_object(view, site)
		       ? (struct ledger_live){ 0 }
		       : ledger_site_live(view, site, LEDGER_COUNT_REPORTED);
}

struct total {
	uint64_t blocks, bytes, allocs, errors;
	uint64_t ended, ended_bytes; /* with their context */
};

static void sum(const struct ledger_view *view, struct total *ret)
{
	*ret = (struct total){ .errors = ledger_header(view)->errors };
	LEDGER_EACH(site, site, view) {
		const struct ledger_live live = live_of(view, site);

		if (ledger_site_is_object(view, site))
			continue;
		ret->allocs += site->allocs;
		ret->ended += site->with_context;
		ret->ended_bytes += site->with_context_bytes;
		ret->blocks += live.blocks;
		ret->bytes += live.bytes;
	}
}

/* Stores in *RET what all call sites of the group of SITE have live. Returns false if SITE is not
 * the first of them that has a block. */
static bool sum_group(const struct ledger_view *view, const struct ledger_site *site,
		      struct ledger_live *ret)
{
	*ret = (struct ledger_live){ 0 };
	LEDGER_EACH(site, other, view) {
		struct ledger_live live;

		if (other->stack != site->stack || other->api != site->api ||
		    other->kind != site->kind || other->device != site->device)
			continue;
		live = live_of(view, other);
		if (live.blocks && !ret->blocks && other != site)
			return false;
		ret->blocks += live.blocks;
		ret->bytes += live.bytes;
	}
	return ret->blocks > 0;
}

static void add_leaks(struct page_text *out)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_site *site;
	unsigned int groups = 0;
	struct ledger_live live;

	while (groups < GROUPS_MAX && (site = ledger_next_site(out->view, &walk))) {
		if (!live_of(out->view, site).blocks || !sum_group(out->view, site, &live))
			continue;
		add_line(out, "Leak of %n bytes in %n blocks (%r), allocated at:", live.bytes,
			 live.blocks, site->api);
		add_stack(out, site->stack);
		groups++;
	}
	if (groups == GROUPS_MAX)
		add_line(out, "(further leaks are not listed in this short form)");
}

/* Why a released block still has its memory: it is mapped, or a command waits for an event. */
struct reason {
	uint64_t block;
	uint32_t stack;
};

static struct reason reason_of(enum ledger_chunk_type type, const void *record)
{
	const struct ledger_mapped *mapped = record;
	const struct ledger_event_wait *wait = record;

	return type == LEDGER_CHUNK_MAPPED ? (struct reason){ mapped->block, mapped->stack }
					   : (struct reason){ wait->block, wait->event_stack };
}
_Static_assert(sizeof(struct ledger_mapped) == sizeof(struct ledger_event_wait),
	       "add_reason() walks over records of both types with one size");

/* Adds one line about all released blocks that still have their memory for a reason of TYPE, and
 * the stack of the first. Returns the number of these blocks. */
static uint64_t add_reason(struct page_text *out, enum ledger_chunk_type type, const char *form)
{
	struct ledger_walk walk = { 0, 0 };
	struct ledger_live total = { 0 };
	uint32_t first = 0;
	const void *record;

	while ((record = ledger_next(out->view, &walk, type, sizeof(struct ledger_mapped)))) {
		const struct reason why = reason_of(type, record);
		const struct ledger_block *slot = ledger_block_slot(out->view, (uint32_t)why.block);

		if (!slot || LEDGER_BLOCK_STATE(slot->state) != LEDGER_BLOCK_RELEASED ||
		    ledger_block_name(slot->state, (uint32_t)why.block) != why.block)
			continue;
		first = total.blocks ? first : why.stack;
		total.blocks++;
		total.bytes += slot->bytes;
	}
	if (total.blocks) {
		add_line(out, form, total.blocks, total.bytes);
		add_stack(out, first);
	}
	return total.blocks;
}

static void add_errors(struct page_text *out)
{
	LEDGER_EACH(error, error, out->view) {
		if (!error->type) /* retracted */
			continue;
		add_line(out, "Error: %r of %x by %r at:", error->type, error->address, error->api);
		add_stack(out, error->stack);
		if (error->allocated.api) {
			add_line(out, "  allocated at:");
			add_stack(out, error->allocated.stack);
		}
		if (error->freed.api) {
			add_line(out, "  first freed at:");
			add_stack(out, error->freed.stack);
		}
	}
}

#define HOLDERS_LISTED 3u

/* Adds the requests that were refused for want of memory, without those that recovered, and the
 * call sites that held most memory then. Equal call sites of several threads are listed separately,
 * and the bytes of a block include those of suballocations. */
static void add_refused(struct page_text *out)
{
	LEDGER_EACH(out_of_memory, record, out->view) {
		if (!LEDGER_REFUSAL_NUMBER(record->state) ||
		    record->state & LEDGER_REFUSAL_RECOVERED)
			continue;
		add_line(out, "Out of memory: %n bytes wanted by %r at:", record->bytes,
			 record->api);
		add_stack(out, record->stack);
		for (unsigned int i = 0; i < HOLDERS_LISTED && i < record->holders; i++) {
			const struct ledger_holder *holder = &record->holder[i];
			const struct ledger_site *site = ledger_any_site(out->view, holder->site);

			add_line(out, "  held by %n blocks: %n bytes (%r), allocated at:",
				 (uint64_t)holder->blocks, holder->bytes, site ? site->api : 0);
			add_stack(out, site ? site->stack : 0);
		}
	}
}

static void add_verdict(struct page_text *out, const struct total *total)
{
	if (total->ended)
		add_line(out, "gpuleak: %n blocks, %n bytes never freed, ended with their context",
			 total->ended, total->ended_bytes);
	if (total->blocks == 0 && total->errors == 0 && total->ended == 0)
		add_line(out, "gpuleak: no leaks: %n blocks allocated", total->allocs);
	else if (total->blocks || total->errors)
		add_line(out, "gpuleak: %n blocks, %n bytes never freed, %n invalid frees",
			 total->blocks, total->bytes, total->errors);
}

static bool add_troubles(struct page_text *out, const struct ledger_header *header)
{
	static const char *const texts[] = {
#define X(name, text) text,
		LEDGER_TROUBLES(X)
#undef X
	};

	for (unsigned int i = 0; i < LEDGER_TROUBLE_COUNT; i++)
		if (header->trouble[i])
			add_line(out, "note: %n %s", header->trouble[i], texts[i]);
	return header->trouble[LEDGER_TROUBLE_UNRECORDED_BLOCKS] ||
	       header->trouble[LEDGER_TROUBLE_ABANDONED];
}

static void add_pools(struct page_text *out)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_pools *pools = ledger_next_pools(out->view, &walk);
	uint64_t hits = 0, allocs = 0, kept = 0;

	if (!pools || pools->mode == OPTION_POOL_OFF)
		return;
	for (unsigned int i = 0; i < LEDGER_POOLS_MAX; i++) {
		hits += pools->pool[i].hits;
		allocs += pools->pool[i].hits + pools->pool[i].native_allocs;
		kept += pools->pool[i].cached + pools->pool[i].pending;
	}
	add_line(out,
		 "gpuleak: pool (%s): %n of %n allocations served without the driver, %n bytes "
		 "kept by the pool, no leak",
		 option_word(OPTION_POOL, (int)pools->mode), hits, allocs, kept);
}

/* If the process has less address space left than this part of its ledger, it gets no report: one
 * line names the limit, and the ledger stays for `gpuleak report`. */
#define SPACE_SHARE 4u

/* Writes one line, without memory of its own. */
static void say_no_memory(const struct recorder *recorder)
{
	const bool on_file = !recorder->writer.memory_only;
	char pid[TEXT_NUMBER];

	say("gpuleak: ", program_invocation_short_name, " (pid ",
	    text_number((uint64_t)getpid(), pid), "): no report: the process has no memory left "
	    "to make one; raise its limit on address space (ulimit -v)",
	    on_file ? ", or run: gpuleak report " : "", on_file ? recorder->writer.path : "", "\n",
	    NULL);
}

bool plain_report(struct recorder *recorder, int fd, const char *why, bool *ret_written)
{
	struct ledger_view view;
	struct page_text out = { .view = &view, .fd = fd };
	struct total total;
	uint64_t stuck;
	bool lost;

	*ret_written = false;
	out.text = (struct text){ out.bytes, sizeof(out.bytes) - 1 };
	if (ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view) != LEDGER_OK ||
	    ledger_address_space_left() < view.bytes / SPACE_SHARE) {
		say_no_memory(recorder);
		return true;
	}
	sum(&view, &total);
	add_verdict(&out, &total);
	add_leaks(&out);
	add_reason(&out, LEDGER_CHUNK_MAPPED,
		   "%n blocks, %n bytes of the leaks above were released, but never unmapped; "
		   "first mapped at:");
	stuck = add_reason(&out, LEDGER_CHUNK_EVENT_WAITS,
			   "%n blocks, %n bytes were released, but a command that waits for a user "
			   "event holds them; the event was never set, and was created at:");
	add_errors(&out);
	add_refused(&out);
	add_pools(&out);
	lost = add_troubles(&out, recorder->header);
	add_line(&out, "gpuleak: this is the short form of the report: %s", why);
	flush(&out);
	*ret_written = !out.unwritten;
	return total.blocks > 0 || stuck > 0 || total.errors > 0 || lost ||
	       (total.ended > 0 && config.gate_context_ends);
}
