/* SPDX-License-Identifier: MIT
 *
 * Names of the drivers' result codes. Must not depend on reports.
 */
#ifndef GPULEAK_REPORT_RESULT_NAMES_H
#define GPULEAK_REPORT_RESULT_NAMES_H

/* Returns the name of RESULT as in cuGetErrorName() or CL/cl.h, for example
 * "CUDA_ERROR_INVALID_VALUE". API is the call that returned it; its prefix selects CUDA or OpenCL.
 * Returns NULL if the code has no name. */
const char *result_name(const char *api, int result);

#endif
