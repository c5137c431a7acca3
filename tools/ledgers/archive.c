/* SPDX-License-Identifier: MIT
 *
 * Moves, copies and links files, also between file systems. Never replaces a file, and never leaves
 * an incomplete file.
 */
#include "tools/ledgers/archive.h"

#include <sys/sendfile.h>

#include "report/util/output.h"
#include "tools/launch/system.h"

#define TRIES_MAX 1000000

static int copy_bytes(int from, int to)
{
	ssize_t n;

	do
		n = sendfile(to, from, NULL, 1u << 30);
	while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

int copy_to_new(const char *from, const char *to)
{
	AT_END(close_descriptor) int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), r;

	if (out < 0)
		return -errno;
	r = copy_bytes(in, out);
	if (close(out) < 0 && r == 0)
		r = -errno;
	if (r < 0)
		unlink(to);
	return r;
}

static int put_file(const char *from, const char *to, enum keep_how how)
{
	int r;

	if ((how == KEEP_BY_MOVE &&
	     renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) ||
	    (how == KEEP_BY_LINK && link(from, to) == 0))
		return 0;
	if (how != KEEP_BY_COPY && errno == EEXIST)
		return -EEXIST;
	/* Both fail for another file system, and a rename if that does not know
	 * RENAME_NOREPLACE. */
	r = copy_to_new(from, to);
	if (r == 0 && how == KEEP_BY_MOVE)
		unlink(from);
	return r;
}

int keep_ledger(const char *from, const char *wanted, enum keep_how how, char *ret, size_t size)
{
	int r = output_make_folders(wanted);

	r = r < 0 ? r : -EEXIST;
	for (int i = 0; i < TRIES_MAX && r == -EEXIST; i++) {
		int n = i == 0 ? snprintf(ret, size, "%s", wanted)
			       : snprintf(ret, size, "%s.%d", wanted, i);

		if (n < 0 || (size_t)n >= size)
			return -ENAMETOOLONG;
		r = put_file(from, ret, how);
	}
	return r;
}
