/* SPDX-License-Identifier: MIT
 *
 * cuGetProcAddress and cuGetProcAddress_v2: they find a function by base name, CUDA version and
 * stream flag, with the results that were measured on a real driver. They return this library's own
 * functions, even if another library with the same names is preloaded. Needs no cuInit.
 */
#include <string.h>

#include "standin/driver/resolver_table.h"
#include "standin/driver/standin.h"

enum { FOUND, NOT_FOUND, TOO_OLD }; /* CUdriverProcAddressQueryResult */
enum { FLAG_LEGACY = 1, FLAG_PER_THREAD = 2 };

static int first_row(const char *base)
{
	int low = 0, high = resolver_rows;

	while (low < high) {
		int middle = (low + high) / 2;

		if (strcmp(resolver_table[middle].base, base) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* If a call has per-thread variants, flag 2 (PER_THREAD) finds only these. If it has none, flag 2
 * finds the same functions as flag 1. */
static int look_up(const char *base, int version, bool per_thread, void **pfn)
{
	int first = first_row(base), end = first, status = TOO_OLD;
	bool has_per_thread = false, is_known = false;

	*pfn = NULL;
	for (; end < resolver_rows && !strcmp(resolver_table[end].base, base); end++)
		if (resolver_table[end].since <= standin_version) {
			has_per_thread |= resolver_table[end].per_thread;
			is_known = true;
		}
	if (!is_known)
		return NOT_FOUND;
	for (int i = first; i < end; i++) {
		const struct resolver_row *row = &resolver_table[i];

		if (row->per_thread != (per_thread && has_per_thread))
			continue;
		if (row->since > standin_version)
			continue;
		if (version >= 0 && version < row->since)
			continue;
		*pfn = (void *)row->function;
		status = FOUND;
	}
	return status;
}

/* A negative VERSION finds the newest function. A version above the driver's own is refused. */
static CUresult check(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	if (!symbol || !pfn || version > standin_version || flags > (FLAG_LEGACY | FLAG_PER_THREAD))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

STANDIN(cuGetProcAddress)(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult r = standin_gate_slow("cuGetProcAddress", true);
	void *found;

	if (!r)
		r = check(symbol, pfn, cudaVersion, flags);
	if (r)
		return r;
	if (look_up(symbol, cudaVersion, flags & FLAG_PER_THREAD, &found) != FOUND)
		return CUDA_ERROR_NOT_FOUND; /* *PFN is unchanged */
	*pfn = found;
	return CUDA_SUCCESS;
}

STANDIN(cuGetProcAddress_v2)
(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
 CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult r = standin_gate_slow("cuGetProcAddress_v2", true);
	int status;

	if (!r)
		r = check(symbol, pfn, cudaVersion, flags);
	if (r)
		return r;
	status = look_up(symbol, cudaVersion, flags & FLAG_PER_THREAD, pfn);
	if (symbolStatus)
		*symbolStatus = status;
	return CUDA_SUCCESS;
}
