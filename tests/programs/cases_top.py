# SPDX-License-Identifier: MIT
"""`gpuleak top`: exact figures of a process that stands still, what changes from frame to frame,
every end, and what can't be watched."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from harness import Failed, TIMEOUT, compare, line_of, without_earlier

NOBODY = 65534


class Holder:
    """A program that is told what to do by lines, p_top unless it is said which."""

    def __init__(self, place, program=("top",), **env):
        self.place = place
        env = {"LD_PRELOAD": place.options.preload, "GPULEAK_REPORT": "none", **env}
        self.process = place.start([place.program(program[0]), *program[1:]], env, stdin=-1)
        self.expect("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    @property
    def pid(self):
        return self.process.pid

    def expect(self, line):
        if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
            raise Failed("nothing is answered")
        compare("answer", line, self.process.stdout.readline().decode().strip())

    def tell(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()

    def more(self):
        self.tell("more")
        self.expect("done")

    def end(self, status=7):
        self.tell("end")
        compare("status of the watched", status, self.process.wait(TIMEOUT))


def refused(place, *args, status=1, env=None):
    run = place.command("top", *args, env=env)
    compare("status", status, run.status)
    compare("stdout", "", run.stdout)
    compare("lines on stderr", 1, run.stderr.count("\n"))
    return run.stderr.rstrip("\n")


def once(place, *args):
    run = place.command("top", "--once", *args)
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    return run.stdout.split("\n")


def at(marker):
    return "/top.c:%d)" % line_of("top.c", marker)


def words(lines):
    """Without the spaces that make columns."""
    return [re.sub(r" +", " ", line).strip() for line in lines]


def short_places(lines):
    """Without the directories of sources."""
    return [re.sub(r"\(/\S*/", "(/", line) for line in words(lines)]


def figures(place):
    """top: one frame, exact figures and places"""
    with Holder(place) as holder:
        holder.more()
        compare("frame", [
            "gpuleak top: p_top (pid %d)" % holder.pid,
            "live 14.0 MiB in 5 blocks, peak 14.0 MiB; 5 allocated so far (14.0 MiB)",
            "",
            "device kind live blocks",
            "0 device memory 14.0 MiB 4",
            "0 pinned host memory 512 bytes 1",
            "",
            "live blocks where",
            "12.0 MiB 3 mesh (%s, called from main (/top.c:%d), cuMemAlloc_v2" % (
                at("mesh"), line_of("top.c", "meshes")),
            "2.0 MiB 1 main (%s, cuMemAlloc_v2" % at("more"),
            "512 bytes 1 main (%s, cuMemAllocHost_v2" % at("pinned"),
            ""], short_places(once(place, holder.pid)))
        compare("one site", ["12.0 MiB 3", "and 2 more", ""],
                [line.split(" mesh")[0]
                 for line in words(once(place, "--sites", "1", holder.pid))[-3:]])
        compare("the process is as it was", None, holder.process.poll())
        holder.end()


def by_ledger(place):
    """top: of a ledger that was put elsewhere, named by its path"""
    with Holder(place, GPULEAK_LEDGER=place.file("mine")) as holder:
        said = refused(place, holder.pid)
        compare("hint", True, "GPULEAK_LEDGER of its own" in said)
        compare("first line", "gpuleak top: p_top (pid %d)" % holder.pid,
                once(place, place.file("mine"))[0])
        holder.end()
    said = refused(place, place.file("mine"))
    compare("ended", "gpuleak: process %d has ended; `gpuleak report %s` reports what it left" % (
        holder.pid, place.file("mine")), said)


def earlier_of(place, holder):
    """A ledger as another process of this number would have left it, before HOLDER had it."""
    with open(place.file("mine"), "rb") as file:
        bytes_ = bytearray(file.read())
    at_ticks = 8 + 8 * 4  # ledger/format.h: magic, eight numbers of four bytes
    ticks, start = struct.unpack_from("<QQ", bytes_, at_ticks)
    struct.pack_into("<QQ", bytes_, at_ticks, ticks - 1, start - 1)
    os.makedirs(os.path.join(place.runtime, "gpuleak"), 0o700, exist_ok=True)
    path = os.path.join(place.runtime, "gpuleak", "%d-%d.gpuleak" % (holder.pid, ticks - 1))
    with open(path, "wb") as file:
        file.write(bytes_)
    return path


def number_again(place):
    """top: a number that an earlier process had: it names the one that runs, and what was left"""
    with Holder(place, GPULEAK_LEDGER=place.file("mine")) as holder:
        path = earlier_of(place, holder)
        said = refused(place, holder.pid)
        hint = "GPULEAK_LEDGER of its own (then name that file); an earlier process of this number left "
        compare("hint", hint + path, said[-len(hint + path):])
        for command, status, judged in (
                ("report", 1, ""),
                ("check", 24, "gate has nothing to judge: no ledger was found: no GPU call was seen\n")):
            run = place.command(command, str(holder.pid))
            compare(command, (status, judged, True),
                    (run.status, run.stdout, run.stderr.endswith(hint + path + "\n")))
        holder.end()
    run = place.command("report", str(holder.pid))
    compare("nobody has the number", (True, "gpuleak: process %d has ended; its ledger stays at %s\n" % (
        holder.pid, path)), ("p_top (pid %d" % holder.pid in run.stdout, run.stderr))


def printed(place, holder, *args):
    """Frames as they are printed, and a function that reads one more."""
    top = place.start([place.options.command, "top", "--interval", "0.2", *args, holder.pid], {})

    def line():
        if not select.select([top.stdout], [], [], TIMEOUT)[0]:
            raise Failed("nothing is printed")
        return top.stdout.readline().decode()
    return top, line


def sites_line(text):
    """What a site has and how much more, and the unit of what it allocates in a second."""
    found = re.match(r"(.*) (0 bytes|[\d.]+ MiB) m", text)
    return found[1], found[2].split()[1] if found[2] != "0 bytes" else found[2]


def growth(place):
    """top: what grew between two frames, and the end with the process's status"""
    with Holder(place) as holder:
        top, line = printed(place, holder)
        lines = []
        while not any("live 12.0 MiB (=)" in text for text in lines):
            lines.append(line())
        holder.more()
        while not any("live 14.0 MiB" in text for text in lines):
            lines.append(line())
        compare("sum", "live 14.0 MiB (+2.0 MiB) in 5 blocks, peak 14.0 MiB; 5 allocated so far "
                "(14.0 MiB)\n", lines[-1])
        frame = words(line() for _ in range(8))
        compare("kinds", ["", "device kind live blocks growth", "0 device memory 14.0 MiB 4 +2.0 MiB",
                          "0 pinned host memory 512 bytes 1 =", "",
                          "live blocks growth allocated/s where"], frame[:6])
        compare("sites", [("12.0 MiB 3 =", "0 bytes"), ("2.0 MiB 1 +2.0 MiB", "MiB")],
                [sites_line(text) for text in frame[6:8]])
        holder.end()
        rest, errors = top.communicate(timeout=TIMEOUT)
        compare("status and stderr", (0, b""), (top.returncode, errors))
        text = rest.decode()
        compare("last line", "gpuleak: p_top (pid %d) exited with status 7" % holder.pid,
                text.rstrip("\n").split("\n")[-1])
        # what the ledger says after its process is gone, and after it was removed
        compare("last frame", True, "live 0 bytes (-14.0 MiB) in 0 blocks, peak 14.0 MiB; 5 "
                "allocated so far (14.0 MiB)\n" in text.split("gpuleak top:")[-1])
    place.nothing_left()


def killed(place):
    """top: a process that is killed"""
    with Holder(place) as holder:
        top, line = printed(place, holder)
        line()
        holder.process.send_signal(signal.SIGKILL)
        holder.process.wait(TIMEOUT)
        rest, _ = top.communicate(timeout=TIMEOUT)
        compare("status", 0, top.returncode)
        compare("last line", "gpuleak: p_top (pid %d) killed (cause unknown)\n" % holder.pid,
                rest.decode().split("\n\n")[-1])
    said = refused(place, holder.pid)
    compare("afterwards", True, said.startswith("gpuleak: process %d has ended; " % holder.pid))


def frames(place):
    """top: -n frames, then no more"""
    with Holder(place) as holder:
        run = place.command("top", "-n", "3", "--interval=0.1", holder.pid)
        compare("status", 0, run.status)
        compare("frames", 3, run.stdout.count("gpuleak top: p_top"))
        compare("not the end", False, "exited" in run.stdout)


def closed(place):
    """top: who reads the frames goes away"""
    with Holder(place) as holder:
        top, line = printed(place, holder)
        line()
        top.stdout.close()
        compare("status", 0, top.wait(TIMEOUT))


def changed_program(place):
    """top: a process that goes on as another program"""
    with Holder(place) as holder:
        ledger = place.left_behind()
        compare("ledgers", 1, len(ledger))
        path = os.path.join(place.runtime, ledger[0])
        # as the library notes it before an exec; one that fails is taken back at once
        offset = header_offset("ended")
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(struct.pack("=I", 3))
        run = place.command("top", "--interval", "0.2", holder.pid)
        compare("status", 0, run.status)
        compare("last line", "gpuleak: p_top (pid %d) replaced itself by exec" % holder.pid,
                run.stdout.rstrip("\n").split("\n")[-1])


def header_offset(member):
    """Of struct ledger_header, as docs/developers/ledger-format.md has it."""
    layout = [("magic", 8)] + [(name, 4) for name in (
        "version", "reader_min", "byte_order", "chunk_bytes", "header_bytes", "stack_depth", "pid",
        "ppid")] + [(name, 8) for name in ("start_ticks", "start_real_ns", "start_mono_ns")] + [
            (name, 4) for name in ("host", "exe", "cwd", "command", "chunks", "ended")]
    offset = 0
    for name, size in layout:
        if name == member:
            return offset
        offset += size
    raise Failed(member)


class Screen:
    """`gpuleak top` on a terminal of ROWS x COLUMNS; keeps what is shown, as far as top draws."""

    def __init__(self, place, holder, rows, columns, *flags, env=None):
        self.master, slave = pty.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.got = b""
        self.top = place.start([place.options.command, "top", "--interval", "0.2", *flags, holder.pid],
                               {"TERM": "xterm", **(env or {})}, stdin=slave, stdout=slave,
                               start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, condition):
        deadline = time.monotonic() + TIMEOUT
        while not condition(self.got):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise Failed("never on the terminal; it shows %r" % self.got[-2000:])
            self.got += os.read(self.master, 65536)

    def key(self, key):
        os.write(self.master, key)

    def frame(self):
        """The lines of the last whole frame, without colours."""
        frames = re.findall(rb"\x1b\[H(.*?)\x1b\[J", self.got, re.S)
        return [re.sub("\x1b\\[[\\d;]*[mK]", "", line) for line in re.split("\r+\n", frames[-1].decode())]

    def last_line(self):
        """The row and the text of what is drawn below the last whole frame, with colours."""
        row, text = re.findall(rb"\x1b\[J\x1b\[(\d+);1H(.*?)\x1b\[K", self.got, re.S)[-1]
        return int(row), text.decode()

    def reset(self):
        """Forgets what was drawn, and waits until a frame is drawn."""
        self.got = b""
        self.until(frames_drawn(2))

    def ended(self):
        compare("status and stderr", (0, b""),
                (self.top.wait(TIMEOUT), self.top.stderr.read()))
        self.until(lambda got: b"\x1b[?1049l" in got)
        compare("settings of the terminal", self.before, termios.tcgetattr(self.slave))
        compare("cursor, wrapping", [True, True],
                [self.got.rfind(on) > self.got.rfind(off)
                 for on, off in ((b"\x1b[?25h", b"\x1b[?25l"), (b"\x1b[?7h", b"\x1b[?7l"))])
        os.close(self.slave)
        os.close(self.master)


def frames_drawn(count):
    return lambda got: got.count(b"\x1b[J") >= count


def terminal(place):
    """top: on a terminal: frames fit, change with its size, and q gives it back"""
    with Holder(place) as holder:
        screen = Screen(place, holder, 50, 60)
        screen.until(frames_drawn(2))
        lines = screen.frame()
        compare("first line", "gpuleak top: p_top (pid %d)" % holder.pid, lines[0])
        compare("columns", True, 50 < max(map(len, lines)) <= 60)
        compare("rows", 11, len(lines))
        compare("alternate screen", True, screen.got.startswith(b"\x1b[?1049h"))
        screen.size(5, 20)
        screen.top.send_signal(signal.SIGWINCH)
        screen.until(lambda got: frames_drawn(2)(got) and len(screen.frame()) == 4)
        compare("columns of a small one", 20, max(map(len, screen.frame())))
        screen.key(b"x")
        screen.key(b"q")
        screen.ended()
        compare("the process is as it was", None, holder.process.poll())


def sorted_by_keys(place):
    """top: on a terminal: keys sort the sites at once"""
    with Holder(place) as holder:
        screen = Screen(place, holder, 50, 200)
        screen.until(frames_drawn(2))

        def first_site():
            lines = words(screen.frame())
            return lines[[line.endswith(" where") for line in lines].index(True) + 1]
        compare("by bytes", True, first_site().startswith("12.0 MiB 3 "))
        holder.more()
        holder.more()
        screen.key(b"g")
        screen.until(lambda _: first_site().startswith("4.0 MiB 2 "))
        holder.more()
        holder.more()
        screen.key(b"n")
        screen.until(lambda _: first_site().startswith("8.0 MiB 4 "))
        screen.key(b"b")
        screen.until(lambda _: first_site().startswith("12.0 MiB"))
        screen.key(b"q")
        screen.ended()


def fits_columns(place):
    """top: columns that fit: on 40 to 300 columns no cell is cut, and each line has its place"""
    with Holder(place) as holder:
        holder.more()
        screen = Screen(place, holder, 50, 300)
        for columns, cells in ((40, "live where"), (56, "live growth where"), (66, "live blocks growth where"),
                               (80, "live blocks growth allocated/s where"),
                               (300, "live blocks growth allocated/s where")):
            screen.size(50, columns)
            screen.top.send_signal(signal.SIGWINCH)
            screen.reset()
            lines = screen.frame()
            compare("longest of %d" % columns, True, max(map(len, lines)) <= columns)
            at = [line.endswith(" where") for line in lines].index(True)
            compare("cells of %d" % columns, cells, words(lines[at:at + 1])[0])
            start = lines[at].index("where")
            for site, line in zip(("mesh", "main", "main"), lines[at + 1:]):
                compare("place on %d columns: %s" % (columns, line), True, line[start:].startswith(site + " ("))
                compare("file and line: " + line, True, bool(re.search(r"top\.c:\d+\)", line)))
            compare("all of the live memory", True, "peak 14.0 MiB" in "".join(lines))
            kinds = words(lines[[line.startswith("device") for line in lines].index(True):at])
            compare("kinds: %s" % kinds, True, kinds[1].startswith("0 device memory 14.0 MiB"))
        for key, cell in ((b"n", "live blocks where"), (b"r", "live allocated/s where"), (b"g", "live growth where")):
            screen.size(50, 40)
            screen.key(key)
            screen.reset()
            lines = words(screen.frame())
            compare("the sorted column stays", [cell], [line for line in lines if line.endswith(" where")])
        screen.key(b"q")
        screen.ended()


def keys_and_help(place):
    """top: keys on the last row, the current order marked; ? shows help until the next key"""
    with Holder(place) as holder:
        screen = Screen(place, holder, 30, 100)
        screen.until(frames_drawn(2))
        compare("keys", (30, "sort by:  *b bytes  n blocks  g growth  r rate    ? help  q quit"),
                (screen.last_line()[0], plain(screen.last_line()[1])))
        screen.key(b"g")
        screen.reset()
        compare("the order", True, " *g growth" in screen.last_line()[1] and "*b" not in screen.last_line()[1])
        screen.size(10, 40)
        screen.reset()
        compare("narrow", (10, "sort: b n *g r  ? help  q quit"),
                (screen.last_line()[0], plain(screen.last_line()[1])))
        screen.size(30, 40)
        screen.key(b"?")
        screen.until(lambda _: "keys and columns" in screen.frame()[0])
        screen.reset()
        shown = "\n".join(screen.frame())
        for part in ("  b  live bytes", "  q  quit", "growth ", "allocated/s ", "suspect ", "gpuleak help services"):
            compare(part, True, part in shown)
        compare("columns of the help", True, max(map(len, screen.frame())) <= 40)
        screen.key(b"b")
        screen.until(lambda _: screen.frame()[0].startswith("gpuleak top: p_top"))
        screen.reset()
        compare("that key only ends the help", True, "*g" in screen.last_line()[1])
        screen.key(b"q")
        screen.ended()


def plain(text):
    return re.sub("\x1b\\[[\\d;]*m", "", text)


def colors_of_top(place):
    """top: colours on a terminal, unless NO_COLOR, TERM or --color forbid it"""
    with Holder(place) as holder:
        for env, flags, wanted in (({}, [], True), ({"NO_COLOR": "1"}, [], False), ({"TERM": "dumb"}, [], False),
                                   ({}, ["--color", "never"], False), ({"GPULEAK_COLOR": "never"}, [], False),
                                   ({"NO_COLOR": "1"}, ["--color", "always"], True)):
            screen = Screen(place, holder, 30, 120, *flags, env=env)
            screen.until(frames_drawn(2))
            compare("%s %s" % (env, flags), wanted, bool(re.search(rb"\x1b\[[\d;]+m", screen.got)))
            if env == {} and wanted:
                holder.more()
                screen.until(lambda got: b"\x1b[33m+2.0 MiB\x1b[0m" in got)
                compare("headings", True, b"\x1b[1mgpuleak top: p_top" in screen.got)
                compare("keys", True, b"\x1b[7msort by: " in screen.got)
            screen.key(b"q")
            screen.ended()
        compare("in a pipe", False, any("\x1b" in line for line in once(place, holder.pid)))


def sorted_by_flag(place):
    """top: --sort"""
    with Holder(place) as holder:
        for _ in range(4):
            holder.more()
        for key, first in (("bytes", "12.0 MiB 3"), ("blocks", "8.0 MiB 4"), ("rate", "12.0 MiB 3")):
            line = words(once(place, "--sort", key, holder.pid))[-4]
            compare(key, True, line.startswith(first + " "))


def tiny(place):
    """top: on a terminal of one row and one column, and of no size"""
    with Holder(place) as holder:
        screen = Screen(place, holder, 1, 1)
        screen.until(frames_drawn(2))
        compare("frame", ["g"], screen.frame())
        screen.size(0, 0)
        screen.until(lambda got: len(screen.frame()) > 1)
        screen.key(b"\x03")
        screen.ended()


def end_on_terminal(place):
    """top: the process ends while it is shown on a terminal"""
    with Holder(place) as holder:
        screen = Screen(place, holder, 24, 100)
        screen.until(frames_drawn(1))
        holder.end()
        # With the end of the line, which may arrive later than the line.
        screen.until(lambda got: b"exited with status 7\r\n" in got)
        shown = screen.got[screen.got.rfind(b"\x1b[?1049l"):].decode()
        compare("on the ordinary screen", True,
                "gpuleak: p_top (pid %d) exited with status 7\r\n" % holder.pid in shown)
        screen.ended()


def no_such(place):
    """top: no such process, no ledger, no number, and wrong usage"""
    compare("gone", "gpuleak: 999999999: there is no such process, and there is no ledger of it", refused(place, 999999999))
    compare("zero", "gpuleak: 0: there is no such process, and there is no ledger of it", refused(place, 0))
    compare("huge", "gpuleak: 99999999999999999999: there is no such process, and there is no ledger of it",
            refused(place, 99999999999999999999))
    said = refused(place, os.getpid())
    compare("no ledger", True, said.startswith("gpuleak: %d: no ledger of this process is where "
                                               "gpuleak creates ledgers; " % os.getpid()))
    compare("no file", "gpuleak: nowhere: No such file or directory", refused(place, "nowhere"))
    compare("no ledger", "gpuleak: %s: is not a gpuleak ledger" % place.write("text", "x" * 20000),
            refused(place, place.file("text")))
    compare("directory", "gpuleak: %s: is not a gpuleak ledger" % place.path,
            refused(place, place.path))
    for args, what in (
            ([], "name a process by its pid, or its ledger"),
            (["1", "2"], "one process at a time: 2 is a second one"),
            (["--interval", "0", "1"], "bad value '0' of --interval: expected is a number of "
             "seconds, 0.1 to 3600"),
            (["--interval=-1", "1"], "bad value '-1' of --interval: expected is a number of "
             "seconds, 0.1 to 3600"),
            (["--interval", "1e3", "1"], "bad value '1e3' of --interval: expected is a number of "
             "seconds, 0.1 to 3600"),
            (["--interval"], "--interval needs a value: a number of seconds, 0.1 to 3600"),
            (["--interval="], "bad value '' of --interval: expected is a number of seconds, 0.1 to "
             "3600"),
            (["-n", "0", "1"], "bad value '0' of -n: expected is a number of frames"),
            (["--sort", "size", "1"], "bad value 'size' of --sort: expected is bytes, blocks, growth or "
             "rate"),
            (["--older", "5 m", "1"], "bad value '5 m' of --older: expected is a duration such as 10s, "
             "5m or 1h"),
            (["--step-every", "0", "1"], "bad value '0' of --step-every: expected is a duration such "
             "as 10s, 5m or 1h"),
            (["--sites", "1001", "1"], "bad value '1001' of --sites: expected is a whole number "
             "from 1 to 1000"),
            (["--sit", "1"], "unknown flag '--sit'; `gpuleak top --help` lists them")):
        compare("usage: %s" % args, "gpuleak: top: " + what, refused(place, *args, status=2))
    run = place.command("top", "--help")
    compare("help", (0, "", True), (run.status, run.stderr, "--interval SECONDS" in run.stdout))


def other_user(place):
    """top: another user's process"""
    process = place.start(["sleep", "60"], {}, user=NOBODY)
    try:
        compare("said", "gpuleak: %d: is another user's process: only that user finds its ledger"
                % process.pid, without_earlier(refused(place, process.pid)))
    finally:
        process.kill()
        process.communicate()


other_user.probe = lambda options: None if os.geteuid() == 0 else "needs root"


def cut_short(place):
    """top: a ledger that is cut short while it is watched"""
    with Holder(place) as holder:
        ledger = os.path.join(place.runtime, place.left_behind()[0])
        copy = place.file("copy")
        with open(ledger, "rb") as file:
            bytes_ = file.read()
        with open(copy, "wb") as file:
            file.write(bytes_)
        top = place.start([place.options.command, "top", "--interval", "0.1", copy], {})
        top.stdout.readline()
        os.truncate(copy, 100)
        _, errors = top.communicate(timeout=TIMEOUT)
        compare("status", 1, top.returncode)
        compare("stderr", "gpuleak: top: %s: is cut short: its header is incomplete; record it "
                "again\n" % copy, errors.decode())


TOP = [figures, by_ledger, growth, killed, frames, closed, changed_program, terminal, tiny,
       end_on_terminal, sorted_by_keys, fits_columns, keys_and_help, colors_of_top, sorted_by_flag, no_such, number_again, other_user, cut_short]
