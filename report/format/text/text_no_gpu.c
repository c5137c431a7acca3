/* SPDX-License-Identifier: MIT
 *
 * Prints that the results of a program without a GPU are invalid. It is the first text in the
 * report: the leaks are real, but nobody may use what the program computed.
 */
#include "report/format/text/text_no_gpu.h"

#include "ledger/no_gpu.h"
#include "report/model/model.h"

void text_no_gpu_first(FILE *out, struct report_process *const *processes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (processes[i]->no_gpu & LEDGER_NO_GPU_FAKE_KERNELS) {
			fputs("the program's results are invalid, because kernels did nothing "
			      "(--fake-kernels); ", out);
			return;
		}
}
