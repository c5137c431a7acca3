/* SPDX-License-Identifier: MIT
 *
 * LD_PRELOAD has no way to quote a blank or a colon. So the folder of the library gets a symbolic
 * link /tmp/gpuleak-preload-UID/HASH. The link is to the folder and not to the library, because the
 * library finds the command and libunwind relative to its own folder. The link stays, because
 * processes may outlive the run and start others. While the run lasts, a link that was removed is
 * made again.
 *
 * Other users must be able to follow the link, since a traced program may change its user. But only
 * this user may change it.
 */
#include "tools/launch/preload_link.h"

#include "tools/launch/system.h"

static const char *const bases[] = { "/tmp", "/var/tmp", "/dev/shm" };

static struct {
	char folder[PATH_MAX]; /* "": there is no link */
	char directory[64];
	char link[96];
} made;

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

/* Creates the folder PATH if it does not exist, and lets all users read it. Returns 0 if it is this
 * user's, is not a link, and nobody else can write to it. */
static int make_folder(const char *path)
{
	struct stat st;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM;
	/* mkdir() obeys the umask */
	return (st.st_mode & 0755) == 0755 || chmod(path, 0755) == 0 ? 0 : -errno;
}

/* Makes LINK lead to FOLDER. Several commands may do so at the same time: a new link replaces an
 * older one in one step. */
static int make_link(const char *folder, const char *link)
{
	char target[PATH_MAX], scratch[PATH_MAX];
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	if (n > 0) {
		target[n] = '\0';
		if (strcmp(target, folder) == 0)
			return 0;
	}
	if (snprintf(scratch, sizeof(scratch), "%s.%d", link, (int)getpid()) >=
	    (int)sizeof(scratch))
		return -ENAMETOOLONG;
	unlink(scratch);
	if (symlink(folder, scratch) < 0)
		return -errno;
	if (rename(scratch, link) < 0) {
		int r = -errno;

		unlink(scratch);
		return r;
	}
	return 0;
}

/* Writes the path of the library through a link below BASE. Returns 0 or -errno. */
static int link_below(const char *base, const char *folder, const char *name, char *ret,
		      size_t size)
{
	char path[64];
	int n, r;

	snprintf(path, sizeof(path), "%s/gpuleak-preload-%u", base, (unsigned int)geteuid());
	r = make_folder(path);
	if (r < 0)
		return r;
	n = snprintf(ret, size, "%s/%016llx", path, (unsigned long long)hash_of(folder));
	if (n < 0 || (size_t)n + 1 + strlen(name) >= size)
		return -ENAMETOOLONG;
	r = make_link(folder, ret);
	if (r < 0)
		return r;
	snprintf(made.directory, sizeof(made.directory), "%s", path);
	snprintf(made.link, sizeof(made.link), "%s", ret);
	snprintf(ret + n, size - (size_t)n, "/%s", name);
	if (access(ret, R_OK) < 0)
		return -errno;
	strcpy(made.folder, folder);
	return 0;
}

void preload_link_keep(void)
{
	if (made.folder[0] && access(made.link, F_OK) < 0 && make_folder(made.directory) == 0)
		make_link(made.folder, made.link);
}

int preload_link(const char *library, char *ret, size_t size, char *error, size_t error_size)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(library, '/');
	int r = -ENOENT;

	if (!slash || (size_t)(slash - library) >= sizeof(folder))
		return -ENAMETOOLONG;
	memcpy(folder, library, (size_t)(slash - library));
	folder[slash - library] = '\0';
	if (strpbrk(slash + 1, " \t\n:")) {
		snprintf(error, error_size, "%s: LD_PRELOAD cannot contain a file name with a "
			 "blank or a colon; rename it", library);
		return -EINVAL;
	}
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		r = link_below(bases[i], folder, slash + 1, ret, size);
		if (r == 0)
			return 0;
	}
	snprintf(error, error_size, "%s: LD_PRELOAD cannot contain a path with a blank or a colon, "
		 "and no link to it could be made in /tmp: %s; move it elsewhere", library,
		 strerror(-r));
	return r;
}
