/* SPDX-License-Identifier: MIT
 *
 * Brings its own suppressions along, as programs do that are tested with LeakSanitizer, and
 * loses a block in a function that they name and one in a function that they do not. "bad"
 * returns a text with lines that are none, "long" one of more than 64 KiB that names both in
 * its last line and one in its first, "killed" ends by SIGKILL.
 */
#include <signal.h>
#include <string.h>

#include "cu.h"

static const char *word = "";
static int asked;
static char long_text[80000];

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	size_t at;

	asked++;
	if (strcmp(word, "bad") == 0)
		return "# mine\nnonsense\nrace:other\nleak:known_loss\n";
	if (strcmp(word, "long") != 0)
		return "leak:known_loss\nleak:never_seen\n";
	at = (size_t)sprintf(long_text, "leak:known_loss\n");
	while (at < 70000)
		at += (size_t)sprintf(long_text + at, "leak:filler_%zu\n", at);
	strcpy(long_text + at, "leak:new_loss\n");
	return long_text;
}

static void known_loss(void)
{
	CUdeviceptr block;

	must(cuMemAlloc_v2(&block, 3000), "alloc"); /* @known */
}

static void new_loss(void)
{
	CUdeviceptr block;

	must(cuMemAlloc_v2(&block, 500), "alloc"); /* @new */
}

int main(int argc, char **argv)
{
	word = argc > 1 ? argv[1] : "";
	begin();
	known_loss(); /* @main_known */
	new_loss();   /* @main_new */
	printf("asked %d\n", asked);
	fflush(stdout);
	if (strcmp(word, "killed") == 0)
		raise(SIGKILL);
	return 0;
}
