/* SPDX-License-Identifier: MIT
 *
 * Expands the pattern of a report path, and chooses a name that does not overwrite a report that
 * must stay. A program that replaces itself by exec writes two reports with one process id. Owns
 * the names; must not write to a file.
 */
#include "interpose/process/reporter.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/base/message.h"
#include "interpose/process/start.h"

#define NUMBERS 1000u
#define NUMBER_BYTES 16u

/* Copies the string at REF in this process's ledger to RET, which has room for SIZE bytes. Stores
 * "" instead if REF is 0 or the string is too long. */
static void copy_string(struct recorder *recorder, uint32_t ref, char *ret, size_t size)
{
	const struct ledger_string *string = ledger_at(&recorder->writer, ref);
	size_t length = ref && string->length < size ? string->length : 0;

	memcpy(ret, string->bytes, length);
	ret[length] = '\0';
}

static int expand(struct recorder *recorder, const char *pattern, char *ret)
{
	char host[256], exe[PATH_MAX], cwd[PATH_MAX];

	copy_string(recorder, recorder->header->host, host, sizeof(host));
	copy_string(recorder, recorder->header->exe, exe, sizeof(exe));
	copy_string(recorder, recorder->header->cwd, cwd, sizeof(cwd));
	return expand_for_process(pattern, host, exe, cwd, ret, PATH_MAX - NUMBER_BYTES);
}

static int64_t ns_of(const struct timespec *time)
{
	return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Returns true if FILE was written since this process began: by a program that the process
 * replaced by exec, or by a child. /proc counts in ticks, so the first tick does not count. */
static bool is_of_this_process(const struct recorder *recorder, const struct stat *file)
{
	int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
	int64_t began_ns = ((int64_t)recorder->header->start_ticks + 1) * tick_ns;
	struct timespec now, since_boot;

	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &since_boot);
	return ns_of(&file->st_mtim) >= ns_of(&now) - ns_of(&since_boot) + began_ns;
}

/* Returns true if a report may be written to PATH. If the pattern has no process id, the report of
 * an earlier run is replaced, since a user who runs a program again expects that. Also returns true
 * for a path that is not a regular file: the reporter's message then names it. */
static bool is_free(const struct recorder *recorder, const char *pattern, const char *path)
{
	struct stat file;

	if (stat(path, &file) < 0 || !S_ISREG(file.st_mode))
		return true;
	return !strstr(pattern, "%p") && !is_of_this_process(recorder, &file);
}

/* Appends .NUMBER to PATH, for the first free NUMBER from FIRST on; 0 means PATH itself. Returns
 * the number. */
static unsigned int number_path(const struct recorder *recorder, const char *pattern, char *path,
				unsigned int first)
{
	char *end = path + strlen(path);

	for (unsigned int i = first;; i++) {
		struct text text = { end, NUMBER_BYTES - 1 };

		if (i) {
			text_add(&text, ".");
			text_add_number(&text, i);
		}
		*text.at = '\0';
		if (is_free(recorder, pattern, path) || i >= first + NUMBERS)
			return i;
	}
}

int destination_at_end(struct recorder *recorder)
{
	char *ret = recorder->report->destination;
	int r;

	if (*ret) /* chosen before an exec that failed */
		return 0;
	if (strcmp(config.report, "stderr") == 0) {
		strcpy(ret, config.report);
		return 0;
	}
	r = expand(recorder, config.report, ret);
	if (r < 0)
		*ret = '\0';
	else
		number_path(recorder, config.report, ret, 0);
	return r;
}

int destination_now(struct recorder *recorder, const char *pattern, char *ret)
{
	int r;

	recorder->report->asked++;
	if (strcmp(pattern, "stderr") == 0) {
		strcpy(ret, pattern);
		return 0;
	}
	r = expand(recorder, pattern, ret);
	if (r == 0)
		recorder->report->asked =
			number_path(recorder, pattern, ret, recorder->report->asked);
	return r;
}
