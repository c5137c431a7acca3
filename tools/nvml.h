/* SPDX-License-Identifier: MIT
 *
 * Asks NVML how much device memory processes hold. Any call may take long or never come back
 * (a wedged driver), so only the sampler's own process may come here.
 */
#ifndef GPULEAK_TOOLS_NVML_H
#define GPULEAK_TOOLS_NVML_H

#include <stdint.h>

struct nvml;

/* Loads libnvidia-ml.so.1 from where the loader finds it, or from DIRECTORY if that is not
 * NULL, and asks for the devices. 0, -ENOENT: there is none, -EIO: it has no answer. */
int nvml_open(const char *directory, struct nvml **ret);

/* The number of the device with that UUID, or at that bus id; -1 if there is none. */
int nvml_find(const struct nvml *nvml, const uint8_t uuid[16], const char *bus_id);
int nvml_count(const struct nvml *nvml);

/* Bytes in use on device NUMBER. 0 or -EIO. */
int nvml_device_used(struct nvml *nvml, int number, uint64_t *ret_bytes);

/* Bytes that PID holds on device NUMBER. 0; -ENOENT: no such process is listed there (yet, or
 * it goes by another number outside this container); -ENODATA: it is, without a figure; -EIO. */
int nvml_process_used(struct nvml *nvml, int number, unsigned int pid, uint64_t *ret_bytes);

#endif
