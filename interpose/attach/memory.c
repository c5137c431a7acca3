/* SPDX-License-Identifier: MIT
 *
 * Changes words in anonymous private memory: the heap, and tables that a runtime has mapped. The
 * other threads run meanwhile, and may unmap the memory: a child process that shares the memory
 * makes the changes, so that a fault ends that child only. The child must call no code but its own.
 */
#include "interpose/attach/words.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/base/arena.h"
#include "interpose/base/at_end.h"
#include "interpose/base/memory_map.h"
#include "interpose/base/own_stack.h"
#include "interpose/dispatch/find_module.h"
#include "ledger/nocancel.h"

#define WORDS_MAX 65536u
#define ROUNDS_MAX 64 /* of so many words */
/* Tables of functions are made early: they lie in small mappings, or near the start of a heap. */
#define SEARCHED_OF_MAPPING ((uint64_t)2 << 30)
#define CHILD_STACK_BYTES 65536u
#define FLAG_RESTORER 0x04000000ul

struct memory_search {
	struct word word[WORDS_MAX];
	unsigned int words;
	unsigned int next; /* word[next] is the first that change_words() has not begun */
	_Alignas(16) char stack[CHILD_STACK_BYTES];
};

/* ---- the search ---- */

/* Returns true for anonymous private memory that a program may write. "[anon:...]" is a name that
 * an allocator gave. The first thread's stack and the kernel's own areas are left alone. */
static bool is_anonymous(const struct memory_mapping *mapping)
{
	const char *path = mapping->path;

	return strncmp(mapping->rights, "rw", 2) == 0 && mapping->rights[3] == 'p' &&
	       (!*path || strcmp(path, "[heap]") == 0 || strncmp(path, "[anon", 5) == 0);
}

/* Static variables without a value in the file lie in anonymous memory, too: modules.c changes
 * those of the modules that are not left alone. */
static void collect_word(const struct word *word, void *data)
{
	struct memory_search *search = data;
	uint64_t at = (uint64_t)(uintptr_t)word->at;

	if (search->words == WORDS_MAX || words_are_ours(at, sizeof(uint64_t)) ||
	    at - (uint64_t)(uintptr_t)search < sizeof(*search) ||
	    aside_is_on((uintptr_t)at) || module_of(word->at))
		return;
	search->word[search->words++] = *word;
}

static bool search_mapping(const struct memory_mapping *mapping, void *data)
{
	const uint64_t bytes = mapping->end - mapping->start;

	if (is_anonymous(mapping))
		words_search(mapping->start,
			     mapping->start + (bytes < SEARCHED_OF_MAPPING ? bytes
									   : SEARCHED_OF_MAPPING),
			     collect_word, data);
	return true;
}

/* ---- the change ---- */

/* A word lay in memory that was unmapped since the search. search->next is behind it already. */
static void end_child(int signal)
{
	(void)signal;
	syscall(SYS_exit, 0l);
}

/* Changes the words from search->next on. Runs in a child that shares the memory of this process,
 * but has signal handlers of its own. */
static int change_words(void *data)
{
	/* as the kernel defines it: libc's sigaction() may be a sanitizer's */
	const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(int);
		uint64_t mask;
	} fault = { end_child, FLAG_RESTORER, end_child, 0 };
	struct memory_search *search = data;

	syscall(SYS_rt_sigaction, SIGSEGV, &fault, NULL, 8l);
	syscall(SYS_rt_sigaction, SIGBUS, &fault, NULL, 8l);
	while (search->next < search->words)
		word_change(&search->word[search->next++]);
	return 0;
}

/* Makes children until all words are changed: one that meets a fault leaves the rest to the next
 * one. */
static void change_found(struct memory_search *search)
{
	while (search->next < search->words) {
		const unsigned int before = search->next;
		pid_t child = clone(change_words, search->stack + sizeof(search->stack),
				    CLONE_VM | CLONE_VFORK, search);

		while (child > 0 && nocancel_waitpid(child, NULL, __WCLONE) < 0 && errno == EINTR)
			;
		if (search->next == before) { /* a limit of processes, or a filter of calls */
			words_unchanged++;
			return;
		}
	}
}

void memory_change(void)
{
	struct memory_search *search = pages_map(sizeof(*search));
	int rounds = 0;
	KEEP_ERRNO;

	if (!search) {
		words_unchanged++;
		return;
	}
	do {
		search->words = search->next = 0;
		words_unchanged += !memory_map_each(search_mapping, search);
		change_found(search);
	} while (search->words == WORDS_MAX && search->next == WORDS_MAX && rounds++ < ROUNDS_MAX);
	munmap(search, sizeof(*search));
}
