/* SPDX-License-Identifier: MIT
 *
 * Names of the numbers that drivers answer. Knows no report.
 */
#ifndef GPULEAK_REPORT_RESULT_NAMES_H
#define GPULEAK_REPORT_RESULT_NAMES_H

/* Returns the name of RESULT as cuGetErrorName() or CL/cl.h has it, such as
 * "CUDA_ERROR_INVALID_VALUE". The prefix of API, the call that answered, decides between CUDA and
 * OpenCL. Returns NULL if the number has no name. */
const char *result_name(const char *api, int result);

#endif
