/* SPDX-License-Identifier: MIT
 *
 * gpuleak top: shows the live memory of a running process repeatedly. Only reads its ledger, so
 * that it does not slow the process down. Must not write to the ledger, or stop or signal the
 * process.
 */
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "ledger/options.h"
#include "report/describe/describe_stack.h"
#include "report/load/load.h"
#include "report/subjects/formats.h"
#include "report/symbols/symbolize.h"
#include "report/top/live.h"
#include "report/top/trend.h"
#include "report/util/abrupt_end.h"
#include "tools/commands.h"
#include "tools/launch/system.h"
#include "tools/ledgers/ledgers.h"
#include "tools/terminal.h"
#include "tools/session.h"
#include "tools/top_screen.h"

#define MS_PER_S 1000
#define LOOK_MS 100      /* interval of checks if the process still runs */
#define EXEC_MS 1000     /* a failing exec is withdrawn in the ledger within this time */
#define STARTING_MS 2000 /* maximum time from fork to the first GPU call, or to `gpuleak run` */
#define SITES_PLAIN 10
#define SITES_MAX 1000
#define FAILURES_MAX 5   /* failed reads in a row before it gives up */
#define ERROR_SIZE 8192
#define NICE 10
#define KEPT_BYTES (32 << 20) /* largest threshold that glibc accepts */

static struct {
	long long interval_ms;
	uint64_t frames; /* number of frames; 0: until the process ends */
	uint64_t sites;  /* number of call sites; 0: as many as fit */
	enum live_order order;
	/* interval of the steps that `gpuleak top` counts, for a process that marks none */
	long long step_ms;
	long long older_ms; /* show only blocks at least this old; 0: all */
	bool once;
} arguments = { .interval_ms = MS_PER_S, .step_ms = 60 * MS_PER_S };

struct top_view {
	struct ledger_file file;
	int fd; /* stays open, because the ledger is removed when the process ends */
	struct symbolizer *symbolizer;
	struct live *now, *earlier;
	struct trend trend;
	enum live_order order;
	double now_s, earlier_s;
	double step_due_s; /* time of the next step that `gpuleak top` counts */
	size_t sites; /* number of sites with stacks */
	int failures;
	char error[ERROR_SIZE];
	bool on_screen, was_on_screen, has_keys, shows_help, read_again;
	double exec_since_s; /* since when the ledger has ended = LEDGER_EXEC */
};

static volatile sig_atomic_t stop_signal, redraw;

/* ---- arguments ---- */

static int set_interval(const char *text)
{
	char whole[64]; /* ".5" is valid here */
	long long ms;

	if (snprintf(whole, sizeof(whole), "0%s", text) >= (int)sizeof(whole) ||
	    option_duration(whole, &ms) < 0 || ms < LOOK_MS || ms > 3600L * MS_PER_S)
		return -1;
	arguments.interval_ms = ms;
	return 0;
}

static int set_frames(const char *text)
{
	return flags_number(text, 10, LONG_MAX, &arguments.frames);
}

static int set_sites(const char *text)
{
	return flags_number(text, 10, SITES_MAX, &arguments.sites);
}

static int set_order(const char *text)
{
	for (size_t i = 0; i < TOP_ORDERS; i++) {
		if (strcmp(text, top_orders[i].word) == 0) {
			arguments.order = top_orders[i].order;
			return 0;
		}
	}
	return -1;
}

static int set_older(const char *text)
{
	return option_duration(text, &arguments.older_ms);
}

static int set_step(const char *text)
{
	return option_duration(text, &arguments.step_ms) == 0 && arguments.step_ms > 0 ? 0 : -1;
}

#define ROW(flag, what, set, metavar, expects) \
	{ flag, OPTION_GROUP_RUNNING, OPTION_RANK_FIRST, what, NULL, set, metavar, expects }
#define DURATION "a duration such as 10s, 5m or 1h"
static const struct flags_extra extras[] = {
	ROW("--interval", "time between two frames, 0.1 to 3600 (default: 1)", set_interval,
	    "SECONDS", "a number of seconds, 0.1 to 3600"),
	{ "--once", OPTION_GROUP_RUNNING, OPTION_RANK_FIRST, "print one frame; the same as -n 1",
	  &arguments.once },
	ROW("-n", "print N frames", set_frames, "N", "a number of frames"),
	ROW("--sites", "number of call sites, 1 to 1000 (default: as many as fit; 10 if frames are "
	    "printed)", set_sites, "N", "a whole number from 1 to 1000"),
	ROW("--sort", "bytes, blocks, growth or rate (default: bytes)", set_order, "KEY",
	    "bytes, blocks, growth or rate"),
	FLAG_BY(OPTION_GROUP_RUNNING),
	ROW("--older", "count only blocks of at least this age: 10s, 5m, 1h", set_older, "TIME",
	    DURATION),
	ROW("--step-every", "interval between steps, if the process marks none; a call site that "
	    "grows from step to step is a suspect (default: 60s)", set_step, "TIME", DURATION),
	{ NULL },
};

/* ---- choice of the ledger ---- */

/* Returns true if process PID started recently, so that it may be about to exec `gpuleak run`. */
static bool is_starting(int pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st) < 0 || st.st_uid != geteuid() || !process_runs(pid, 0))
		return false;
	return process_age_ms(pid) < STARTING_MS;
}

static int nothing(const char *who, const char *what)
{
	print_error("%s: %s", who, what);
	return -1;
}

static void take_file(struct ledger_file *file, struct ledger_file *ret)
{
	*ret = *file;
	file->path = NULL;
}

/* Prints an error if WORD is the pid of a `gpuleak run` and several of its processes have ledgers.
 * The error lists these processes. */
static void print_choice(const char *word, const struct ledger_list *list)
{
	char path[64], name[64];

	print_error("%s: is `gpuleak run` of several processes with GPU calls; name one of them:",
		    word);
	EACH_ITEM(list->files, list->count, file) {
		snprintf(path, sizeof(path), "/proc/%d/comm", file->pid);
		if (!process_runs(file->pid, file->start_ticks))
			continue;
		file_head(path, name, sizeof(name));
		name[strcspn(name, "\n")] = '\0';
		if (!*name)
			continue;
		eprintf(stderr, "gpuleak:   %d ", file->pid);
		print_escaped(stderr, name);
		fputc('\n', stderr);
	}
}

/* Finds the running process among those of a run. Returns 1 with its latest ledger in *RET, 0 if no
 * process runs, -1 if several run. */
static int choose_of_run(const char *word, struct ledger_list *list, struct ledger_file *ret)
{
	struct ledger_file *found = NULL;

	for (size_t i = 0; i < list->count; i++) {
		struct ledger_file *file = &list->files[i];

		if (!process_runs(file->pid, file->start_ticks))
			continue;
		if (found && found->pid != file->pid) {
			print_choice(word, list);
			return -1;
		}
		if (!found || file->start_real_ns >= found->start_real_ns)
			found = file;
	}
	if (found)
		take_file(found, ret);
	return found != NULL;
}

/* Finds the ledger that process PID writes now. After an exec a process has several ledgers.
 * Returns 1, 0 if the ledger may be created later, or -1 after it printed an error. */
static int find_now(const char *word, int pid, struct ledger_file *ret)
{
	AT_END(ledgers_finish) struct ledger_list list = { 0 };

	if (ledgers_add_pid(&list, pid) < 0)
		return list.is_run || process_is_our_command(pid, "run") || is_starting(pid)
			       ? 0
			       : nothing(word, ledgers_why_none(&list, pid));
	if (list.is_run)
		return choose_of_run(word, &list, ret);
	take_file(ledgers_latest(&list, 0), ret);
	return 1;
}

/* Finds the ledger of process PID. If PID is a `gpuleak run`, waits for its first GPU call. PID may
 * not have called exec yet: `gpuleak run ./app & gpuleak top $!`. */
static int find_by_pid(const char *word, int pid, struct ledger_file *ret)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
	bool is_announced = false;
	int r;

	while ((r = find_now(word, pid, ret)) == 0) {
		if (!is_announced && process_is_our_command(pid, "run")) {
			print_error("%s: waiting for a GPU call of its program", word);
			is_announced = true;
		}
		nanosleep(&pause, NULL);
	}
	return r < 0 ? -1 : 0;
}

static int find_ledger(const char *word, struct ledger_file *ret)
{
	int pid = ledgers_pid(word);

	if (pid)
		return find_by_pid(word, pid, ret);
	*ret = (struct ledger_file){ .path = strdup(word) };
	ledger_peek(AT_FDCWD, word, ret);
	return 0;
}

static int open_ledger(struct top_view *watch, const char *word)
{
	if (find_ledger(word, &watch->file) < 0)
		return -1;
	watch->fd = open(watch->file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (watch->fd < 0)
		return nothing(watch->file.path, strerror(errno));
	watch->symbolizer = symbolizer_create(0);
	return 0;
}

/* ---- a frame ---- */

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Reads the ledger. Returns 0, or -1 with the reason in watch->error. */
static int read_ledger(struct top_view *watch, size_t sites)
{
	double now = seconds_now();
	struct live_options how = { .sites = sites, .order = watch->order, .trend = &watch->trend,
				 .step = now >= watch->step_due_s };
	struct loaded_ledger ledger;
	struct live *live = NULL;
	int r = loaded_ledger_read(watch->fd, watch->file.path, &ledger, watch->error,
				   sizeof(watch->error));

	if (r < 0)
		return -1;
	if (how.step)
		watch->step_due_s = now + (double)arguments.step_ms / MS_PER_S;
	ledger.older_ns = (uint64_t)arguments.older_ms * 1000000u;
	ledger.choice.by_range = session_choice.by_range;
	live = live_build(&ledger, watch->symbolizer, &how);
	loaded_ledger_finish(&ledger);
	live_destroy(watch->earlier);
	watch->earlier = watch->now;
	watch->earlier_s = watch->now_s;
	watch->now = live;
	watch->now_s = seconds_now();
	watch->sites = sites;
	return 0;
}

static size_t sites_wanted(const struct top_view *watch)
{
	if (arguments.sites)
		return (size_t)arguments.sites;
	return watch->on_screen ? terminal_size().rows : SITES_PLAIN;
}

static void print_frame(const struct top_view *watch, FILE *out)
{
	const struct live_view view = {
		.sites = watch->sites,
		.columns = watch->on_screen ? terminal_size().columns : 0,
		.order = watch->order,
	};

	text_live(out, watch->now, watch->earlier, watch->now_s - watch->earlier_s, &view);
}

/* Draws the frame or the page of help, with the keys on the last row. */
static void draw(const struct top_view *watch)
{
	FREE_AT_END char *text = PRINTED(to,
		if (watch->shows_help)
			top_print_help(to);
		else
			print_frame(watch, to));
	FREE_AT_END char *keys = PRINTED(to,
		if (watch->has_keys)
			top_print_keys(to, watch->order, terminal_size().columns));

	terminal_draw(text, keys, flags_wants_colors(NULL) ? top_write_line : NULL);
}

/* Reads the ledger and shows a frame. Returns 0, or -1 if several reads in a row failed. */
static int show(struct top_view *watch, uint64_t number)
{
	if (read_ledger(watch, sites_wanted(watch)) < 0)
		return !watch->now || ++watch->failures == FAILURES_MAX ? -1 : 0;
	watch->failures = 0;
	if (watch->on_screen) {
		draw(watch);
	} else {
		if (number)
			fputc('\n', stdout);
		print_frame(watch, stdout);
		fflush(stdout);
	}
	return 0;
}

/* ---- the process ---- */

/* Returns how the process ended according to its ledger: enum ledger_ended. */
static uint32_t said_end(const struct top_view *watch)
{
	struct ledger_header header;

	if (pread(watch->fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return LEDGER_RUNNING;
	return header.ended;
}

static bool has_ended(struct top_view *watch)
{
	if (!process_runs(watch->file.pid, watch->file.start_ticks))
		return true;
	if (said_end(watch) != LEDGER_EXEC) {
		watch->exec_since_s = 0;
		return false;
	}
	if (watch->exec_since_s == 0)
		watch->exec_since_s = seconds_now();
	return seconds_now() - watch->exec_since_s > (double)EXEC_MS / MS_PER_S;
}

/* ---- waiting ---- */

static void note_signal(int number)
{
	if (number == SIGWINCH)
		redraw = 1;
	else
		stop_signal = number;
}

static void suspend(int number)
{
	sigset_t set;
	int saved = errno;

	terminal_give_back();
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number); /* execution continues here after SIGCONT */
	signal(number, suspend);
	terminal_take();
	redraw = 1;
	errno = saved;
}

static void catch_signals(int on_screen)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	struct sigaction action = { .sa_handler = note_signal };

	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaction(ending[i], &action, NULL);
	if (!on_screen)
		return;
	sigaction(SIGWINCH, &action, NULL);
	signal(SIGTSTP, suspend);
}

/* Handles a key. A sort key draws the next frame at once in that order. */
static void take_key(struct top_view *watch, char key)
{
	const bool was_help = watch->shows_help;

	watch->shows_help = key == '?' && !was_help;
	redraw |= was_help || watch->shows_help;
	for (size_t i = 0; !was_help && i < TOP_ORDERS; i++) {
		if (top_orders[i].key != key || watch->order == top_orders[i].order)
			continue;
		watch->order = top_orders[i].order;
		watch->read_again = true;
	}
}

/* Waits up to MS milliseconds, or for a key or signal. Returns true to quit. */
static bool wait_for(struct top_view *watch, long ms)
{
	struct pollfd input = { .fd = watch->has_keys ? STDIN_FILENO : -1, .events = POLLIN };
	char key;

	if (poll(&input, 1, (int)ms) > 0) {
		if (read(STDIN_FILENO, &key, 1) != 1)
			watch->has_keys = false; /* the terminal was closed */
		else if (key == 'q' || key == 'Q')
			return true;
		else
			take_key(watch, key);
	}
	return stop_signal != 0;
}

enum next {
	GO_ON,
	PROCESS_ENDED,
	ENOUGH,
	FAILED,
};

/* Waits until the next frame is due. */
static enum next wait_for_frame(struct top_view *watch)
{
	double due = watch->now_s + (double)arguments.interval_ms / MS_PER_S;

	for (;;) {
		double left_ms = (due - seconds_now()) * MS_PER_S;

		if (has_ended(watch))
			return PROCESS_ENDED;
		if (left_ms <= 0 || watch->read_again) {
			watch->read_again = false;
			return GO_ON;
		}
		if (wait_for(watch, left_ms < LOOK_MS ? (long)left_ms + 1 : LOOK_MS))
			return ENOUGH;
		if (redraw && watch->on_screen) {
			redraw = 0;
			draw(watch);
		}
	}
}

/* ---- the command ---- */

static enum next show_frames(struct top_view *watch)
{
	for (uint64_t shown = 0; !arguments.frames || shown < arguments.frames; shown++) {
		enum next next = shown ? wait_for_frame(watch) : GO_ON;

		if (next != GO_ON)
			return next;
		if (show(watch, shown) < 0)
			return FAILED;
	}
	return ENOUGH;
}

/* Prints the last frame, with the changes since the previous frame, and how the process ended. */
static int print_end(struct top_view *watch)
{
	if (read_ledger(watch, sites_wanted(watch)) < 0)
		return nothing("top", watch->error);
	if (!watch->was_on_screen)
		fputc('\n', stdout);
	print_frame(watch, stdout);
	fputs("\ngpuleak: ", stdout);
	describe_process(stdout, watch->now->process);
	fputc(' ', stdout);
	describe_ended(stdout, watch->now->process);
	fputc('\n', stdout);
	return fflush(stdout);
}

static int run(struct top_view *watch)
{
	enum next next;

	watch->on_screen = watch->was_on_screen = !arguments.frames && terminal_is();
	watch->has_keys = watch->on_screen && isatty(STDIN_FILENO);
	catch_signals(watch->on_screen);
	if (watch->on_screen) {
		abrupt_end_before = terminal_give_back;
		terminal_take();
	}
	next = show_frames(watch);
	terminal_give_back();
	watch->on_screen = false;
	if (next == FAILED)
		return nothing("top", watch->error);
	return next == PROCESS_ENDED ? print_end(watch) : 0;
}

/* Prints an error if the process of the ledger does not run: `gpuleak report` is for such ledgers.
 * */
static int check_running(const struct top_view *watch)
{
	if (!watch->file.pid)
		return nothing(watch->file.path, "is not a gpuleak ledger");
	if (process_runs(watch->file.pid, watch->file.start_ticks))
		return 0;
	print_error("process %d has ended; `gpuleak report %s` reports what it left",
		    watch->file.pid, watch->file.path);
	return -1;
}

/* Reduces the load on the machine. Each read allocates as many bytes as the ledger has. The
 * settings keep this memory in malloc's heap, instead of returning it to the kernel each time. */
static void be_cheap(void)
{
	(void)!nice(NICE); /* gives the watched process precedence on the CPU */
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

static int top(char **operands, int count)
{
	struct top_view watch = { .fd = -1, .order = arguments.order };
	int r;

	if (count > 1) {
		print_error("top: one process at a time: %s is a second one", operands[1]);
		return STATUS_USAGE;
	}
	if (arguments.once)
		arguments.frames = 1;
	flags_environment(OPTION_BIT(OPTION_COLOR));
	be_cheap();
	r = open_ledger(&watch, operands[0]);
	if (r == 0)
		r = check_running(&watch);
	if (r == 0)
		r = run(&watch);
	live_destroy(watch.earlier);
	live_destroy(watch.now);
	trend_finish(&watch.trend);
	symbolizer_destroy(watch.symbolizer);
	if (watch.fd >= 0)
		close(watch.fd);
	free(watch.file.path);
	return r < 0 ? STATUS_NOTHING_READ : 0;
}

const struct flags_command command_top = {
	.name = "top",
	.summary = "show the live memory of a running process",
	.synopsis = "[options] PID|LEDGER",
	.prose =
		"Shows the live memory of process PID until it ends: by device and kind, by call\n"
		"site, with growth, and the pool. It only reads the ledger and does not disturb\n"
		"the process. If PID is `gpuleak run`, the program that it runs is shown after "
		"its\n"
		"first GPU call. On a terminal q or ^C ends top; otherwise the frames are printed\n"
		"one after the other. Keys on a terminal sort the call sites: b by live bytes, n "
		"by\n"
		"blocks, g by growth since the last frame, r by bytes allocated since then. ? "
		"explains\n"
		"keys and columns. A narrow terminal has fewer columns.\n",
	.options = OPTION_BIT(OPTION_COLOR),
	.extras = extras,
	.tail = "exit status: 0 the process ended, the frames are printed, or q; 1 there is\n"
		"nothing to show, 2 wrong usage.\n",
	.operands_min = 1,
	.wanted = "name a process by its pid, or its ledger",
	.usage_status = STATUS_USAGE,
	.main = top,
};
