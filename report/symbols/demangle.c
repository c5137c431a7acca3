/* SPDX-License-Identifier: MIT
 *
 * Calls libstdc++ for C++, if there is one, and libiberty for Rust, D and Ada, if the command was
 * built with it. Splits names of gfortran. Names for which these libraries need too much memory or
 * time stay as they are.
 */
#include "report/symbols/demangle.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GPULEAK_LIBIBERTY
#define HAVE_DECL_BASENAME 1 /* libc declares it */
#include <libiberty/demangle.h>
#endif

#include "report/util/text_buffer.h"

/* A name of Rust that becomes longer than this has references to references. */
#define NAME_MAX_BYTES 65536
/* Each back reference may double the length of a name of D. */
#define REFERENCES_MAX 12
#define D_NAME_MAX 2048
#define RUST_HASH 19 /* length of "::h" and 16 digits */

bool is_mangled(const char *name)
{
	return name[0] == '_' && name[1] == 'Z';
}

/* Returns the length of NAME without suffixes of the optimizer: f.cold is a part of f, f.isra.0 is
 * a copy. */
static size_t length_as_written(const char *name)
{
	static const char *const ends[] = { "constprop", "isra", "part", "cold", "lto_priv",
					    "llvm" };
	size_t length = strlen(name), found = 1;

	while (found) {
		size_t end = length, start;

		while (end > 0 && strchr("0123456789", name[end - 1]))
			end--;
		end -= end > 0 && end < length && name[end - 1] == '.';
		for (start = end; start > 0 && name[start - 1] != '.'; start--)
			;
		found = 0;
		for (size_t i = 0; start > 1 && i < sizeof(ends) / sizeof(ends[0]); i++)
			found |= strlen(ends[i]) == end - start &&
				 memcmp(name + start, ends[i], end - start) == 0;
		if (found)
			length = start - 1;
	}
	return length;
}

static char *call_cxx(struct demangler *demangler, const char *name, size_t length)
{
	char *mangled = strndup(name, length), *ret;
	int status = -1;

	ret = demangler->cxx(mangled, NULL, NULL, &status);
	free(mangled);
	if (ret && status == 0)
		return ret;
	free(ret);
	return NULL;
}

/* Uses a C++ runtime if one is available; gpuleak is not linked with one. */
static char *demangle_cxx(struct demangler *demangler, const char *name)
{
	char *ret = NULL;

	if (is_mangled(name) && !demangler->cxx_sought) {
		void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);

		demangler->cxx_sought = true;
		if (library)
			*(void **)&demangler->cxx = dlsym(library, "__cxa_demangle");
	}
	/* A dot may be a part of the name: gcc names coroutines "..f.Frame.actor". */
	if (is_mangled(name) && demangler->cxx)
		ret = call_cxx(demangler, name, length_as_written(name));
	if (is_mangled(name) && demangler->cxx && !ret)
		ret = call_cxx(demangler, name, strcspn(name, "."));
	return ret;
}

/* ---- Rust, D and Ada ---- */

#ifdef GPULEAK_LIBIBERTY
struct rust_name {
	struct text_buffer text;
	size_t length;
	jmp_buf too_long;
};

static void add_to_rust_name(const char *part, size_t length, void *data)
{
	struct rust_name *name = data;

	name->length += length;
	if (name->length > NAME_MAX_BYTES)
		longjmp(name->too_long, 1);
	fwrite(part, 1, length, name->text.out);
}

/* Without DMGL_VERBOSE, libiberty leaves out the hash. */
static char *demangle_rust(const char *name)
{
	struct rust_name rust = { .length = 0 };
	volatile int done = 0;

	text_buffer_begin(&rust.text);
	if (setjmp(rust.too_long) == 0)
		done = rust_demangle_callback(name, DMGL_NO_OPTS, add_to_rust_name, &rust);
	text_buffer_end(&rust.text);
	if (done)
		return rust.text.text;
	text_buffer_finish(&rust.text);
	return NULL;
}

static char *demangle_d(const char *name)
{
	unsigned int references = 0;

	for (const char *at = name; *at; at++)
		references += *at == 'Q';
	if (strncmp(name, "_D", 2) != 0 || references > REFERENCES_MAX || strlen(name) > D_NAME_MAX)
		return NULL;
	return dlang_demangle(name, DMGL_NO_OPTS);
}

/* libiberty puts a name that it cannot decode between angle brackets. */
static char *demangle_ada(const char *name, bool is_ada)
{
	char *ret = is_ada || strncmp(name, "_ada_", 5) == 0 ? ada_demangle(name, DMGL_NO_OPTS)
							      : NULL;

	if (!ret || *ret != '<')
		return ret;
	free(ret);
	return NULL;
}

#endif

static char *call_libiberty(const char *name, bool is_ada)
{
#ifdef GPULEAK_LIBIBERTY
	char *written = strndup(name, length_as_written(name));
	char *ret = demangle_rust(written);

	if (!ret)
		ret = demangle_d(written);
	if (!ret)
		ret = demangle_ada(written, is_ada);
	free(written);
	return ret;
#else
	(void)name;
	(void)is_ada;
	return NULL;
#endif
}

/* ---- by hand ---- */

/* gfortran names the procedure P of module M __m_MOD_p. Other letters are lower case. */
static char *split_fortran(const char *name)
{
	const char *at = strstr(name, "_MOD_");
	char *ret;

	if (strncmp(name, "__", 2) != 0 || !at || at <= name + 2 || !at[5])
		return NULL;
	ret = malloc(strlen(name) + 1);
	sprintf(ret, "%.*s::%.*s", (int)(at - name - 2), name + 2,
		(int)length_as_written(at + 5), at + 5);
	return ret;
}

/* Returns a copy of NAME without Rust's hash at its end, or NULL if it has none. */
static char *cut_hash(const char *name)
{
	size_t length = strlen(name);
	const char *hash = name + length - RUST_HASH;

	if (length <= RUST_HASH || strncmp(hash, "::h", 3) != 0 ||
	    strspn(hash + 3, "0123456789abcdef") != RUST_HASH - 3)
		return NULL;
	return strndup(name, length - RUST_HASH);
}

struct demangled demangle(struct demangler *demangler, const char *name, bool is_ada)
{
	struct demangled ret = { .name = call_libiberty(name, is_ada) };
	char *old = demangle_cxx(demangler, name);

	if (!old)
		old = strdup(name);
	if (!ret.name)
		ret.name = split_fortran(old);
	if (!ret.name)
		ret.name = cut_hash(old);
	if (ret.name && strcmp(ret.name, old) != 0) {
		ret.old_name = old;
	} else {
		free(ret.name);
		ret.name = old;
	}
	return ret;
}
