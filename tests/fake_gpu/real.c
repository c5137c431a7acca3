/* SPDX-License-Identifier: MIT
 *
 * In place of NVIDIA's runtime: a libcudart.so.13 that a program's own DT_RPATH leads to, and, with
 * MAIN, a program that does what that runtime does first. -DTEXT: it contains that runtime's text.
 */
#include <dlfcn.h>
#include <stdio.h>

#ifdef TEXT
__attribute__((used)) static const char text[] =
	"CUDA driver version is insufficient for CUDA runtime version";
#endif

#ifndef MAIN
int cudaMalloc(void **address, size_t bytes);

int cudaMalloc(void **address, size_t bytes)
{
	(void)address, (void)bytes;
	puts("the other libcudart.so.13");
	return 35;
}
#else
int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *table = NULL;
	int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(driver, "cuInit");
	int (*get)(void **, const void *) =
		(int (*)(void **, const void *))dlsym(driver, "cuGetExportTable");

	printf("cuInit: %d\n", init(0));
	printf("cuGetExportTable: %d\n", get(&table, "0123456789abcdef"));
	return 0;
}
#endif
