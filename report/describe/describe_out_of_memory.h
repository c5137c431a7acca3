/* SPDX-License-Identifier: MIT
 *
 * Words for allocations that ran out of memory: the line that names the request and the largest
 * holders. All formats use them. Prints valid UTF-8 without control characters.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_OUT_OF_MEMORY_H
#define GPULEAK_REPORT_DESCRIBE_OUT_OF_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct report_out_of_memory;
struct report_process;

/* Returns who refused the request: "driver", "GPULEAK_LIMIT", "GPULEAK_FAIL_AT", or the
 * framework. */
const char *out_of_memory_refuser(const struct report_out_of_memory *entry);

/* Returns the bytes that the program requested. If a framework made the request, the framework
 * requests more than that from the driver. 0: unknown. */
uint64_t out_of_memory_wanted(const struct report_out_of_memory *entry);

/* Stores the bytes of the device that are neither free nor held by PROCESS's call sites: they
 * belong to the driver and to other processes. Returns false if that is not known. */
bool out_of_memory_rest(const struct report_out_of_memory *entry, uint64_t *ret);

/* Prints "2.0 GiB wanted at decode (/abs/serve.py:88); held: 61.0 GiB KV_cache (/abs/serve.py:40),
 * 3.1 GiB libnccl.so.2, 2.2 GiB driver". Returns 0 or -ENOMEM. */
int describe_out_of_memory(FILE *out, const struct report_process *process,
			   const struct report_out_of_memory *entry);

#endif
