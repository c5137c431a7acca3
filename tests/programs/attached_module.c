/* SPDX-License-Identifier: MIT
 *
 * Stands for the library of a framework in attached.c: a large module whose calls are bound lazily.
 * It reaches the driver by a slot of a call (JUMP_SLOT), a slot of an address (GLOB_DAT), words on
 * the heap, and a table from cuGetProcAddress.
 */
#include "cu.h"

#include <stdint.h>

#define WORDS 4096

typedef CUresult allocate(CUdeviceptr *, size_t);
typedef CUresult get_proc(const char *, void **, int, uint64_t, int *);

static allocate **words;
static struct { allocate *allocate; } *table;
static CUresult (*by_address)(CUdeviceptr *, size_t, unsigned int);

/* 2,000 calls within the module, which nothing makes: each has a slot. */
#define F1(name) void filler_##name(void) { filler(); }
#define C1(name) filler_##name();
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define F10(n) TEN(F1, n)
#define C10(n) TEN(C1, n)
#define HUNDRED(X, n) \
	X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define F100(n) HUNDRED(F10, n)
#define C100(n) HUNDRED(C10, n)
#define ALL(X) \
	X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j) X(k) X(l) X(m) X(n) X(o) X(p) X(q) X(r) \
	X(s) X(t)
void filler(void);
void filler(void)
{
}
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
ALL(F100)
void module_calls_all(void)
{
	ALL(C100)
}

void module_fill(allocate *looked_up, get_proc *get);
void module_fill(allocate *looked_up, get_proc *get)
{
	words = malloc(WORDS * sizeof(*words));
	for (int i = 0; i < WORDS; i++)
		words[i] = looked_up;
	table = malloc(sizeof(*table));
	if (get("cuMemAlloc", (void **)&table->allocate, 12000, 0, NULL) != 0)
		abort();
}

/* Returns how many of the words and of the table hold ADDRESS. */
int module_count(const void *address);
int module_count(const void *address)
{
	int count = table->allocate == address;

	for (int i = 0; i < WORDS; i++)
		count += words[i] == address;
	return count;
}

/* Allocates BYTES and the following numbers of bytes, by each way. */
void module_allocate(size_t bytes, CUdeviceptr ret[4]);
void module_allocate(size_t bytes, CUdeviceptr ret[4])
{
	by_address = cuMemAllocManaged;
	must(cuMemAlloc_v2(&ret[0], bytes), "by a call");                          /* @call */
	must(by_address(&ret[1], bytes + 1, CU_MEM_ATTACH_GLOBAL), "by an address"); /* @address */
	must(words[bytes % WORDS](&ret[2], bytes + 2), "by a word");               /* @word */
	must(table->allocate(&ret[3], bytes + 3), "by the table");                 /* @table */
}

/* The first call of another slot, whenever it comes. */
void module_first_call(size_t bytes);
void module_first_call(size_t bytes)
{
	void *block;

	must(cuMemHostAlloc(&block, bytes, 0), "cuMemHostAlloc");
	must(cuMemFreeHost(block), "cuMemFreeHost");
}
