/* SPDX-License-Identifier: MIT
 *
 * Creates and removes directories for ledgers. Removes a file only by a descriptor of a checked
 * directory, and only if its name is one that gpuleak uses. Must not remove anything else.
 */
#include "tools/ledgers/rundir.h"

#include <dirent.h>
#include <time.h>

#include "ledger/attach.h"
#include "ledger/directory.h"
#include "tools/launch/bypass.h"
#include "tools/launch/system.h"
#include "tools/ledgers/ledgers.h"

#define STALE_SECONDS (7 * 24 * 3600)
#define PROBE_BYTES (1 << 20) /* size of a small ledger */

/* Checks that the file system of PATH has enough free space for a ledger. Returns 0 or -errno. */
static int probe(const char *path)
{
	char name[PATH_MAX];
	int fd, r, n = snprintf(name, sizeof(name), "%s/probe.XXXXXX", path);

	if (n < 0 || (size_t)n >= sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name); /* removed before use, so that no file remains if the process is killed now */
	r = -posix_fallocate(fd, 0, PROBE_BYTES);
	close(fd);
	/* A process may have another file-size limit than this command, or make no GPU call. If it
	 * cannot create its ledger it reports that itself (roster.h). */
	return r == -EFBIG ? 0 : r;
}

static int find_below(const char *place, const char *prefix, char *ret, size_t size)
{
	struct dirent *entry;
	AT_END(close_folder) DIR *dir = opendir(place);

	while (dir && (entry = readdir(dir)) != NULL) {
		int n = snprintf(ret, size, "%s/%s", place, entry->d_name);

		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && n > 0 &&
		    (size_t)n < size && place_check(ret) == 0)
			return 0;
	}
	return -ENOENT;
}

int rundir_of(int pid, char *ret, size_t size)
{
	char place[PATH_MAX], prefix[64];
	int r = -ENOENT;

	snprintf(prefix, sizeof(prefix), "run-%d-%llu-", pid, process_start_ticks(pid));
	for (int i = 0; i < PLACE_CANDIDATES && r < 0; i++)
		if (place_candidate(i, ledger_variable, place, sizeof(place)) == 0 &&
		    place_check(place) == 0)
			r = find_below(place, prefix, ret, size);
	return r;
}

static int create_below(const char *place, char *ret, size_t size)
{
	int r = place_make(place), n;

	if (r < 0)
		return r;
	n = snprintf(ret, size, "%s/run-%d-%llu-XXXXXX", place, (int)getpid(),
		     process_start_ticks(getpid()));
	if (n < 0 || (size_t)n >= size)
		return -ENAMETOOLONG;
	if (!mkdtemp(ret))
		return -errno;
	r = probe(ret);
	if (r < 0)
		rmdir(ret);
	return r;
}

int rundir_create(char *ret, size_t size, char *error, size_t error_size)
{
	char place[PATH_MAX];
	size_t used = 0;
	int r = -ENOENT;

	snprintf(error, error_size, "no directory for ledgers");
	for (int i = 0; i < PLACE_CANDIDATES; i++) {
		if (place_candidate(i, ledger_variable, place, sizeof(place)) < 0)
			continue;
		r = create_below(place, ret, size);
		if (r == 0)
			return 0;
		used = strlen(error);
		snprintf(error + used, error_size - used, "; %s: %s", place, strerror(-r));
	}
	used = strlen(error);
	snprintf(error + used, error_size - used,
		 "; set XDG_RUNTIME_DIR to a directory of your own with free space");
	return r;
}

void rundir_pattern(const char *directory, char ret[RUNDIR_PATTERN_MAX])
{
	for (; *directory; directory++) {
		*ret++ = *directory;
		if (*directory == '%')
			*ret++ = '%';
	}
	strcpy(ret, "/%p.gpuleak");
}

static DIR *open_directory(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

void rundir_remove(const char *path)
{
	AT_END(close_folder) DIR *dir =
		place_check(path) == 0 ? open_directory(AT_FDCWD, path) : NULL;
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)) != NULL)
		if (ledger_is_name(entry->d_name) || bypass_is_note(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	rmdir(path);
}

static bool is_old(const struct stat *st)
{
	time_t before = time(NULL) - STALE_SECONDS;

	return st->st_uid == geteuid() && st->st_mtime < before && st->st_ctime < before;
}

/* Returns true if NAME in DIR is a ledger whose process has ended, and which did not change for a
 * week. */
static bool is_stale(int dir, const char *name)
{
	struct ledger_file file = { 0 };
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    !is_old(&st) || !ledger_parse_name(name, &file.pid, &file.start_ticks))
		return false;
	if (file.start_ticks == 0)
		ledger_peek(dir, name, &file);
	return !process_runs(file.pid, file.start_ticks);
}

/* Returns true if NAME in DIR is the page of a process that was started with GPULEAK_RECORD=off and
 * has ended. A process of another namespace of pids is not visible here. */
static bool is_stale_page(int dir, const char *name)
{
	unsigned long long ticks;
	struct attach_page page;
	struct stat st;
	int pid, end = 0;

	if (sscanf(name, ATTACH_PAGE_NAME "%n", &pid, &ticks, &end) != 2 || !end || name[end] ||
	    process_runs(pid, ticks))
		return false;
	AT_END(close_descriptor) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return read(fd, &page, sizeof(page)) == (ssize_t)sizeof(page) &&
	       stat("/proc/self/ns/pid", &st) == 0 && page.pid_namespace == st.st_ino;
}

static void clear_run(int place, const char *name)
{
	unsigned long long ticks;
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int pid, end = 0;

	/* %n checks that the name ends there. */
	if (sscanf(name, "run-%d-%llu-%*6[A-Za-z0-9]%n", &pid, &ticks, &end) != 2 || !end ||
	    name[end] || fstatat(place, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode) || !is_old(&st) || process_runs(pid, ticks))
		return;
	dir = open_directory(place, name);
	if (!dir)
		return;
	while ((entry = readdir(dir)) != NULL)
		if (is_stale(dirfd(dir), entry->d_name) || bypass_is_note(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	unlinkat(place, name, AT_REMOVEDIR); /* fails if the directory is not empty */
}

void rundir_clear_stale(void)
{
	char place[PATH_MAX];
	struct dirent *entry;

	for (int i = 0; i < PLACE_CANDIDATES; i++) {
		AT_END(close_folder) DIR *dir = NULL;

		if (place_candidate(i, ledger_variable, place, sizeof(place)) == 0 &&
		    place_check(place) == 0)
			dir = open_directory(AT_FDCWD, place);
		while (dir && (entry = readdir(dir)) != NULL) {
			if (is_stale(dirfd(dir), entry->d_name) ||
			    is_stale_page(dirfd(dir), entry->d_name))
				unlinkat(dirfd(dir), entry->d_name, 0);
			else if (strncmp(entry->d_name, "run-", 4) == 0)
				clear_run(dirfd(dir), entry->d_name);
		}
	}
}
