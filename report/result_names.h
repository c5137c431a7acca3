/* SPDX-License-Identifier: MIT
 *
 * Names of the numbers that drivers answer. Knows no report.
 */
#ifndef GPULEAK_REPORT_RESULT_NAMES_H
#define GPULEAK_REPORT_RESULT_NAMES_H

/* Returns the name of RESULT as cuGetErrorName() or CL/cl.h has it, "CUDA_ERROR_INVALID_VALUE":
 * which of them, the prefix of API (the call that answered) decides. NULL if there is none. */
const char *result_name(const char *api, int result);

#endif
