/* SPDX-License-Identifier: MIT
 *
 * A library with a name of the CUDA runtime, which loads code on its own, as the runtime does.
 */
#include "cu.h"

CUresult cuLibraryLoadData(void **library, const void *code, void *options, void **values,
			   unsigned int count, void *library_options, void **library_values,
			   unsigned int library_count);
void runtime_starts(void);

void runtime_starts(void)
{
	static char code[64];
	void *library;

	must(cuLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0), "library");
}
