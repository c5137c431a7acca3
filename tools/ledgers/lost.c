/* SPDX-License-Identifier: MIT
 *
 * Compares the roster with the ledgers that were found. Copies each slot first, because a
 * running process may still write to it.
 */
#include "tools/ledgers/lost.h"

#include <stdarg.h>
#include <sys/random.h>
#include <sys/shm.h>

#include "ledger/error_text.h"
#include "ledger/shared.h"
#include "report/model/model.h"
#include "report/subjects/subject_words.h"
#include "tools/launch/system.h"

#define NAMED_MAX 20u /* this many processes have a sentence each; one sentence counts the others */

int lost_create_roster(struct roster **ret, char ret_text[ROSTER_TEXT_MAX])
{
	/* Other users need access only if root runs the command: root's processes can change to
	 * another user. */
	const int mode = geteuid() == 0 ? 0666 : 0600;
	int r = 0, id = shmget(IPC_PRIVATE, sizeof(struct roster), IPC_CREAT | mode);
	struct roster *roster;
	uint64_t key = 0;

	if (id < 0)
		return -errno;
	roster = shmat(id, NULL, 0);
	if (roster == (void *)-1 || getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
		r = -errno;
	/* The segment is removed when the last process detaches it. Until then Linux still allows
	 * other processes to attach it. */
	shmctl(id, IPC_RMID, NULL);
	if (r < 0) {
		if (roster != (void *)-1)
			shmdt(roster);
		return r;
	}
	roster->key = key;
	snprintf(ret_text, ROSTER_TEXT_MAX, ROSTER_TEXT, id, (unsigned long long)key);
	*ret = roster;
	return 0;
}

struct lost_search {
	const struct ledger_list *list;
	const char *directory;
	char *claimed; /* one flag per ledger of the list: a slot was matched with it */
	void (*found)(void *data, const char *sentence);
	void *data;
	size_t lost, damaged;
};

/* Passes REPORT_NOT_COMPLETE and a formatted text on. */
__attribute__((format(printf, 2, 3))) static void add_sentence(const struct lost_search *search,
							       const char *format, ...)
{
	FREE_AT_END char *text = NULL, *sentence = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = text_vformat(format, arguments);
	va_end(arguments);
	sentence = text_format(REPORT_NOT_COMPLETE "%s", text);
	search->found(search->data, sentence);
}

/* Returns false if the library cannot have written SLOT. */
static bool is_sound(const struct roster_slot *slot)
{
	return slot->state <= ROSTER_NO_LEDGER && slot->pid > 0 &&
	       memchr(slot->name, '\0', sizeof(slot->name)) != NULL;
}

/* Matches SLOT with an unmatched ledger of its process and marks the ledger. After an exec a
 * process has several slots and ledgers. Returns false if no ledger is left. */
static bool claim(struct lost_search *search, const struct roster_slot *slot)
{
	for (size_t i = 0; i < search->list->count; i++) {
		const struct ledger_file *file = &search->list->files[i];

		if (search->claimed[i] || file->pid != slot->pid ||
		    file->start_ticks != slot->start_ticks)
			continue;
		search->claimed[i] = 1;
		return true;
	}
	return false;
}

static void report_lost(struct lost_search *search, const struct roster_slot *slot)
{
	if (search->lost++ >= NAMED_MAX)
		return;
	if (slot->state == ROSTER_FAILED)
		add_sentence(search, "%s (pid %d): no ledger could be made in %s: %s%s", slot->name,
			     slot->pid, search->directory, error_text(slot->error),
			     roster_advice(slot->error));
	else if (slot->state == ROSTER_STARTING)
		add_sentence(search, "%s (pid %d): it ended before its ledger in %s was complete",
			     slot->name, slot->pid, search->directory);
	else
		add_sentence(search, "%s (pid %d): its ledger is no longer in %s", slot->name,
			     slot->pid, search->directory);
}

/* Reports the other processes in one sentence: those beyond NAMED_MAX, and processes without a slot
 * that have no ledger. Each unmatched ledger belongs to one of the WITHOUT_SLOT processes. A second
 * sentence reports slots that a process has overwritten. */
static void report_others(struct lost_search *search, size_t without_slot)
{
	size_t others = search->lost > NAMED_MAX ? search->lost - NAMED_MAX : 0, unclaimed = 0;

	for (size_t i = 0; i < search->list->count; i++)
		unclaimed += !search->claimed[i];
	others += without_slot > unclaimed ? without_slot - unclaimed : 0;
	if (others)
		add_sentence(search, "%zu %sprocess%s made GPU calls and left no ledger in %s",
			     others, search->lost ? "more " : "", others == 1 ? "" : "es",
			     search->directory);
	if (search->damaged)
		add_sentence(search,
			     "a process has written over %zu of the entries of the list of "
			     "processes",
			     search->damaged);
}

/* Copies the slot NUMBER of ROSTER. Returns false if it is not used. */
static bool read_slot(const struct roster *roster, uint32_t number, struct roster_slot *ret)
{
	const struct roster_slot *slot = &roster->slots[number];

	if (shared_load_acquire(slot->state) == ROSTER_UNUSED)
		return false;
	memcpy(ret, slot, sizeof(*ret));
	return true;
}

void lost_copy(const struct roster *from, struct roster *to)
{
	for (uint32_t i = 0; i < ROSTER_SLOTS; i++) {
		struct roster_slot slot, *copy;

		if (!read_slot(from, i, &slot) || !is_sound(&slot))
			continue;
		copy = roster_enter(to, slot.pid, slot.start_ticks, slot.name);
		if (!copy)
			continue;
		copy->error = slot.error;
		shared_publish(copy->state, slot.state);
	}
	atomic_fetch_add(&SHARED(to->started), atomic_load(&SHARED(from->started)) - 1);
	atomic_fetch_add(&SHARED(to->loaded), atomic_load(&SHARED(from->loaded)));
}

void lost_count_command(void)
{
	const char *preload = getenv("LD_PRELOAD");
	struct roster *roster = preload && strstr(preload, "libgpuleak")
					? NULL
					: roster_join(getenv("GPULEAK_ROSTER"));

	if (!roster)
		return;
	shared_add(roster->loaded, 1);
	shmdt(roster);
}

long lost_not_loaded(const struct roster *roster)
{
	return (long)(int32_t)(shared_load(roster->started) - shared_load(roster->loaded));
}

/* Reports the processes whose GPU calls bypassed gpuleak. */
static void report_bypasses(struct lost_search *search, const struct roster *roster)
{
	uint32_t count = shared_load_acquire(roster->bypassed);

	for (uint32_t i = 0; i < count && i < ROSTER_BYPASSES; i++) {
		const struct coverage_reach *reach;
		struct roster_bypass bypass;

		memcpy(&bypass, &roster->bypasses[i], sizeof(bypass));
		bypass.kind[sizeof(bypass.kind) - 1] = '\0';
		bypass.name[sizeof(bypass.name) - 1] = '\0';
		bypass.module[sizeof(bypass.module) - 1] = '\0';
		reach = coverage_reach(bypass.kind);
		if (bypass.ready && reach)
			add_sentence(search,
				     "%s (pid %d): its GPU calls were not seen because of %s: %s",
				     bypass.name, bypass.pid, bypass.module, reach->reason);
	}
	if (count > ROSTER_BYPASSES)
		add_sentence(search,
			     "the GPU calls of %u more processes were not seen for such a reason",
			     count - ROSTER_BYPASSES);
}

void lost_find(const struct roster *roster, const struct ledger_list *list, const char *directory,
	       void (*found)(void *data, const char *sentence), void *data)
{
	struct lost_search search = { .list = list,
				      .directory = directory,
				      .found = found,
				      .data = data,
				      .claimed = calloc(list->count + 1, 1) };
	uint32_t begun = shared_load_acquire(roster->begun);
	uint32_t used = 0;

	for (uint32_t i = 0; i < ROSTER_SLOTS; i++) {
		struct roster_slot slot;

		if (!read_slot(roster, i, &slot))
			continue;
		used++;
		if (!is_sound(&slot))
			search.damaged++;
		else if (slot.state == ROSTER_NO_LEDGER)
			continue;
		else if (slot.state == ROSTER_FAILED || !claim(&search, &slot))
			report_lost(&search, &slot);
	}
	report_bypasses(&search, roster);
	report_others(&search, begun > used ? begun - used : 0);
	free(search.claimed);
}
