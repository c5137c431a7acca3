/* SPDX-License-Identifier: MIT
 *
 * The attributes of a pointer, which the application can query or set. Numbers and meanings are
 * those of cuda.h.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "standin/driver/standin.h"

enum attribute {
	CONTEXT = 1,
	MEMORY_TYPE = 2,
	DEVICE_POINTER = 3,
	HOST_POINTER = 4,
	P2P_TOKENS = 5,
	SYNC_MEMOPS = 6,
	BUFFER_ID = 7,
	IS_MANAGED = 8,
	DEVICE_ORDINAL = 9,
	IPC_CAPABLE = 10,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	MAPPED = 13,
	HANDLE_TYPES = 14,
	RDMA_CAPABLE = 15,
	ACCESS_FLAGS = 16,
	POOL = 17,
	MAPPING_SIZE = 18,
	MAPPING_BASE = 19,
	BLOCK_ID = 20,
};

/* ---- SYNC_MEMOPS, which stays with a block as long as it lives ---- */

struct synchronous {
	struct synchronous *next;
	CUdeviceptr address;
	unsigned int generation;
};

static pthread_mutex_t synchronous_lock = PTHREAD_MUTEX_INITIALIZER;
static struct synchronous *synchronous;

static struct synchronous **find_synchronous(const struct block *b)
{
	struct synchronous **link = &synchronous;

	while (*link && ((*link)->address != b->address || (*link)->generation != b->generation))
		link = &(*link)->next;
	return link;
}

static bool is_synchronous(const struct block *b)
{
	bool ret;

	pthread_mutex_lock(&synchronous_lock);
	ret = *find_synchronous(b);
	pthread_mutex_unlock(&synchronous_lock);
	return ret;
}

static void set_synchronous(const struct block *b, bool on)
{
	struct synchronous **link, *it;

	pthread_mutex_lock(&synchronous_lock);
	link = find_synchronous(b);
	it = *link;
	if (it && !on) {
		*link = it->next;
		free(it);
	} else if (!it && on && (it = malloc(sizeof(*it)))) {
		*it = (struct synchronous){ synchronous, b->address, b->generation };
		synchronous = it;
	}
	pthread_mutex_unlock(&synchronous_lock);
}

/* ---- asking ---- */

static bool find(CUdeviceptr inside, struct block *found, bool *host)
{
	*host = false;
	if (heap_find(inside, found) || virtual_find(inside, found))
		return true;
	*host = host_find(inside, found);
	return *host;
}

/* Returns true if the value of ATTRIBUTE has 64 bits, false if it has 32. */
static bool is_wide(int attribute)
{
	switch (attribute) {
	case MEMORY_TYPE:
	case SYNC_MEMOPS:
	case IS_MANAGED:
	case DEVICE_ORDINAL:
	case IPC_CAPABLE:
	case MAPPED:
	case RDMA_CAPABLE:
	case ACCESS_FLAGS:
		return false;
	default:
		return true;
	}
}

static void answer(void *data, int attribute, uint64_t value)
{
	memcpy(data, &value, is_wide(attribute) ? 8 : 4);
}

static CUresult attribute_of(uint64_t *ret, int attribute, CUdeviceptr p, const struct block *b,
			     bool host)
{
	bool managed = !host && b->kind == BLOCK_MANAGED;
	const CUdeviceptr page = host ? 4096 : 2 << 20;

	switch (attribute) {
	case CONTEXT:
		*ret = (uintptr_t)b->context;
		return CUDA_SUCCESS;
	case MEMORY_TYPE: /* 1: host; 2: device, also for managed memory */
		*ret = host ? 1 : 2;
		return CUDA_SUCCESS;
	case DEVICE_POINTER:
		*ret = p;
		return CUDA_SUCCESS;
	case HOST_POINTER: /* with the error the value is 0 */
		*ret = host || managed ? p : 0;
		return host || managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case SYNC_MEMOPS:
		*ret = !host && is_synchronous(b);
		return CUDA_SUCCESS;
	case BUFFER_ID:
	case BLOCK_ID:
		*ret = (uint64_t)b->generation << 48 ^ b->address >> 9;
		return CUDA_SUCCESS;
	case IS_MANAGED:
		*ret = managed;
		return CUDA_SUCCESS;
	case DEVICE_ORDINAL:
		*ret = (uint64_t)b->device;
		return CUDA_SUCCESS;
	case IPC_CAPABLE:
		*ret = !host && b->kind == BLOCK_DEVICE;
		return CUDA_SUCCESS;
	case RANGE_START:
		*ret = b->address;
		return CUDA_SUCCESS;
	case RANGE_SIZE:
		*ret = b->bytes;
		return CUDA_SUCCESS;
	case MAPPED:
		*ret = 1;
		return CUDA_SUCCESS;
	case HANDLE_TYPES:
	case POOL:
		*ret = 0;
		return CUDA_SUCCESS;
	case RDMA_CAPABLE:
		*ret = !host && !managed;
		return CUDA_SUCCESS;
	case ACCESS_FLAGS: /* read and write */
		*ret = 3;
		return CUDA_SUCCESS;
	case MAPPING_SIZE:
		*ret = ((b->address + b->bytes + page - 1) & -page) - (b->address & -page);
		return CUDA_SUCCESS;
	case MAPPING_BASE:
		*ret = b->address & -page;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Stores the two words of P2P_TOKENS. From then on the block has SYNC_MEMOPS. */
static CUresult give_tokens(void *data, const struct block *b)
{
	memcpy(data, &b->address, 8);
	memset((char *)data + 8, b->generation, 8);
	set_synchronous(b, true);
	return CUDA_SUCCESS;
}

STANDIN(cuPointerGetAttribute)(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult r = gate("cuPointerGetAttribute");
	struct block found;
	uint64_t value;
	bool host;

	if (r)
		return r;
	if (!data || !find(ptr, &found, &host))
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == P2P_TOKENS && !host && found.kind == BLOCK_DEVICE)
		return give_tokens(data, &found);
	r = attribute_of(&value, attribute, ptr, &found, host);
	if (!r || attribute == HOST_POINTER)
		answer(data, attribute, value);
	return r;
}

/* Stores the value of ATTRIBUTE for P, which is in no block: it may be any host address. */
static void answer_unknown(void *data, int attribute, CUdeviceptr p)
{
	switch (attribute) {
	case RANGE_START:
	case RANGE_SIZE:
		break;
	case HOST_POINTER:
		answer(data, attribute, p);
		break;
	case DEVICE_ORDINAL:
		answer(data, attribute, (uint64_t)-2);
		break;
	default:
		answer(data, attribute, 0);
		break;
	}
}

STANDIN(cuPointerGetAttributes)
(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	CUresult r = gate("cuPointerGetAttributes");
	struct block found;
	bool host, known;

	if (r)
		return r;
	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numAttributes; i++)
		if (!data[i] || attributes[i] == P2P_TOKENS || attributes[i] < CONTEXT ||
		    attributes[i] > BLOCK_ID)
			return CUDA_ERROR_INVALID_VALUE;
	known = find(ptr, &found, &host);
	for (unsigned int i = 0; i < numAttributes; i++) {
		uint64_t value = 0;

		if (known && !attribute_of(&value, attributes[i], ptr, &found, host))
			answer(data[i], attributes[i], value);
		else if (known)
			answer(data[i], attributes[i], 0);
		else
			answer_unknown(data[i], attributes[i], ptr);
	}
	return CUDA_SUCCESS;
}

STANDIN(cuPointerSetAttribute)
(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult r = gate("cuPointerSetAttribute");
	struct block found;

	if (r)
		return r;
	if (!value || attribute != SYNC_MEMOPS || !heap_find(ptr, &found))
		return CUDA_ERROR_INVALID_VALUE;
	set_synchronous(&found, *(const unsigned int *)value);
	return CUDA_SUCCESS;
}

/* ---- a range for others: a file descriptor that keeps nothing alive ---- */

STANDIN(cuMemGetHandleForAddressRange)
(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType,
 unsigned long long flags)
{
	CUresult r = gate("cuMemGetHandleForAddressRange");
	struct block found;
	int fd;

	if (r)
		return r;
	if (!handle || !size || (dptr | size) & 4095 || handleType != 1 || flags > 1 ||
	    !heap_find(dptr, &found) || found.kind != BLOCK_DEVICE ||
	    size > ((found.bytes + 4095) & ~(size_t)4095) - (dptr - found.address))
		return CUDA_ERROR_INVALID_VALUE;
	fd = memfd_create("standin-range", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}
