/* SPDX-License-Identifier: MIT
 *
 * Chooses the default directory for ledgers and checks that it is safe. Must not create or name
 * anything else.
 */
#include "ledger/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct directory_text {
	char *at;
	size_t left;
	int short_of;
};

static void text_append(struct directory_text *text, const char *s)
{
	for (; *s; s++) {
		if (text->left <= 1) {
			text->short_of = 1;
			return;
		}
		*text->at++ = *s;
		*text->at = '\0';
		text->left--;
	}
}

static void put_number(struct directory_text *text, unsigned long long n)
{
	char digits[24];
	size_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	text_append(text, digits + at);
}

static int finish(const struct directory_text *text)
{
	return text->short_of ? -ENAMETOOLONG : 0;
}

/* tmpfs comes first. The kernel writes back and write-protects the pages of a ledger on a disk
 * every few seconds. Each next write to such a page is a page fault in the application. */
int place_candidate(int i, const char *(*variable)(const char *name), char *ret, size_t size)
{
	struct directory_text text = { ret, size, 0 };
	const char *runtime;

	switch (i) {
	case 0:
		runtime = variable("XDG_RUNTIME_DIR");
		if (!runtime || runtime[0] != '/')
			return -ENOENT;
		text_append(&text, runtime);
		text_append(&text, "/gpuleak");
		return finish(&text);
	case 1:
		text_append(&text, "/dev/shm/gpuleak-");
		break;
	case 2:
		text_append(&text, "/tmp/gpuleak-");
		break;
	default:
		return -ENOENT;
	}
	put_number(&text, geteuid());
	return finish(&text);
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
	struct directory_text text = { ret, size, 0 };

	put_number(&text, (unsigned long long)pid);
	text_append(&text, "-");
	put_number(&text, start_ticks);
	text_append(&text, ".gpuleak");
	return finish(&text);
}
