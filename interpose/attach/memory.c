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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/base/arena.h"
#include "interpose/base/at_end.h"
#include "interpose/base/own_stack.h"
#include "interpose/dispatch/find_module.h"
#include "ledger/nocancel.h"

#define RANGES_MAX 65536u
#define WORDS_MAX 65536u
/* Tables of functions are made early: they lie in small mappings, or near the start of a heap. */
#define SEARCHED_OF_MAPPING ((uint64_t)2 << 30)
#define LINE_BYTES 4096u
#define CHILD_STACK_BYTES 65536u
#define FLAG_RESTORER 0x04000000ul

struct anonymous_range {
	uint64_t start, end;
};

struct memory_search {
	struct word word[WORDS_MAX];
	struct anonymous_range range[RANGES_MAX];
	unsigned int words, ranges;
	unsigned int next; /* word[next] is the first that change_words() has not begun */
	_Alignas(16) char stack[CHILD_STACK_BYTES];
};

/* ---- the mappings ---- */

/* A line is "START-END rwxp OFFSET MAJOR:MINOR INODE   PATH". */
static bool read_line(const char *line, memory_mapping *each, void *data)
{
	char *at;
	uint64_t start = strtoull(line, &at, 16);
	uint64_t end = *at == '-' ? strtoull(at + 1, &at, 16) : 0;
	const char *rights = at + strspn(at, " ");

	if (!end || strnlen(rights, 5) < 5)
		return true;
	for (int field = 0; field < 5; field++) {
		at += strspn(at, " ");
		at += field < 4 ? strcspn(at, " ") : 0;
	}
	return each(start, end, rights, at, data);
}

void memory_each_mapping(memory_mapping *each, void *data)
{
	int fd = nocancel_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	char text[LINE_BYTES + 1], *line, *end;
	size_t kept = 0;
	bool more = fd >= 0;
	ssize_t n;

	while (more && (n = nocancel_read(fd, text + kept, LINE_BYTES - kept)) > 0) {
		text[kept + (size_t)n] = '\0';
		for (line = text; more && (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			more = read_line(line, each, data);
		}
		kept = strlen(line);
		if (kept == LINE_BYTES)
			kept = 0; /* longer than any line can be */
		memmove(text, line, kept);
	}
	if (fd >= 0)
		nocancel_close(fd);
}

/* Returns true for anonymous private memory that a program may write. "[anon:...]" is a name that
 * an allocator gave. The first thread's stack and the kernel's own areas are left alone. */
static bool is_anonymous(const char *rights, const char *path)
{
	return strncmp(rights, "rw", 2) == 0 && rights[3] == 'p' &&
	       (!*path || strcmp(path, "[heap]") == 0 || strncmp(path, "[anon", 5) == 0);
}

static bool collect_range(uint64_t start, uint64_t end, const char *rights, const char *path,
			  void *data)
{
	struct memory_search *search = data;

	if (end - start > SEARCHED_OF_MAPPING)
		end = start + SEARCHED_OF_MAPPING;
	if (is_anonymous(rights, path) && search->ranges < RANGES_MAX)
		search->range[search->ranges++] = (struct anonymous_range){ start, end };
	return true;
}

/* ---- the search ---- */

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

void memory_change(void)
{
	struct memory_search *search = pages_map(sizeof(*search));
	unsigned int before = 0;
	KEEP_ERRNO;
	pid_t child;

	if (!search)
		return;
	memory_each_mapping(collect_range, search);
	for (unsigned int i = 0; i < search->ranges; i++)
		words_search(search->range[i].start, search->range[i].end, collect_word, search);
	do {
		before = search->next;
		child = clone(change_words, search->stack + sizeof(search->stack),
			      CLONE_VM | CLONE_VFORK, search);
		while (child > 0 && nocancel_waitpid(child, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	} while (search->next > before && search->next < search->words);
	munmap(search, sizeof(*search));
}
