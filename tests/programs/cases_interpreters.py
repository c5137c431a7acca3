# SPDX-License-Identifier: MIT
"""Frames of Ruby and PHP: read where that is allowed, and a partial stack where it is not."""

import os
import re
import shutil

from harness import Failed, HERE, Missing, compare

RUBY = os.path.join(HERE, "ruby", "calls.rb")
PHP = os.path.join(HERE, "php", "calls.php")
# PHP opens its extensions with RTLD_DEEPBIND, so FFI finds the driver's functions without gpuleak.
COVER = {"GPULEAK_DEEPBIND": "cover"}
DRIVER = os.path.join(HERE, "php", "driver.php")


def line(path, marker):
    with open(path, encoding="utf-8") as file:
        return next(number for number, text in enumerate(file, 1) if re.search(r"(#|//) @%s$" % marker, text))


def command_of(path):
    program = {RUBY: "ruby", PHP: "php"}[path]
    if not shutil.which(program):
        raise Missing("no %s is installed" % program)
    return [shutil.which(program), *([] if path == RUBY else ["-n", "-d", "extension=ffi", "-d",
                                                                "ffi.enable=1"]), path]


def report_of(place, path, mode, status=0, out="worked\n"):
    """Runs MODE of the program at PATH and returns the report."""
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        *command_of(path), mode, env=COVER)
    if path == PHP and "FFI" in run.stdout + run.stderr and run.status == 255:
        raise Missing("PHP has no FFI")
    compare("status and output of " + mode, (status, out), (run.status, run.stdout))
    return place.json("report.json")


def frames(stack, language):
    return [("%s:%d" % (os.path.basename(frame["file"]), frame["line"]), frame["function"])
            for frame in stack if frame.get("language") == language]


def leaks(report, language):
    return {leak["bytes"]: (leak["blocks"], "partial" in leak, frames(leak["stack"], language))
            for leak in report["leaks"]}


def at(path, *pairs):
    """Returns frames as frames() has them; PAIRS are (marker, function)."""
    return [("%s:%d" % (os.path.basename(path), line(path, marker)), function)
            for marker, function in pairs]


def ruby_methods(place):
    """two methods of Ruby that leak by one native function are two leaks, with their lines"""
    found = leaks(report_of(place, RUBY, "leak"), "ruby")
    compare("weights", (3, False, ["alloc", "weights", "leak"]),
            (*found[3000][:2], [re.sub(r".*[.#]", "", name) for _, name in found[3000][2][:3]]))
    for size, name in ((3000, "weights"), (900, "activations")):
        wanted = [place for place, _ in at(RUBY, ("alloc", ""), (name, ""), ("leak-" + name, ""))]
        compare("lines of " + name, wanted, [place for place, _ in found[size][2][:3]])
        compare("the outermost", at(RUBY, ("main", "<main>")), found[size][2][-1:])
    run = place.command("run", "--", *command_of(RUBY), "leak")
    if not re.search(r"called from (Net#)?weights \(\S*calls\.rb:%d\)" % line(RUBY, "weights"),
                     run.stderr.split("\nLeak")[0]) or "interpreter" in run.stderr:
        raise Failed(run.stderr)


def ruby_eval(place):
    """code of eval() has the file and line that eval() was given"""
    found = leaks(report_of(place, RUBY, "eval"), "ruby")
    compare("frames", ["made.rb:40", "made.rb:41"], [each for each, _ in found[700][2][1:3]])


def ruby_load(place):
    """threads that allocate without Ruby's global lock while garbage is collected and compacted"""
    total = {}
    for leak in report_of(place, RUBY, "load")["leaks"]:
        name = frames(leak["stack"], "ruby")[1][0]
        total[name] = total.get(name, 0) + leak["blocks"]
    wanted = [each for each, _ in at(RUBY, ("weights", ""), ("activations", ""))]
    compare("lines", {each: 200 for each in wanted}, total)


def ruby_collect(place):
    """a free by the garbage collector has the line that ran then"""
    report = report_of(place, RUBY, "collect")
    compare("errors", 20, len(report["errors"]))
    freed = at(RUBY, ("freed", "block in <main>"))[0]
    for error in report["errors"]:
        compare("type", "double-free", error["type"])
        compare("first free", freed, frames(error["freed"]["stack"], "ruby")[0])
        compare("file of the second", {"calls.rb", "<internal:gc>"},
                {each.rpartition(":")[0] for each, _ in frames(error["stack"], "ruby")} | {"<internal:gc>"})


def ruby_fork(place):
    """a child of a fork has its own frames"""
    run = place.command("run", "--", *command_of(RUBY), "fork")
    for name in ("weights", "activations"):
        if not re.search(r"^    #\d+ \S*%s \S*calls.rb:%d$" % (name, line(RUBY, name)), run.stderr,
                         re.MULTILINE):
            raise Failed("no line of %s\n%s" % (name, run.stderr))


def php_functions(place):
    """two functions of PHP that leak by one native function are two leaks, with their lines"""
    report = report_of(place, PHP, "leak")
    alloc, main = at(DRIVER, ("alloc", "Driver::alloc")), at(PHP, ("main", "{main}"))
    net = "Nets\\Net::"
    found = leaks(report, "php")
    compare("weights", (3, False, alloc + at(PHP, ("weights", net + "weights"),
                                             ("leak-weights", net + "leak")) + main), found[3000])
    wanted = at(PHP, ("activations", net + "activations"), ("leak-activations", ""),
                ("leak-activations", net + "leak"))
    compare("activations", [each for each, _ in alloc + wanted + main],
            [each for each, _ in found[900][2]])
    run = place.command("run", "--", *command_of(PHP), "leak", env=COVER)
    if "weights (" not in run.stderr.split("\n")[0] or "interpreter" in run.stderr:
        raise Failed(run.stderr)


def php_others(place):
    """generators, fibers, and code of eval()"""
    found = leaks(report_of(place, PHP, "others"), "php")
    compare("generator", at(PHP, ("generator", "Nets\\values"), ("for", "{main}")), found[500][2][1:])
    if 600 in found:
        compare("fiber", at(PHP, ("fiber", "")), [(each, "") for each, _ in found[600][2][1:2]])
    if "eval()'d code:2" not in found[700][2][1][0]:
        raise Failed(str(found[700]))


def php_ends(place):
    """exit(), shutdown functions and destructors"""
    found = leaks(report_of(place, PHP, "ends", status=3, out=""), "php")
    for size, marker in ((20, "kept"), (30, "shutdown"), (40, "destructor")):
        compare(marker, [each for each, _ in at(PHP, (marker, ""))],
                [each for each, _ in found[size][2][1:2]])


INTERPRETERS = [ruby_methods, ruby_eval, ruby_load, ruby_collect, ruby_fork, php_functions, php_others,
                php_ends]
