/* SPDX-License-Identifier: MIT
 *
 * Loads libunwind and redirects some of its calls. libunwind tests whether memory is readable by
 * writing it into a pipe whose descriptors it never closes. If the application closes all
 * descriptors and opens its own files, those bytes would go into its files. So libunwind's
 * references to write, read, pipe2 and syscall are redirected to functions here that test memory
 * without a descriptor. Owns the handle. Must not change the references of any other library.
 */
#include "interpose/stack/unwinder.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/base/fork_guard.h"
#include "interpose/base/library_directory.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/relocations.h"
#include "ledger/lock.h"
#include "interpose/stack/arch.h"
#include "ledger/nocancel.h"
#include "ledger/shared.h"

static struct unwinder unwinder; /* written once, before `ready` */
static bool ready;
static bool tamed;
/* protects the three variables above; never held across a call of the loader */
static struct lock write_lock;

/* ---- replacements for functions that libunwind calls ---- */

/* Passes ADDRESS as a signal set. The kernel copies the set before it checks the first argument,
 * which is invalid. So the call fails with EFAULT or EINVAL and changes nothing, under any seccomp
 * filter. It does not copy from NULL. */
bool unwinder_can_read(const void *address)
{
	if (!address)
		return false;
	return syscall(SYS_rt_sigprocmask, -1, address, NULL, 8) == 0 || errno != EFAULT;
}

static ssize_t test_memory(const void *address)
{
	return unwinder_can_read(address) ? 1 : -1;
}

static ssize_t instead_of_write(int fd, const void *bytes, size_t count)
{
	(void)fd, (void)count; /* libunwind calls write() only to test memory */
	return test_memory(bytes);
}

/* Numbers that no open descriptor has. Any other use of them fails and does no harm. */
#define READ_END INT_MAX
#define WRITE_END (INT_MAX - 1)

/* libunwind drains its pipe before each test. EAGAIN means that the pipe is empty; with any other
 * error libunwind would open a new pipe, which costs two more calls. */
static ssize_t instead_of_read(int fd, void *bytes, size_t size)
{
	if (fd != READ_END)
		return nocancel_read(fd, bytes, size);
	errno = EAGAIN;
	return -1;
}

static int instead_of_pipe2(int fds[2], int flags)
{
	(void)flags;
	/* Several threads may run this at once, because libunwind has one pair of descriptors for
	 * all of them. */
	shared_store(fds[0], READ_END);
	shared_store(fds[1], WRITE_END);
	return 0;
}

/* Newer versions of libunwind call write through syscall(). */
static long instead_of_syscall(long number, ...)
{
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_write)
		return test_memory((const void *)a[1]);
	return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- redirecting libunwind's references ---- */

static void set_slot(void **slot, void *function)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)slot & ~(page_bytes - 1));
	bool writable = mprotect(page, page_bytes, PROT_READ | PROT_WRITE) == 0;

	if (writable) /* the page stays writable: its previous protection is not known */
		shared_publish(*slot, function);
}

static void redirect(const struct module_slot *slot, void *unused)
{
	static const struct {
		const char *name;
		void *function;
	} rows[] = {
		{ "write", (void *)instead_of_write },
		{ "read", (void *)instead_of_read },
		{ "pipe2", (void *)instead_of_pipe2 },
		{ "syscall", (void *)instead_of_syscall },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(slot->name, rows[i].name) == 0)
			set_slot((void **)slot->at, rows[i].function);
}

/* Locking: the caller holds write_lock. Redirects libunwind's references, once per process. */
static void tame(void *library)
{
	const struct link_map *map = library; /* a handle is a link_map in glibc */
	struct relocations relocations;

	if (!tamed && relocations_read(map->l_addr, map->l_ld, &relocations))
		relocations_each(&relocations, redirect, NULL);
	tamed = true;
}

/* Makes libunwind initialize itself, which it does in its first walk. Threads check libunwind's
 * flag for this without its lock, so this runs before other threads can walk. */
static void set_up(const struct unwinder *unwind)
{
	unw_tdep_context_t context;
	unw_cursor_t cursor;

	if (unwind->can_walk && unwind->getcontext(&context) == 0)
		unwind->init_local(&cursor, &context);
}

/* A library that was loaded through a symbolic link does not find its private libunwind by its
 * RUNPATH: the loader looks beside the link. */
static void *open_libunwind(void)
{
	static const char name[] = "gpuleak/libunwind.so.8";
	void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	const char *directory = library_directory();
	size_t length = strlen(directory);
	char path[PATH_MAX];

	if (library || length == 0 || length + sizeof(name) > sizeof(path))
		return library;
	memcpy(path, directory, length);
	memcpy(path + length, name, sizeof(name));
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static int find_unwinder(struct unwinder *ret)
{
	void *library = open_libunwind();

	if (!library)
		return -ENOENT;
	lock_take(&write_lock);
	tame(library);
	lock_give(&write_lock);
#define FIND(member, name) (*(void **)&ret->member = lookup_real(library, name))
	ret->can_walk = FIND(getcontext, ARCH_LIBUNWIND_NAME("_U", "_getcontext")) &&
			FIND(init_local, ARCH_LIBUNWIND_NAME("_UL", "_init_local")) &&
			FIND(step, ARCH_LIBUNWIND_NAME("_UL", "_step")) &&
			FIND(get_reg, ARCH_LIBUNWIND_NAME("_UL", "_get_reg"));
	FIND(flush_cache, ARCH_LIBUNWIND_NAME("_U", "_flush_cache"));
	FIND(local_addr_space, ARCH_LIBUNWIND_NAME("_UL", "_local_addr_space"));
	FIND(backtrace, "unw_backtrace");
#undef FIND
	fork_guard_enter();
	set_up(ret);
	fork_guard_leave();
	return ret->backtrace ? 0 : -ENOENT;
}

/* Two threads may search for libunwind at the same time; the first to finish stores its result. */
int unwinder_load(void)
{
	struct unwinder found = { 0 };
	struct dlerror_state state;
	int r;

	if (unwinder_get())
		return 0;
	dlerror_take(&state);
	r = find_unwinder(&found);
	dlerror_give_back(&state);
	if (r < 0)
		return r;
	lock_take(&write_lock);
	if (!ready) {
		unwinder = found;
		shared_publish(ready, true);
	}
	lock_give(&write_lock);
	return 0;
}

const struct unwinder *unwinder_get(void)
{
	return shared_load_acquire(ready) ? &unwinder : NULL;
}
