/* SPDX-License-Identifier: MIT
 *
 * Begins and ends recording in a process that already runs. Owns the order: a recorder, then the
 * words that lead calls to the wrappers; at the end the words back, then the recorder's end. A word
 * that is missed leads through a wrapper that records nothing. The library stays mapped. Ends the
 * recording when the command does, also when the command is killed.
 */
#include "interpose/attach/words.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/base/at_end.h"
#include "interpose/base/config.h"
#include "interpose/base/export.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/submit_epoch.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/block/limit.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"
#include "interpose/process/reporter.h"
#include "interpose/process/service_thread.h"
#include "interpose/process/start.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/recorder/write_observations.h"
#include "ledger/attach.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"

EXPORT int gpuleak_attach(const char *settings);
EXPORT int gpuleak_detach(void);

#define NAPS 1000u /* of a millisecond each, until threads have left gpuleak's code */
#define NAPS_QUIET 2u

static struct lock changing;
static bool is_attached; /* guarded by `changing`, like the following */
/* Recordings that ended. A thread may still hold the last one's address for a moment. */
static struct recorder *ended, *released_next;
static uint64_t before_bytes;
static bool takes_children;
/* The folder of the ledger, on which the command holds a lock; "": no command requested this. */
static char folder[PATH_MAX];

/* ---- settings ---- */

static bool read_internal(const char *setting)
{
	if (strncmp(setting, "TREE=", 5) == 0)
		takes_children = setting[5] == '1';
	else if (strncmp(setting, "BEFORE=", 7) == 0)
		before_bytes = strtoull(setting + 7, NULL, 10);
	else if (strncmp(setting, "FOLDER=", 7) == 0 && strlen(setting) < sizeof(folder))
		strcpy(folder, setting + 7);
	else
		return false;
	return true;
}

static bool read_settings(const char *settings)
{
	before_bytes = 0;
	takes_children = false;
	folder[0] = '\0';
	if (strnlen(settings, ATTACH_SETTINGS_MAX) == ATTACH_SETTINGS_MAX ||
	    !config_read_settings(settings, read_internal))
		return false;
	config.pool = OPTION_POOL_OFF; /* blocks from before are not the pool's */
	return true;
}

/* ---- the recorder ---- */

/* Waits until no thread is inside RECORDER. Returns false if one does not leave. */
static bool wait_until_left(const struct recorder *recorder)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	unsigned int quiet = 0;

	for (unsigned int naps = 0; naps < NAPS && quiet < NAPS_QUIET; naps++) {
		quiet = thread_states_busy(recorder) ? 0 : quiet + 1;
		nocancel_nanosleep(&nap);
	}
	return quiet == NAPS_QUIET;
}

/* All calls are recorded from one moment on, and until one moment, whatever words were changed by
 * then: otherwise a free could reach the driver unseen while allocations are recorded. */
static void show(struct recorder *recorder)
{
	shared_publish(recorder_page->recorder, recorder);
	shared_publish(recorder_page->impossible, 0);
	atomic_store(&recording_is_off, false);
}

static void hide(void)
{
	atomic_store(&recording_is_off, true);
	shared_publish(recorder_page->impossible, 1);
	shared_publish(recorder_page->recorder, NULL);
}

/* Returns the new recorder, which this thread has entered, or NULL with *RET_RESULT. */
static struct recorder *start_recorder(enum attach_result *ret_result)
{
	struct recorder *recorder;

	process_only = takes_children ? 0 : getpid();
	recorder_page->failed_pid = 0;
	show(NULL);
	recorder = recorder_enter();
	if (recorder && !recorder->report->create_errno)
		return recorder;
	*ret_result = !recorder && recorder_page->impossible == ENOMEM ? ATTACH_NO_MEMORY
								      : ATTACH_NO_LEDGER;
	hide();
	recorder_page->failed_pid = 0;
	if (recorder) {
		recorder_leave();
		released_next = recorder;
	}
	return NULL;
}

/* ---- the words ---- */

/* Records that words could not be changed, or not be changed back. RECORDER may be NULL. */
static void note_unchanged(struct recorder *recorder, enum ledger_trouble what)
{
	if (recorder && words_unchanged)
		ledger_trouble(recorder->header, what, words_unchanged);
	words_unchanged = 0;
}

static void change_words(void)
{
	modules_change(false);
	memory_change();
}

/* Changes what was loaded since. The caller of the loader must not wait. */
static void change_new_modules(void *unused)
{
	(void)unused;
	if (!lock_try(&changing))
		return;
	if (is_attached) {
		modules_change(true);
		note_unchanged(recorder_now(), LEDGER_TROUBLE_UNCHANGED_WORDS);
	}
	lock_give(&changing);
}

static void libraries_may_have_changed(void)
{
	aside(change_new_modules, NULL);
}

void attach_turn_off_words(void)
{
	if (!lock_try(&changing))
		return;
	if (!is_attached && words_prepare(WORDS_DETACH))
		modules_change(false);
	lock_give(&changing);
}

/* ---- attach ---- */

static enum attach_result refusal(void)
{
	void *other = lookup_real(RTLD_DEFAULT, "gpuleak_attach");

	if (!recorder_page)
		process_start();
	if (is_attached || recorder_now())
		return ATTACH_ALREADY;
	if (recorder_last())
		return ATTACH_STOPPED;
	if (other && !resolve_is_ours(other))
		return ATTACH_NOT_ALONE;
	return ended && !wait_until_left(ended) ? ATTACH_BUSY : ATTACH_DONE;
}

/* The service thread calls this four times a second. A process in a container cannot see a
 * command outside, but its lock: the kernel drops it however the command ends. */
static void end_with_command(void)
{
	struct flock lock = { .l_type = F_WRLCK };
	int fd = nocancel_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	bool has_ended = fd < 0 ? errno == ENOENT
				: syscall(SYS_fcntl, fd, F_OFD_GETLK, &lock) == 0 &&
					  lock.l_type == F_UNLCK;

	if (fd >= 0)
		nocancel_close(fd);
	if (has_ended)
		gpuleak_detach();
}

static enum attach_result attach(const char *settings)
{
	enum attach_result result = refusal();
	struct recorder *recorder;

	if (result != ATTACH_DONE)
		return result;
	if (!read_settings(settings))
		return ATTACH_BAD_SETTINGS;
	limits_start();
	words_unchanged = 0;
	service_thread_tick = folder[0] ? end_with_command : NULL;
	recorder = start_recorder(&result);
	if (!recorder)
		return result;
	recorder->header->before_attach_bytes = before_bytes;
	recorder->header->attached = 1;
	recorder_leave();
	is_attached = true;
	submits_unknown(); /* callers may keep pointers to the driver that were not found */
	apis_libraries_changed();
	if (words_prepare(WORDS_ATTACH)) {
		hide();
		change_words();
		show(recorder);
	}
	note_unchanged(recorder, LEDGER_TROUBLE_UNCHANGED_WORDS);
	atomic_store(&apis_attached_hook, libraries_may_have_changed);
	return ATTACH_DONE;
}

/* ---- detach ---- */

static void complete_ledger(struct recorder *recorder)
{
	if (!recorder_enter())
		return;
	coverage_look_everywhere(recorder->looked_at, false);
	observations_write(recorder);
	live_bytes_settle_peak(recorder);
	deferred_settle(recorder);
	recorder_leave();
}

static void release(struct recorder *recorder)
{
	if (released_next)
		process_release(released_next);
	released_next = ended;
	ended = recorder;
}

static void end_recorder(struct recorder *recorder)
{
	bool left = wait_until_left(recorder);

	shared_publish(recorder->header->ended, LEDGER_DETACHED);
	if (left)
		release(recorder);
}

static enum attach_result detach(void)
{
	struct recorder *recorder = recorder_now();

	if (!is_attached)
		return ATTACH_NOT_ATTACHED;
	atomic_store(&apis_attached_hook, NULL);
	if (recorder)
		complete_ledger(recorder);
	recorder = recorder_now(); /* NULL: recording has stopped, and the ledger states that */
	hide();
	if (recorder) {
		recorder->header->end_mono_ns = clock_ns(CLOCK_MONOTONIC);
		atomic_store(&recorder->ending, ENDING_DESTRUCTORS); /* no further step */
		service_thread_wake();
	}
	if (words_prepare(WORDS_DETACH))
		change_words();
	note_unchanged(recorder, LEDGER_TROUBLE_WORDS_LEFT);
	is_attached = false;
	if (recorder)
		end_recorder(recorder);
	return ATTACH_DONE;
}

/* ---- both ---- */

struct request {
	const char *settings; /* NULL: end the recording */
	enum attach_result result;
};

static void change(void *data)
{
	struct request *request = data;

	request->result = request->settings ? attach(request->settings) : detach();
}

/* Runs on gpuleak's own stack. If another thread changes the words of a library that was loaded,
 * waits for it. */
static int change_aside(const char *settings)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct request request = { settings, ATTACH_BUSY };
	KEEP_ERRNO;

	for (unsigned int naps = 0; thread_self.busy == thread_self.paused && naps < NAPS; naps++) {
		if (lock_try(&changing)) {
			aside(change, &request);
			lock_give(&changing);
			break;
		}
		nocancel_nanosleep(&nap);
	}
	return (int)request.result;
}

int gpuleak_attach(const char *settings)
{
	return change_aside(settings);
}

int gpuleak_detach(void)
{
	return change_aside(NULL);
}
