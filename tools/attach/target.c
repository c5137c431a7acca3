/* SPDX-License-Identifier: MIT
 *
 * Reads status, maps, memory and namespaces of a process, and has one row for each reason why it
 * cannot be attached to. Must not stop or change the process.
 */
#include "tools/attach/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/util/path.h"
#include "tools/launch/process.h"

#define ANCESTORS_MAX 64
#define PATH_HERE (PATH_MAX + 64)
#ifdef __x86_64__
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

/* ---- what /proc has ---- */

static const char *path_of(const char *proc, int pid, const char *name, char ret[PATH_HERE])
{
	snprintf(ret, PATH_HERE, "%s/%d/%s", proc, pid, name);
	return ret;
}

static size_t read_file(const char *proc, int pid, const char *name, char *ret, size_t size)
{
	char path[PATH_HERE];

	return file_head(path_of(proc, pid, name, path), ret, size);
}

/* Returns the text after "KEY:" in the file `status`; "" if it has none. */
static const char *value_of(const char *status, const char *key)
{
	const size_t length = strlen(key);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == ':')
			return line + length + 1 + strspn(line + length + 1, "\t ");
	}
	return "";
}

static bool have_same_pids(const char *proc, int one, int other)
{
	char path[PATH_HERE], ones[64] = "", others[64] = "";
	ssize_t n = readlink(path_of(proc, one, "ns/pid", path), ones, sizeof(ones) - 1);
	ssize_t m = readlink(path_of(proc, other, "ns/pid", path), others, sizeof(others) - 1);

	return n <= 0 || m <= 0 || strcmp(ones, others) == 0;
}

/* Returns the number of filters that the oldest ancestor of PID has, without the first process of
 * the namespace. A filter beyond these is the program's own, and may kill it for any call. */
static int filters_before(const char *proc, int pid)
{
	char status[8192];
	int filters = -1;

	for (int i = 0, at = pid; i < ANCESTORS_MAX && at > 1; i++) {
		if (!read_file(proc, at, "status", status, sizeof(status)) ||
		    !have_same_pids(proc, at, pid))
			break;
		filters = atoi(value_of(status, "Seccomp_filters"));
		at = atoi(value_of(status, "PPid"));
	}
	return filters;
}

static void read_status(const char *proc, int pid, struct target *ret)
{
	char status[8192];
	unsigned int real, effective, saved;

	if (!read_file(proc, pid, "status", status, sizeof(status)))
		return;
	ret->pid = pid;
	snprintf(ret->name, sizeof(ret->name), "%s", value_of(status, "Name"));
	ret->name[strcspn(ret->name, "\n")] = '\0';
	ret->state = *value_of(status, "State");
	ret->in_kernel = !*value_of(status, "VmSize") && ret->state != 'Z';
	if (sscanf(value_of(status, "Uid"), "%u %u %u", &real, &effective, &saved) == 3) {
		ret->uid = effective;
		ret->other_uid = real != effective ? real : saved;
	}
	ret->threads = atoi(value_of(status, "Threads"));
	ret->tracer = atoi(value_of(status, "TracerPid"));
	ret->seccomp = atoi(value_of(status, "Seccomp"));
	ret->filters = atoi(value_of(status, "Seccomp_filters"));
	ret->filters_before = filters_before(proc, pid);
	ret->shadow_stack = strncmp(value_of(status, "x86_Thread_features"), "shstk", 5) == 0;
	ret->inner_pid = pid;
	for (const char *at = value_of(status, "NSpid"); *at && *at != '\n';
	     at += strspn(at, "\t "), at += strcspn(at, "\t \n"))
		ret->inner_pid = atoi(at);
}

static void read_program(const char *proc, int pid, struct target *ret)
{
	char head[21];

	if (read_file(proc, pid, "exe", head, sizeof(head)) != sizeof(head) - 1 ||
	    memcmp(head, ELFMAG, SELFMAG) != 0)
		return;
	ret->elf_class = head[EI_CLASS];
	ret->machine = (unsigned char)head[18] | (unsigned char)head[19] << 8;
}

static bool begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

struct maps_search {
	const char *proc;
	struct target *ret;
};

/* The ledger of an attachment is in a folder that is named after its command. */
static void look_for_command(const char *path, struct target *ret)
{
	unsigned long long ticks;
	const char *run = strstr(path, "run-");
	int pid;

	if (run && sscanf(run, "run-%d-%llu-", &pid, &ticks) == 2 && process_runs(pid, ticks) &&
	    process_is_our_command(pid, "attach"))
		ret->command = pid;
}

static bool look_at_mapping(const struct maps_line *mapping, void *data)
{
	const struct maps_search *search = data;
	struct target *ret = search->ret;
	const char *path = mapping->path, *name = *path == '/' ? path_last(path) : "";

	ret->has_glibc |= begins(name, "libc.so.6") || begins(name, "libc-2.");
	ret->has_musl |= begins(name, "ld-musl") || begins(name, "libc.musl") ||
			 strcmp(name, "libc.so") == 0; /* in Debian's package */
	ret->has_driver |= begins(name, "libcuda.so") || begins(name, "libOpenCL.so");
	if (begins(name, "gpuleak.") && strstr(name, ".attach"))
		snprintf(ret->page, sizeof(ret->page), "%s/%d/root%.*s", search->proc, ret->pid,
			 PATH_MAX - 64, path);
	look_for_command(path, ret);
	return true;
}

/* The kernel checks at this open what it checks for ptrace. */
static int memory_error(const char *proc, int pid)
{
	char path[PATH_HERE];
	int fd = open(path_of(proc, pid, "mem", path), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

void target_read(const char *proc, int pid, struct target *ret)
{
	char path[PATH_HERE], scope[16];

	*ret = (struct target){ 0 };
	read_status(proc, pid, ret);
	if (!ret->pid)
		return;
	read_program(proc, pid, ret);
	process_each_mapping(proc, pid, look_at_mapping, &(struct maps_search){ proc, ret });
	ret->memory_error = memory_error(proc, pid);
	snprintf(path, sizeof(path), "%s/sys/kernel/yama/ptrace_scope", proc);
	file_head(path, scope, sizeof(scope));
	ret->yama = atoi(scope);
}

/* ---- the decision ---- */

/* Returns why the kernel does not let user UID read the memory of TARGET. */
static const char *why_forbidden(const struct target *target, uid_t uid)
{
	if (uid != 0 && (target->uid != uid || target->other_uid != uid))
		return "is another user's process; run gpuleak as root";
	if (target->yama >= 3)
		return "cannot be traced, because kernel.yama.ptrace_scope is 3 until the next "
		       "boot; start it under `gpuleak run`, or with GPULEAK_RECORD=off";
	if (uid == 0)
		return "cannot be traced, because this container's root lacks CAP_SYS_PTRACE: "
		       "docker run --cap-add SYS_PTRACE, or kubectl debug --profile=sysadmin";
	if (target->yama == 2)
		return "can be traced only by root, because kernel.yama.ptrace_scope is 2; run "
		       "gpuleak as root";
	if (target->yama == 1)
		return "can be traced only by its parent, because kernel.yama.ptrace_scope is 1: "
		       "run gpuleak as root, or `sudo sysctl kernel.yama.ptrace_scope=0`, or let "
		       "the process call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)";
	return "does not let itself be traced (setuid, capabilities, or PR_SET_DUMPABLE); run "
	       "gpuleak as root";
}

static const char *why_not(const struct target *t, uid_t uid)
{
	if (!t->pid)
		return "there is no such process";
	if (t->threads > 1 && t->state == 'Z')
		return "runs on without its main thread, which has ended; start it under "
		       "`gpuleak run`";
	if (t->state == 'Z' || t->state == 'X')
		return "has ended; its parent has not waited for it";
	if (t->in_kernel)
		return "is a thread of the kernel";
	if (t->state == 'T' || t->state == 't')
		return "is stopped; continue it with kill -CONT";
	if (t->page[0]) /* needs no ptrace, only the same user */
		return uid && t->uid != uid ? "is another user's process; run gpuleak as root"
					    : NULL;
	if (t->memory_error == EACCES || t->memory_error == EPERM)
		return why_forbidden(t, uid);
	if (t->elf_class == ELFCLASS32)
		return "is a 32-bit program; gpuleak records 64-bit programs";
	if (t->machine && t->machine != MACHINE)
		return "runs another architecture's code; use a gpuleak of that architecture";
	if (t->has_musl)
		return "uses musl, and gpuleak needs glibc (2.28 or later)";
	if (!t->has_glibc)
		return "is linked statically, so no library can be loaded into it";
	if (t->seccomp == 1)
		return "is in seccomp's strict mode, in which it may load no library; start it "
		       "under `gpuleak run`";
	if (t->seccomp == 2 && t->filters_before >= 0 && t->filters > t->filters_before)
		return "has set a seccomp filter of its own, which may kill it for a call of "
		       "gpuleak; start it under `gpuleak run`, or with GPULEAK_RECORD=off";
	if (t->shadow_stack)
		return "has a shadow stack, which forbids borrowed calls; start it with "
		       "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, or under `gpuleak run`";
	return NULL;
}

bool target_refuses(const struct target *target, uid_t uid, char *why, size_t size)
{
	const char *reason = NULL;

	if (target->tracer && !target->page[0])
		snprintf(why, size, "is traced by process %d already, perhaps a debugger; end that "
			 "first", target->tracer);
	else
		reason = why_not(target, uid);
	if (reason)
		snprintf(why, size, "%s", reason);
	return reason || (target->tracer && !target->page[0]);
}
