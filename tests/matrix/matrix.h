/* SPDX-License-Identifier: MIT
 *
 * What the programs of both APIs share: the fates of a block, and the walk over families.
 * Reaching the driver is the program's own affair: it fills calls[].found by its route.
 * Each fate is a function of its own, since stacks are what tells one cell from another.
 */
#ifndef GPULEAK_TESTS_MATRIX_H
#define GPULEAK_TESTS_MATRIX_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BAD = 8 };

struct block;

struct call {
	const char *symbol;
	const char *base; /* as a resolver is asked for it */
	int since;
	int per_thread;
	void *linked;
	void *found;
};

struct need {
	const char *name;
	int (*prepare)(struct block *);
};

struct family {
	const char *name;
	const char *needs; /* each with a blank before and after it */
	int (*make)(struct block *);
	int (*drop)(struct block *);
	int (*again)(struct block *);
	int (*bad[MAX_BAD])(struct block *);
};

#define C(symbol) ((type_##symbol *)calls[INDEX_##symbol].found)
#ifdef LINKED
#define LINK(symbol) ((void *)symbol)
#else
#define LINK(symbol) NULL
#endif

static void told(const char *family, const char *what, int answer)
{
	printf("%s: %s %d\n", family, what, answer);
	fflush(stdout); /* a second free may be the end */
}

static void leaked(const struct family *f, struct block *b)
{
	told(f->name, "make", f->make(b));
}

static void freed(const struct family *f, struct block *b)
{
	told(f->name, "make", f->make(b));
	told(f->name, "drop", f->drop(b));
}

static void twice(const struct family *f, struct block *b)
{
	told(f->name, "make", f->make(b));
	told(f->name, "drop", f->drop(b));
	told(f->name, "again", f->again(b));
}

static void bad(const struct family *f, struct block *b)
{
	for (int i = 0; i < MAX_BAD && f->bad[i]; i++)
		told(f->name, "bad", f->bad[i](b));
}

/* The first call fails, not the application. */
static void once(const struct family *f, struct block *b)
{
	told(f->name, "make", f->make(b));
	told(f->name, "make", f->make(b));
	told(f->name, "drop", f->drop(b));
}

/* There is room for one at a time. */
static void limited(const struct family *f, struct block *b)
{
	static _Alignas(64) char room[4096];

	told(f->name, "make", f->make(b));
	told(f->name, "over", f->make((struct block *)(void *)room));
	told(f->name, "drop", f->drop(b));
	told(f->name, "make", f->make(b));
	told(f->name, "drop", f->drop(b));
}

static const struct fate {
	const char *name;
	void (*run)(const struct family *, struct block *);
} fates[] = { { "leaked", leaked }, { "freed", freed }, { "twice", twice }, { "bad", bad },
	    { "once", once }, { "limited", limited } };

static const struct fate *fate_named(const char *name)
{
	for (size_t i = 0; i < sizeof(fates) / sizeof(fates[0]); i++)
		if (strcmp(fates[i].name, name) == 0)
			return &fates[i];
	printf("no fate %s\n", name);
	exit(2);
}

static const struct family *family_named(const struct family *families, size_t count,
					 const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(families[i].name, name) == 0)
			return &families[i];
	printf("no family %s\n", name);
	exit(2);
}

static int is_needed(const struct need *need, const struct family *f)
{
	char word[64];

	snprintf(word, sizeof(word), " %s ", need->name);
	return strstr(f->needs, word) != NULL;
}

static void prepare(const struct need *need, const struct family *families, size_t count,
		    char **names, struct block *b)
{
	for (; *names; names++)
		if (is_needed(need, family_named(families, count, *names))) {
			told("prepare", need->name, need->prepare(b));
			return;
		}
}

static void run_cells(const struct need *needs, const struct family *families, size_t count,
		      const struct fate *fate, char **names, struct block *b, size_t size)
{
	for (; needs->name; needs++)
		prepare(needs, families, count, names, b);
	for (; *names; names++) {
		memset(b, 0, size);
		fate->run(family_named(families, count, *names), b);
	}
}

#endif
