/* SPDX-License-Identifier: MIT
 *
 * A launcher as torchrun is one: starts eight ranks of itself, waits for them, and ends as it
 * is told to. Words say what the ranks do: "shared" (all but the killed one leak), "one" (rank 3
 * leaks), "more" (rank 3 leaks where all do, but more), "killed" (rank 5 is killed while it
 * works), "mpi" (other variables say the rank), "late" (it is set by the rank's own code), "peak"
 * (all take 16 MiB for a while, rank 3 also 48 MiB), "absent" (rank 4 makes no GPU call).
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

enum { RANKS = 8 };

static int wanted(const char *words, const char *word)
{
	return strstr(words, word) != NULL;
}

static CUdeviceptr take(size_t bytes)
{
	CUdeviceptr block;

	must(cuMemAlloc_v2(&block, bytes), "alloc"); /* @take */
	return block;
}

static void lose_shared(size_t bytes)
{
	take(bytes); /* @shared */
}

static void lose_one(void)
{
	take(1 << 20); /* @one */
}

static void take_for_a_while(int rank)
{
	CUdeviceptr usual = take(16 << 20), more = rank == 3 ? take(48 << 20) : 0; /* @while */

	must(cuMemFree_v2(usual), "free");
	if (more)
		must(cuMemFree_v2(more), "free");
}

static int work(int rank, const char *words)
{
	CUdeviceptr block;

	if (wanted(words, "late")) {
		char text[12];

		snprintf(text, sizeof(text), "%d", rank);
		setenv("RANK", text, 1);
	}
	if (rank == 4 && wanted(words, "absent"))
		return 0;
	begin();
	if (wanted(words, "peak"))
		take_for_a_while(rank);
	block = take(2000); /* @work */
	if (rank == 5 && wanted(words, "killed"))
		raise(SIGKILL);
	must(cuMemFree_v2(block), "free");
	if (wanted(words, "shared"))
		lose_shared(rank == 3 && wanted(words, "more") ? 12288 : 4096); /* @all */
	if (rank == 3 && wanted(words, "one"))
		lose_one(); /* @odd */
	return 0;
}

static pid_t start(const char *self, int rank, const char *words)
{
	const char *variable = wanted(words, "mpi") ? "OMPI_COMM_WORLD_RANK" : "RANK";
	char text[12];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(text, sizeof(text), "%d", rank);
	if (!wanted(words, "late"))
		setenv(variable, text, 1);
	execl("/proc/self/exe", self, words, "rank", text, (char *)NULL);
	_exit(9);
}

int main(int argc, char **argv)
{
	const char *end = argc > 2 ? argv[2] : "0";

	if (argc > 3)
		return work(atoi(argv[3]), argv[1]);
	for (int rank = 0; rank < RANKS; rank++)
		if (start(argv[0], rank, argc > 1 ? argv[1] : "") < 0)
			return 9;
	while (wait(NULL) > 0)
		;
	if (strcmp(end, "KILL") == 0)
		raise(SIGKILL);
	return atoi(end);
}
