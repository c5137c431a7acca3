/* SPDX-License-Identifier: MIT
 *
 * libnvidia-ml.so.1 without a GPU. Knows nothing of its own: a test writes what it shall
 * answer into the file that STANDIN_NVML names, anew for every call. Lines of that file:
 *     used DEVICE BYTES                 in use on the whole device
 *     total DEVICE BYTES                size of its memory, 80 GiB if there is no such line
 *     free DEVICE BYTES                 not in use
 *     reserved DEVICE BYTES             what the driver reserves: part of the line `used`
 *     process LIST DEVICE PID BYTES     LIST is compute, graphics or mps; BYTES - = no value
 *     answer FUNCTION CODE              what a function answers, in place of 0
 *     hang FUNCTION                     it never comes back
 *     block FUNCTION                    it comes back when this line is gone
 * Each call of a function whose answer may change adds its name to STANDIN_NVML.calls.
 * OLD leaves out what drivers before 2021 lack.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../tools/nvml/nvml_types.h"

#define API __attribute__((visibility("default")))
#define DEVICES 2

struct nvmlDevice_st {
	unsigned int number;
};
static struct nvmlDevice_st devices[DEVICES] = { { 0 }, { 1 } };

static FILE *open_file(void)
{
	const char *path = getenv("STANDIN_NVML");

	return path ? fopen(path, "re") : NULL;
}

static void log_call(const char *name)
{
	const char *path = getenv("STANDIN_NVML");
	char calls[4096], line[128];
	int fd, length;

	snprintf(calls, sizeof(calls), "%s.calls", path ? path : "");
	length = snprintf(line, sizeof(line), "%s\n", name);
	fd = path ? open(calls, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (fd >= 0 && write(fd, line, (size_t)length) != length)
		abort();
	close(fd);
}

/* Whether the file has a line of these two words. */
static bool is_told(const char *word, const char *function)
{
	char line[256], verb[16], name[64];
	FILE *file = open_file();
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%15s %63s", verb, name) == 2 && strcmp(verb, word) == 0 &&
			strcmp(name, function) == 0;
	if (file)
		fclose(file);
	return found;
}

static void take_time(const char *function)
{
	if (is_told("hang", function)) {
		log_call("hanging");
		for (;;)
			pause();
	}
	if (is_told("block", function))
		log_call("blocked");
	while (is_told("block", function))
		usleep(500);
}

/* What FUNCTION is to answer. */
static nvmlReturn_t answer(const char *function)
{
	char line[256], name[64];
	nvmlReturn_t ret;
	FILE *file;
	int code;

	take_time(function);
	file = open_file();
	ret = file ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "answer %63s %d", name, &code) == 2 && strcmp(name, function) == 0)
			ret = code;
	if (file)
		fclose(file);
	return ret;
}

API nvmlReturn_t nvmlInit_v2(void);
API nvmlReturn_t nvmlInit_v2(void)
{
	return answer("nvmlInit_v2");
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = DEVICES;
	return answer("nvmlDeviceGetCount_v2");
}

/* The first of NVML is the second of CUDA and the other way round, as on many machines. */
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = &devices[DEVICES - 1 - index];
	return answer("nvmlDeviceGetHandleByIndex_v2");
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device);
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	unsigned int domain, bus;

	if (sscanf(bus_id, "%x:%x:00.0", &domain, &bus) != 2 || domain || !bus || bus > DEVICES)
		return NVML_ERROR_NOT_FOUND;
	*device = &devices[bus - 1];
	return answer("nvmlDeviceGetHandleByPciBusId_v2");
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	/* "standin-gpu-uuid" with the number as its last byte, as the stand-in driver says */
	snprintf(uuid, length, "GPU-7374616e-6469-6e2d-6770-752d757569%02x", device->number);
	return answer("nvmlDeviceGetUUID");
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	memset(pci, 0, sizeof(*pci));
	pci->bus = device->number + 1;
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus);
	return answer("nvmlDeviceGetPciInfo_v3");
}

static void read_memory(unsigned int wanted, nvmlMemory_v2_t *ret)
{
	FILE *file = open_file();
	unsigned long long bytes;
	unsigned int number;
	char line[256], what[16];

	*ret = (nvmlMemory_v2_t){ .total = 80ull << 30 };
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%15s %u %llu", what, &number, &bytes) != 3 || number != wanted)
			continue;
		if (strcmp(what, "used") == 0)
			ret->used = bytes;
		else if (strcmp(what, "total") == 0)
			ret->total = bytes;
		else if (strcmp(what, "free") == 0)
			ret->free = bytes;
		else if (strcmp(what, "reserved") == 0)
			ret->reserved = bytes;
	}
	if (file)
		fclose(file);
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t r = answer("nvmlDeviceGetMemoryInfo");
	nvmlMemory_v2_t read;

	read_memory(device->number, &read);
	*memory = (nvmlMemory_t){ .total = read.total, .free = read.free, .used = read.used };
	log_call("nvmlDeviceGetMemoryInfo");
	return r;
}

#ifndef OLD
/* Counts as a call of the function above. */
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlReturn_t r = answer("nvmlDeviceGetMemoryInfo");

	if (memory->version != NVML_MEMORY_V2)
		r = 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
	read_memory(device->number, memory);
	memory->used -= memory->reserved;
	log_call("nvmlDeviceGetMemoryInfo");
	return r;
}
#endif

static void put(void *infos, unsigned int at, bool old, unsigned int pid, unsigned long long bytes)
{
	nvmlProcessInfo_v1_t *first = infos;
	nvmlProcessInfo_v2_t *second = infos;

	if (old)
		first[at] = (nvmlProcessInfo_v1_t){ pid, bytes };
	else
		second[at] = (nvmlProcessInfo_v2_t){ pid, bytes, ~0u, ~0u };
}

static nvmlReturn_t list(const char *function, const char *which, nvmlDevice_t device,
			 unsigned int *count, void *infos, bool old)
{
	nvmlReturn_t r = answer(function);
	unsigned int room = *count, number, pid;
	char line[256], name[16], bytes[32];
	FILE *file = open_file();

	*count = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "process %15s %u %u %31s", name, &number, &pid, bytes) != 4 ||
		    strcmp(name, which) != 0 || number != device->number)
			continue;
		if (*count < room)
			put(infos, *count, old, pid,
			    strcmp(bytes, "-") == 0 ? NVML_NO_VALUE : strtoull(bytes, NULL, 10));
		++*count;
	}
	if (file)
		fclose(file);
	log_call(function);
	return !r && *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : r;
}

#define LIST(function, which, type, old)                                                      \
	API nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *infos);     \
	API nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *infos)      \
	{                                                                                     \
		return list(#function, which, device, count, infos, old);                     \
	}
#ifdef OLD
LIST(nvmlDeviceGetComputeRunningProcesses, "compute", nvmlProcessInfo_v1_t, true)
#else
LIST(nvmlDeviceGetComputeRunningProcesses_v3, "compute", nvmlProcessInfo_v2_t, false)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", nvmlProcessInfo_v2_t, false)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", nvmlProcessInfo_v2_t, false)
#endif
