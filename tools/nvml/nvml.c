/* SPDX-License-Identifier: MIT
 *
 * Calls NVML through dlopen(), and uses older functions if a driver lacks newer ones. The
 * command is not linked with NVML, because it must run without a driver.
 */
#include "tools/nvml/nvml.h"

#include <dlfcn.h>

#include "tools/launch/system.h"
#include "tools/nvml/nvml_types.h"

#define LIBRARY "libnvidia-ml.so.1"
#define DEVICES_MAX NVML_DEVICES_MAX
#define PROCESSES_MAX 65536u

/* Lists of processes. A process may be in several lists, with the same value. */
static const char *const list_names[] = {
	"nvmlDeviceGetComputeRunningProcesses",
	"nvmlDeviceGetGraphicsRunningProcesses",
	"nvmlDeviceGetMPSComputeRunningProcesses",
};
#define LISTS (sizeof(list_names) / sizeof(list_names[0]))

typedef nvmlReturn_t (*list_function)(nvmlDevice_t device, unsigned int *count, void *infos);

struct list {
	list_function get;
	size_t size; /* size of one entry */
};

struct device {
	nvmlDevice_t handle;
	uint8_t uuid[16];
	bool has_uuid;
	nvmlPciInfo_t pci;
	bool has_pci;
};

struct nvml {
	void *library;
	struct list lists[LISTS];
	nvmlReturn_t (*get_by_index)(unsigned int index, nvmlDevice_t *device);
	nvmlReturn_t (*get_by_bus)(const char *bus_id, nvmlDevice_t *device);
	nvmlReturn_t (*get_memory)(nvmlDevice_t device, nvmlMemory_t *memory);
	nvmlReturn_t (*get_memory_v2)(nvmlDevice_t device, nvmlMemory_v2_t *memory);
	unsigned int count, asked; /* number of devices, and next index to query */
	struct device devices[DEVICES_MAX];
	int met;
	void *buffer; /* for the entries of one list */
	unsigned int room;
	struct nvml_users users; /* of the device that was queried last */
};

static void find_list(struct nvml *nvml, size_t i)
{
	static const char *const versions[] = { "_v3", "_v2", "" };
	char name[64];

	for (size_t v = 0; v < 3 && !nvml->lists[i].get; v++) {
		snprintf(name, sizeof(name), "%s%s", list_names[i], versions[v]);
		nvml->lists[i].get = (list_function)dlsym(nvml->library, name);
		nvml->lists[i].size = *versions[v] ? sizeof(nvmlProcessInfo_v2_t)
						   : sizeof(nvmlProcessInfo_v1_t);
	}
}

/* Parses "GPU-01234567-89ab-..." and returns true on success. */
static bool parse_uuid(const char *text, uint8_t ret[16])
{
	int n = 0;

	if (strncmp(text, "GPU-", 4) != 0)
		return false;
	for (text += 4; n < 16; n++, text += 2) {
		unsigned int byte;

		text += *text == '-';
		if (sscanf(text, "%2x", &byte) != 1)
			return false;
		ret[n] = (uint8_t)byte;
	}
	return true;
}

/* Compares the numbers, because CUDA writes the domain with four digits and NVML with eight. */
static bool same_bus(const nvmlPciInfo_t *pci, const char *bus_id)
{
	unsigned int domain, bus, device;

	return sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) == 3 && pci->domain == domain &&
	       pci->bus == bus && pci->device == device;
}

/* Compares UUIDs if both are known, else bus ids. */
static bool is_device(const struct device *device, const uint8_t uuid[16], const char *bus_id)
{
	static const uint8_t unknown[16];

	if (device->has_uuid && memcmp(uuid, unknown, 16) != 0)
		return memcmp(device->uuid, uuid, 16) == 0;
	return device->has_pci && same_bus(&device->pci, bus_id);
}

/* Sets FUNCTION to the one that the library has by NAME, or to NULL. */
#define FIND(function, name) ((function) = (__typeof__(function))dlsym(nvml->library, name))

static void learn_device(const struct nvml *nvml, struct device *device)
{
	nvmlReturn_t (*get_uuid)(nvmlDevice_t, char *, unsigned int);
	nvmlReturn_t (*get_pci)(nvmlDevice_t, nvmlPciInfo_t *);
	char text[NVML_UUID_SIZE] = "";

	if (FIND(get_uuid, "nvmlDeviceGetUUID") &&
	    get_uuid(device->handle, text, sizeof(text)) == NVML_SUCCESS) {
		text[sizeof(text) - 1] = '\0';
		device->has_uuid = parse_uuid(text, device->uuid);
	}
	device->has_pci = FIND(get_pci, "nvmlDeviceGetPciInfo_v3") &&
			  get_pci(device->handle, &device->pci) == NVML_SUCCESS;
}

/* Returns the number of the device with HANDLE, and adds the device if it is new. Returns -1 on
 * error. */
static int meet(struct nvml *nvml, nvmlDevice_t handle)
{
	struct device device = { .handle = handle };

	learn_device(nvml, &device);
	for (int i = 0; i < nvml->met; i++)
		if (nvml->devices[i].handle == handle ||
		    (device.has_uuid && nvml->devices[i].has_uuid &&
		     memcmp(nvml->devices[i].uuid, device.uuid, 16) == 0))
			return i;
	if (nvml->met == DEVICES_MAX)
		return -1;
	nvml->devices[nvml->met] = device;
	return nvml->met++;
}

static int begin(struct nvml *nvml)
{
	nvmlReturn_t (*init)(void);
	nvmlReturn_t (*get_count)(unsigned int *);

	FIND(nvml->get_by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
	FIND(nvml->get_memory, "nvmlDeviceGetMemoryInfo");
	FIND(nvml->get_memory_v2, "nvmlDeviceGetMemoryInfo_v2");
	for (size_t i = 0; i < LISTS; i++)
		find_list(nvml, i);
	if (!FIND(init, "nvmlInit_v2") || !FIND(get_count, "nvmlDeviceGetCount_v2") ||
	    !FIND(nvml->get_by_index, "nvmlDeviceGetHandleByIndex_v2") ||
	    init() != NVML_SUCCESS || get_count(&nvml->count) != NVML_SUCCESS)
		return -EIO;
	return 0;
}

int nvml_open(const char *directory, struct nvml **ret)
{
	char path[PATH_MAX];
	struct nvml *nvml;
	int r;

	if (snprintf(path, sizeof(path), "%s%s" LIBRARY, directory ? directory : "",
		     directory ? "/" : "") >= (int)sizeof(path))
		return -ENOENT;
	nvml = calloc(1, sizeof(*nvml));
	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	r = nvml->library ? begin(nvml) : -ENOENT;
	if (r < 0)
		free(nvml); /* do not close the library: its initialization cannot be undone */
	else
		*ret = nvml;
	return r;
}

int nvml_next(struct nvml *nvml)
{
	nvmlDevice_t handle;
	int number = -1;

	/* A device that fails (no permission, lost from the bus) is skipped. */
	while (number < 0 && nvml->asked < nvml->count)
		if (nvml->get_by_index(nvml->asked++, &handle) == NVML_SUCCESS)
			number = meet(nvml, handle);
	return number;
}

int nvml_find(struct nvml *nvml, const uint8_t uuid[16], const char *bus_id)
{
	nvmlDevice_t handle;
	int number;

	for (int i = 0; i < nvml->met; i++)
		if (is_device(&nvml->devices[i], uuid, bus_id))
			return i;
	if (nvml->get_by_bus && *bus_id && nvml->get_by_bus(bus_id, &handle) == NVML_SUCCESS) {
		number = meet(nvml, handle);
		if (number >= 0 && is_device(&nvml->devices[number], uuid, bus_id))
			return number;
	}
	while ((number = nvml_next(nvml)) >= 0)
		if (is_device(&nvml->devices[number], uuid, bus_id))
			return number;
	return -1;
}

static nvmlReturn_t get_old_memory(struct nvml *nvml, nvmlDevice_t device, nvmlMemory_v2_t *ret)
{
	nvmlMemory_t memory = { 0 };
	nvmlReturn_t r = nvml->get_memory(device, &memory);

	*ret = (nvmlMemory_v2_t){ .total = memory.total, .free = memory.free, .used = memory.used };
	return r;
}

int nvml_device_memory(struct nvml *nvml, int number, uint64_t *ret_used, uint64_t *ret_free)
{
	nvmlDevice_t device = nvml->devices[number].handle;
	nvmlMemory_v2_t memory = { .version = NVML_MEMORY_V2 };
	nvmlReturn_t r;

	if (nvml->get_memory_v2)
		r = nvml->get_memory_v2(device, &memory);
	else if (nvml->get_memory)
		r = get_old_memory(nvml, device, &memory);
	else
		return -EIO;
	if (r == NVML_ERROR_NOT_SUPPORTED || (r == NVML_SUCCESS && memory.total == 0))
		return -ENOTSUP;
	if (r != NVML_SUCCESS)
		return -EIO;
	*ret_used = memory.used;
	*ret_free = memory.free;
	return 0;
}

static int more_room(struct nvml *nvml, unsigned int wanted)
{
	if (wanted <= nvml->room)
		wanted = nvml->room * 2;
	if (wanted > PROCESSES_MAX)
		return -EIO;
	nvml->buffer = realloc(nvml->buffer, wanted * sizeof(nvmlProcessInfo_v2_t));
	nvml->room = wanted;
	return 0;
}

/* Reads the list into the buffer. Returns the number of entries, or -errno. */
static int read_list(struct nvml *nvml, const struct list *list, nvmlDevice_t device)
{
	unsigned int count;
	nvmlReturn_t r;

	if (!list->get)
		return -EIO;
	if (!nvml->room && more_room(nvml, 64) < 0)
		return -EIO;
	for (;;) {
		count = nvml->room;
		r = list->get(device, &count, nvml->buffer);
		if (r != NVML_ERROR_INSUFFICIENT_SIZE)
			break;
		if (more_room(nvml, count) < 0)
			return -EIO;
	}
	if (r != NVML_SUCCESS)
		return -EIO;
	return count < nvml->room ? (int)count : (int)nvml->room;
}

/* Returns the user with PID, which may be new. Returns NULL if there are too many. */
static struct nvml_user *user_of(struct nvml_users *users, unsigned int pid)
{
	unsigned int i = 0;

	while (i < users->count && users->user[i].pid != pid)
		i++;
	if (i == NVML_USERS_MAX)
		return NULL;
	if (i == users->count)
		users->user[users->count++] = (struct nvml_user){ .pid = pid };
	return &users->user[i];
}

/* Adds the COUNT entries in the buffer to the users. A MIG device has one entry per instance.
 * Returns false if there are too many users. */
static bool add_users(struct nvml *nvml, const struct list *list, int count)
{
	for (unsigned int i = 0; i < nvml->users.count; i++)
		nvml->users.user[i].in_list = 0;
	for (int i = 0; i < count; i++) {
		/* Both versions of the struct begin with these fields. */
		const nvmlProcessInfo_v1_t *info =
			(const void *)((const char *)nvml->buffer + (size_t)i * list->size);
		struct nvml_user *user = user_of(&nvml->users, info->pid);

		if (!user)
			return false;
		if (info->usedGpuMemory == NVML_NO_VALUE)
			continue;
		user->has_value = true;
		user->in_list += info->usedGpuMemory;
		if (user->in_list > user->bytes)
			user->bytes = user->in_list;
	}
	return true;
}

/* Reads the users from all lists. Returns false if no list could be read, or not all users fit. */
static bool read_users(struct nvml *nvml, int number)
{
	bool any = false;

	nvml->users.count = 0;
	for (size_t i = 0; i < LISTS; i++) {
		int count = read_list(nvml, &nvml->lists[i], nvml->devices[number].handle);

		if (count >= 0 && !add_users(nvml, &nvml->lists[i], count))
			return false;
		any = any || count >= 0;
	}
	return any;
}

/* A value has precedence over an entry without a value. */
int nvml_process_used(struct nvml *nvml, int number, unsigned int pid, uint64_t *ret_bytes,
		      uint64_t *ret_others)
{
	int r = -ENOENT;

	*ret_others = NVML_UNKNOWN;
	if (!read_users(nvml, number))
		return -EIO;
	*ret_others = 0;
	EACH_ITEM(nvml->users.user, nvml->users.count, user) {
		if (user->pid != pid) {
			*ret_others = !user->has_value || *ret_others == NVML_UNKNOWN
					      ? NVML_UNKNOWN
					      : *ret_others + user->bytes;
			continue;
		}
		r = user->has_value ? 0 : -ENODATA;
		if (user->has_value)
			*ret_bytes = user->bytes;
	}
	return r;
}

const struct nvml_users *nvml_users(const struct nvml *nvml)
{
	return &nvml->users;
}
