/* SPDX-License-Identifier: MIT
 *
 * Converts operands to a list of ledger files. Prints errors about missing ledgers; does not
 * read ledgers.
 */
#include "tools/ledgers/operands.h"

#include "report/util/number.h"
#include "tools/launch/system.h"

static void missing(struct operands *operands, const char *word, const char *what)
{
	print_error("%s: %s", word, what);
	operands->missing++;
}

static void find_pid(struct operands *operands, const char *word, int pid)
{
	if (ledgers_add_pid(&operands->list, pid) < 0)
		missing(operands, word, ledgers_why_none(&operands->list, pid));
	else /* a `gpuleak run` reports on its ledgers itself and removes them */
		operands->by_pid |= !operands->list.is_run;
}

static void find_in_directory(struct operands *operands, const char *word)
{
	size_t before = operands->list.count, others;
	int r = ledgers_search_directory(&operands->list, word, &others);

	if (r < 0) {
		missing(operands, word, strerror(-r));
		return;
	}
	if (operands->list.count == before)
		missing(operands, word, "no ledgers in this directory");
	if (others)
		print_error("%s: ignored %zu file%s that %s no ledger%s", word, others,
			    plural(others), others == 1 ? "is" : "are", plural(others));
}

static void find_one(struct operands *operands, const char *word)
{
	int pid = ledgers_pid(word);
	struct stat st;

	if (pid > 0)
		find_pid(operands, word, pid);
	else if (strcmp(word, "-") == 0)
		ledgers_add(&operands->list, word);
	else if (stat(word, &st) < 0)
		missing(operands, word, errno == ENOENT ? "no such ledger or directory"
							: strerror(errno));
	else if (S_ISDIR(st.st_mode))
		find_in_directory(operands, word);
	else
		ledgers_add(&operands->list, word);
}

void operands_find(struct operands *operands, char **words, int count)
{
	for (int i = 0; i < count; i++)
		find_one(operands, words[i]);
}

void operands_finish(struct operands *operands)
{
	ledgers_finish(&operands->list);
}
