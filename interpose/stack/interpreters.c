/* SPDX-License-Identifier: MIT
 *
 * Finds the interpreters of a process, and writes the frames that they report into the ledger. Must
 * not know anything about a language that is not in its struct interpreter.
 */
#include "interpose/stack/interpreters.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "interpose/base/fork_guard.h"
#include "interpose/base/hash.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/python.h"

_Atomic bool interpreters_due;
_Atomic unsigned int interpreters_there;

static const struct interpreter *const all[] = {
	&interpreter_java,
	&interpreter_ruby,
	&interpreter_php,
};
#define INTERPRETERS (sizeof(all) / sizeof(all[0]))

/* ---- finding ---- */

struct library_search {
	const char *library;
	char path[PATH_MAX];
};

static int find_library(struct dl_phdr_info *info, size_t size, void *data)
{
	struct library_search *search = data;
	const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)size;
	if (!name || strncmp(name + 1, search->library, strlen(search->library)) != 0 ||
	    strlen(info->dlpi_name) >= sizeof(search->path))
		return 0;
	strcpy(search->path, info->dlpi_name);
	return 1;
}

void interpreters_look(void)
{
	atomic_store(&interpreters_due, false);
	for (unsigned int i = 0; i < INTERPRETERS; i++) {
		struct library_search search = { .library = all[i]->library };

		if (atomic_load(&interpreters_there) & 1u << i ||
		    (!all[i]->linked && !fork_guard_iterate(find_library, &search)))
			continue;
		if (all[i]->find(search.path))
			atomic_fetch_or(&interpreters_there, 1u << i);
	}
}

/* ---- frames ---- */

static void mix(struct chain *chain, uint64_t word)
{
	chain->key = TABLE_MIX(chain->key ^ word);
	chain->key ^= chain->key >> 29;
}

static void mix_text(struct chain *chain, const char *text)
{
	size_t left = text ? strlen(text) : 0, now;
	uint64_t word;

	mix(chain, left);
	for (; left > 0; text += now, left -= now) {
		word = 0;
		now = left < sizeof(word) ? left : sizeof(word);
		memcpy(&word, text, now);
		mix(chain, word);
	}
}

void chain_add(struct chain *chain, uintptr_t code, int64_t at, const struct code_text *text)
{
	chain->frames[chain->count++] = (struct chain_frame){ code, at };
	if (text) {
		mix_text(chain, text->file);
		mix_text(chain, text->class);
		mix_text(chain, text->function);
	} else {
		mix(chain, code);
	}
	mix(chain, (uint64_t)at);
}

static uint32_t write_chain(struct recorder *recorder, const struct interpreter *interpreter,
			    const struct chain *chain)
{
	struct ledger_python_frame frames[LEDGER_FRAMES_MAX];
	struct ledger_python record = { .flags = (uint16_t)interpreter->language };
	unsigned int count = chain->count;

	if (count > recorder->stack_depth)
		count = recorder->stack_depth;
	if (chain->cut || count < chain->count)
		record.flags |= LEDGER_PYTHON_CUT;
	record.frames = (uint16_t)count;
	for (unsigned int i = 0; i < count; i++) {
		frames[i].code = interpreter->name(recorder, chain, i, &frames[i].line);
		frames[i].line &= ~LEDGER_PYTHON_ENTRY;
	}
	return python_add_chain(recorder, &record, frames, chain->key);
}

static uint32_t frames_of(struct recorder *recorder, const struct interpreter *interpreter)
{
	struct chain chain;
	uint32_t ret;

	chain.key = interpreter->language;
	chain.count = 0;
	chain.cut = false;
	if (!interpreter->read(recorder, &chain) || chain.count == 0)
		return 0;
	ret = python_find_chain(recorder, chain.key);
	return ret ? ret : write_chain(recorder, interpreter, &chain);
}

uint32_t interpreters_frames(struct recorder *recorder)
{
	unsigned int there = atomic_load(&interpreters_there);
	int saved = errno, cancel;
	uint32_t ret = 0;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (unsigned int i = 0; i < INTERPRETERS && !ret; i++)
		if (there & 1u << i)
			ret = frames_of(recorder, all[i]);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return ret;
}
