/* SPDX-License-Identifier: MIT
 *
 * Expands the % sequences of a path. Must not allocate or access the file system.
 */
#include "ledger/pattern.h"

#include <errno.h>
#include <string.h>

struct out {
	char *at;
	size_t left; /* without the final NUL */
};

static int out_bytes(struct out *out, const char *bytes, size_t length)
{
	if (length > out->left)
		return -ENAMETOOLONG;
	memcpy(out->at, bytes, length);
	out->at += length;
	out->left -= length;
	return 0;
}

/* Appends VALUE with each '/' replaced by '_', so that a value cannot add directories to the path.
 * */
static int out_value(struct out *out, const char *value)
{
	char *start = out->at;
	int r = value ? out_bytes(out, value, strlen(value)) : 0;

	for (char *p = start; p < out->at; p++)
		if (*p == '/')
			*p = '_';
	return r;
}

static int out_number(struct out *out, int number)
{
	char text[16];
	size_t at = sizeof(text);
	unsigned int n = number < 0 ? 0u : (unsigned int)number;

	do {
		text[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	return out_bytes(out, text + at, sizeof(text) - at);
}

/* Appends the value of an environment variable. *PATTERN points to the text after "%q". Moves
 * *PATTERN behind the "{NAME}" there. */
static int out_variable(struct out *out, const char **pattern, const struct pattern_values *values)
{
	const char *name = *pattern + 1;
	const char *end;
	char copy[256];
	size_t length;

	if (**pattern != '{' || !(end = strchr(name, '}')))
		return -EINVAL;
	length = (size_t)(end - name);
	if (length == 0 || length >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, name, length);
	copy[length] = '\0';
	*pattern = end + 1;
	return out_value(out, values->variable(copy));
}

int pattern_expand(const char *pattern, const struct pattern_values *values, char *ret, size_t size)
{
	struct out out = { ret, size - 1 };
	int r = 0;

	if (size == 0)
		return -ENAMETOOLONG;
	while (*pattern && r == 0) {
		if (*pattern != '%') {
			r = out_bytes(&out, pattern++, 1);
			continue;
		}
		pattern += 2;
		switch (pattern[-1]) {
		case 'p': r = out_number(&out, values->pid); break;
		case 'h': r = out_value(&out, values->host); break;
		case 'e': r = out_value(&out, values->program); break;
		case 'q': r = out_variable(&out, &pattern, values); break;
		case '%': r = out_bytes(&out, "%", 1); break;
		default: return -EINVAL; /* an unknown sequence, or a % at the end of the pattern */
		}
	}
	*out.at = '\0';
	return r;
}
