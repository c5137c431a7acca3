# SPDX-License-Identifier: MIT
"""What another user, a hostile program or a planted file may not achieve: the promises of
SECURITY.md, each with the case that holds it. Harness for processes: the other families."""

import glob
import json
import os
import shutil
import stat
import subprocess

from harness import Failed, compare
from stories import as_nobody, can_drop, copied_for_nobody, needs, one_line


LEAK = "gpuleak: 1 leak, 2.0 MiB in 3 blocks"


def mode(path):
    return oct(stat.S_IMODE(os.lstat(path).st_mode))


def ledgers_of(pid):
    """The ledgers of process PID, "*" for all, in the folders that all users share."""
    return [path for folder in ("/dev/shm", "/tmp")
            for path in glob.glob("%s/gpuleak-%d/%s-*" % (folder, os.geteuid(), pid))]


def killed(place, **more):
    """A process that leaves its ledger, because SIGKILL ended it."""
    run = place.preloaded([place.program("ends"), "KILL"], more.pop("env", None), **more)
    compare("status", -9, run.status)
    return run


def private(place):
    """the ledger and its folder are this user's alone, whatever the umask"""
    old = os.umask(0)
    try:
        run = killed(place)
    finally:
        os.umask(old)
    folder = os.path.join(place.runtime, "gpuleak")
    name, = [one for one in os.listdir(folder) if one.startswith("%d-" % run.pid)]
    compare("folder and ledger", ("0o700", "0o600"),
            (mode(folder), mode(os.path.join(folder, name))))
    os.unlink(os.path.join(folder, name))


def avoids(place, prepare):
    """A folder for ledgers that PREPARE planted is not used: the next one is. The planted one stays
    as it is."""
    planted = os.path.join(place.runtime, "gpuleak")
    shutil.rmtree(planted, ignore_errors=True)
    target = place.file("target")
    os.makedirs(target, exist_ok=True)
    prepare(planted, target)
    before = (mode(planted), os.listdir(target))
    older = ledgers_of("*")  # an earlier process may have had the same number
    run = killed(place)
    left = [path for path in ledgers_of(run.pid) if path not in older]
    try:
        compare("the planted folder", (before, []), ((mode(planted), os.listdir(target)),
                                                     os.listdir(planted)))
        compare("ledgers elsewhere", 1, len(left))
        report = place.command("report", str(run.pid))
        one_line(report.stdout, LEAK)
    finally:
        for path in left:
            os.unlink(path)
        (os.unlink if os.path.islink(planted) else shutil.rmtree)(planted)


def planted_link(place):
    """a folder for ledgers that is a symbolic link is not used"""
    avoids(place, lambda planted, target: (os.chmod(target, 0o700), os.symlink(target, planted)))


def planted_open(place):
    """a folder for ledgers that others may enter or write to is not used"""
    for wrong in (0o777, 0o750, 0o701):
        avoids(place, lambda planted, _, bits=wrong: (os.mkdir(planted), os.chmod(planted, bits)))


@needs("ends")
def planted_by_another(place):
    """a folder for ledgers of another user is not used"""
    avoids(place, lambda planted, _: (os.mkdir(planted, 0o700), os.chown(planted, 65534, 65534)))


planted_by_another.probe = can_drop


def linked_ledger(place):
    """a ledger's path that is a symbolic link: the file behind it stays as it is"""
    victim = place.write("victim", "precious\n")
    for name in ("kept", "kept.gpuleak-new"):
        os.symlink(victim, place.file(name))
    run = place.preloaded([place.program("ends"), "return"], {"GPULEAK_LEDGER": place.file("kept")})
    compare("status", 0, run.status)
    compare("the file behind the link", "precious\n", place.read("victim"))
    compare("the link", True, os.path.islink(place.file("kept")))


def set_id(place):
    """a set-id program: no GPULEAK_ variable is read"""
    for word, wanted in (("plain", (57, True)), ("set-id", (0, False))):
        run = place.preloaded([place.program("secure"), word],
                              {"GPULEAK_LEDGER": place.file(word), "GPULEAK_EXITCODE": "57"})
        compare(word + ": stdout", "secure\n", run.stdout)
        compare(word + ": status, ledger", wanted, (run.status, os.path.exists(place.file(word))))
        one_line(run.stderr, "gpuleak: 1 leak, 100 bytes in 1 block")


@needs("ends")
def unreadable(place):
    """another user cannot read a ledger, by its path or by the process"""
    run = killed(place)
    folder = os.path.join(place.runtime, "gpuleak")
    ledger, = glob.glob(os.path.join(folder, "%d-*" % run.pid))
    copied_for_nobody(place, "ends")
    os.chmod(place.runtime, 0o755)  # only the folder of the ledgers and the ledger protect it
    for operand in (ledger, folder, str(run.pid)):
        done = subprocess.run([place.options.command, "report", operand], preexec_fn=as_nobody,
                              env=place.environment({}), cwd="/", capture_output=True, text=True,
                              check=False)
        compare("report %s" % operand, (1, ""), (done.returncode, done.stdout))
    os.unlink(ledger)


unreadable.probe = can_drop


@needs("ends")
def foreign_ledger(place):
    """a ledger that another user planted for a process is not reported as this process's"""
    run = killed(place)
    folder = os.path.join(place.runtime, "gpuleak")
    ledger, = glob.glob(os.path.join(folder, "%d-*" % run.pid))
    os.chown(folder, 65534, 65534)
    report = place.command("report", str(run.pid))
    compare("report PID", (1, ""), (report.status, report.stdout))
    os.chown(folder, 0, 0)
    one_line(place.command("report", str(run.pid)).stdout, LEAK)
    os.unlink(ledger)


foreign_ledger.probe = can_drop


def planted_module(place):
    """another file lies where a module was: none of its names is used, no FIFO is waited for"""
    program = shutil.copy(place.program("ends"), place.file("app"))
    kept = place.file("kept")
    place.preloaded([program, "return"], {"GPULEAK_LEDGER": kept, "GPULEAK_REPORT": "none"})

    def plant(how):
        os.unlink(program)
        how()
        run = place.command("report", "--format", "json", kept)
        compare("status", 0, run.status)
        report = json.loads(run.stdout)
        compare("leaks", 3, len(report["leaks"]))
        text = json.dumps(report["leaks"])
        if "evil" in text or '"function": "lose_cache"' in text:
            raise Failed("names of another file: " + text)
        shutil.rmtree(program) if os.path.isdir(program) else os.unlink(program)
        place.write("app", "")

    plant(lambda: os.mkfifo(program))
    plant(lambda: os.symlink("/dev/zero", program))
    plant(lambda: os.mkdir(program))
    plant(lambda: place.write("app", "\x7fELF evil"))
    plant(lambda: shutil.copy(place.program("clean"), program))


def hostile_name(place):
    """a program whose name has control characters cannot write them to a terminal or a log"""
    name = "evil\x1b[2J\n::error::\u202egpj"
    program = shutil.copy(place.program("ends"), place.file(name))
    for form in ("text", "github", "junit", "sarif", "folded", "openmetrics", "html"):
        run = place.command("run", "--format", form, "--report", place.file("report"), "--",
                            program, "return")
        compare(form + ": status", 0, run.status)
        text = place.read("report") + run.stderr
        wrong = [one for one in ("\x1b", "\u202e", "\n::error::\u202e") if one in text]
        compare(form, [], wrong)
        if "evil" not in text and form in ("text", "html", "junit", "sarif"):
            raise Failed("%s does not name the program" % form)
        os.unlink(place.file("report"))


TRUST = [private, planted_link, planted_open, planted_by_another, linked_ledger, set_id, unreadable,
         foreign_ledger, planted_module, hostile_name]
