/* SPDX-License-Identifier: MIT
 *
 * Values of options as users write them: sizes and signals.
 * Links: test_options.c, ledger_dep, cmocka.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/options.h"

#define REFUSED (-7)

struct value {
	const char *text;
	long long expected; /* REFUSED: the value is refused */
};

/* Parses each text of VALUES as OPTION, and compares the member that GET returns. */
static void expect(enum option_id option, const struct value *values,
		   long long (*get)(const struct options *options))
{
	for (; values->text; values++) {
		struct options options, before;
		int r;

		options_defaults(&options);
		before = options;
		r = option_set(&options, option, values->text);
		if (values->expected == REFUSED) {
			assert_true(r < 0);
			assert_memory_equal(&options, &before, sizeof(options));
			continue;
		}
		if (r < 0 || get(&options) != values->expected)
			fail_msg("%s: %lld", values->text, r < 0 ? REFUSED : get(&options));
	}
}

static long long leaked(const struct options *options)
{
	return options->max_leaked_bytes;
}

static long long limit(const struct options *options)
{
	return options->limit;
}

static long long report_signal(const struct options *options)
{
	return options->report_signal;
}

static void test_sizes(void **state)
{
	static const struct value values[] = {
		{ "0", 0 }, { "4096", 4096 }, { "4096B", 4096 }, { "4096 B", 4096 },
		{ "50K", 51200 }, { "50KiB", 51200 }, { "50kB", 50000 }, { "50KB", 50000 },
		{ "50M", 52428800 }, { "50MiB", 52428800 }, { "50MB", 50000000 },
		{ "50 MB", 50000000 }, { "5G", 5368709120 }, { "5GiB", 5368709120 },
		{ "5GB", 5000000000 }, { "5T", 5497558138880 }, { "5TiB", 5497558138880 },
		{ "5TB", 5000000000000 }, { "9223372TB", 9223372000000000000 },
		{ "9223373TB", REFUSED }, { "8388608T", REFUSED }, { "50mb", REFUSED },
		{ "50Mb", REFUSED }, { "50k", REFUSED }, { "MB", REFUSED }, { "5.5MB", REFUSED },
		{ "-5MB", REFUSED }, { "50MBs", REFUSED }, { NULL, 0 },
	};

	(void)state;
	expect(OPTION_MAX_LEAKED_BYTES, values, leaked);
	expect(OPTION_LIMIT, values + 1, limit);
}

static void test_signals(void **state)
{
	const struct value values[] = {
		{ "0", 0 }, { "10", 10 }, { "64", 64 }, { "USR1", SIGUSR1 }, { "SIGUSR1", SIGUSR1 },
		{ "usr2", SIGUSR2 }, { "sigusr2", SIGUSR2 }, { "HUP", SIGHUP }, { "SYS", SIGSYS },
		{ "RTMIN", SIGRTMIN }, { "SIGRTMIN+3", SIGRTMIN + 3 }, { "RTMIN+0", SIGRTMIN },
		{ "RTMAX", SIGRTMAX }, { "RTMAX-2", SIGRTMAX - 2 }, { "rtmin+30", SIGRTMAX },
		{ "RTMIN+31", REFUSED }, { "RTMAX-31", REFUSED }, { "RTMIN-1", REFUSED },
		{ "RTMAX+1", REFUSED }, { "RTMIN+", REFUSED }, { "RTMIN+3x", REFUSED },
		{ "RTMIN3", REFUSED }, { "USR", REFUSED }, { "USR3", REFUSED }, { "SIG", REFUSED },
		{ "SIG10", REFUSED }, { "", REFUSED }, { "65", REFUSED }, { "-1", REFUSED },
		{ "RTMIN+99999999999999999999", REFUSED }, { "USR1 ", REFUSED }, { NULL, 0 },
	};

	(void)state;
	expect(OPTION_REPORT_SIGNAL, values, report_signal);
}

static void test_every_standard_signal_has_a_name(void **state)
{
	static const char names[] =
		"HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD "
		"CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS ";
	const char *at = names;

	(void)state;
	for (long long number = 1; *at; number++) {
		char name[16] = "";
		const struct value values[] = { { name, number }, { NULL, 0 } };

		memcpy(name, at, strcspn(at, " "));
		expect(OPTION_REPORT_SIGNAL, values, report_signal);
		at += strcspn(at, " ") + 1;
		assert_true(number < 32);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_every_standard_signal_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
