/* SPDX-License-Identifier: MIT
 *
 * gpuleak top: shows the live memory of a running process repeatedly. Only reads its ledger, so
 * that it does not slow the process down. Must not write to the ledger, or stop or signal the
 * process.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "report/util/abrupt_end.h"
#include "tools/commands.h"
#include "report/util/escape.h"
#include "report/util/text_buffer.h"
#include "tools/ledgers/ledgers.h"
#include "report/top/live.h"
#include "report/load/load.h"
#include "ledger/options.h"
#include "tools/launch/process.h"
#include "tools/suggest.h"
#include "report/symbols/symbolize.h"
#include "tools/terminal.h"
#include "report/subjects/formats.h"
#include "report/describe/describe_stack.h"
#include "report/top/trend.h"

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

struct arguments {
	const char *operand;
	long interval_ms;
	long frames; /* number of frames; 0: until the process ends */
	long sites;  /* number of call sites; 0: as many as fit */
	enum live_order order;
	/* interval of the steps that `gpuleak top` counts, for a process that marks none */
	long long step_ms;
	long long older_ms; /* show only blocks at least this old; 0: all */
};

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
	bool on_screen, was_on_screen, has_keys, read_again;
	double exec_since_s; /* since when the ledger has ended = LEDGER_EXEC */
};

static volatile sig_atomic_t stop_signal, redraw;

static const struct {
	char key;
	const char *word;
	enum live_order order;
} orders[] = {
	{ 'b', "bytes", LIVE_BY_BYTES },
	{ 'n', "blocks", LIVE_BY_BLOCKS },
	{ 'g', "growth", LIVE_BY_GROWTH },
	{ 'r', "rate", LIVE_BY_RATE },
};

/* ---- arguments ---- */

static void help(void)
{
	fputs("usage: gpuleak top [options] PID|LEDGER\n\n"
	      "Shows the live memory of process PID until it ends: by device and kind, by call\n"
	      "site, with growth, and the pool. It only reads the ledger and does not disturb\n"
	      "the process. If PID is `gpuleak run`, the program that it runs is shown after its\n"
	      "first GPU call. On a terminal q or ^C ends top; otherwise the frames are printed\n"
	      "one after the other. Keys on a terminal sort the call sites: b by live bytes, n by\n"
	      "blocks, g by growth since the last frame, r by bytes allocated since then.\n\n"
	      "  --interval SECONDS        time between two frames, 0.1 to 3600 (default: 1)\n"
	      "  --once                    print one frame; the same as -n 1\n"
	      "  -n N                      print N frames\n"
	      "  --sites N                 number of call sites, 1 to 1000 (default: as many as\n"
	      "                            fit; 10 if frames are printed)\n"
	      "  --sort KEY                bytes, blocks, growth or rate (default: bytes)\n"
	      "  --older TIME              count only blocks of at least this age: 10s, 5m, 1h\n"
	      "  --step-every TIME         interval between steps, if the process marks none; a\n"
	      "                            call site that grows from step to step is a suspect\n"
	      "                            (default: 60s)\n\n"
	      "exit status: 0 the process ended, the frames are printed, or q; 1 there is\n"
	      "nothing to show, 2 wrong usage.\n", stdout);
}

static int wrong(const char *before, const char *word, const char *after)
{
	print_error("top: %s%s%s", before, word, after);
	return -1;
}

static int unknown(const char *word)
{
	static const char *const flags[] = { "interval", "once", "sites", "sort", "older",
					     "step-every" };
	struct suggestion suggestion = { .word = word + strspn(word, "-") };

	suggestion.length = strcspn(suggestion.word, "=");
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		suggest_consider(&suggestion, flags[i]);
	eprintf(stderr, "gpuleak: top: unknown flag '%s'", word);
	suggest_print(&suggestion, "--");
	fputs("; `gpuleak top --help` lists them\n", stderr);
	return -1;
}

static int bad_value(const char *flag, const char *value, const char *expected)
{
	print_error("top: bad value '%s' of %s: expected is %s", value, flag, expected);
	return -1;
}

static int parse_count(const char *text, long most, long *ret)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || value < 1 || value > most)
		return -1;
	*ret = value;
	return 0;
}

/* Parses a number of seconds such as "1" or "0.25". The decimal separator is a point in every
 * locale. */
static int parse_interval(const char *text, long *ret)
{
	size_t whole = strspn(text, "0123456789");
	const char *rest = text + whole;
	long ms = 0;

	if (whole > 4 || (!whole && *rest != '.'))
		return -1;
	for (size_t i = 0; i < whole; i++)
		ms = ms * 10 + (text[i] - '0');
	ms *= MS_PER_S;
	if (*rest == '.') {
		if (!rest[1] || rest[1 + strspn(rest + 1, "0123456789")])
			return -1;
		for (long unit = MS_PER_S / 10; *++rest; unit /= 10)
			ms += unit * (*rest - '0');
	}
	if (*rest || ms < LOOK_MS || ms > 3600L * MS_PER_S)
		return -1;
	*ret = ms;
	return 0;
}

/* Returns the value of flag NAME at ARGV[*AT], given as --name=VALUE or --name VALUE. Returns NULL
 * if the word is another flag. Returns "" and moves *AT beyond the end if the value is missing. */
static const char *value_of(const char *name, char **argv, int *at)
{
	const char *word = argv[*at];
	size_t length = strlen(name);

	if (strncmp(word, name, length) != 0 || (word[length] && word[length] != '='))
		return NULL;
	if (word[length] == '=')
		return word + length + 1;
	return argv[*at + 1] ? argv[++*at] : "";
}

static int parse_order(const char *text, enum live_order *ret)
{
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (strcmp(text, orders[i].word) == 0) {
			*ret = orders[i].order;
			return 0;
		}
	}
	return -1;
}

/* Parses a flag of the display. Returns 1 if the word is not such a flag. */
static int parse_look(struct arguments *ret, char **argv, int *at)
{
	static const char expected[] = "a duration such as 10s, 5m or 1h";
	const char *value = value_of("--sort", argv, at);

	if (value)
		return parse_order(value, &ret->order) == 0
			       ? 0
			       : bad_value("--sort", value, "bytes, blocks, growth or rate");
	value = value_of("--older", argv, at);
	if (value)
		return option_duration(value, &ret->older_ms) == 0
			       ? 0
			       : bad_value("--older", value, expected);
	value = value_of("--step-every", argv, at);
	if (value)
		return option_duration(value, &ret->step_ms) == 0 && ret->step_ms > 0
			       ? 0
			       : bad_value("--step-every", value, expected);
	return 1;
}

/* Parses one word. Returns 0, -1 after it printed an error, or -2 after it printed the help. */
static int parse_word(struct arguments *ret, char **argv, int *at)
{
	const char *word = argv[*at], *value;
	int r;

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
	    strcmp(word, "--help-all") == 0) {
		help();
		return -2;
	}
	if (strcmp(word, "--once") == 0) {
		ret->frames = 1;
		return 0;
	}
	value = value_of("--interval", argv, at);
	if (value)
		return parse_interval(value, &ret->interval_ms) == 0
			       ? 0
			       : bad_value("--interval", value, "a number of seconds, 0.1 to 3600");
	value = value_of("-n", argv, at);
	if (value)
		return parse_count(value, LONG_MAX, &ret->frames) == 0
			       ? 0
			       : bad_value("-n", value, "a number of frames");
	value = value_of("--sites", argv, at);
	if (value)
		return parse_count(value, SITES_MAX, &ret->sites) == 0
			       ? 0
			       : bad_value("--sites", value, "a whole number from 1 to 1000");
	r = parse_look(ret, argv, at);
	if (r <= 0)
		return r;
	if (word[0] == '-' && word[1])
		return unknown(word);
	if (ret->operand)
		return wrong("one process at a time: ", word, " is a second one");
	ret->operand = word;
	return 0;
}

static int parse(int argc, char **argv, struct arguments *ret)
{
	int r = 0;

	*ret = (struct arguments){ .interval_ms = MS_PER_S, .step_ms = 60 * MS_PER_S };
	for (int i = 1; i < argc && r == 0; i++)
		r = parse_word(ret, argv, &i);
	if (r == 0 && !ret->operand)
		r = wrong("name a process by its pid, or its ledger", "", "");
	return r;
}

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
	char path[64], name[64] = "";

	print_error("%s: is `gpuleak run` of several processes with GPU calls; name one of them:",
		    word);
	for (size_t i = 0; i < list->count; i++) {
		const struct ledger_file *file = &list->files[i];
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/%d/comm", file->pid);
		comm = fopen(path, "re");
		if (!process_runs(file->pid, file->start_ticks) || !comm ||
		    !fgets(name, sizeof(name), comm))
			name[0] = '\0';
		if (comm)
			fclose(comm);
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
	struct ledger_list list = { 0 };
	int r;

	if (ledgers_add_pid(&list, pid) == 0) {
		r = 1;
		if (list.is_run)
			r = choose_of_run(word, &list, ret);
		else
			take_file(ledgers_latest(&list, 0), ret);
	} else if (list.is_run || process_is_our_command(pid, "run") || is_starting(pid)) {
		r = 0;
	} else {
		r = nothing(word, ledgers_why_none(&list, pid));
	}
	ledgers_finish(&list);
	return r;
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
static int read_ledger(struct top_view *watch, const struct arguments *arguments, size_t sites)
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
		watch->step_due_s = now + (double)arguments->step_ms / MS_PER_S;
	ledger.older_ns = (uint64_t)arguments->older_ms * 1000000u;
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

static size_t sites_wanted(const struct top_view *watch, const struct arguments *arguments)
{
	if (arguments->sites)
		return (size_t)arguments->sites;
	return watch->on_screen ? terminal_size().rows : SITES_PLAIN;
}

static void print_frame(const struct top_view *watch, FILE *out)
{
	text_live(out, watch->now, watch->earlier, watch->now_s - watch->earlier_s, watch->sites);
}

static void draw(const struct top_view *watch)
{
	struct text_buffer frame;

	text_buffer_begin(&frame);
	print_frame(watch, frame.out);
	text_buffer_end(&frame);
	terminal_draw(frame.text);
	text_buffer_finish(&frame);
}

/* Reads the ledger and shows a frame. Returns 0, or -1 if several reads in a row failed. */
static int show(struct top_view *watch, const struct arguments *arguments, long number)
{
	if (read_ledger(watch, arguments, sites_wanted(watch, arguments)) < 0)
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
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (orders[i].key != key || watch->order == orders[i].order)
			continue;
		watch->order = orders[i].order;
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
static enum next wait_for_frame(struct top_view *watch, const struct arguments *arguments)
{
	double due = watch->now_s + (double)arguments->interval_ms / MS_PER_S;

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

static enum next show_frames(struct top_view *watch, const struct arguments *arguments)
{
	for (long shown = 0; !arguments->frames || shown < arguments->frames; shown++) {
		enum next next = shown ? wait_for_frame(watch, arguments) : GO_ON;

		if (next != GO_ON)
			return next;
		if (show(watch, arguments, shown) < 0)
			return FAILED;
	}
	return ENOUGH;
}

/* Prints the last frame, with the changes since the previous frame, and how the process ended. */
static int print_end(struct top_view *watch, const struct arguments *arguments)
{
	if (read_ledger(watch, arguments, sites_wanted(watch, arguments)) < 0)
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

static int run(struct top_view *watch, const struct arguments *arguments)
{
	enum next next;

	watch->on_screen = watch->was_on_screen = !arguments->frames && terminal_is();
	watch->has_keys = watch->on_screen && isatty(STDIN_FILENO);
	catch_signals(watch->on_screen);
	if (watch->on_screen) {
		abrupt_end_before = terminal_give_back;
		terminal_take();
	}
	next = show_frames(watch, arguments);
	terminal_give_back();
	watch->on_screen = false;
	if (next == FAILED)
		return nothing("top", watch->error);
	return next == PROCESS_ENDED ? print_end(watch, arguments) : 0;
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

int cmd_top(int argc, char **argv)
{
	struct top_view watch = { .fd = -1 };
	struct arguments arguments;
	int r = parse(argc, argv, &arguments);

	if (r < 0)
		return r == -2 ? 0 : STATUS_USAGE;
	be_cheap();
	watch.order = arguments.order;
	r = open_ledger(&watch, arguments.operand);
	if (r == 0)
		r = check_running(&watch);
	if (r == 0)
		r = run(&watch, &arguments);
	live_destroy(watch.earlier);
	live_destroy(watch.now);
	trend_finish(&watch.trend);
	symbolizer_destroy(watch.symbolizer);
	if (watch.fd >= 0)
		close(watch.fd);
	free(watch.file.path);
	return r < 0 ? STATUS_NOTHING_READ : 0;
}
