/* SPDX-License-Identifier: MIT
 *
 * Queries NVML for the device memory of processes. Any call may hang in a broken driver, so only
 * the sampler process makes these calls. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvml;

#define NVML_DEVICES_MAX 64

/* Loads libnvidia-ml.so.1 from DIRECTORY or, if that is NULL, from the loader's path. Returns 0,
 * -ENOENT if the library does not exist, or -EIO if it does not work. */
int nvml_open(const char *directory, struct nvml **ret);

/* Devices have numbers below NVML_DEVICES_MAX. A query wakes up an idle device, which may take
 * seconds, so query only devices in use. */

/* Returns the number of the device with this UUID or bus id; -1 if there is none. */
int nvml_find(struct nvml *nvml, const uint8_t uuid[16], const char *bus_id);
/* Makes the next device of the machine known and returns its number; -1 after the last device. */
int nvml_next(struct nvml *nvml);

/* Stores the bytes in use and free on device NUMBER. Returns 0 or -EIO; -ENOTSUP if NVML has no
 * such values, as for a GPU that shares its memory with the CPU. The free bytes are those of
 * cuMemGetInfo() (equal on an H200). Drivers before 2022 count what they reserve as used. */
int nvml_device_memory(struct nvml *nvml, int number, uint64_t *ret_used, uint64_t *ret_free);

#define NVML_UNKNOWN UINT64_MAX

/* A process with memory on a device. */
struct nvml_user {
	unsigned int pid;
	bool has_value;   /* else NVML does not know its bytes */
	uint64_t in_list; /* sum over the list that is being read */
	uint64_t bytes;   /* the largest of these sums: several lists may have the process */
};
#define NVML_USERS_MAX 1024
struct nvml_users {
	unsigned int count;
	struct nvml_user user[NVML_USERS_MAX];
};
/* Returns the processes that the last nvml_process_used() found, until the next one. */
const struct nvml_users *nvml_users(const struct nvml *nvml);

/* Stores the bytes that process PID uses on device NUMBER, and in *RET_OTHERS those of all other
 * processes, or NVML_UNKNOWN. Returns 0 or -EIO; -ENOENT if NVML does not list the process (not
 * yet, or a container gives it another pid); -ENODATA if NVML has no value for it. Only -EIO leaves
 * *RET_OTHERS unknown for this reason. */
int nvml_process_used(struct nvml *nvml, int number, unsigned int pid, uint64_t *ret_bytes,
		      uint64_t *ret_others);
