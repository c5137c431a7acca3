/* SPDX-License-Identifier: MIT
 *
 * Stands for libgpuleak.so in test_inject.c: a function that shows that it was called with a text,
 * on a thread of its own, with enough stack and no signals.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gpuleak_attach(const char *text);
int gpuleak_attach(const char *text)
{
	volatile char stack[256 * 1024];
	char *copy = strdup(text);
	int number = atoi(copy);
	sigset_t mask;

	memset((char *)stack, 1, sizeof(stack));
	free(copy);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	if (getpid() == gettid() || !sigismember(&mask, SIGUSR1))
		return -1;
	return number + stack[17];
}

/* Never returns in time. */
int gpuleak_detach(const char *text);
int gpuleak_detach(const char *text)
{
	(void)text;
	sleep(2);
	return 5;
}
