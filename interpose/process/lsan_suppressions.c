/* SPDX-License-Identifier: MIT
 *
 * Reads the suppressions at the first GPU call, not at process exit. So the ledger of a killed
 * process has them too. Also, the suppressions come from a function of the program. A thread that
 * makes a GPU call can safely run it, which is not certain for the thread that ends the process. By
 * LeakSanitizer's contract the function only returns a constant.
 */
#include "interpose/process/start.h"

#include <dlfcn.h>
#include <string.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/loader.h"

const char *lsan_ask(void)
{
	const char *(*function)(void);
	struct dlerror_state state;

	if (!config.lsan_suppressions)
		return NULL;
	dlerror_take(&state);
	*(void **)&function = lookup_real(RTLD_DEFAULT, "__lsan_default_suppressions");
	dlerror_give_back(&state);
	return function ? function() : NULL;
}

/* Returns the length of the next part of TEXT, which has LENGTH bytes. A part ends with a newline
 * if one fits. */
static size_t part_of(const char *text, size_t length)
{
	const char *newline;

	if (length <= LEDGER_STRING_MAX)
		return length;
	newline = memrchr(text, '\n', LEDGER_STRING_MAX);
	return newline ? (size_t)(newline + 1 - text) : LEDGER_STRING_MAX;
}

void lsan_write(struct recorder *recorder, const char *text)
{
	static const char cut[] = "cut";
	size_t length = text ? strnlen(text, LEDGER_LSAN_PARTS_MAX * LEDGER_STRING_MAX) : 0;
	struct ledger_observation fact = { 0 };

	if (length == 0)
		return;
	fact.kind = ledger_add_string(&recorder->writer, LEDGER_OBSERVED_LSAN,
				      sizeof(LEDGER_OBSERVED_LSAN) - 1);
	while (length > 0 && fact.count < LEDGER_LSAN_PARTS_MAX) {
		size_t part = part_of(text, length);

		fact.count++;
		fact.subject = ledger_add_string(&recorder->writer, text, part);
		text += part;
		length -= part;
		if (*text && fact.count == LEDGER_LSAN_PARTS_MAX)
			fact.detail = ledger_add_string(&recorder->writer, cut, sizeof(cut) - 1);
		ledger_add_observation(&recorder->writer, &fact);
	}
}
