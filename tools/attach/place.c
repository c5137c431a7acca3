/* SPDX-License-Identifier: MIT
 *
 * Chooses between a folder of this command and one in the process's own /tmp, which is reached by
 * /proc/PID/root. Must not follow links in that folder.
 */
#include "tools/attach/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/ledgers/archive.h"
#include "tools/ledgers/ledgers.h"
#include "tools/launch/process.h"
#include "tools/ledgers/rundir.h"

#define LIBRARY "libgpuleak.so"
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Returns true if PATH is the same file for the process as for this command. */
static bool is_same_there(const struct target *target, const char *path)
{
	char there[PATH_MAX];
	struct stat own, its;

	return snprintf(there, sizeof(there), "/proc/%d/root%s", target->pid, path) <
		       (int)sizeof(there) &&
	       stat(path, &own) == 0 && stat(there, &its) == 0 && own.st_dev == its.st_dev &&
	       own.st_ino == its.st_ino;
}

/* Returns true if each user may read the file at PATH, an absolute path. */
static bool is_readable_by_all(const char *path)
{
	char part[PATH_MAX];
	struct stat st;

	for (const char *at = path; (at = strchr(at + 1, '/')) != NULL;) {
		snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (stat(part, &st) < 0 || !(st.st_mode & S_IXOTH))
			return false;
	}
	return stat(path, &st) == 0 && st.st_mode & S_IROTH;
}

bool attach_place_fits(const struct attach_place *place, const struct target *target,
		       const char *library)
{
	return place->is_ours && target->uid == geteuid() && is_same_there(target, place->here) &&
	       is_same_there(target, library);
}

/* Creates a folder of the process's user in its /tmp. */
static int make_there(struct attach_place *ret, const struct target *target)
{
	char path[PATH_MAX], root[64];
	int r = 0;

	snprintf(root, sizeof(root), "/proc/%d/root", target->pid);
	snprintf(path, sizeof(path), "%s/tmp/gpuleak-run-%d-%llu-XXXXXX", root, (int)getpid(),
		 process_start_ticks(getpid()));
	if (!mkdtemp(path))
		return -errno;
	ret->fd = open(path, FOLDER_FLAGS);
	if (ret->fd < 0 || fchown(ret->fd, target->uid, (gid_t)-1) < 0) {
		r = -errno;
		rmdir(path);
		return r;
	}
	strcpy(ret->inside, path + strlen(root));
	snprintf(ret->here, sizeof(ret->here), "/proc/%d/fd/%d", (int)getpid(), ret->fd);
	return 0;
}

static int copy_library(struct attach_place *place, const char *library)
{
	char path[PATH_MAX + sizeof("/" LIBRARY)];
	int r;

	snprintf(path, sizeof(path), "%s/" LIBRARY, place->here);
	snprintf(place->library, sizeof(place->library), "%.*s/" LIBRARY, PATH_MAX - 32,
		 place->inside);
	r = copy_to_new(library, path);
	place->is_copied = r == 0;
	return r == 0 && chmod(path, 0755) < 0 ? -errno : r;
}

/* The process looks for this lock. The kernel drops it if this command is killed. */
static int set_lock(const struct attach_place *place, short type)
{
	struct flock lock = { .l_type = type };

	return fcntl(place->fd, F_OFD_SETLK, &lock);
}

void attach_place_unlock(const struct attach_place *place)
{
	set_lock(place, F_UNLCK);
}

int attach_place_make(struct attach_place *ret, const struct target *target, const char *library,
		      char *error, size_t size)
{
	int r = 0;

	*ret = (struct attach_place){ .pid = target->pid, .fd = -1 };
	if (target->uid == geteuid()) {
		r = rundir_create(ret->here, sizeof(ret->here), error, size);
		if (r < 0)
			return r;
		ret->is_ours = is_same_there(target, ret->here);
		ret->fd = ret->is_ours ? open(ret->here, FOLDER_FLAGS) : -1;
		strcpy(ret->inside, ret->here);
	}
	if (!ret->is_ours) {
		if (ret->here[0])
			rundir_remove(ret->here);
		r = make_there(ret, target);
	}
	snprintf(ret->library, sizeof(ret->library), "%s", library);
	if (r == 0 && (!is_same_there(target, library) ||
		       (target->uid != 0 && target->uid != geteuid() &&
			!is_readable_by_all(library))))
		r = copy_library(ret, library);
	if (r == 0 && set_lock(ret, F_RDLCK) < 0)
		r = -errno;
	if (r < 0) {
		snprintf(error, size, "no folder for the ledger in its /tmp: %s", strerror(-r));
		attach_place_remove(ret);
	}
	return r;
}

void attach_place_forget_library(struct attach_place *place)
{
	char path[PATH_MAX];

	if (!place->is_copied)
		return;
	place->is_copied = false;
	snprintf(path, sizeof(path), "%.*s/" LIBRARY, PATH_MAX - 32, place->here);
	unlink(path);
}

void attach_place_remove(struct attach_place *place)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	attach_place_forget_library(place);
	if (place->is_ours) {
		rundir_remove(place->here);
		close(place->fd);
	}
	if (place->is_ours || place->fd < 0)
		return;
	dir = fdopendir(place->fd);
	while (dir && (entry = readdir(dir)) != NULL)
		if (ledger_is_name(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	snprintf(path, sizeof(path), "/proc/%d/root%.*s", place->pid, PATH_MAX - 64, place->inside);
	if (rmdir(path) < 0) /* the process has ended; perhaps it had the same files */
		rmdir(place->inside);
	if (dir)
		closedir(dir);
}
