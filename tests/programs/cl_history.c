/* SPDX-License-Identifier: MIT
 *
 * Buffers with owners that retain and release them: who forgot to.
 */
#include <pthread.h>

#include "cl.h"

/* An owner that keeps the buffer, and gives it back or not. */
static void take_over(cl_mem object)
{
	retain(object); /* @take_over */
}

static void hand_back(cl_mem object)
{
	release(object); /* @hand_back */
}

static void borrow(cl_mem object)
{
	retain(object); /* @borrow_retain */
	release(object); /* @borrow_release */
}

/* The second owner never lets go. */
static void two_owners(void)
{
	cl_mem object = create(1000); /* @two_create */

	borrow(object); /* @two_borrow */
	take_over(object); /* @two_take */
	release(object); /* @two_release */
}

/* All owners let go; the creator forgot. */
static void creator(void)
{
	cl_mem object = create(2000); /* @creator_create */

	borrow(object); /* @creator_borrow */
}

static void hundred(void)
{
	cl_mem object = create(3000); /* @hundred_create */

	take_over(object); /* @hundred_take */
	for (int i = 0; i < 100; i++)
		borrow(object); /* @hundred_borrow */
	release(object); /* @hundred_release */
}

static void many_retains(void)
{
	cl_mem object = create(4000); /* @many_create */

	for (int i = 0; i < 40; i++)
		take_over(object); /* @many_take */
	for (int i = 0; i < 38; i++)
		hand_back(object); /* @many_back */
}

/* Of three buffers from one line the second one has most references left. */
static void several(void)
{
	for (int i = 0; i < 3; i++) {
		cl_mem object = create(500); /* @several_create */

		if (i == 1)
			take_over(object); /* @several_take */
	}
}

static void clean(void)
{
	cl_mem object = create(100);

	for (int round = 0; round < 3; round++) {
		borrow(object);
		take_over(object);
		hand_back(object);
	}
	release(object);
	for (int i = 0; i < 200; i++) {
		object = create(100);
		borrow(object);
		release(object);
	}
}

static void *borrow_often(void *object)
{
	for (int i = 0; i < 2000; i++)
		borrow(object); /* @thread_borrow */
	return NULL;
}

static void threads(void)
{
	cl_mem object = create(7000); /* @threads_create */
	pthread_t thread[8];

	take_over(object); /* @threads_take */
	for (int i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, borrow_often, object);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	release(object); /* @threads_release */
}

static void killed(void)
{
	cl_mem object = create(1500); /* @killed_create */

	take_over(object); /* @killed_take */
	abort();
}

int main(int argc, char **argv)
{
	static const struct story stories[] = {
		{ "two", two_owners }, { "creator", creator }, { "hundred", hundred },
		{ "many", many_retains }, { "several", several }, { "clean", clean },
		{ "threads", threads }, { "killed", killed },
	};

	begin();
	TELL(stories, argc > 1 ? argv[1] : ""); /* @main */
	return 0;
}
