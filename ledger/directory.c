/* SPDX-License-Identifier: MIT
 *
 * Chooses the default directory for ledgers and checks that it is safe. Must not create or name
 * anything else.
 */
#include "ledger/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ledger/plain_text.h"

/* tmpfs comes first. The kernel writes back and write-protects the pages of a ledger on a disk
 * every few seconds. Each next write to such a page is a page fault in the application. */
int place_candidate(int i, const char *(*variable)(const char *name), char *ret, size_t size)
{
	struct plain_text text = { .at = ret, .left = size - 1 };
	const char *runtime;

	switch (i) {
	case 0:
		runtime = variable("XDG_RUNTIME_DIR");
		if (!runtime || runtime[0] != '/')
			return -ENOENT;
		plain_text_add(&text, runtime);
		plain_text_add(&text, "/gpuleak");
		return text.result;
	case 1:
		plain_text_add(&text, "/dev/shm/gpuleak-");
		break;
	case 2:
		plain_text_add(&text, "/tmp/gpuleak-");
		break;
	default:
		return -ENOENT;
	}
	plain_text_number(&text, geteuid());
	return text.result;
}

int place_check(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return -EPERM;
	return 0;
}

int place_make(const char *path)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	return place_check(path);
}

int place_name(int pid, unsigned long long start_ticks, char *ret, size_t size)
{
	struct plain_text text = { .at = ret, .left = size - 1 };

	plain_text_number(&text, (unsigned long long)pid);
	plain_text_add(&text, "-");
	plain_text_number(&text, start_ticks);
	plain_text_add(&text, ".gpuleak");
	return text.result;
}
