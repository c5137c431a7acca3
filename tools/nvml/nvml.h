/* SPDX-License-Identifier: MIT
 *
 * Asks NVML how much device memory processes hold. Any call may take long or never come back
 * (a wedged driver), so only the sampler's own process may come here.
 */
#ifndef GPULEAK_TOOLS_NVML_H
#define GPULEAK_TOOLS_NVML_H

#include <stdint.h>

struct nvml;

#define NVML_DEVICES_MAX 64

/* Loads libnvidia-ml.so.1 from where the loader finds it, or from DIRECTORY if that is not
 * NULL. 0, -ENOENT: there is none, -EIO: it has no answer. */
int nvml_open(const char *directory, struct nvml **ret);

/* Devices have numbers below NVML_DEVICES_MAX. To ask for one wakes it up if nobody uses it,
 * which may take seconds: so nobody does without need. */

/* The device with that UUID, or at that bus id; -1 if there is none. */
int nvml_find(struct nvml *nvml, const uint8_t uuid[16], const char *bus_id);
/* One more of all devices; -1: that was the last one. */
int nvml_next(struct nvml *nvml);

/* Bytes in use on device NUMBER. 0 or -EIO. */
int nvml_device_used(struct nvml *nvml, int number, uint64_t *ret_bytes);

/* Bytes that PID holds on device NUMBER. 0; -ENOENT: no such process is listed there (yet, or
 * it goes by another number outside this container); -ENODATA: it is, without a figure; -EIO. */
int nvml_process_used(struct nvml *nvml, int number, unsigned int pid, uint64_t *ret_bytes);

#endif
