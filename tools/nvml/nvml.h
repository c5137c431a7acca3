/* SPDX-License-Identifier: MIT
 *
 * Queries NVML for the device memory of processes. Any call may hang in a broken driver, so only
 * the sampler's process calls it.
 */
#ifndef GPULEAK_TOOLS_NVML_H
#define GPULEAK_TOOLS_NVML_H

#include <stdint.h>

struct nvml;

#define NVML_DEVICES_MAX 64

/* Loads libnvidia-ml.so.1 from the loader's path, or from DIRECTORY if that is not NULL. 0, -ENOENT
 * if it does not exist, -EIO if it does not work. */
int nvml_open(const char *directory, struct nvml **ret);

/* Devices have numbers below NVML_DEVICES_MAX. Querying an idle device wakes it up, which may take
 * seconds, so avoid it. */

/* Returns the device with that UUID or bus id; -1 if there is none. */
int nvml_find(struct nvml *nvml, const uint8_t uuid[16], const char *bus_id);
/* One more of all devices; -1: that was the last one. */
int nvml_next(struct nvml *nvml);

/* Bytes in use on device NUMBER. 0 or -EIO. */
int nvml_device_used(struct nvml *nvml, int number, uint64_t *ret_bytes);

/* Gets the bytes of PID on device NUMBER. 0; -ENOENT if the process is not listed (yet, or has
 * another pid outside this container); -ENODATA if it has no figure; -EIO. */
int nvml_process_used(struct nvml *nvml, int number, unsigned int pid, uint64_t *ret_bytes);

#endif
