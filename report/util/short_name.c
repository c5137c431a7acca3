/* SPDX-License-Identifier: MIT
 *
 * Shortens demangled C++ names. A name may have any text, so each function reads it only once,
 * and stops where brackets do not match.
 */
#include "report/util/short_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ANONYMOUS "(anonymous namespace)"
#define OPERATOR "operator"
#define SCOPES_MAX 64
#define DEPTH_MAX 256
#define SHORT_NAME_LONGEST 100

static bool is_letter(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || (c & 0x80);
}

static bool begins(const char *at, const char *start)
{
	return strncmp(at, start, strlen(start)) == 0;
}

/* Returns the length of "operator" and the symbols that follow it, as in "operator<<" or
 * "operator()", or 0 if the text at AT within NAME is something else. */
static size_t operator_length(const char *name, const char *at)
{
	const size_t word = strlen(OPERATOR);
	size_t length = word;

	if (!begins(at, OPERATOR) || (at > name && is_letter(at[-1])) || is_letter(at[word]))
		return 0;
	if (begins(at + word, "()") || begins(at + word, "[]"))
		return word + 2;
	while (at[length] && strchr("<>=!+-*/%^&|~,", at[length]))
		length++;
	/* In "operator-<int>" the last '<' begins the template arguments. */
	if (length > word + 1 && at[length - 1] == '<' && at[length] && !strchr("(", at[length]) &&
	    (length > word + 2 || at[length - 2] != '<'))
		length--;
	return length;
}

/* Returns the number of characters from the opening bracket at AT to its closing bracket, or 0 if
 * it is not closed. */
static size_t enclosed_length(const char *at)
{
	char open[DEPTH_MAX];
	size_t depth = 0, i = 0;

	for (; at[i]; i++) {
		const char c = at[i];
		const size_t skipped = operator_length(at, at + i);

		if (skipped) {
			i += skipped - 1;
			continue;
		}
		if (c == '-' && at[i + 1] == '>') {
			i++;
		} else if (strchr("<([{", c)) {
			if (depth == DEPTH_MAX)
				return 0;
			open[depth++] = c == '<' ? '>' : c == '(' ? ')' : c == '[' ? ']' : '}';
		} else if (strchr(">)]}", c)) {
			if (open[depth - 1] != c)
				return 0;
			if (--depth == 0)
				return i + 1;
		}
	}
	return 0;
}

/* Copies NAME to RET without arguments, template arguments and attributes in brackets. A lambda
 * becomes "{lambda#1}". Returns false if the brackets do not match or RET is too small. */
static bool without_arguments(const char *name, char ret[SHORT_NAME_MAX])
{
	size_t length = 0, skipped;

	for (const char *at = name; *at;) {
		size_t copied = operator_length(name, at);

		if (!copied && begins(at, ANONYMOUS))
			copied = strlen(ANONYMOUS);
		if (!copied && strchr("<([", *at)) {
			/* "void (*f(int))()" has its name in brackets */
			skipped = begins(at, "(*") ? 0 : enclosed_length(at);
			if (!skipped)
				return false;
			at += skipped;
			continue;
		}
		copied = copied ? copied : 1;
		if (length + copied >= SHORT_NAME_MAX)
			return false;
		memcpy(ret + length, at, copied);
		length += copied;
		at += copied;
	}
	ret[length] = '\0';
	return true;
}

/* Removes what follows the arguments of a function: " const", " volatile" and other words. */
static void remove_qualifiers(char *name)
{
	static const char *const words[] = { " const", " volatile", " &&", " &", " noexcept" };
	char *to = name;

	for (const char *at = name; *at;) {
		size_t length = 0;

		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !length; i++) {
			length = begins(at, words[i]) ? strlen(words[i]) : 0;
			if (length && at[length] && !strchr(":& ", at[length]))
				length = 0;
		}
		if (length)
			at += length;
		else
			*to++ = *at++;
	}
	while (to > name && to[-1] == ' ')
		to--;
	*to = '\0';
}

/* Returns the part of NAME after the type of the function's result. */
static const char *without_type(const char *name)
{
	const char *start = name;

	for (const char *at = name; *at; at++) {
		if (operator_length(name, at))
			break; /* "operator new" and "operator bool" contain a blank */
		if (begins(at, ANONYMOUS))
			at += strlen(ANONYMOUS) - 1;
		else if (*at == ' ' && at[1])
			start = at + 1;
	}
	return start;
}

/* Returns the number of scopes of NAME, at most SCOPES_MAX, and stores the start of each. */
static size_t split(const char *name, const char *starts[SCOPES_MAX])
{
	size_t count = 0;

	starts[count++] = name;
	for (const char *at = name; *at && count < SCOPES_MAX; at++)
		if (at[0] == ':' && at[1] == ':' && at[2])
			starts[count++] = at + 2;
	return count;
}

/* Returns true if the last of COUNT scopes is a lambda or the call of one. */
static bool is_lambda(const char *const *starts, size_t count)
{
	return *starts[count - 1] == '{' ||
	       (*starts[count - 2] == '{' && begins(starts[count - 1], OPERATOR "()"));
}

/* Returns the length of NAME without the lambdas at its end. */
static size_t length_without_lambdas(const char *const *starts, size_t count, const char *name)
{
	size_t length = strlen(name);

	while (count > 1 && is_lambda(starts, count))
		length = (size_t)(starts[--count] - name) - 2;
	return length;
}

/* Writes "at::native::...::mm" for the NAME of a function in many scopes. Keeps as many of the
 * inner scopes as fit. Keeps the innermost two if they are not extremely long, because the
 * innermost name alone may be "call". */
static void leave_scopes_out(const char *name, char ret[SHORT_NAME_MAX])
{
	const char *starts[SCOPES_MAX];
	size_t count = split(name, starts), length = length_without_lambdas(starts, count, name);
	size_t outer, next = 2, limit;

	while (count > 1 && (size_t)(starts[count - 1] - name) > length)
		count--;
	if (count < 4 || (count == 4 && length <= SHORT_NAME_LONGEST)) {
		snprintf(ret, SHORT_NAME_MAX, "%.*s", (int)length, name);
		return;
	}
	outer = (size_t)(starts[2] - name);
	do {
		limit = ++next + 2 < count ? SHORT_NAME_WHOLE : SHORT_NAME_LONGEST;
	} while (next + 1 < count &&
		 outer + strlen("...::") + length - (size_t)(starts[next] - name) > limit);
	snprintf(ret, SHORT_NAME_MAX, "%.*s...::%.*s", (int)outer, name,
		 (int)(length - (size_t)(starts[next] - name)), starts[next]);
}

/* Returns NAME, or its start if it is extremely long. */
static const char *cut(const char *name, char ret[SHORT_NAME_MAX])
{
	if (strlen(name) <= 2 * SHORT_NAME_LONGEST)
		return name;
	snprintf(ret, SHORT_NAME_MAX, "%.*s...", 2 * SHORT_NAME_LONGEST, name);
	return ret;
}

const char *short_name(const char *name, char ret[SHORT_NAME_MAX])
{
	char plain[SHORT_NAME_MAX];
	const char *function;

	if (strlen(name) <= SHORT_NAME_WHOLE)
		return name;
	if (!(strstr(name, "::") || strchr(name, '(')) || !without_arguments(name, plain))
		return cut(name, ret);
	remove_qualifiers(plain);
	function = without_type(plain);
	if (!*function || *function == ':')
		return cut(name, ret);
	if (strlen(function) > SHORT_NAME_WHOLE)
		leave_scopes_out(function, ret);
	else
		snprintf(ret, SHORT_NAME_MAX, "%s", function);
	return ret;
}
