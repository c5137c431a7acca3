/* SPDX-License-Identifier: MIT
 *
 * Parses the fields of /proc/PID/stat that gpuleak needs.
 */
#include "ledger/process_stat.h"

#include <stdlib.h>

#include "ledger/nocancel.h"
#include "ledger/plain_text.h"

/* Field numbers of proc(5), from 1. */
#define FIELD_STATE 3
#define FIELD_PARENT 4
#define FIELD_THREADS 20
#define FIELD_START_TICKS 22
#define FIELD_START_CODE 26
#define FIELD_START_STACK 28
#define FIELD_START_DATA 45
#define FIELD_ENV_END 51

/* Returns the path of PID's stat file. RET has room for all digits of an int. */
static const char *path_of(int pid, char ret[32])
{
	struct plain_text text = { .at = ret, .left = 31 };

	if (pid == 0)
		return "/proc/self/stat";
	plain_text_add(&text, "/proc/");
	plain_text_number(&text, (unsigned int)pid);
	plain_text_add(&text, "/stat");
	return ret;
}

static ssize_t read_text(int pid, char *ret, size_t size)
{
	char path[32];
	int fd = nocancel_open(path_of(pid, path), O_RDONLY | O_CLOEXEC, 0);
	ssize_t length;

	if (fd < 0)
		return -errno;
	length = nocancel_read(fd, ret, size - 1);
	if (length < 0)
		length = -errno;
	nocancel_close(fd);
	if (length >= 0)
		ret[length] = '\0';
	return length;
}

/* Returns the image, from AT, which is at FIELD_START_TICKS. */
static uint64_t read_image(const char *at)
{
	uint64_t image = 0, value;

	for (int field = FIELD_START_TICKS + 1; field <= FIELD_ENV_END; field++) {
		at = strchr(at, ' ');
		if (!at++)
			return image;
		value = strtoull(at, NULL, 10);
		/* The kernel shows 1 as the start and the end of code that this user may not
		 * see. */
		if (value > 1 && ((field >= FIELD_START_CODE && field <= FIELD_START_STACK) ||
				  field >= FIELD_START_DATA))
			image = (image ^ value) * 0x100000001b3u;
	}
	return image;
}

int process_stat_read(int pid, struct process_stat *ret)
{
	char text[1024], *at;
	ssize_t length = pid < 0 ? -ESRCH : read_text(pid, text, sizeof(text));

	if (length < 0)
		return (int)length;
	/* the name before the last ')' may contain any characters */
	at = length ? strrchr(text, ')') : NULL;
	if (!at || at[1] != ' ' || !at[2])
		return -ENODATA;
	at += 2;
	ret->state = *at;
	for (int field = FIELD_STATE + 1; field <= FIELD_START_TICKS; field++) {
		at = strchr(at, ' ');
		if (!at++)
			return -ENODATA;
		if (field == FIELD_PARENT)
			ret->parent = (int)strtol(at, NULL, 10);
		if (field == FIELD_THREADS)
			ret->threads = (unsigned int)strtoul(at, NULL, 10);
	}
	ret->start_ticks = strtoull(at, NULL, 10);
	ret->image = read_image(at);
	return 0;
}
