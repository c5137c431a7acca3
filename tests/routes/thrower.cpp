/* SPDX-License-Identifier: MIT
 *
 * A C++ library for a C program that opens it late: throws, catches, and says whose
 * _Unwind_RaiseException it is bound to and whose the global scope has.
 */
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>

extern "C" int _Unwind_RaiseException(void *);
extern "C" int _Unwind_Resume(void *);

static const char *owner(void *function)
{
	const char *slash;
	Dl_info info;

	if (!function)
		return "nobody";
	if (!dladdr(function, &info))
		return "unknown";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

extern "C" void throw_and_tell(void)
{
	printf("bound: %s\n", owner(reinterpret_cast<void *>(_Unwind_RaiseException)));
	printf("bound: %s\n", owner(reinterpret_cast<void *>(_Unwind_Resume)));
	printf("global: %s\n", owner(dlsym(RTLD_DEFAULT, "_Unwind_RaiseException")));
	try {
		throw std::runtime_error("thrown");
	} catch (const std::exception &e) {
		printf("%s\n", e.what());
	}
}
