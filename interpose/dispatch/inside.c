/* SPDX-License-Identifier: MIT
 *
 * Owns each thread's mark of the OpenCL call that it is in. It is restored by inside_leave(), and
 * cleared by record_calls_end() if a call was left without a return.
 */
#include "interpose/dispatch/inside.h"

__thread struct inside thread_inside;
