/* SPDX-License-Identifier: MIT
 *
 * Descriptions of errno values. glibc 2.32 and later have strerrordesc_np(). For older ones there
 * is a table of the errors that files and memory have. strerror() is not used: it translates, and
 * may allocate.
 */
#include "ledger/error_text.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* The loader sets the address to NULL if its libc has no such function. */
const char *strerrordesc_np(int error);
#pragma weak strerrordesc_np

static const struct {
	int error;
	const char *text;
} texts[] = {
	{ EACCES, "Permission denied" },
	{ EAGAIN, "Resource temporarily unavailable" },
	{ EBADF, "Bad file descriptor" },
	{ EDQUOT, "Disk quota exceeded" },
	{ EEXIST, "File exists" },
	{ EFBIG, "File too large" },
	{ EINVAL, "Invalid argument" },
	{ EIO, "Input/output error" },
	{ EISDIR, "Is a directory" },
	{ ELOOP, "Too many levels of symbolic links" },
	{ EMFILE, "Too many open files" },
	{ ENAMETOOLONG, "File name too long" },
	{ ENFILE, "Too many open files in system" },
	{ ENODEV, "No such device" },
	{ ENOENT, "No such file or directory" },
	{ ENOMEM, "Cannot allocate memory" },
	{ ENOSPC, "No space left on device" },
	{ ENOSYS, "Function not implemented" },
	{ ENOTDIR, "Not a directory" },
	{ ENXIO, "No such device or address" },
	{ EOPNOTSUPP, "Operation not supported" },
	{ EOVERFLOW, "Value too large for defined data type" },
	{ EPERM, "Operation not permitted" },
	{ EROFS, "Read-only file system" },
	{ ESTALE, "Stale file handle" },
	{ ETXTBSY, "Text file busy" },
};

const char *error_text(int error)
{
	const char *text = strerrordesc_np ? strerrordesc_np(error) : NULL;

	for (size_t i = 0; !text && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].error == error)
			text = texts[i].text;
	return text ? text : "unknown error";
}
