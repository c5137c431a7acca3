/* SPDX-License-Identifier: MIT
 *
 * An application on libraries that have frameworks' names (rules.h). Each argument is one
 * allocation that nobody frees: "cached" and "uncached" tensors, "matmul" through the
 * framework, "handle" straight from the library, "own" without any of them. "stream" makes a stream
 * of the framework's.
 */
#include <cstring>

#include "cu.h"
#include "rules.h"

static void own()
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, 777), "own"); /* @own */
}

static void train(const char *what)
{
	if (std::strcmp(what, "cached") == 0)
		at::empty(3u << 20, true); /* @train_cached */
	else if (std::strcmp(what, "uncached") == 0)
		at::empty(5000, false); /* @train_uncached */
	else if (std::strcmp(what, "matmul") == 0)
		at::matmul(8192); /* @train_matmul */
	else if (std::strcmp(what, "handle") == 0)
		cublasCreate_v2(16384); /* @train_handle */
	else if (std::strcmp(what, "stream") == 0)
		at::stream();
	else
		own(); /* @train_own */
}

int main(int argc, char **argv)
{
	begin();
	for (int i = 1; i < argc; i++)
		train(argv[i]); /* @main */
	return 0;
}
