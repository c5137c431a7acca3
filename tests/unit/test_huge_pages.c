/* SPDX-License-Identifier: MIT
 *
 * Tests that gpuleak aligns large memory for huge pages, that a ledger gets a huge page where the
 * kernel can make one, that no write is lost meanwhile, and that memory is still mapped if there is
 * no room to align it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/base/arena.h"
#include "ledger/writer.h"

#define THREADS 3

static struct ledger_writer writer;
static char path[64];

static bool begins_a_huge_page(const void *memory)
{
	return (uintptr_t)memory % HUGE_PAGE == 0;
}

/* ---- memory ---- */

static void memory(void **state)
{
	const size_t bytes = HUGE_PAGE + 5000;
	uint8_t *large = pages_map(bytes), *small = pages_map(5000);

	(void)state;
	assert_non_null(large);
	assert_non_null(small);
	assert_true(begins_a_huge_page(large));
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(large[i], 0);
	memset(large, 'x', bytes);
	memset(small, 'x', 5000);
	assert_int_equal(munmap(large, bytes), 0);
	assert_int_equal(munmap(small, 5000), 0);
}

/* There is room for the memory, but not for aligning it. */
static void little_address_space(void **state)
{
	pid_t child = fork();
	int status = -1;

	(void)state;
	if (child == 0) {
		const rlim_t bytes = HUGE_PAGE + HUGE_PAGE / 2;
		struct rlimit limit = { .rlim_max = RLIM_INFINITY };
		FILE *statm = fopen("/proc/self/statm", "r");
		unsigned long pages = 0;

		if (!statm || fscanf(statm, "%lu", &pages) != 1)
			_exit(2);
		limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
		_exit(setrlimit(RLIMIT_AS, &limit) == 0 && pages_map(HUGE_PAGE) &&
				      !pages_map(HUGE_PAGE)
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- the ledger ---- */

static int create(void **state)
{
	static const struct ledger_header header;

	(void)state;
	snprintf(path, sizeof(path), "/dev/shm/gpuleak-unit-%d", getpid());
	return ledger_writer_create(&writer, path, &header);
}

static int remove_it(void **state)
{
	(void)state;
	return unlink(path);
}

static void grow_beyond(size_t bytes)
{
	while (writer.mapped_bytes <= bytes)
		assert_int_not_equal(ledger_add_kernel_args(&writer, NULL), 0);
}

static size_t file_bytes(void)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (size_t)st.st_size;
}

/* Returns the size of the mapping that begins at MEMORY, and sets *RET_HUGE to how much of it is
 * mapped in huge pages. */
static size_t mapping_at(const void *memory, size_t *ret_huge)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	uintptr_t start, end;
	size_t ret = 0, kib;
	char line[512];

	assert_non_null(smaps);
	*ret_huge = 0;
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%zx-%zx ", &start, &end) == 2) {
			if (ret)
				break;
			ret = start == (uintptr_t)memory ? end - start : 0;
		} else if (ret && sscanf(line, "ShmemPmdMapped: %zu", &kib) == 1) {
			*ret_huge = kib * 1024;
		}
	}
	fclose(smaps);
	return ret;
}

/* Returns true if the kernel makes a huge page of a file beside the ledger. */
static bool kernel_can(void)
{
	uint8_t *memory = mmap(NULL, 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[80];
	bool ret;
	int fd;

	assert_ptr_not_equal(memory, MAP_FAILED);
	memory += -(uintptr_t)memory % HUGE_PAGE;
	snprintf(name, sizeof(name), "%s-probe", path);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	unlink(name);
	assert_int_equal(ftruncate(fd, (off_t)HUGE_PAGE), 0);
	assert_ptr_equal(mmap(memory, HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			      0),
			 memory);
	memset(memory, 1, HUGE_PAGE);
	ret = madvise(memory, HUGE_PAGE, MADV_COLLAPSE) == 0;
	close(fd);
	return ret;
}

static void small_ledger(void **state)
{
	(void)state;
	grow_beyond(0);
	assert_true(begins_a_huge_page(writer.base));
	assert_uint_in_range(file_bytes(), 1, 256 << 10);
	grow_beyond(file_bytes());
	assert_uint_in_range(file_bytes(), 1, 256 << 10);
}

static void large_ledger(void **state)
{
	size_t huge;

	(void)state;
	grow_beyond(256 << 10);
	assert_int_equal(file_bytes(), HUGE_PAGE);
	assert_uint_in_range(mapping_at(writer.base, &huge), HUGE_PAGE, SIZE_MAX);
	if (kernel_can())
		assert_int_equal(huge, HUGE_PAGE);
	else
		print_message("this kernel makes no huge page in /dev/shm\n");
}

static _Atomic bool stop;

static void *count(void *data)
{
	struct ledger_live_series *series = data;
	uintptr_t added = 0;

	for (; !atomic_load(&stop); added++)
		atomic_fetch_add(&SHARED(series->allocated), 1);
	return (void *)added;
}

static void wait_until_it_counts(struct ledger_live_series *series)
{
	while (atomic_load(&SHARED(series->allocated)) == 0)
		sched_yield();
}

/* Threads write into pages of the ledger while the kernel moves these into huge pages. */
static void writers_lose_nothing(void **state)
{
	struct ledger_live_series *series[THREADS];
	pthread_t thread[THREADS];
	void *added;
	int fd;

	(void)state;
	for (int i = 0; i < THREADS; i++) {
		series[i] = ledger_at(&writer, ledger_add_live_series(&writer, NULL));
		assert_int_equal(pthread_create(&thread[i], NULL, count, series[i]), 0);
		wait_until_it_counts(series[i]);
		grow_beyond((size_t)(i + 2) * HUGE_PAGE);
	}
	atomic_store(&stop, true);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	for (int i = 0; i < THREADS; i++) {
		uint64_t in_file = 0;
		off_t at = (uint8_t *)&series[i]->allocated - writer.base;

		assert_int_equal(pthread_join(thread[i], &added), 0);
		assert_int_equal(pread(fd, &in_file, sizeof(in_file), at), sizeof(in_file));
		assert_int_equal(in_file, (uintptr_t)added);
		assert_int_not_equal(in_file, 0);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory),	cmocka_unit_test(little_address_space),
		cmocka_unit_test(small_ledger), cmocka_unit_test(large_ledger),
		cmocka_unit_test(writers_lose_nothing),
	};

	return cmocka_run_group_tests(tests, create, remove_it);
}
