/* SPDX-License-Identifier: MIT
 *
 * Turns the linker's name of a function into the name in its source: C++, Rust, D, Ada and
 * Fortran. Must not open modules or depend on reports. Names are not trusted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Starts as { 0 }. */
struct demangler {
	char *(*cxx)(const char *name, char *buffer, size_t *length, int *status);
	bool cxx_sought;
};

/* The caller frees both strings. */
struct demangled {
	char *name;
	/* the name by which fingerprints of version 1 and older suppressions know the function;
	 * NULL if it equals `name` */
	char *old_name;
};

/* Returns the name of the function whose linker name is NAME. IS_ADA: the compiler translated Ada,
 * whose names can't be distinguished from those of C. */
struct demangled demangle(struct demangler *demangler, const char *name, bool is_ada);

/* Returns true for a name of the C++ ABI, which legacy names of Rust have, too. */
bool is_mangled(const char *name);
