/* SPDX-License-Identifier: MIT
 *
 * The sampler process: reads the ledgers of running processes and queries NVML. It does not use
 * its parent's terminal, signals or files, and ends with its parent. It uses at most a twentieth
 * of one CPU, and spends at most half of the time in queries.
 */
#include "tools/nvml/sampling.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "ledger/clock.h"
#include "ledger/reader.h"
#include "ledger/shared.h"
#include "tools/launch/system.h"
#include "tools/ledgers/ledgers.h"
#include "tools/nvml/nvml.h"

#define LEDGERS_MAX 64 /* maximum number of ledgers per round */
#define TRIES 3
#define IDLE_SHARE 20u /* rounds use at most 1/20 of one CPU */

#define MS 1000000ull
#define SECOND (1000 * MS)

struct used_device {
	int ordinal; /* ordinal in the process */
	int number;  /* number of the device in tools/nvml/nvml.h */
	bool is_part; /* the process sees a MIG instance of it */
	uint64_t reported, others, device_used;
	int reported_result, used_result;
};

/* A running process with its mapped ledger. If the ledger is truncated, SIGBUS kills only the
 * sampler. */
struct sampled_ledger {
	void *bytes;
	size_t size;
	struct ledger_view view;
	struct used_device devices[DRIVER_MEMORY_DEVICES];
	int device_count;
};

/* What was in use and free on a device when the sampler began. */
struct first_reading {
	uint64_t used, free;
	uint64_t read_ns; /* when; 0: NVML has no figures for the device */
	bool before_all; /* before any process of the run made a GPU call */
};

/* The processes on a device, at the last query. */
struct device_users {
	bool known;
	uint64_t at_ns; /* when the query ended */
	struct nvml_users users;
};

/* What judges the costs of one entry of the shared memory. */
struct cost_state {
	struct cost_judge judge;
	bool began, settled;
};

struct work {
	const struct sampling *sampling;
	struct nvml *nvml;
	/* pid of the last process whose /proc/PID/maps was searched for the driver, because NVML is
	 * beside it; 0: none yet */
	int hinted_by;
	struct first_reading first_reading[NVML_DEVICES_MAX];
	int users[NVML_DEVICES_MAX]; /* recorded processes on each device in this round */
	/* The process that used the device first. -1: several did so between two rounds. 0: none
	 * yet. */
	int first_user[NVML_DEVICES_MAX];
	struct device_users listed[NVML_DEVICES_MAX];
	struct cost_state costs[SAMPLER_ENTRIES];
};

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* ---- find NVML ---- */

static int open_beside_driver(int pid, struct nvml **ret)
{
	FREE_AT_END char *path = text_format("/proc/%d/maps", pid);
	AT_END(close_file) FILE *maps = fopen(path, "re");
	char line[PATH_MAX + 128], *slash, *start;
	struct stat st;

	/* The library runs with the sampler's rights, so only a process of the same user is
	 * trusted. */
	if (!maps || fstat(fileno(maps), &st) < 0 || st.st_uid != geteuid())
		return -ENOENT;
	while (fgets(line, sizeof(line), maps)) {
		slash = strstr(line, "/libcuda.so");
		start = strchr(line, '/');
		if (!slash || !start || strchr(slash + 1, '/'))
			continue;
		*slash = '\0';
		return nvml_open(start, ret);
	}
	return -ENOENT;
}

static void note_nvml(const struct work *work, int r)
{
	uint32_t state = r == 0 ? SAMPLER_ANSWERS : r == -ENOENT ? SAMPLER_ABSENT : SAMPLER_DUMB;

	shared_store(work->sampling->shared->nvml, state);
}

static bool have_nvml(struct work *work, int pid)
{
	if (!work->nvml && work->hinted_by != pid) {
		work->hinted_by = pid;
		note_nvml(work, open_beside_driver(pid, &work->nvml));
	}
	return work->nvml != NULL;
}

/* Returns true if no process made a GPU call yet: then there is no ledger. */
static bool nobody_began(const struct work *work)
{
	AT_END(ledgers_finish) struct ledger_list list = { 0 };

	return ledgers_add_directory(&list, work->sampling->directory) == 0 && list.count == 0;
}

/* Stores what the last query found on device NUMBER. */
static void note_listed(struct work *work, int number, uint64_t others)
{
	work->listed[number].known = others != NVML_UNKNOWN;
	work->listed[number].at_ns = now_ns();
	work->listed[number].users = *nvml_users(work->nvml);
}

/* Returns the bytes of all processes in LISTED except PID. */
static uint64_t bytes_of_others(const struct device_users *listed, unsigned int pid)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < listed->users.count; i++)
		if (listed->users.user[i].pid != pid)
			bytes += listed->users.user[i].bytes;
	return bytes;
}

/* Reads each device once. A process may begin meanwhile: free_before() compares the times. */
static void read_devices(struct work *work)
{
	int number;

	while (work->nvml && work->sampling->directory && (number = nvml_next(work->nvml)) >= 0) {
		struct first_reading *reading = &work->first_reading[number];
		bool nobody = nobody_began(work);
		uint64_t own, others;

		nvml_process_used(work->nvml, number, 0, &own, &others);
		note_listed(work, number, others);
		if (nvml_device_memory(work->nvml, number, &reading->used, &reading->free) < 0)
			continue;
		reading->read_ns = now_ns();
		reading->before_all = nobody && nobody_began(work);
	}
}

/* ---- ledgers ---- */

static int map_ledger(const char *path, struct sampled_ledger *ret)
{
	AT_END(close_descriptor) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	ret->bytes = MAP_FAILED;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		ret->size = (size_t)st.st_size;
		ret->bytes = mmap(NULL, ret->size, PROT_READ, MAP_SHARED, fd, 0);
	}
	if (ret->bytes == MAP_FAILED)
		return -EINVAL;
	if (ledger_view(ret->bytes, ret->size, &ret->view) == LEDGER_OK)
		return 0;
	munmap(ret->bytes, ret->size);
	return -EBADMSG;
}

static void find_devices(struct work *work, struct sampled_ledger *watched)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_device *record;

	watched->device_count = 0;
	while ((record = ledger_next_device(&watched->view, &walk)) &&
	       watched->device_count < DRIVER_MEMORY_DEVICES) {
		struct used_device *device = &watched->devices[watched->device_count];
		struct ledger_device copy = *record;

		copy.bus_id[sizeof(copy.bus_id) - 1] = '\0';
		if (copy.ordinal < 0 || copy.ordinal >= DRIVER_MEMORY_DEVICES)
			continue;
		device->ordinal = copy.ordinal;
		device->is_part = memcmp(copy.uuid, copy.instance_uuid, sizeof(copy.uuid)) != 0;
		device->number = nvml_find(work->nvml, copy.uuid, copy.bus_id);
		if (device->number < 0)
			continue;
		work->users[device->number]++;
		watched->device_count++;
	}
}

/* Maps the ledger at PATH. Returns true if its process runs and uses devices. */
static bool watch(struct work *work, const char *path, struct sampled_ledger *ret)
{
	const struct ledger_header *header;

	if (map_ledger(path, ret) < 0)
		return false;
	header = ledger_header(&ret->view);
	/* The memory of an exiting process has no significance, so repeated sampling skips it. The
	 * process's own report at exit samples it. */
	if ((header->ended == LEDGER_RUNNING || !work->sampling->directory) &&
	    process_runs(header->pid, header->start_ticks) && have_nvml(work, header->pid)) {
		find_devices(work, ret);
		if (ret->device_count)
			return true;
	}
	munmap(ret->bytes, ret->size);
	return false;
}

/* ---- samples ---- */

static struct sampler_entry *find_entry(struct sampler_shared *shared,
					const struct ledger_header *header, int ordinal)
{
	struct sampler_entry *entry;

	for (uint32_t i = 0; i < shared->count; i++) {
		entry = &shared->entries[i];
		if (entry->pid == header->pid && entry->ordinal == ordinal &&
		    entry->start_real_ns == header->start_real_ns)
			return entry;
	}
	if (shared->count == SAMPLER_ENTRIES)
		return NULL;
	entry = &shared->entries[shared->count];
	entry->pid = header->pid;
	entry->ordinal = ordinal;
	entry->start_real_ns = header->start_real_ns;
	shared_publish(shared->count, shared->count + 1);
	return entry;
}

/* Finds the bytes that the driver reports for the process on DEVICE. Without such a value, uses the
 * value of the whole device if only one recorded process uses it. */
static int figure(const struct work *work, const struct used_device *device,
		  enum driver_memory_source *ret_source, uint64_t *ret_reported)
{
	const struct first_reading *before = &work->first_reading[device->number];

	if (device->reported_result == 0) {
		*ret_source = DRIVER_MEMORY_NVML_PROCESS;
		*ret_reported = device->reported;
		return 0;
	}
	if (device->used_result < 0 || !before->before_all ||
	    work->users[device->number] != 1)
		return -ENODATA;
	*ret_source = DRIVER_MEMORY_NVML_DEVICE;
	*ret_reported =
		device->device_used > before->used ? device->device_used - before->used : 0;
	return 0;
}

/* Returns when the process of VIEW began to create its first context on device ORDINAL; 0 if that
 * is unknown. */
static uint64_t first_context_ns(const struct ledger_view *view, int ordinal)
{
	LEDGER_EACH(driver_growth, growth, view)
		if (growth->device == ordinal && growth->free_units)
			return ledger_header(view)->start_mono_ns + growth->began_ns;
	return 0;
}

/* Returns the bytes that were free on DEVICE before the process of VIEW used it. Returns 0 if they
 * are unknown, or if another process used DEVICE before. */
static uint64_t free_before(struct work *work, const struct ledger_view *view,
			    const struct used_device *device)
{
	const struct first_reading *reading = &work->first_reading[device->number];
	int *first = &work->first_user[device->number];
	int pid = ledger_header(view)->pid;

	if (!*first)
		*first = work->users[device->number] == 1 ? pid : -1;
	if (*first != pid || device->is_part || !reading->read_ns ||
	    reading->read_ns > first_context_ns(view, device->ordinal))
		return 0;
	return reading->free;
}

static void note(struct work *work, const struct ledger_view *view,
		 const struct used_device *device, struct driver_memory_sample *sample, bool steady)
{
	const struct ledger_header *header = ledger_header(view);
	struct sampler_shared *shared = work->sampling->shared;
	struct sampler_entry *entry;
	enum driver_memory_source source;

	if (figure(work, device, &source, &sample->reported) < 0)
		return;
	entry = find_entry(shared, header, device->ordinal);
	if (!entry)
		return;
	/* After a value for the process itself, values of the whole device are ignored. */
	if (entry->series.taken && entry->series.source == DRIVER_MEMORY_NVML_PROCESS &&
	    source == DRIVER_MEMORY_NVML_DEVICE)
		return;
	shared_add_ordered(shared->changes, 1);
	if (entry->series.source != source)
		memset(&entry->series, 0, sizeof(entry->series));
	entry->series.source = source;
	entry->series.free_before = free_before(work, view, device);
	driver_memory_series_add(&entry->series, sample, steady);
	driver_memory_series_near(&entry->series, sample, header->refused);
	shared_add_ordered(shared->changes, 1);
}

/* Notes that NVML has no figures for DEVICE, which may not change while the driver runs. */
static void note_no_figures(const struct work *work, const struct used_device *device)
{
	if (device->reported_result < 0 && device->used_result == -ENOTSUP)
		shared_store(work->sampling->shared->nvml, SAMPLER_NO_FIGURES);
}

static void query_driver(struct work *work, struct sampled_ledger *watched, unsigned int pid)
{
	for (int i = 0; i < watched->device_count; i++) {
		struct used_device *device = &watched->devices[i];
		uint64_t free_bytes;

		device->reported_result = nvml_process_used(work->nvml, device->number, pid,
							    &device->reported, &device->others);
		note_listed(work, device->number, device->others);
		device->used_result = nvml_device_memory(work->nvml, device->number,
							 &device->device_used, &free_bytes);
		note_no_figures(work, device);
	}
}

/* ---- costs of single calls ---- */

static uint64_t ledger_time(const struct ledger_header *header, uint64_t ns)
{
	return ns > header->start_mono_ns ? ns - header->start_mono_ns : 0;
}

/* Returns true if the process of VIEW had a context on device ORDINAL at NS. */
static bool has_context_at(const struct ledger_view *view, int ordinal, uint64_t ns)
{
	LEDGER_EACH(driver_growth, growth, view)
		if (growth->device == ordinal && growth->ended_ns <= ns)
			return true;
	return false;
}

/* Begins to judge the process of WATCHED, with the last query before it made its first GPU call, if
 * there is one. A single query shows nothing of the time before it, so then nothing is judged. */
static void begin_costs(struct work *work, const struct sampled_ledger *watched)
{
	const struct ledger_header *header = ledger_header(&watched->view);
	struct sampler_shared *shared = work->sampling->shared;

	for (int i = 0; i < watched->device_count && work->sampling->directory; i++) {
		const struct device_users *listed = &work->listed[watched->devices[i].number];
		struct sampler_entry *entry =
			find_entry(shared, header, watched->devices[i].ordinal);
		struct cost_state *state = entry ? &work->costs[entry - shared->entries] : NULL;

		if (!state || state->began)
			continue;
		*state = (struct cost_state){ .began = true };
		if (listed->known && listed->at_ns <= header->start_mono_ns)
			state->judge.last = (struct cost_sample){
				.known = true, .steady = true,
				.others = bytes_of_others(listed, (unsigned int)header->pid),
			};
	}
}

static void judge_sample(struct work *work, struct sampler_entry *entry,
			 const struct ledger_view *view, const struct cost_sample *sample)
{
	struct sampler_shared *shared = work->sampling->shared;
	struct cost_state *state = &work->costs[entry - shared->entries];

	shared_add_ordered(shared->changes, 1);
	cost_judge_sample(&state->judge, view, entry->ordinal, sample, &entry->costs);
	shared_add_ordered(shared->changes, 1);
}

/* Judges the calls of the process before the query that lasted from TIMES[0] to TIMES[1]. */
static void judge_costs(struct work *work, const struct ledger_view *view,
			const struct used_device *device, uint64_t tracked, bool steady,
			const uint64_t times[2])
{
	const struct ledger_header *header = ledger_header(view);
	struct sampler_shared *shared = work->sampling->shared;
	bool listed = device->reported_result == 0;
	struct cost_sample sample = {
		.began_ns = ledger_time(header, times[0]),
		.ended_ns = ledger_time(header, times[1]),
		.others = device->others, .steady = steady,
		.part = listed && device->reported > tracked ? device->reported - tracked : 0,
	};
	struct sampler_entry *entry;

	entry = find_entry(shared, header, device->ordinal);
	if (!entry || !work->costs[entry - shared->entries].began)
		return;
	/* A process with a context that is not listed may be one of the others, in a container. */
	sample.known = device->others != NVML_UNKNOWN &&
		       (listed || (device->reported_result == -ENOENT &&
				   !has_context_at(view, device->ordinal, sample.began_ns)));
	judge_sample(work, entry, view, &sample);
}

/* Judges the last calls on DEVICE of the process of LEDGER, which has ended. */
static void settle_device(struct work *work, const struct sampled_ledger *ledger,
			  const struct used_device *device)
{
	const struct ledger_header *header = ledger_header(&ledger->view);
	struct sampler_shared *shared = work->sampling->shared;
	struct sampler_entry *entry = find_entry(shared, header, device->ordinal);
	struct cost_state *state = entry ? &work->costs[entry - shared->entries] : NULL;
	struct cost_sample sample = { .began_ns = ledger_time(header, now_ns()) };
	uint64_t own;

	if (!state || state->settled)
		return;
	state->settled = true;
	nvml_process_used(work->nvml, device->number, (unsigned int)header->pid, &own,
			  &sample.others);
	sample.ended_ns = ledger_time(header, now_ns());
	sample.known = sample.others != NVML_UNKNOWN;
	judge_sample(work, entry, &ledger->view, &sample);
}

static void settle(struct work *work, const char *path)
{
	struct sampled_ledger ledger;

	if (map_ledger(path, &ledger) < 0)
		return;
	find_devices(work, &ledger);
	begin_costs(work, &ledger);
	for (int i = 0; i < ledger.device_count; i++)
		settle_device(work, &ledger, &ledger.devices[i]);
	munmap(ledger.bytes, ledger.size);
}

/* Returns true if the process of FILE has an entry that is not settled. */
static bool is_unsettled(const struct work *work, const struct ledger_file *file)
{
	const struct sampler_shared *shared = work->sampling->shared;

	for (uint32_t i = 0; i < shared->count; i++)
		if (shared->entries[i].pid == file->pid &&
		    shared->entries[i].start_real_ns == file->start_real_ns &&
		    !work->costs[i].settled)
			return true;
	return false;
}

/* Judges the last calls of processes that have ended. LAST: also of those that ended before a round
 * could sample them. */
static void settle_ended(struct work *work, const struct ledger_list *list, bool last)
{
	for (size_t i = 0; i < list->count && work->nvml; i++) {
		const struct ledger_file *file = &list->files[i];

		if (!process_runs(file->pid, file->start_ticks) &&
		    (last || is_unsettled(work, file)))
			settle(work, file->path);
	}
}

/* Returns 0, or -EAGAIN if the ledger has grown beyond the mapping. */
static int track(struct sampled_ledger *watched, struct tracked_memory *ret)
{
	if (ledger_view(watched->bytes, watched->size, &watched->view) != LEDGER_OK ||
	    watched->view.cut)
		return -EAGAIN;
	track_memory(&watched->view, ret);
	return 0;
}

static void sample(struct work *work, struct sampled_ledger *watched)
{
	const struct ledger_header *header = ledger_header(&watched->view);
	struct tracked_memory before, after;
	uint64_t now, times[2];

	for (int i = 0; i < TRIES; i++) {
		if (track(watched, &before) < 0)
			return;
		times[0] = now_ns();
		query_driver(work, watched, (unsigned int)header->pid);
		times[1] = now_ns();
		if (track(watched, &after) < 0)
			return; /* the next round maps the larger ledger */
		if (memcmp(&before, &after, sizeof(before)) == 0)
			break;
	}
	if (header->ended != LEDGER_RUNNING && work->sampling->directory)
		return; /* the process ended meanwhile */
	now = now_ns();
	EACH_ITEM(watched->devices, watched->device_count, device) {
		struct driver_memory_sample taken = {
			.at_ns = now > header->start_mono_ns ? now - header->start_mono_ns : 0,
			.tracked = after.bytes[device->ordinal],
			.managed = after.managed[device->ordinal],
			.device_used = device->used_result == 0 ? device->device_used : 0,
		};

		bool steady = before.bytes[device->ordinal] == taken.tracked &&
			      before.managed[device->ordinal] == taken.managed;

		note(work, &watched->view, device, &taken, steady);
		judge_costs(work, &watched->view, device, taken.tracked, steady, times);
	}
}

/* Samples all processes once. Returns the age of the youngest process, UINT64_MAX if there is none.
 * */
static uint64_t round_of(struct work *work, const char *const *paths, size_t count)
{
	static struct sampled_ledger watched[LEDGERS_MAX];
	uint64_t youngest = UINT64_MAX, age, now = now_ns();
	size_t living = 0;

	memset(work->users, 0, sizeof(work->users));
	for (size_t i = 0; i < count && living < LEDGERS_MAX; i++)
		living += (size_t)watch(work, paths[i], &watched[living]);
	for (size_t i = 0; i < living; i++)
		begin_costs(work, &watched[i]);
	for (size_t i = 0; i < living; i++) {
		sample(work, &watched[i]);
		age = now - ledger_header(&watched[i].view)->start_mono_ns;
		youngest = age < youngest ? age : youngest;
		munmap(watched[i].bytes, watched[i].size);
	}
	return youngest;
}

static uint64_t round_in_directory(struct work *work)
{
	const char *paths[LEDGERS_MAX];
	AT_END(ledgers_finish) struct ledger_list list = { 0 };
	uint64_t youngest;
	size_t count = 0;

	ledgers_add_directory(&list, work->sampling->directory);
	for (size_t i = 0; i < list.count && count < LEDGERS_MAX; i++)
		if (process_runs(list.files[i].pid, list.files[i].start_ticks))
			paths[count++] = list.files[i].path;
	youngest = round_of(work, paths, count);
	settle_ended(work, &list, false);
	return youngest;
}

/* ---- the process ---- */

/* Returns the pause between two rounds. It is short until a recorded process exists and in the
 * first seconds of such a process, because memory changes most then. */
static uint64_t usual_pause(uint64_t youngest, uint64_t running)
{
	if (youngest == UINT64_MAX)
		return running < 10 * SECOND ? 20 * MS : 100 * MS;
	return youngest < SECOND ? 20 * MS : youngest < 10 * SECOND ? 100 * MS : 500 * MS;
}

/* Returns the pause after a round that LASTED so long and used so much CPU. The pause is at least
 * as long as the round, and IDLE_SHARE times as long as its CPU time. So a query that only waited,
 * for example for a driver call of the program, causes no long pause in which samples would be
 * missed. */
static uint64_t pause_after(uint64_t usual, uint64_t lasted, uint64_t cpu)
{
	uint64_t pause = usual > lasted ? usual : lasted;

	return pause > cpu * IDLE_SHARE ? pause : cpu * IDLE_SHARE;
}

static void sample_until_told(struct work *work)
{
	struct pollfd link = { .fd = work->sampling->link, .events = POLLIN };
	AT_END(ledgers_finish) struct ledger_list list = { 0 };
	uint64_t start = now_ns(), youngest, began, cpu, pause;

	do {
		began = now_ns();
		cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		youngest = round_in_directory(work);
		pause = pause_after(usual_pause(youngest, began - start), now_ns() - began,
				    clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	} while (poll(&link, 1, (int)(pause / MS)) == 0);
	ledgers_add_directory(&list, work->sampling->directory);
	settle_ended(work, &list, true);
}

static int leave_everything(int link, pid_t parent)
{
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigaction(SIGBUS, &usual, NULL); /* a SIGBUS that is blocked kills the process */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	setsid();
	prctl(PR_SET_NAME, "gpuleak-sampler", 0, 0, 0);
	if (getppid() != parent || null < 0)
		_exit(0);
	link = fcntl(link, F_DUPFD_CLOEXEC, 10);
	for (int fd = 0; fd < 3; fd++)
		/* otherwise readers of the command's output would wait for the sampler to end */
		dup2(null, fd);
	close_others(link);
	return link;
}

/* Adds up the device memory of a process without a ledger. */
static void sample_process(struct work *work, int pid)
{
	uint64_t bytes = 0, own, others;
	int number;

	while (have_nvml(work, pid) && (number = nvml_next(work->nvml)) >= 0)
		if (nvml_process_used(work->nvml, number, (unsigned int)pid, &own, &others) == 0)
			bytes += own;
	shared_publish(work->sampling->shared->process_bytes, bytes);
}

void sampling_main(const struct sampling *sampling)
{
	struct sampling own = *sampling;
	static struct work work; /* too large for the stack */

	work.sampling = &own;
	own.link = leave_everything(sampling->link, sampling->parent);
	if (own.link < 0)
		_exit(0);
	note_nvml(&work, nvml_open(NULL, &work.nvml));
	read_devices(&work);
	if (own.process)
		sample_process(&work, own.process);
	else if (own.directory)
		sample_until_told(&work);
	else
		round_of(&work, own.paths, own.path_count);
	_exit(0);
}
