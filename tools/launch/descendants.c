/* SPDX-License-Identifier: MIT
 *
 * This command is a subreaper, so each process that it started, directly or not, has a chain of
 * parents up to it. A process that was no descendant when it was first seen cannot become one, and
 * is not read again.
 */
#include "tools/launch/descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <time.h>

#include "ledger/process_stat.h"
#include "tools/launch/system.h"

#define INTERVAL_MS 100
#define COST_MAX 50 /* a look may take one part in so many of the time */

enum state {
	UNKNOWN,
	WITH_GPULEAK,
	WITHOUT,    /* has neither gpuleak nor a driver so far */
	WITH_DRIVER /* has a driver and not gpuleak */
};

struct process_seen {
	int pid, parent;
	uint64_t start_ticks, image;
	enum state state;
	bool is_ours; /* a descendant of this command */
	bool is_new;
	bool has_ended;
	bool had_gpuleak; /* the program before the last exec */
	bool counted;     /* in `looked` */
};

struct loaded { /* what a process has mapped */
	bool gpuleak;
	char driver[DESCENDANT_NAME_MAX];
};

static int by_pid(const void *a, const void *b)
{
	const struct process_seen *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct process_seen *find(struct process_seen *all, size_t count, int pid)
{
	const struct process_seen key = { .pid = pid };

	return all ? bsearch(&key, all, count, sizeof(*all), by_pid) : NULL;
}

static bool starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Reads the list of mapped files of PID. Returns 0, -errno, or -ESRCH if it has none, because it is
 * about to end. */
static int read_maps(int pid, struct loaded *ret)
{
	FREE_AT_END char *path = text_format("/proc/%d/maps", pid), *line = NULL;
	AT_END(close_file) FILE *maps = fopen(path, "re");
	size_t size = 0, lines = 0;

	*ret = (struct loaded){ 0 };
	if (!maps)
		return -errno;
	for (; getline(&line, &size, maps) > 0; lines++) {
		char *name = strrchr(line, '/');

		if (!name++)
			continue;
		name[strcspn(name, " \n")] = '\0';
		ret->gpuleak |= starts(name, "libgpuleak");
		if (starts(name, "libcuda.so") || starts(name, "libOpenCL.so"))
			snprintf(ret->driver, sizeof(ret->driver), "%s", name);
	}
	return lines ? 0 : -ESRCH;
}

static void read_name(int pid, char ret[DESCENDANT_NAME_MAX])
{
	char path[64], target[PATH_MAX];
	const char *slash;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	slash = strrchr(target, '/');
	snprintf(ret, DESCENDANT_NAME_MAX, "%s", slash ? slash + 1 : "a process");
}

static void describe(const struct process_seen *process, const struct loaded *loaded,
		     struct descendant *ret)
{
	ret->pid = process->pid;
	ret->start_ticks = process->start_ticks;
	read_name(process->pid, ret->name);
	memcpy(ret->driver, loaded->driver, sizeof(ret->driver));
}

static void add_found(struct descendants *d, const struct process_seen *process,
		      const struct loaded *loaded)
{
	describe(process, loaded, LIST_ADD(d->found, d->found_count));
}

/* Counts a program without gpuleak as looked at, or not any more. Programs that a program without
 * gpuleak has started do not count, because their number is not known. */
static void count(struct descendants *d, struct process_seen *process, bool looked)
{
	const struct process_seen *parent = find(d->seen, d->seen_count, process->parent);
	const bool started_by_ours = process->had_gpuleak || process->parent == getpid() ||
				     (parent && parent->state == WITH_GPULEAK);

	if (process->counted == looked || process->pid == d->deaf_pid ||
	    (looked && !started_by_ours))
		return;
	process->counted = looked;
	d->looked += looked ? 1 : -1;
}

static void inspect(struct descendants *d, struct process_seen *process)
{
	struct loaded loaded;

	if (process->has_ended || process->state == WITH_GPULEAK || process->state == WITH_DRIVER)
		return;
	if (process_is_our_file(process->pid)) {
		process->state = WITH_GPULEAK;
		return;
	}
	/* The loader maps gpuleak before a driver, but the list is not read in one moment. So what
	 * is reported was read twice. */
	if (read_maps(process->pid, &loaded) < 0 ||
	    (loaded.driver[0] && !loaded.gpuleak && read_maps(process->pid, &loaded) < 0))
		return;
	process->state = loaded.gpuleak     ? WITH_GPULEAK
			 : loaded.driver[0] ? WITH_DRIVER
					    : WITHOUT;
	count(d, process, process->state != WITH_GPULEAK);
	if (process->state == WITH_DRIVER)
		add_found(d, process, &loaded);
}

/* Reads the state of PID. BEFORE is that of the last look, or NULL. Returns false if PID has
 * ended. */
static bool read_process(int pid, const struct process_seen *before, struct process_seen *ret)
{
	struct process_stat stat;

	if (before && !before->is_ours) {
		*ret = *before;
		return true;
	}
	if (process_stat_read(pid, &stat) < 0)
		return false;
	if (before && before->start_ticks != stat.start_ticks)
		before = NULL;
	*ret = before ? *before : (struct process_seen){ .pid = pid, .is_new = true };
	ret->has_ended = strchr("ZXx", stat.state) != NULL;
	if (before && before->image != stat.image && !ret->has_ended) {
		ret->had_gpuleak = before->state == WITH_GPULEAK;
		ret->state = UNKNOWN;
		ret->counted = false;
	}
	ret->parent = stat.parent;
	ret->start_ticks = stat.start_ticks;
	ret->image = stat.image;
	ret->is_ours |= stat.parent == getpid();
	return true;
}

/* Marks the descendants among the new processes of ALL. A child may have a smaller pid than its
 * parent. */
static void mark_descendants(struct process_seen *all, size_t count)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < count; i++) {
			const struct process_seen *parent;

			if (!all[i].is_new || all[i].is_ours)
				continue;
			parent = find(all, count, all[i].parent);
			all[i].is_ours = parent && parent->is_ours;
			changed |= all[i].is_ours;
		}
	}
}

/* Reads all processes into *RET. Returns their number. */
static size_t read_all(struct descendants *d, struct process_seen **ret)
{
	struct process_seen *all = NULL;
	size_t count = 0;
	struct dirent *entry;
	AT_END(close_folder) DIR *proc = opendir("/proc");

	while (proc && (entry = readdir(proc)) != NULL) {
		const int pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (pid <= 0)
			continue;
		all = list_grow(all, count, sizeof(*all));
		count += read_process(pid, find(d->seen, d->seen_count, pid), &all[count]);
	}
	SORT(all, count, by_pid);
	*ret = all;
	return count;
}

void descendants_look(struct descendants *d, bool now)
{
	const long long start = clock_ms();
	struct process_seen *all;
	long long cost;
	size_t count;

	if (!now && start < d->next_ms)
		return;
	count = read_all(d, &all);
	mark_descendants(all, count);
	free(d->seen);
	d->seen = all;
	d->seen_count = count;
	for (size_t i = 0; i < count; i++) {
		if (all[i].is_ours)
			inspect(d, &all[i]);
		all[i].is_new = false;
	}
	cost = (clock_ms() - start) * COST_MAX;
	d->next_ms = start + (cost > INTERVAL_MS ? cost : INTERVAL_MS);
}

size_t descendants_running(const struct descendants *d, struct descendant **ret)
{
	size_t count = 0;

	*ret = NULL;
	for (size_t i = 0; i < d->seen_count; i++) {
		struct loaded loaded;

		if (!d->seen[i].is_ours || d->seen[i].has_ended ||
		    process_is_our_file(d->seen[i].pid))
			continue;
		read_maps(d->seen[i].pid, &loaded);
		describe(&d->seen[i], &loaded, LIST_ADD(*ret, count));
	}
	return count;
}

void descendants_finish(struct descendants *d)
{
	free(d->seen);
	free(d->found);
	*d = (struct descendants){ 0 };
}
