/* SPDX-License-Identifier: MIT
 *
 * The handler sets a flag and does nothing else. A signal that the application handles or
 * ignores stays the application's, and one that it takes later becomes its own as without us.
 */
#include "pool_signal.h"

#include <signal.h>

#include "config.h"
#include "say.h"

_Atomic bool pool_wants_trim;

static void note_wish(int number)
{
	(void)number;
	atomic_store_explicit(&pool_wants_trim, true, memory_order_relaxed);
}

/* Raised by the process's own mistakes: to return from them is to make them again. */
static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

static void say_not(int number, const char *why)
{
	char digits[24] = "";
	struct text text = { digits, sizeof(digits) - 1 };

	text_add_number(&text, (uint64_t)number);
	say("gpuleak: GPULEAK_POOL_SIGNAL: signal ", digits, " ", why,
	    ": the pool gives nothing back at it\n", NULL);
}

void pool_signal_start(void)
{
	/* SA_ONSTACK: threads of Go programs have small stacks. */
	struct sigaction ours = { .sa_handler = note_wish, .sa_flags = SA_RESTART | SA_ONSTACK };
	int number = (int)config.pool_signal;
	struct sigaction before;

	if (!number)
		return;
	if (config.pool == OPTION_POOL_OFF)
		say_not(number, "keeps its effect, since no pool is on");
	else if (is_fault(number) || sigaction(number, NULL, &before) < 0)
		say_not(number, "can't be used");
	else if (before.sa_handler == note_wish)
		return; /* of the process that this one was forked from */
	else if (before.sa_handler != SIG_DFL)
		say_not(number, "is handled or ignored by the application, and stays so");
	else if (sigaction(number, &ours, NULL) < 0)
		say_not(number, "can't be used");
}
