/* SPDX-License-Identifier: MIT
 *
 * The search for modules that glibc before 2.35 needs finds the same as the loader, for every
 * segment of every module, and forgets a module that is unloaded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/dispatch/find_module.h"

/* A small library of every libc6 that no program links. */
#define SPARE "libBrokenLocale.so.1"

static int start(void **state)
{
	(void)state;
	module_start();
	return 0;
}

static const struct link_map *by_loader(const void *address)
{
	struct link_map *map = NULL;
	Dl_info info;

	return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

static void check_address(const struct dl_phdr_info *info, const char *address)
{
	struct found_module found = { 0 };

	assert_true(module_search(address, &found));
	assert_ptr_equal(found.map, by_loader(address));
	assert_int_equal(found.map->l_addr, info->dlpi_addr);
	assert_ptr_equal(module_search_cached(address), found.map);
	assert_ptr_equal(module_search_cached(address), found.map);
	assert_ptr_equal(module_of(address), found.map);
	for (unsigned int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			assert_int_equal((uintptr_t)found.eh_frame,
					 info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
}

static int check_module(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + part->p_vaddr);

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		check_address(info, at);
		check_address(info, at + part->p_memsz / 2);
		check_address(info, at + part->p_memsz - 1);
		++*(int *)data;
	}
	return 0;
}

static void test_finds_what_the_loader_finds(void **state)
{
	int segments = 0;

	(void)state;
	dl_iterate_phdr(check_module, &segments);
	assert_true(segments >= 3); /* the program, libc, the loader */
}

static void test_finds_nothing_elsewhere(void **state)
{
	struct found_module found;
	char *heap = calloc(1, 1);

	(void)state;
	assert_false(module_search(heap, &found));
	assert_false(module_search(&found, &found));
	assert_false(module_search(NULL, &found));
	assert_null(module_search_cached(heap));
	free(heap);
}

static void test_forgets(void **state)
{
	void *library = dlopen(SPARE, RTLD_NOW);
	const void *inside;

	(void)state;
	assert_non_null(library);
	inside = (const void *)((const struct link_map *)library)->l_ld;
	assert_ptr_equal(module_search_cached(inside), library);
	dlclose(library);
	module_forget();
	assert_null(module_search_cached(inside));
}

/* libc's dlclose() is called instead of gpuleak's, which is linked into this test. The next search
 * of another page sees that. */
static void test_unseen_unload(void **state)
{
	int (*libc_dlclose)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
	void *library = dlopen(SPARE, RTLD_NOW);
	const void *inside;
	int elsewhere = 0;

	(void)state;
	assert_non_null(library);
	inside = (const void *)((const struct link_map *)library)->l_ld;
	assert_ptr_equal(module_search_cached(inside), library);
	assert_ptr_not_equal(libc_dlclose, dlclose);
	assert_int_equal(libc_dlclose(library), 0);
	assert_null(module_search_cached(&elsewhere));
	assert_null(module_search_cached(inside));
}

#define THREADS 4
#define ROUNDS 400

static atomic_bool stop;

/* A reader never gets another module than that of its address, whatever other threads store. */
static void *read_cache(void *data)
{
	const char *ours = (const char *)by_loader, *libc = (const char *)(void *)malloc;
	const struct link_map *our_map = by_loader(ours), *libc_map = by_loader(libc);

	(void)data;
	while (!atomic_load(&stop)) {
		if (module_search_cached(ours) != our_map || module_search_cached(libc) != libc_map)
			return "wrong module";
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	void *wrong;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_cache, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		void *library = dlopen(SPARE, RTLD_NOW);

		module_search_cached(((const struct link_map *)library)->l_ld);
		module_forget();
		dlclose(library);
		module_forget();
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_what_the_loader_finds),
		cmocka_unit_test(test_finds_nothing_elsewhere),
		cmocka_unit_test(test_forgets),
		cmocka_unit_test(test_unseen_unload),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
