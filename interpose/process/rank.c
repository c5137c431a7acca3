/* SPDX-License-Identifier: MIT
 *
 * Reads the process's rank from the environment variables that launchers set (mpirun, torchrun).
 * Ignores a variable whose value is not a plain number. Writes the rank into the ledger, so that
 * the report of a killed process has it, too.
 */
#include "interpose/process/start.h"

#include <stdlib.h>

#include "interpose/base/message.h"

/* The launcher nearest to the process comes first: under srun and torchrun, the variables of both
 * are set. */
static const struct launcher {
	const char *rank, *size;
} launchers[] = {
	{ "RANK", "WORLD_SIZE" }, /* torchrun, torch.distributed, DeepSpeed, Horovod's users */
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
	{ "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE" },
	{ "PMIX_RANK", NULL },
	{ "PMI_RANK", "PMI_SIZE" }, /* MPICH, Intel MPI */
	{ "FLUX_TASK_RANK", "FLUX_JOB_SIZE" },
	{ "PALS_RANKID", "PALS_SIZE" },
	{ "SLURM_PROCID", "SLURM_NTASKS" },
};

struct rank {
	const struct launcher *launcher; /* NULL: no rank is known */
	int number;
	int size; /* 0: unknown */
};

static struct rank at_start;

/* Returns the number in variable NAME, or -1. */
static int number_in_variable(const char *name)
{
	const char *text = name ? secure_getenv(name) : NULL;
	int value = 0;

	if (!text || !*text)
		return -1;
	for (; *text; text++)
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *text - '0', &value))
			return -1;
	return value;
}

static struct rank read_rank(void)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		int number = number_in_variable(launchers[i].rank), size;

		if (number < 0)
			continue;
		size = number_in_variable(launchers[i].size);
		return (struct rank){ &launchers[i], number, size > number ? size : 0 };
	}
	return (struct rank){ 0 };
}

void rank_read(void)
{
	at_start = read_rank();
}

void rank_write(struct recorder *recorder)
{
	struct rank rank = read_rank();
	struct ledger_observation fact = { 0 };
	char digits[TEXT_NUMBER];

	if (!rank.launcher)
		rank = at_start;
	if (!rank.launcher)
		return;
	fact.kind = recorder_add_text(recorder, LEDGER_OBSERVED_RANK);
	fact.subject = recorder_add_text(recorder, text_number((uint64_t)rank.number, digits));
	fact.module = recorder_add_text(recorder, rank.launcher->rank);
	fact.count = (uint32_t)rank.size;
	ledger_add_observation(&recorder->writer, &fact);
}
