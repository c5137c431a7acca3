/* SPDX-License-Identifier: MIT
 *
 * Reads ledgers into private memory with pread(), because a mapping would raise SIGBUS if the
 * file is truncated. If the writer may be running, reads the ledger twice to find complete
 * blocks. Must not print or decide the gate.
 */
#include "report/load/load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/util/memory.h"
#include "ledger/process_stat.h"

/* Reads up to SIZE bytes from offset FROM. Returns their number, or -errno. */
static ssize_t read_at(int fd, uint8_t *bytes, size_t size, off_t from)
{
	size_t done = 0;

	while (done < size) {
		ssize_t r = pread(fd, bytes + done, size - done, from + (off_t)done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

static bool has_magic(const struct ledger_header *header)
{
	return memcmp(header->magic, LEDGER_MAGIC, sizeof(header->magic)) == 0;
}

/* Returns how many of the FILE_BYTES bytes the writer has published, according to the header. */
static uint64_t published(const struct ledger_header *header, uint64_t file_bytes)
{
	uint64_t bytes = (uint64_t)header->chunks * LEDGER_CHUNK;

	return bytes < file_bytes ? bytes : file_bytes;
}

/* A ledger that is being loaded, and where the reason of a failure goes. */
struct loading {
	struct loaded_ledger ledger;
	char *error;
	size_t error_size;
};

static int fail(const struct loading *load, int code, const char *what)
{
	snprintf(load->error, load->error_size, "%s: %s", load->ledger.name, what);
	return code;
}

static int fail_errno(const struct loading *load, int code, const char *doing)
{
	snprintf(load->error, load->error_size, "%s: cannot %s: %s", load->ledger.name, doing,
		 strerror(-code));
	return code;
}

static int check_size(const struct loading *load, uint64_t bytes)
{
	if (bytes <= LOAD_BYTES_MAX)
		return 0;
	return fail(load, -EFBIG, "is no ledger, because it is larger than 4 GiB");
}

/* Creates the view of the ledger's bytes. If they are not a ledger, writes the reason. */
static int view_bytes(struct loading *load, size_t size)
{
	enum ledger_why why = ledger_view(load->ledger.bytes, size, &load->ledger.view);

	if (why == LEDGER_OK)
		return 0;
	snprintf(load->error, load->error_size, "%s: %s%s", load->ledger.name, ledger_why(why),
		 why == LEDGER_FOREIGN ? "; give a file that GPULEAK_LEDGER or `gpuleak run` made"
		 : why == LEDGER_NEWER ? "; install the gpuleak that wrote it"
		 : why == LEDGER_ORDER ? "; report on a machine like the one that wrote it"
				       : "; record it again");
	return -EBADMSG;
}

static struct ledger_chunk *chunk_at(struct loaded_ledger *ledger, uint32_t number)
{
	return (struct ledger_chunk *)(ledger->bytes + (size_t)number * LEDGER_CHUNK);
}

static bool is_used(uint32_t state)
{
	return state == LEDGER_BLOCK_LIVE || state == LEDGER_BLOCK_FREEING ||
	       state == LEDGER_BLOCK_RELEASED;
}

static bool settled(uint32_t first, uint32_t second)
{
	uint32_t state = LEDGER_BLOCK_STATE(second);

	/* The slot was live with the same use count in both reads, so its fields did not change
	 * meanwhile. */
	return first >> 8 == second >> 8 && is_used(state);
}

/* How the chunks of a type are settled: SETTLE keeps those records of the first read that the
 * second read proves complete. For types without a settler, the second read is used. */
struct settler {
	uint32_t type;
	void (*settle)(const struct settler *settler, struct loaded_ledger *ledger,
		       struct ledger_chunk *chunk, const struct ledger_chunk *again);
	/* for settle_numbers(): each record has COUNT numbers from FIRST on, STEP bytes apart */
	size_t record_bytes, first, count, step;
};

/* Removes the blocks of CHUNK that changed between the first read and AGAIN, the chunk's second
 * read. */
static void settle_blocks(const struct settler *settler, struct loaded_ledger *ledger,
			  struct ledger_chunk *chunk, const struct ledger_chunk *again)
{
	struct ledger_block *block = (struct ledger_block *)(chunk + 1);
	const struct ledger_block *second = (const struct ledger_block *)(again + 1);
	struct ledger_block *end = (struct ledger_block *)((uint8_t *)chunk + LEDGER_CHUNK);

	(void)settler;
	for (; block < end; block++, second++) {
		uint32_t state = LEDGER_BLOCK_STATE(block->state);

		if (!is_used(state))
			continue;
		if (!settled(block->state, second->state)) {
			block->state = LEDGER_BLOCK_UNUSED;
			ledger->unsettled++;
		}
	}
}

/* Sets the number of an event or of a step to 0 (unused) if it changed between the two reads of the
 * ledger. The writer changed the record then, and the copy may be inconsistent. */
static void settle_numbers(const struct settler *settler, struct loaded_ledger *ledger,
			   struct ledger_chunk *chunk, const struct ledger_chunk *again)
{
	size_t records = (LEDGER_CHUNK - sizeof(*chunk)) / settler->record_bytes;

	(void)ledger;
	for (size_t i = 0; i < records * settler->count; i++) {
		size_t at = sizeof(*chunk) + i / settler->count * settler->record_bytes +
			    settler->first + i % settler->count * settler->step;

		if (memcmp((uint8_t *)chunk + at, (const uint8_t *)again + at, sizeof(uint32_t)))
			memset((uint8_t *)chunk + at, 0, sizeof(uint32_t));
	}
}

static void settle_out_of_memory(const struct settler *settler, struct loaded_ledger *ledger,
				 struct ledger_chunk *chunk, const struct ledger_chunk *again)
{
	struct ledger_out_of_memory *record = (struct ledger_out_of_memory *)(chunk + 1);
	const struct ledger_out_of_memory *second =
		(const struct ledger_out_of_memory *)(again + 1);

	(void)settler;
	(void)ledger;
	if (LEDGER_REFUSAL_NUMBER(record->state) != LEDGER_REFUSAL_NUMBER(second->state) ||
	    record->time_ns != second->time_ns)
		record->state = 0;
}

static const struct settler settlers[] = {
	{ LEDGER_CHUNK_BLOCKS, settle_blocks },
	{ LEDGER_CHUNK_SUBALLOCATIONS, settle_blocks },
	{ LEDGER_CHUNK_OUT_OF_MEMORY, settle_out_of_memory },
	{ LEDGER_CHUNK_STEPS, settle_numbers, sizeof(struct ledger_step),
	  offsetof(struct ledger_step, number), 1 },
	{ LEDGER_CHUNK_HISTORIES, settle_numbers, sizeof(struct ledger_history),
	  offsetof(struct ledger_history, events[0].order), LEDGER_HISTORY_EVENTS,
	  sizeof(struct ledger_reference) },
	{ LEDGER_CHUNK_GROWTH, settle_numbers, sizeof(struct ledger_growth),
	  offsetof(struct ledger_growth, at[0].step), LEDGER_GROWTH_STEPS,
	  sizeof(struct ledger_growth_at) },
};

/* Returns the settler of TYPE, or NULL. */
static const struct settler *settler_of(uint32_t type)
{
	for (size_t i = 0; i < sizeof(settlers) / sizeof(settlers[0]); i++)
		if (settlers[i].type == type)
			return &settlers[i];
	return NULL;
}

/* Reads CHUNKS chunks again, and settles them. The second read is newer than every block of the
 * first, so it has all records to which blocks refer. */
static int read_again(struct loaded_ledger *ledger, int fd, uint32_t first_chunks, uint32_t chunks)
{
	uint8_t *again = malloc(LEDGER_CHUNK);
	int r = 0;

	for (uint32_t i = 1; i < chunks && r == 0; i++) {
		struct ledger_chunk *chunk = chunk_at(ledger, i);
		const struct settler *settler = settler_of(chunk->type);
		ssize_t got = read_at(fd, again, LEDGER_CHUNK, (off_t)i * LEDGER_CHUNK);

		if (got < (ssize_t)LEDGER_CHUNK) {
			r = got < 0 ? (int)got : -ENODATA;
		} else if (!settler_of(((struct ledger_chunk *)again)->type)) {
			memcpy(chunk, again, LEDGER_CHUNK);
		} else if (i < first_chunks && settler) {
			settler->settle(settler, ledger, chunk, (struct ledger_chunk *)again);
		} else { /* read only once, so not proven complete */
			memset(chunk, 0, LEDGER_CHUNK);
			*chunk = (struct ledger_chunk){
				.type = ((struct ledger_chunk *)again)->type,
				.used = sizeof(*chunk),
			};
		}
	}
	free(again);
	return r;
}

/* Reads a ledger a second time. The caller does so if the process had not ended when the first read
 * began: what it wrote in the meantime may be in the bytes only in part. */
static int settle(struct loaded_ledger *ledger, int fd, size_t *size)
{
	struct ledger_header header;
	uint32_t first_chunks = (uint32_t)(*size / LEDGER_CHUNK), chunks;
	struct stat st;
	ssize_t r = read_at(fd, (uint8_t *)&header, sizeof(header), 0);

	if (r < 0 || fstat(fd, &st) < 0)
		return r < 0 ? (int)r : -errno;
	if (r < (ssize_t)sizeof(header) || !has_magic(&header))
		return -ENODATA;
	if (st.st_size < 0 || (uint64_t)st.st_size > LOAD_BYTES_MAX)
		return -EFBIG;
	chunks = (uint32_t)(published(&header, (uint64_t)st.st_size) / LEDGER_CHUNK);
	if (chunks < first_chunks)
		return -ENODATA;
	if (chunks > first_chunks) {
		ledger->bytes = realloc(ledger->bytes, (size_t)chunks * LEDGER_CHUNK);
		memset(ledger->bytes + *size, 0, (size_t)chunks * LEDGER_CHUNK - *size);
		*size = (size_t)chunks * LEDGER_CHUNK;
	}
	if (*size >= sizeof(header))
		memcpy(ledger->bytes, &header, sizeof(header));
	return read_again(ledger, fd, first_chunks, chunks);
}

static int read_file(int fd, uint64_t file_bytes, struct loaded_ledger *ret, size_t *ret_size)
{
	struct ledger_header header = { 0 };
	ssize_t r = read_at(fd, (uint8_t *)&header, sizeof(header), 0);
	size_t size;

	if (r < 0)
		return (int)r;
	/* Check the header before reading the rest of the file. */
	size = (size_t)r;
	if (r == (ssize_t)sizeof(header) && has_magic(&header))
		size = (size_t)published(&header, file_bytes);
	if (size < sizeof(header))
		size = (size_t)r;
	ret->bytes = malloc(size ? size : 1);
	r = read_at(fd, ret->bytes, size, 0);
	if (r < 0)
		return (int)r;
	*ret_size = (size_t)r;
	return 0;
}

static int load_file(int fd, struct loading *load)
{
	struct loaded_ledger *ledger = &load->ledger;
	struct stat st;
	size_t size = 0;
	int r;

	if (fstat(fd, &st) < 0)
		return fail_errno(load, -errno, "read it");
	if (S_ISDIR(st.st_mode))
		return fail(load, -EISDIR, "is a directory: name a ledger in it");
	if (!S_ISREG(st.st_mode))
		return fail(load, -EINVAL,
			    "is not a regular file: give a ledger, or - for standard input");
	r = check_size(load, (uint64_t)st.st_size);
	if (r < 0)
		return r;
	ledger->owner = st.st_uid;
	r = read_file(fd, (uint64_t)st.st_size, ledger, &size);
	if (r < 0)
		return fail_errno(load, r, "read it");
	r = view_bytes(load, size);
	if (r < 0 || ledger_header(&ledger->view)->ended != LEDGER_RUNNING || ledger->view.cut)
		return r;
	r = settle(ledger, fd, &size);
	if (r < 0)
		return fail_errno(load, r,
				  "read it a second time (was it cut short just now?); try again");
	return view_bytes(load, size);
}

static int load_stream(int fd, struct loading *load)
{
	void *bytes = NULL;
	size_t size;
	int r = read_to_end(fd, LOAD_BYTES_MAX, &bytes, &size);

	load->ledger.bytes = bytes;
	if (r < 0)
		return fail_errno(load, r, "read it");
	r = check_size(load, size);
	return r < 0 ? r : view_bytes(load, size);
}

/* Begins a load of the ledger NAME. */
static struct loading begin_load(const char *name, char *error, size_t error_size)
{
	return (struct loading){
		.ledger = { .name = strdup(name), .owner = geteuid() },
		.error = error,
		.error_size = error_size,
	};
}

/* Ends a load: stores the ledger in *RET if R is 0, else releases it. Returns R. */
static int finish_load(struct loading *load, int r, struct loaded_ledger *ret)
{
	if (r < 0)
		loaded_ledger_finish(&load->ledger);
	else
		*ret = load->ledger;
	return r;
}

/* Loads the file at PATH. */
static int load_path(const char *path, struct loading *load)
{
	/* O_NONBLOCK: do not wait for the writer of a FIFO with this name. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r = fd < 0 ? fail_errno(load, -errno, "open it") : load_file(fd, load);

	if (fd >= 0)
		close(fd);
	return r;
}

int loaded_ledger_open(const char *path, struct loaded_ledger *ret, char *error, size_t error_size)
{
	bool is_stream = strcmp(path, "-") == 0;
	struct loading load = begin_load(is_stream ? "standard input" : path, error, error_size);

	return finish_load(&load, is_stream ? load_stream(STDIN_FILENO, &load)
					    : load_path(path, &load), ret);
}

int loaded_ledger_read(int fd, const char *name, struct loaded_ledger *ret, char *error,
		       size_t error_size)
{
	struct loading load = begin_load(name, error, error_size);

	return finish_load(&load, load_file(fd, &load), ret);
}

int loaded_ledger_copy(const void *bytes, size_t size, const char *name, struct loaded_ledger *ret,
		       char *error, size_t error_size)
{
	struct loading load = begin_load(name, error, error_size);

	load.ledger.bytes = malloc(size ? size : 1);
	if (size)
		memcpy(load.ledger.bytes, bytes, size);
	return finish_load(&load, view_bytes(&load, size), ret);
}

void loaded_ledger_finish(struct loaded_ledger *ledger)
{
	free(ledger->bytes);
	free(ledger->name);
	memset(ledger, 0, sizeof(*ledger));
}

/* ---- the process ---- */

bool is_this_host(const char *host)
{
	char here[HOST_NAME_MAX + 1] = "";

	return !host || (gethostname(here, sizeof(here) - 1) == 0 && strcmp(here, host) == 0);
}

/* The kernel reuses a pid, but the pid and the start time together are unique. */
bool process_alive(int pid, uint64_t start_ticks, const char *host)
{
	struct process_stat stat;

	if (pid <= 0 || !is_this_host(host) || process_stat_read(pid, &stat) < 0)
		return false;
	return stat.state != 'Z' && stat.state != 'X' && stat.start_ticks == start_ticks;
}
