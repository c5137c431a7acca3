/* SPDX-License-Identifier: MIT
 *
 * Prints a short report of the process's own ledger if the gpuleak command cannot print it: the
 * call sites with live blocks, errors, and requests that ran out of memory. Owns the words and the
 * order of that report. Allocates nothing, reads no file, and looks symbols up only in what the
 * loader has in memory.
 */
#include "interpose/process/fallback_report.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ledger/options.h"
#include "ledger/reader.h"
#include "interpose/base/message.h"
#include "interpose/block/site_totals.h"

/* number of groups that are listed: a group is the call sites with one stack, call, kind and
 * device */
#define GROUPS_MAX 100

struct page_text {
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

static void line_done(struct page_text *out)
{
	text_end_line(&out->text);
	if (out->text.left < sizeof(out->bytes) / 2)
		flush(out);
}

static void add_string(struct page_text *out, const struct ledger_view *view, uint32_t ref)
{
	uint32_t length;
	const char *bytes = ledger_string(view, ref, &length);

	if (bytes)
		text_add_bytes(&out->text, bytes, length < 256 ? length : 256);
	else
		text_add(&out->text, "?");
}

static void add_frame(struct page_text *out, unsigned int number, uint64_t pc)
{
	const char *base;
	Dl_info info;

	text_add(&out->text, "    #");
	text_add_number(&out->text, number);
	text_add(&out->text, " ");
	if (!dladdr((void *)(uintptr_t)(pc - 1), &info) || !info.dli_fname) {
		text_add_hex(&out->text, pc - 1);
		line_done(out);
		return;
	}
	if (info.dli_sname) {
		text_add(&out->text, info.dli_sname);
		text_add(&out->text, " ");
	}
	base = strrchr(info.dli_fname, '/');
	text_add(&out->text, "(");
	text_add(&out->text, base ? base + 1 : info.dli_fname);
	text_add(&out->text, "+");
	text_add_hex(&out->text, pc - 1 - (uint64_t)(uintptr_t)info.dli_fbase);
	text_add(&out->text, ")");
	line_done(out);
}

/* Adds one line for each Python frame of the stack. They follow the native frames, because this
 * form of the report does not combine the two. */
static void add_python(struct page_text *out, const struct ledger_view *view, uint32_t ref)
{
	const struct ledger_python *python = ref ? ledger_python(view, ref) : NULL;

	for (unsigned int i = 0; python && i < python->frames; i++) {
		const struct ledger_code *code = ledger_code(view, python->frame[i].code);

		text_add(&out->text, "    Python: ");
		add_string(out, view, code ? code->function : 0);
		text_add(&out->text, " (");
		add_string(out, view, code ? code->file : 0);
		text_add(&out->text, ":");
		text_add_number(&out->text, LEDGER_PYTHON_LINE(python->frame[i].line));
		text_add(&out->text, ")");
		line_done(out);
	}
}

static void add_stack(struct page_text *out, const struct ledger_view *view, uint32_t ref)
{
	const struct ledger_stack *stack = ledger_stack(view, ref);

	if (!stack) {
		text_add(&out->text, "    (no stack recorded)");
		line_done(out);
		return;
	}
	for (unsigned int i = 0; i < stack->frames; i++)
		add_frame(out, i, stack->pc[i]);
	add_python(out, view, stack->python);
}

struct total {
	uint64_t blocks, bytes, allocs, errors;
};

static void sum(const struct ledger_view *view, const struct tallies *tallies,
		struct total *ret)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_site *site;

	memset(ret, 0, sizeof(*ret));
	while ((site = ledger_next(view, &walk, LEDGER_CHUNK_SITES, sizeof(*site)))) {
		ret->allocs += ledger_site_is_object(view, site) ? 0 : site->allocs;
		ret->blocks += tally_of(tallies, view, site)->blocks;
		ret->bytes += tally_of(tallies, view, site)->bytes;
	}
	ret->errors = ledger_header(view)->errors;
}

static bool same_group(const struct ledger_site *a, const struct ledger_site *b)
{
	return a->stack == b->stack && a->api == b->api && a->kind == b->kind &&
	       a->device == b->device;
}

/* Returns the sum of the tallies of SITE and of the later call sites of its group. Sets the later
 * tallies to 0, so that they are counted only once. */
static struct tally take_group(const struct tallies *tallies, const struct ledger_view *view,
			       struct ledger_walk walk, const struct ledger_site *site)
{
	struct tally total = *tally_of(tallies, view, site), *other_tally;
	const struct ledger_site *other;

	while ((other = ledger_next(view, &walk, LEDGER_CHUNK_SITES, sizeof(*other)))) {
		if (!same_group(site, other))
			continue;
		other_tally = tally_of(tallies, view, other);
		total.blocks += other_tally->blocks;
		total.bytes += other_tally->bytes;
		*other_tally = (struct tally){ 0, 0 };
	}
	return total;
}

static void add_leaks(struct page_text *out, const struct ledger_view *view,
		      const struct tallies *tallies)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_site *site;
	unsigned int groups = 0;

	while (groups < GROUPS_MAX &&
	       (site = ledger_next(view, &walk, LEDGER_CHUNK_SITES, sizeof(*site)))) {
		struct tally total;

		if (tally_of(tallies, view, site)->blocks == 0)
			continue;
		total = take_group(tallies, view, walk, site);
		text_add(&out->text, "Leak of ");
		text_add_number(&out->text, total.bytes);
		text_add(&out->text, " bytes in ");
		text_add_number(&out->text, total.blocks);
		text_add(&out->text, " blocks (");
		add_string(out, view, site->api);
		text_add(&out->text, "), allocated at:");
		line_done(out);
		add_stack(out, view, site->stack);
		groups++;
	}
	if (groups == GROUPS_MAX) {
		text_add(&out->text, "(further leaks are not listed in this short form)");
		line_done(out);
	}
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
static uint64_t add_reason(struct page_text *out, const struct ledger_view *view,
			   enum ledger_chunk_type type, const char *words)
{
	struct ledger_walk walk = { 0, 0 };
	struct total total = { 0 };
	uint32_t first = 0;
	const void *record;

	while ((record = ledger_next(view, &walk, type, sizeof(struct ledger_mapped)))) {
		const struct reason reason = reason_of(type, record);
		const struct ledger_block *block = ledger_block(view, (uint32_t)reason.block);

		if (!block || LEDGER_BLOCK_STATE(block->state) != LEDGER_BLOCK_RELEASED ||
		    ledger_block_name(block->state, (uint32_t)reason.block) != reason.block)
			continue;
		first = total.blocks ? first : reason.stack;
		total.blocks++;
		total.bytes += block->bytes;
	}
	if (!total.blocks)
		return 0;
	text_add_number(&out->text, total.blocks);
	text_add(&out->text, " blocks, ");
	text_add_number(&out->text, total.bytes);
	text_add(&out->text, words);
	line_done(out);
	add_stack(out, view, first);
	return total.blocks;
}

static void add_errors(struct page_text *out, const struct ledger_view *view)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_error *error;

	while ((error = ledger_next(view, &walk, LEDGER_CHUNK_ERRORS, sizeof(*error)))) {
		if (!error->type) /* retracted */
			continue;
		text_add(&out->text, "Error: ");
		add_string(out, view, error->type);
		text_add(&out->text, " of ");
		text_add_hex(&out->text, error->address);
		text_add(&out->text, " by ");
		add_string(out, view, error->api);
		text_add(&out->text, " at:");
		line_done(out);
		add_stack(out, view, error->stack);
		if (error->allocated.api) {
			text_add(&out->text, "  allocated at:");
			line_done(out);
			add_stack(out, view, error->allocated.stack);
		}
		if (error->freed.api) {
			text_add(&out->text, "  first freed at:");
			line_done(out);
			add_stack(out, view, error->freed.stack);
		}
	}
}

static void add_holder(struct page_text *out, const struct ledger_view *view,
		       const struct ledger_holder *holder)
{
	const struct ledger_site *site = ledger_any_site(view, holder->site);

	text_add(&out->text, "  held by ");
	text_add_number(&out->text, holder->blocks);
	text_add(&out->text, " blocks: ");
	text_add_number(&out->text, holder->bytes);
	text_add(&out->text, " bytes (");
	add_string(out, view, site ? site->api : 0);
	text_add(&out->text, "), allocated at:");
	line_done(out);
	add_stack(out, view, site ? site->stack : 0);
}

#define HOLDERS_LISTED 3u

/* Adds the call sites that held most memory when RECORD was made. Equal call sites of several
 * threads are listed separately. */
static void add_holders(struct page_text *out, const struct ledger_view *view,
			const struct ledger_out_of_memory *record)
{
	const uint32_t count = record->holders < LEDGER_HOLDERS_MAX ? record->holders
								     : LEDGER_HOLDERS_MAX;
	const struct ledger_holder *last = NULL;

	for (unsigned int listed = 0; listed < HOLDERS_LISTED; listed++) {
		const struct ledger_holder *next = NULL;

		for (const struct ledger_holder *at = record->holder; at < record->holder + count;
		     at++)
			if ((!last || at->bytes < last->bytes ||
			     (at->bytes == last->bytes && at > last)) &&
			    (!next || at->bytes > next->bytes))
				next = at;
		if (!next)
			return;
		add_holder(out, view, next);
		last = next;
	}
}

/* Adds the requests that were refused for want of memory, without those that recovered. */
static void add_refused(struct page_text *out, const struct ledger_view *view)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_out_of_memory *record;

	while ((record = ledger_next(view, &walk, LEDGER_CHUNK_OUT_OF_MEMORY, sizeof(*record)))) {
		if (!LEDGER_REFUSAL_NUMBER(record->state) ||
		    record->state & LEDGER_REFUSAL_RECOVERED)
			continue;
		text_add(&out->text, "Out of memory: ");
		text_add_number(&out->text, record->bytes);
		text_add(&out->text, " bytes wanted by ");
		add_string(out, view, record->api);
		text_add(&out->text, " at:");
		line_done(out);
		add_stack(out, view, record->stack);
		add_holders(out, view, record);
	}
}

static void add_verdict(struct page_text *out, const struct total *total)
{
	text_add(&out->text, "gpuleak: ");
	if (total->blocks == 0 && total->errors == 0) {
		text_add(&out->text, "no leaks: ");
		text_add_number(&out->text, total->allocs);
		text_add(&out->text, " blocks allocated");
	} else {
		text_add_number(&out->text, total->blocks);
		text_add(&out->text, " blocks, ");
		text_add_number(&out->text, total->bytes);
		text_add(&out->text, " bytes never freed, ");
		text_add_number(&out->text, total->errors);
		text_add(&out->text, " invalid frees");
	}
	line_done(out);
}

static bool add_troubles(struct page_text *out, const struct ledger_header *header)
{
	static const char *const texts[] = {
#define X(name, text) text,
		LEDGER_TROUBLES(X)
#undef X
	};
	bool lost = false;

	for (unsigned int i = 0; i < LEDGER_TROUBLE_COUNT; i++) {
		if (!header->trouble[i])
			continue;
		text_add(&out->text, "note: ");
		text_add_number(&out->text, header->trouble[i]);
		text_add(&out->text, " ");
		text_add(&out->text, texts[i]);
		line_done(out);
		lost = lost || i == LEDGER_TROUBLE_UNRECORDED_BLOCKS ||
		       i == LEDGER_TROUBLE_ABANDONED;
	}
	return lost;
}

static void add_pools(struct page_text *out, const struct ledger_view *view)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_pools *pools =
		ledger_next(view, &walk, LEDGER_CHUNK_POOLS, sizeof(*pools));
	uint64_t hits = 0, allocs = 0, kept = 0;

	if (!pools || pools->mode == OPTION_POOL_OFF)
		return;
	for (unsigned int i = 0; i < LEDGER_POOLS_MAX; i++) {
		hits += pools->pool[i].hits;
		allocs += pools->pool[i].hits + pools->pool[i].native_allocs;
		kept += pools->pool[i].cached + pools->pool[i].pending;
	}
	text_add(&out->text, "gpuleak: pool (");
	text_add(&out->text, option_word(OPTION_POOL, (int)pools->mode));
	text_add(&out->text, "): ");
	text_add_number(&out->text, hits);
	text_add(&out->text, " of ");
	text_add_number(&out->text, allocs);
	text_add(&out->text, " allocations served without the driver, ");
	text_add_number(&out->text, kept);
	text_add(&out->text, " bytes kept by the pool, no leak");
	line_done(out);
}

/* Writes one line, without memory of its own. */
static void say_no_memory(const struct recorder *recorder)
{
	const bool on_file = !recorder->writer.memory_only;
	char pid[24];
	struct text text = { pid, sizeof(pid) - 1 };

	text_add_number(&text, (uint64_t)getpid());
	*text.at = '\0';
	say("gpuleak: ", program_invocation_short_name, " (pid ", pid,
	    "): no report: the process has no memory left to make one; raise its limit on address "
	    "space (ulimit -v)", on_file ? ", or run: gpuleak report " : "",
	    on_file ? recorder->writer.path : "", "\n", NULL);
}

bool plain_report(struct recorder *recorder, int fd, const char *why, bool *ret_written)
{
	struct page_text out = { .fd = fd };
	struct ledger_view view;
	struct tallies tallies;
	struct total total;
	uint64_t stuck;
	bool lost;

	*ret_written = false;
	out.text = (struct text){ out.bytes, sizeof(out.bytes) - 1 };
	if (ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view) != LEDGER_OK ||
	    tallies_count(&view, &tallies) < 0) {
		say_no_memory(recorder);
		return true;
	}
	tallies_drop_objects(&view, &tallies);
	sum(&view, &tallies, &total);
	add_verdict(&out, &total);
	add_leaks(&out, &view, &tallies);
	add_reason(&out, &view, LEDGER_CHUNK_MAPPED,
		   " bytes of the leaks above were released, but never unmapped; first mapped at:");
	stuck = add_reason(&out, &view, LEDGER_CHUNK_EVENT_WAITS,
			   " bytes were released, but a command that waits for a user event "
			   "holds them; the event was never set, and was created at:");
	add_errors(&out, &view);
	add_refused(&out, &view);
	add_pools(&out, &view);
	lost = add_troubles(&out, recorder->header);
	text_add(&out.text, "gpuleak: this is the short form of the report: ");
	text_add(&out.text, why);
	line_done(&out);
	flush(&out);
	*ret_written = !out.unwritten;
	tallies_finish(&tallies);
	return total.blocks > 0 || stuck > 0 || total.errors > 0 || lost;
}
