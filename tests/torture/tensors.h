/* SPDX-License-Identifier: MIT
 *
 * What libc10_torture.so has: a function that reports a tensor as PyTorch's allocator does.
 */
#ifndef GPULEAK_TESTS_TORTURE_TENSORS_H
#define GPULEAK_TESTS_TORTURE_TENSORS_H

#include <stdint.h>

/* BYTES < 0: the tensor is freed. DEVICE is a c10::Device. */
__attribute__((visibility("default"))) void torture_report(void *address, int64_t bytes,
							   uint64_t device);

#endif
