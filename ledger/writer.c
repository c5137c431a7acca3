/* SPDX-License-Identifier: MIT
 *
 * Creates and grows the ledger file, places records in it and publishes them in order. Must not
 * depend on what is traced. Must not raise a signal in the application: so it checks the file
 * size limit before the file grows, and uses only allocated pages.
 */
#include "ledger/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h> /* for rename() */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ledger/huge_page.h"
#include "ledger/nocancel.h"
#include "ledger/shared.h"

/* The number of types is one more than the last row's. */
#define CHUNK(NAME, ...) \
	_Static_assert(LEDGER_CHUNK_##NAME < LEDGER_CHUNK_TYPES, "chunks.def is in order");
#define CHUNK_OWN CHUNK
#define CHUNK_MIXED CHUNK
#include "ledger/chunks.def"

#define GROW_CHUNKS_MIN 8u   /* 128 KiB: enough for a small program */
#define GROW_CHUNKS_MAX 256u /* 4 MiB: growing by this much takes about a millisecond */
/* A ledger that exceeds this gets a whole huge page: 256 KiB, so that a small program's does not */
#define SMALL_LEDGER (2 * GROW_CHUNKS_MIN * (size_t)LEDGER_CHUNK)

#define RESERVE_MAX ((size_t)4 << 30)
#define RESERVE_MIN ((size_t)1 << 20)
/* the writer takes at most this share (1/8) of the address space left by RLIMIT_AS */
#define SHARE_OF_LEFT 8u

uint64_t ledger_address_space_left(void)
{
	struct rlimit limit;
	uint64_t used = 0;
	char text[32];
	ssize_t n;
	int fd;

	if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	fd = nocancel_open("/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);
	n = fd < 0 ? -1 : nocancel_read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		nocancel_close(fd);
	for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		used = used * 10 + (uint64_t)(text[i] - '0');
	used *= (uint64_t)sysconf(_SC_PAGESIZE);
	return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

/* Makes WRITER's SIZE reserved bytes at MEMORY begin at a multiple of HUGE_PAGE. */
static void use_reserved(struct ledger_writer *writer, uint8_t *memory, size_t size)
{
	size_t before = size > 2 * HUGE_PAGE ? -(uintptr_t)memory % HUGE_PAGE : 0;

	if (before)
		munmap(memory, before);
	writer->base = memory + before;
	writer->reserved_bytes = size - before;
}

static int reserve(struct ledger_writer *writer)
{
	const uint64_t left = ledger_address_space_left();

	for (size_t size = RESERVE_MAX; size >= RESERVE_MIN; size /= 2) {
		void *base;

		if (size > left / SHARE_OF_LEFT)
			continue;
		base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			    0);
		if (base == MAP_FAILED)
			continue; /* address space is fragmented, or another limit applies */
		use_reserved(writer, base, size);
		return 0;
	}
	return -ENOMEM;
}

/* Returns true if a file of BYTES is within RLIMIT_FSIZE. A larger one would send SIGXFSZ to the
 * application. */
static bool within_file_limit(size_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	       bytes <= limit.rlim_cur;
}

static int allocate(int fd, off_t from, off_t bytes)
{
	static const char zeros[4096];

	if (nocancel_fallocate(fd, 0, from, bytes) == 0)
		return 0;
	/* On tmpfs a signal interrupts fallocate(), and the kernel undoes what it allocated. If
	 * signals keep coming, it may never finish. A signal does not interrupt the write of a
	 * page. */
	if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
		return -errno;
	for (off_t at = from; at < from + bytes; at += (off_t)sizeof(zeros))
		if (nocancel_pwrite(fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros))
			return errno ? -errno : -ENOSPC;
	return 0;
}

/* Keeps the mapping at AT out of forked children, because a child must not write to its parent's
 * ledger, and out of core dumps. */
static void keep_out_of_children(void *at, size_t bytes)
{
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_DONTDUMP);
}

/* Maps the file up to the next multiple of HUGE_PAGE after END. Does so in one piece, because a
 * huge page cannot consist of several mappings. The writer uses the pages after END only when the
 * file has them. */
static int map_file(struct ledger_writer *writer, int fd, size_t end)
{
	size_t from = writer->file_mapped_bytes, to = end + -end % HUGE_PAGE;
	uint8_t *at = writer->base + from;

	if (end <= from)
		return 0;
	if (to > writer->reserved_bytes)
		to = writer->reserved_bytes;
	if (mmap(at, to - from, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED | MAP_POPULATE, fd,
		 (off_t)from) == MAP_FAILED)
		return -errno;
	keep_out_of_children(at, to - from);
	writer->file_mapped_bytes = to;
	return 0;
}

static int map_memory(struct ledger_writer *writer, size_t end)
{
	uint8_t *at = writer->base + writer->mapped_bytes;
	size_t bytes = end - writer->mapped_bytes;

	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0) == MAP_FAILED)
		return -errno;
	keep_out_of_children(at, bytes);
	return 0;
}

/* FD -1: without a file. */
static int map_more(struct ledger_writer *writer, int fd, size_t bytes)
{
	size_t end = writer->mapped_bytes + bytes;
	int r = fd < 0 ? map_memory(writer, end) : map_file(writer, fd, end);

	if (r == 0)
		writer->mapped_bytes = end;
	return r;
}

static int grow_from(struct ledger_writer *writer, int fd, size_t bytes)
{
	int r;

	if (!within_file_limit(writer->mapped_bytes + bytes))
		return -EFBIG;
	r = allocate(fd, (off_t)writer->mapped_bytes, (off_t)bytes);
	return r < 0 ? r : map_more(writer, fd, bytes);
}

/* Opens the file each time, so that no descriptor stays open. Uses it only if it is the file that
 * this process created. */
static int grow_file(struct ledger_writer *writer, size_t bytes)
{
	int fd = nocancel_open(writer->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	struct stat st;
	int r = -ESTALE;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && st.st_dev == writer->device && st.st_ino == writer->inode)
		r = grow_from(writer, fd, bytes);
	nocancel_close(fd);
	return r;
}

/* Returns true if ERROR means that the file is no longer accessible: it was removed, or the process
 * dropped its rights. Then later records go to anonymous memory after the file's mapping. */
static bool lost_file(int error)
{
	return error == -ENOENT || error == -ESTALE || error == -EACCES || error == -EPERM ||
	       error == -EROFS;
}

static int grow_file_or_memory(struct ledger_writer *writer, size_t bytes)
{
	int r = writer->memory_only ? 0 : grow_file(writer, bytes);

	if (!writer->memory_only && lost_file(r)) {
		writer->memory_only = true;
		ledger_trouble(writer->header, LEDGER_TROUBLE_MEMORY_ONLY, 1);
	}
	return writer->memory_only ? map_more(writer, -1, bytes) : r;
}

/* Returns how many chunks grow() should add to a ledger that has BYTES. */
static size_t chunks_to_add(size_t bytes)
{
	size_t ret = bytes / LEDGER_CHUNK / 4;

	if (ret < GROW_CHUNKS_MIN)
		ret = GROW_CHUNKS_MIN;
	if (ret > GROW_CHUNKS_MAX)
		ret = GROW_CHUNKS_MAX;
	if (bytes >= SMALL_LEDGER && bytes < HUGE_PAGE)
		ret = (HUGE_PAGE - bytes) / LEDGER_CHUNK;
	return ret;
}

/* BYTES is the size that the ledger had before it grew. Each aligned 2 MiB that it fills since then
 * can become a huge page. Requests that from the kernel, which may refuse. The kernel copies the
 * bytes, so each huge page takes about a millisecond. */
static void collapse_from(struct ledger_writer *writer, size_t bytes)
{
	size_t from = bytes - bytes % HUGE_PAGE;
	size_t to = writer->mapped_bytes - writer->mapped_bytes % HUGE_PAGE;

	if (to > from)
		madvise(writer->base + from, to - from, MADV_COLLAPSE);
}

static int grow(struct ledger_writer *writer)
{
	const size_t before = writer->mapped_bytes;
	int r = -ENOMEM;

	for (size_t more = chunks_to_add(before); more; more /= 2) {
		if (writer->mapped_bytes + more * LEDGER_CHUNK > writer->reserved_bytes) {
			r = -ENOMEM;
			continue;
		}
		r = grow_file_or_memory(writer, more * LEDGER_CHUNK);
		if (r == 0) {
			collapse_from(writer, before);
			return 0;
		}
	}
	return r;
}

/* Locking: the caller holds WRITER's lock. Adds a chunk of TYPE and makes it the open one. Returns
 * NULL if the ledger cannot grow. */
static struct ledger_chunk *add_chunk(struct ledger_writer *writer, enum ledger_chunk_type type)
{
	uint32_t number = writer->header->chunks;
	struct ledger_chunk *chunk;

	if (number >= LEDGER_CHUNKS_MAX)
		return NULL;
	if ((size_t)(number + 1) * LEDGER_CHUNK > writer->mapped_bytes && grow(writer) < 0)
		return NULL;
	chunk = (struct ledger_chunk *)(writer->base + (size_t)number * LEDGER_CHUNK);
	chunk->type = type;
	chunk->used = sizeof(*chunk);
	shared_publish(writer->header->chunks, number + 1);
	writer->open[type] = chunk;
	return chunk;
}

/* Locking: the caller holds WRITER's lock. Returns BYTES of unpublished room in the open chunk of
 * TYPE, or NULL if the ledger cannot grow. */
static void *room(struct ledger_writer *writer, enum ledger_chunk_type type, size_t bytes)
{
	struct ledger_chunk *chunk = writer->open[type];

	if (!chunk || chunk->used + bytes > LEDGER_CHUNK)
		chunk = add_chunk(writer, type);
	return chunk ? (uint8_t *)chunk + chunk->used : NULL;
}

static uint32_t publish(struct ledger_writer *writer, enum ledger_chunk_type type, void *record,
			size_t bytes)
{
	struct ledger_chunk *chunk = writer->open[type];

	shared_publish(chunk->used, chunk->used + (uint32_t)bytes);
	return ledger_ref(writer, record);
}

/* Adds a record that consists of HEAD and TAIL, and of zeros up to a multiple of 8 bytes. A part
 * that is NULL is zeros, because unused room is. */
static uint32_t add_two(struct ledger_writer *writer, enum ledger_chunk_type type,
			const void *head, size_t head_bytes, const void *tail, size_t tail_bytes)
{
	const size_t size = (head_bytes + tail_bytes + 7) & ~(size_t)7;
	uint32_t ref = 0;
	uint8_t *at;

	lock_take(&writer->lock);
	at = room(writer, type, size);
	if (at) {
		if (head)
			memcpy(at, head, head_bytes);
		if (tail)
			memcpy(at + head_bytes, tail, tail_bytes);
		ref = publish(writer, type, at, size);
	}
	lock_give(&writer->lock);
	return ref;
}

uint32_t ledger_add(struct ledger_writer *writer, enum ledger_chunk_type type, const void *record,
		    size_t size)
{
	return add_two(writer, type, record, size, NULL, 0);
}

/* Locking: the caller holds WRITER's lock. Adds a chunk of call sites of TYPE, and before it the
 * chunks of their balances. */
static struct ledger_chunk *add_site_chunks(struct ledger_writer *writer,
					    enum ledger_chunk_type type)
{
	return add_chunk(writer, LEDGER_CHUNK_OTHERS_BALANCES) &&
			       add_chunk(writer, LEDGER_CHUNK_BALANCES)
		       ? add_chunk(writer, type)
		       : NULL;
}

/* Copies BALANCE to the record of CHUNK that has the same index as the next one of SITES. */
static void add_balance(struct ledger_chunk *chunk, const struct ledger_chunk *sites,
			const struct ledger_balance *balance)
{
	memcpy((uint8_t *)chunk + sites->used, balance, sizeof(*balance));
	shared_publish(chunk->used, sites->used + (uint32_t)sizeof(*balance));
}

static uint32_t add_site(struct ledger_writer *writer, enum ledger_chunk_type type,
			 const struct ledger_site *site, const struct ledger_balance *balance)
{
	struct ledger_chunk *chunk;
	uint32_t ref = 0;
	void *at;

	lock_take(&writer->lock);
	chunk = writer->open[type];
	if (!chunk || chunk->used + sizeof(*site) > LEDGER_CHUNK)
		chunk = add_site_chunks(writer, type);
	if (chunk) {
		add_balance((void *)((uint8_t *)chunk - LEDGER_CHUNK), chunk, balance);
		add_balance((void *)((uint8_t *)chunk - 2 * LEDGER_CHUNK), chunk, balance);
		at = (uint8_t *)chunk + chunk->used;
		memcpy(at, site, sizeof(*site));
		ref = publish(writer, type, at, sizeof(*site));
	}
	lock_give(&writer->lock);
	return ref;
}

uint32_t ledger_add_site(struct ledger_writer *writer, const struct ledger_site *site,
			 const struct ledger_balance *balance)
{
	return add_site(writer, LEDGER_CHUNK_SITES, site, balance);
}

uint32_t ledger_add_suballocation_site(struct ledger_writer *writer, const struct ledger_site *site,
				       const struct ledger_balance *balance)
{
	return add_site(writer, LEDGER_CHUNK_SUBALLOCATION_SITES, site, balance);
}

uint32_t ledger_add_string(struct ledger_writer *writer, const char *bytes, size_t length)
{
	struct ledger_string string = { .length = (uint32_t)length };

	if (length > LEDGER_STRING_MAX)
		string.length = LEDGER_STRING_MAX;
	return add_two(writer, LEDGER_CHUNK_STRINGS, &string, sizeof(string), bytes, string.length);
}

uint32_t ledger_add_stack(struct ledger_writer *writer, const struct ledger_stack *stack,
			  const uint64_t *words)
{
	size_t count = stack->frames;

	if (stack->flags & LEDGER_STACK_LOOPS)
		count += LEDGER_STACK_LOOP_WORDS(count);
	return add_two(writer, LEDGER_CHUNK_STACKS, stack, sizeof(*stack), words,
		       count * sizeof(*words));
}

uint32_t ledger_add_python(struct ledger_writer *writer, const struct ledger_python *python,
			   const struct ledger_python_frame *frames)
{
	return add_two(writer, LEDGER_CHUNK_PYTHON, python, sizeof(*python), frames,
		       python->frames * sizeof(*frames));
}

static unsigned int add_slots(struct ledger_writer *writer, enum ledger_chunk_type type,
			      unsigned int count, struct ledger_block **ret_first)
{
	struct ledger_chunk *chunk;
	unsigned int left;

	lock_take(&writer->lock);
	chunk = writer->open[type];
	if (!chunk || chunk->used == LEDGER_CHUNK)
		chunk = add_chunk(writer, type);
	if (!chunk) {
		lock_give(&writer->lock);
		return 0;
	}
	left = (unsigned int)((LEDGER_CHUNK - chunk->used) / sizeof(struct ledger_block));
	if (count > left)
		count = left;
	*ret_first = (struct ledger_block *)((uint8_t *)chunk + chunk->used);
	shared_publish(chunk->used, chunk->used + count * (uint32_t)sizeof(struct ledger_block));
	lock_give(&writer->lock);
	return count;
}

unsigned int ledger_add_blocks(struct ledger_writer *writer, unsigned int count,
			       struct ledger_block **ret_first)
{
	return add_slots(writer, LEDGER_CHUNK_BLOCKS, count, ret_first);
}

unsigned int ledger_add_suballocations(struct ledger_writer *writer, unsigned int count,
				       struct ledger_block **ret_first)
{
	return add_slots(writer, LEDGER_CHUNK_SUBALLOCATIONS, count, ret_first);
}

/* Returns the most chunks that a trace's ring may have: half of what the address space, the file
 * system and RLIMIT_FSIZE leave for the ledger. The other half is for records. */
static uint64_t ring_most(const struct ledger_writer *writer)
{
	uint64_t bytes = writer->reserved_bytes - writer->mapped_bytes;
	struct rlimit limit;
	struct statvfs disk;

	if (!writer->memory_only && statvfs(writer->path, &disk) == 0 &&
	    (uint64_t)disk.f_bavail * disk.f_frsize < bytes)
		bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
		bytes = limit.rlim_cur;
	return bytes / 2 / LEDGER_CHUNK;
}

uint32_t ledger_add_ring(struct ledger_writer *writer, uint32_t count, uint32_t *ret_count)
{
	const uint64_t most = ring_most(writer);
	struct ledger_chunk *chunk;
	uint32_t first, added = 0;

	lock_take(&writer->lock);
	first = writer->header->chunks;
	while (added < count && added < most &&
	       (chunk = add_chunk(writer, LEDGER_CHUNK_TRACE))) {
		shared_publish(chunk->used, LEDGER_CHUNK);
		added++;
	}
	lock_give(&writer->lock);
	*ret_count = added;
	return added ? first : 0;
}

/* Removes every second record after the first HEAD bytes and doubles the sample interval, so that a
 * full chunk has room again. */
static void thin(struct ledger_timeline *timeline, struct ledger_chunk *chunk, size_t head,
		 size_t size)
{
	uint8_t *records = (uint8_t *)(chunk + 1) + head;
	size_t count = (chunk->used - sizeof(*chunk) - head) / size, kept = 0;

	for (size_t i = 0; i < count; i += 2, kept++)
		memmove(records + kept * size, records + i * size, size);
	shared_publish(chunk->used, (uint32_t)(sizeof(*chunk) + head + kept * size));
	timeline->every_ns *= 2;
}

static struct ledger_chunk *timeline_chunk(struct ledger_writer *writer,
					   const struct ledger_timeline *timeline)
{
	struct ledger_chunk *chunk;

	lock_take(&writer->lock);
	chunk = writer->open[timeline->type];
	if (!chunk)
		chunk = add_chunk(writer, timeline->type);
	lock_give(&writer->lock);
	return chunk;
}

/* Locking: the caller holds TIMELINE's lock. */
static void add_thinned(struct ledger_writer *writer, struct ledger_timeline *timeline,
			struct ledger_chunk *chunk, const void *record, size_t head, size_t size)
{
	uint8_t *at;

	if (chunk->used + size > LEDGER_CHUNK)
		thin(timeline, chunk, head, size);
	at = (uint8_t *)chunk + chunk->used;
	memcpy(at, record, size);
	publish(writer, timeline->type, at, size);
}

void ledger_add_sample(struct ledger_writer *writer, struct ledger_timeline *timeline,
		       uint64_t time_ns, uint64_t bytes)
{
	struct ledger_sample sample = { time_ns, bytes };
	struct ledger_chunk *chunk;

	if (time_ns < atomic_load_explicit(&timeline->due_ns, memory_order_relaxed) ||
	    !lock_try(&timeline->lock))
		return;
	if (!timeline->every_ns) {
		timeline->every_ns = LEDGER_SAMPLE_EVERY_NS_MIN;
		if (!timeline->type)
			timeline->type = LEDGER_CHUNK_TIMELINE;
	}
	chunk = timeline_chunk(writer, timeline);
	if (chunk) {
		add_thinned(writer, timeline, chunk, &sample, 0, sizeof(sample));
		atomic_store_explicit(&timeline->due_ns, time_ns + timeline->every_ns,
				      memory_order_relaxed);
	}
	lock_give(&timeline->lock);
}

struct ledger_parts *ledger_columns(struct ledger_writer *writer, struct ledger_timeline *timeline)
{
	static const struct ledger_parts none;
	struct ledger_chunk *chunk = timeline_chunk(writer, timeline);

	if (chunk && chunk->used == sizeof(*chunk))
		add_thinned(writer, timeline, chunk, &none, 0, sizeof(none));
	return chunk ? (struct ledger_parts *)(chunk + 1) : NULL;
}

void ledger_add_moment(struct ledger_writer *writer, struct ledger_timeline *timeline,
		       const struct ledger_moment *moment)
{
	struct ledger_chunk *chunk = timeline_chunk(writer, timeline);

	if (chunk)
		add_thinned(writer, timeline, chunk, moment, sizeof(struct ledger_parts),
			    sizeof(*moment));
}

static void write_header(struct ledger_writer *writer, const struct ledger_header *identity)
{
	struct ledger_header *header = writer->header;

	*header = *identity;
	memcpy(header->magic, LEDGER_MAGIC, sizeof(header->magic));
	header->version = LEDGER_VERSION;
	header->reader_min = LEDGER_READER_MIN;
	header->byte_order = LEDGER_BYTE_ORDER;
	header->chunk_bytes = LEDGER_CHUNK;
	header->header_bytes = sizeof(*header);
	header->chunks = 1;
}

/* Renames the complete file UNNAMED to PATH. Returns -EEXIST if PATH exists, because the ledger
 * must not replace another file. */
static int name_file(const char *unnamed, const char *path)
{
	int r = link(unnamed, path) < 0 ? -errno : 0;

	if (r == -EPERM || r == -EOPNOTSUPP) { /* the file system has no hard links */
		if (access(path, F_OK) == 0)
			r = -EEXIST;
		else
			return rename(unnamed, path) < 0 ? -errno : 0;
	}
	unlink(unnamed);
	return r;
}

static int create_file(struct ledger_writer *writer, const char *path,
		       const struct ledger_header *identity)
{
	size_t length = strlen(path);
	static const char suffix[] = ".gpuleak-new"; /* no other program uses this suffix */
	char unnamed[PATH_MAX];
	struct stat st;
	int fd, r;

	if (length + sizeof(suffix) > sizeof(unnamed))
		return -ENAMETOOLONG;
	memcpy(unnamed, path, length);
	memcpy(unnamed + length, suffix, sizeof(suffix));
	/* left by an earlier process with this pid that was killed before it renamed the file */
	unlink(unnamed);
	fd = nocancel_open(unnamed, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = fstat(fd, &st) < 0 ? -errno : grow_from(writer, fd, GROW_CHUNKS_MIN * LEDGER_CHUNK);
	nocancel_close(fd);
	if (r < 0) {
		unlink(unnamed);
		return r;
	}
	writer->device = st.st_dev;
	writer->inode = st.st_ino;
	memcpy(writer->path, path, length + 1);
	write_header(writer, identity);
	return name_file(unnamed, path);
}

int ledger_writer_create(struct ledger_writer *writer, const char *path,
			 const struct ledger_header *identity)
{
	int r;

	memset(writer, 0, sizeof(*writer));
	r = reserve(writer);
	if (r < 0)
		return r;
	writer->header = (struct ledger_header *)writer->base;
	if (path) {
		r = create_file(writer, path, identity);
	} else {
		writer->memory_only = true;
		r = map_more(writer, -1, GROW_CHUNKS_MIN * LEDGER_CHUNK);
		if (r == 0)
			write_header(writer, identity);
	}
	if (r < 0)
		munmap(writer->base, writer->reserved_bytes);
	return r;
}
