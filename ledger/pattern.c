/* SPDX-License-Identifier: MIT
 *
 * Expands the % sequences of a path. Must not allocate or access the file system.
 */
#include "ledger/pattern.h"

#include "ledger/plain_text.h"

/* Appends VALUE with each '/' replaced by '_', so that a value cannot add directories to the path.
 * */
static void add_value(struct plain_text *text, const char *value)
{
	char *start = text->at;

	if (value)
		plain_text_add(text, value);
	for (char *p = start; p < text->at; p++)
		if (*p == '/')
			*p = '_';
}

/* Appends the value of an environment variable. *PATTERN points to the text after "%q". Moves
 * *PATTERN behind the "{NAME}" there. */
static int add_variable(struct plain_text *text, const char **pattern,
			const struct pattern_values *values)
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
	add_value(text, values->variable(copy));
	return 0;
}

int pattern_expand(const char *pattern, const struct pattern_values *values, char *ret, size_t size)
{
	struct plain_text text = { .at = ret, .left = size - 1 };

	if (size == 0)
		return -ENAMETOOLONG;
	*ret = '\0';
	while (*pattern && text.result == 0) {
		if (*pattern != '%') {
			plain_text_bytes(&text, pattern++, 1);
			continue;
		}
		pattern += 2;
		switch (pattern[-1]) {
		case 'p':
			plain_text_number(&text, values->pid < 0 ? 0 : (unsigned int)values->pid);
			break;
		case 'h': add_value(&text, values->host); break;
		case 'e': add_value(&text, values->program); break;
		case 'q':
			if (add_variable(&text, &pattern, values) < 0)
				return -EINVAL;
			break;
		case '%': plain_text_add(&text, "%"); break;
		default: return -EINVAL; /* an unknown sequence, or a % at the end of the pattern */
		}
	}
	return text.result;
}
