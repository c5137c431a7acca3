/* SPDX-License-Identifier: MIT
 *
 * Finds ledger files. Does not trust names: a directory must belong to the user, and the pid of
 * a ledger comes from its header.
 */
#include "tools/ledgers/ledgers.h"

#include <ctype.h>
#include <dirent.h>

#include "ledger/directory.h"
#include "ledger/format.h"
#include "tools/launch/system.h"
#include "tools/ledgers/rundir.h"

const char *ledger_variable(const char *name)
{
	return getenv(name);
}

/* Returns true if AT, the text after ".gpuleak", is "" or ".N". */
static bool is_suffix(const char *at)
{
	if (*at == '\0')
		return true;
	if (*at++ != '.' || !*at)
		return false;
	return at[strspn(at, "0123456789")] == '\0';
}

bool ledger_is_name(const char *name)
{
	static const char mark[] = ".gpuleak";
	const char *at = name;

	while ((at = strstr(at, mark)) != NULL) {
		at += sizeof(mark) - 1;
		if (is_suffix(at))
			return true;
	}
	return false;
}

bool ledger_parse_name(const char *name, int *ret_pid, unsigned long long *ret_ticks)
{
	unsigned long long ticks = 0;
	long pid;
	char *end;

	if (!isdigit((unsigned char)*name) || !ledger_is_name(name))
		return false;
	errno = 0;
	pid = strtol(name, &end, 10);
	if (*end == '-' && isdigit((unsigned char)end[1]))
		ticks = strtoull(end + 1, &end, 10);
	if (errno || pid <= 0 || pid > INT_MAX || strncmp(end, ".gpuleak", 8) != 0 ||
	    !is_suffix(end + 8))
		return false;
	*ret_pid = (int)pid;
	*ret_ticks = ticks;
	return true;
}

int ledgers_pid(const char *word)
{
	long pid;

	if (!*word || word[strspn(word, "0123456789")])
		return 0;
	errno = 0;
	pid = strtol(word, NULL, 10);
	return errno || pid > INT_MAX || pid == 0 ? INT_MAX : (int)pid;
}

/* Reads the header of NAME in DIRECTORY, or what there is of it. Returns the number of bytes, or
 * -errno. */
static ssize_t read_header(int directory, const char *name, struct ledger_header *ret)
{
	AT_END(close_descriptor) int fd =
		openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = pread(fd, ret, sizeof(*ret), 0);
	return n < 0 ? -EIO : n;
}

static bool has_magic(const struct ledger_header *header, ssize_t bytes)
{
	return bytes >= (ssize_t)sizeof(header->magic) &&
	       memcmp(header->magic, LEDGER_MAGIC, sizeof(header->magic)) == 0;
}

void ledger_peek(int directory, const char *name, struct ledger_file *file)
{
	struct ledger_header header;
	ssize_t n = read_header(directory, name, &header);

	if (n == (ssize_t)sizeof(header) && has_magic(&header, n) &&
	    header.byte_order == LEDGER_BYTE_ORDER) {
		file->pid = header.pid;
		file->start_ticks = header.start_ticks;
		file->start_real_ns = header.start_real_ns;
		file->ended = header.ended;
	}
}

static void add_owned(struct ledger_list *list, char *path)
{
	struct ledger_file *file = LIST_ADD(list->files, list->count);

	*file = (struct ledger_file){ .path = path };
	if (strcmp(path, "-") != 0)
		ledger_peek(AT_FDCWD, path, file);
}

void ledgers_add(struct ledger_list *list, const char *path)
{
	add_owned(list, strdup(path));
}

/* Returns true if the file at PATH begins as a ledger does, or if that cannot be found out. */
static bool may_be_ledger(const char *path)
{
	struct ledger_header header;
	ssize_t n = read_header(AT_FDCWD, path, &header);

	return n < 0 ? n != -ENOENT : has_magic(&header, n);
}

/* Returns true if the file NAME at PATH is a ledger. Counts other regular files in *RET_OTHERS. */
static bool is_ledger(const char *path, const char *name, size_t *ret_others)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	/* A damaged ledger is an error, so the name counts, too. */
	if (ledger_is_name(name) || may_be_ledger(path))
		return true;
	++*ret_others;
	return false;
}

/* Returns true if NAME is that of a ledger of process PID (0: of any). */
static bool is_named_for(const char *name, int pid)
{
	unsigned long long ticks;
	int its;

	if (pid == 0)
		return ledger_is_name(name);
	return ledger_parse_name(name, &its, &ticks) && its == pid;
}

/* Adds the ledgers in DIRECTORY: those with the name of one of process PID (0: of any process). If
 * RET_OTHERS is not NULL, all that begin as a ledger does: see ledgers_search_directory(). */
static int add_from(struct ledger_list *list, const char *directory, int pid, size_t *ret_others)
{
	struct dirent **names;
	int n = scandir(directory, &names, NULL, versionsort);

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		char *path = text_format("%s/%s", directory, name);

		if (ret_others ? is_ledger(path, name, ret_others) : is_named_for(name, pid))
			add_owned(list, path);
		else
			free(path);
		free(names[i]);
	}
	free(names);
	return 0;
}

int ledgers_add_directory(struct ledger_list *list, const char *directory)
{
	return add_from(list, directory, 0, NULL);
}

int ledgers_search_directory(struct ledger_list *list, const char *directory, size_t *ret_others)
{
	*ret_others = 0;
	return add_from(list, directory, 0, ret_others);
}

/* Adds the ledgers of process PID (0: of all) in PLACE and in its subdirectories "run-*". */
static void add_from_place(struct ledger_list *list, const char *place, int pid)
{
	AT_END(close_folder) DIR *dir =
		add_from(list, place, pid, NULL) < 0 ? NULL : opendir(place);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s/%s", place, entry->d_name);

		if (strncmp(entry->d_name, "run-", 4) != 0 || n < 0 || (size_t)n >= sizeof(path))
			continue;
		if (place_check(path) == 0)
			add_from(list, path, pid, NULL); /* may be removed meanwhile */
	}
}

struct ledger_file *ledgers_latest(const struct ledger_list *list, size_t from)
{
	struct ledger_file *latest = NULL;

	for (size_t i = from; i < list->count; i++)
		if (!latest || list->files[i].start_real_ns >= latest->start_real_ns)
			latest = &list->files[i];
	return latest;
}

/* Returns true if the ledger NUMBER of LIST is another link to one from index FROM on: that of a
 * run in a run is in the directories of both. */
static bool is_link_to_another(const struct ledger_list *list, size_t from, size_t number)
{
	for (size_t i = from; i < number; i++)
		if (list->files[i].start_real_ns &&
		    list->files[i].start_real_ns == list->files[number].start_real_ns)
			return true;
	return false;
}

/* Removes from LIST, from index FROM on, all ledgers except those of the process that started last.
 * If PID now belongs to another process without a ledger here, removes all. */
static void keep_latest(struct ledger_list *list, size_t from, int pid)
{
	const struct ledger_file *latest = ledgers_latest(list, from);
	unsigned long long ticks;
	size_t kept = from;
	int another;

	if (!latest)
		return;
	ticks = latest->start_ticks;
	another = process_runs(pid, 0) && !process_runs(pid, ticks);
	if (another)
		list->earlier = strdup(latest->path);
	for (size_t i = from; i < list->count; i++) {
		list->files[kept] = list->files[i];
		if (!another && list->files[i].start_ticks == ticks &&
		    !is_link_to_another(list, from, kept))
			kept++;
		else
			free(list->files[i].path);
	}
	list->count = kept;
}

int ledgers_add_pid(struct ledger_list *list, int pid)
{
	size_t from = list->count;
	char place[PATH_MAX];

	free(list->earlier);
	list->earlier = NULL;
	for (int i = 0; i < PLACE_CANDIDATES; i++)
		if (place_candidate(i, ledger_variable, place, sizeof(place)) == 0 &&
		    place_check(place) == 0)
			add_from_place(list, place, pid);
	keep_latest(list, from, pid);
	list->is_run = list->count == from && rundir_of(pid, place, sizeof(place)) == 0;
	if (list->is_run)
		add_from(list, place, 0, NULL);
	return list->count > from ? 0 : -ENOENT;
}

static const char *why_none(int pid)
{
	static char text[300];
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st) < 0)
		return "there is no such process, and there is no ledger of it";
	if (st.st_uid != geteuid())
		return "is another user's process: only that user finds its ledger";
	snprintf(text, sizeof(text), "no ledger of this process is where gpuleak creates ledgers; "
		 "it made no GPU call yet, does not run under gpuleak (`gpuleak attach %d` records "
		 "it from now on), or has a GPULEAK_LEDGER of its own (then name that file)", pid);
	return text;
}

const char *ledgers_why_none(const struct ledger_list *list, int pid)
{
	static char text[PATH_MAX + 300];

	if (list->is_run)
		return "is `gpuleak run`, and no process of it made a GPU call so far";
	if (!list->earlier)
		return why_none(pid);
	snprintf(text, sizeof(text), "%s; an earlier process of this number left %s", why_none(pid),
		 list->earlier);
	return text;
}

void ledgers_finish(struct ledger_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->files[i].path);
	free(list->files);
	free(list->earlier);
	*list = (struct ledger_list){ 0 };
}
