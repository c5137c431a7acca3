/* SPDX-License-Identifier: MIT
 *
 * Why a process cannot be attached to: folders that look like /proc, one for each reason, and real
 * processes for those that can be made here.
 * Links: test_target.c, tools/attach/target.c, tools/launch/process.c, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/attach/target.h"

#define USER 1000
#define MAPS "7f00-7f01 r-xp 00000000 00:1 1   /usr/lib/libc.so.6\n"

/* ---- folders that look like /proc ---- */

struct made {
	const char *status, *maps;
	unsigned char elf_class, machine;
	const char *scope; /* of Yama */
};

static char proc[64];

static void write_file(const char *name, const void *bytes, size_t size)
{
	char path[256];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	out = fopen(path, "w");
	assert_non_null(out);
	fwrite(bytes, 1, size, out);
	fclose(out);
}

static void write_text(const char *name, const char *text)
{
	write_file(name, text, strlen(text));
}

static void make_folder(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void make_proc(const struct made *made)
{
	unsigned char head[64] = "\177ELF";

	strcpy(proc, "/tmp/gpuleak-proc-XXXXXX");
	assert_non_null(mkdtemp(proc));
	make_folder("17");
	make_folder("sys");
	make_folder("sys/kernel");
	make_folder("sys/kernel/yama");
	write_text("17/status", made->status);
	write_text("17/maps", made->maps);
	write_text("17/mem", "");
	write_text("sys/kernel/yama/ptrace_scope", made->scope ? made->scope : "0\n");
	head[EI_CLASS] = made->elf_class;
	head[18] = made->machine;
	write_file("17/exe", head, sizeof(head));
}

static void remove_proc(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", proc);
	assert_int_equal(system(command), 0);
}

#ifdef __x86_64__
#define OURS EM_X86_64
#define OTHERS EM_AARCH64
#else
#define OURS EM_AARCH64
#define OTHERS EM_X86_64
#endif
#define STATUS(state, tracer, more)                                                       \
	"Name:\tserve\nState:\t" state "\nTgid:\t17\nPid:\t17\nPPid:\t1\nTracerPid:\t" tracer \
	"\nUid:\t1000\t1000\t1000\t1000\nVmSize:\t  100 kB\n" more
#define GOOD STATUS("S (sleeping)", "0", "Seccomp:\t0\nSeccomp_filters:\t0\n")

/* Checks that a process with these files is refused with WORDS; NULL: that it is not. */
static void check(const struct made *made, const char *words)
{
	struct target target;
	char why[512] = "";
	bool refused;

	make_proc(made);
	target_read(proc, 17, &target);
	remove_proc();
	refused = target_refuses(&target, USER, why, sizeof(why));
	assert_int_equal(refused, words != NULL);
	if (words && !strstr(why, words))
		fail_msg("'%s' lacks '%s'", why, words);
}

static void test_good(void **state)
{
	(void)state;
	check(&(struct made){ GOOD, MAPS, ELFCLASS64, OURS, NULL }, NULL);
	check(&(struct made){ STATUS("S", "0", "Seccomp:\t2\nSeccomp_filters:\t1\n"), MAPS,
			      ELFCLASS64, OURS, NULL }, NULL); /* a container's filter */
}

static void test_refused(void **state)
{
	static const struct {
		struct made made;
		const char *words;
	} rows[] = {
		{ { STATUS("Z (zombie)", "0", ""), "", ELFCLASS64, OURS, NULL }, "has ended" },
		{ { "Name:\tkswapd0\nState:\tS\nPPid:\t2\nUid:\t0\t0\t0\t0\n", "", ELFCLASS64, OURS,
		    NULL }, "a thread of the kernel" },
		{ { STATUS("S", "4711", ""), MAPS, ELFCLASS64, OURS, NULL },
		  "traced by process 4711 already" },
		{ { STATUS("T (stopped)", "0", ""), MAPS, ELFCLASS64, OURS, NULL }, "kill -CONT" },
		{ { GOOD, MAPS, ELFCLASS32, EM_386, NULL }, "32-bit" },
		{ { GOOD, MAPS, ELFCLASS64, OTHERS, NULL }, "another architecture" },
		{ { GOOD, "7f00-7f01 r-xp 0 00:1 1 /lib/ld-musl-x86_64.so.1\n", ELFCLASS64, OURS,
		    NULL }, "uses musl" },
		{ { GOOD, "7f00-7f01 r-xp 0 00:1 1 /usr/bin/static\n", ELFCLASS64, OURS, NULL },
		  "linked statically" },
		{ { STATUS("S", "0", "Seccomp:\t1\n"), MAPS, ELFCLASS64, OURS, NULL },
		  "strict mode" },
		{ { STATUS("S", "0", "Seccomp:\t0\nx86_Thread_features:\tshstk wrss\n"), MAPS,
		    ELFCLASS64, OURS, NULL }, "shadow stack" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(&rows[i].made, rows[i].words);
}

/* What the kernel would have to forbid, which it does not for root. */
static void test_forbidden(void **state)
{
	static const struct {
		struct target target;
		uid_t uid;
		const char *words;
	} rows[] = {
		{ { .uid = 5, .other_uid = 5 }, USER,
		  "another user's process; run gpuleak as root" },
		{ { .uid = USER, .other_uid = 0 }, USER, "another user's process" },
		{ { .uid = USER, .other_uid = USER, .yama = 1 }, USER,
		  "sysctl kernel.yama.ptrace_scope=0" },
		{ { .uid = USER, .other_uid = USER, .yama = 1 }, USER, "PR_SET_PTRACER" },
		{ { .uid = USER, .other_uid = USER, .yama = 2 }, USER, "run gpuleak as root" },
		{ { .uid = USER, .other_uid = USER, .yama = 3 }, USER, "GPULEAK_RECORD=off" },
		{ { .uid = USER, .other_uid = USER, .yama = 3 }, 0, "GPULEAK_RECORD=off" },
		{ { .uid = USER, .other_uid = USER }, USER, "PR_SET_DUMPABLE" },
		{ { .uid = USER, .other_uid = USER }, 0, "kubectl debug" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct target target = rows[i].target;
		char why[512];

		target.pid = 17;
		target.state = 'S';
		target.memory_error = EACCES;
		assert_true(target_refuses(&target, rows[i].uid, why, sizeof(why)));
		if (!strstr(why, rows[i].words))
			fail_msg("row %zu: '%s'", i, why);
		/* a prepared process needs no ptrace */
		strcpy(target.page, "/run/page");
		assert_int_equal(target_refuses(&target, rows[i].uid, why, sizeof(why)),
				 rows[i].uid && target.uid != rows[i].uid);
	}
}

/* The filters of the programs that started a process are not its own. */
static void test_filters(void **state)
{
	struct target target = { .pid = 17, .state = 'S', .seccomp = 2, .filters = 2,
				 .filters_before = 2, .has_glibc = true };
	char why[512];

	(void)state;
	assert_false(target_refuses(&target, USER, why, sizeof(why)));
	target.filters = 3;
	assert_true(target_refuses(&target, USER, why, sizeof(why)));
	assert_non_null(strstr(why, "a seccomp filter of its own"));
}

/* ---- real processes ---- */

static void check_real(pid_t pid, const char *words)
{
	struct target target;
	char why[512] = "";
	bool refused;

	target_read("/proc", pid, &target);
	refused = target_refuses(&target, geteuid(), why, sizeof(why));
	if (words)
		assert_non_null(strstr(why, words));
	else if (refused) /* here ptrace is not permitted */
		assert_non_null(strstr(why, "traced"));
}

static void wait_for_state(pid_t pid, char state)
{
	struct target target;

	for (int i = 0; i < 5000; i++) {
		target_read("/proc", pid, &target);
		if (target.state == state)
			return;
		usleep(1000);
	}
	fail_msg("process %d is not in state %c", (int)pid, state);
}

static void test_real(void **state)
{
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		for (;;)
			pause();
	}
	wait_for_state(child, 'S');
	check_real(child, NULL);
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0) {
		check_real(child, "already, perhaps a debugger");
		ptrace(PTRACE_INTERRUPT, child, NULL, NULL);
		waitpid(child, NULL, 0);
		ptrace(PTRACE_DETACH, child, NULL, NULL);
	}
	kill(child, SIGSTOP);
	wait_for_state(child, 'T');
	check_real(child, "kill -CONT");
	kill(child, SIGKILL);
	wait_for_state(child, 'Z');
	check_real(child, "has ended");
	waitpid(child, NULL, 0);
	check_real(child, "no such process");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),	  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_forbidden), cmocka_unit_test(test_filters),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
