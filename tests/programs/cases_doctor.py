# SPDX-License-Identifier: MIT
"""gpuleak doctor: what it finds out about a program, a driver, Python and this shell; that it
neither starts the program nor a GPU context, and that nothing makes it crash."""

import ctypes
import json
import os
import random
import resource
import shutil
import stat
import struct
import subprocess

from harness import Failed, compare
from stories import needs

MACHINE = 18  # offset of e_machine in an ELF header


def findings(place, *words, env=None, **how):
    """Runs doctor. Returns its status and its findings as (level, area, what, advice)."""
    run = place.command("doctor", "--format", "json", *words, env=env, **how)
    compare("stderr of doctor", "", run.stderr)
    start = run.stdout.find('{\n "schema"')
    if start < 0:
        raise Failed("no JSON: %r" % run.stdout)
    report = json.loads(run.stdout[start:])
    compare("schema", "gpuleak-doctor/1", report["schema"])
    rows = [(row["level"], row["area"], row["what"], row["advice"]) for row in report["findings"]]
    for key, level in (("problems", "problem"), ("warnings", "warning")):
        compare(key, sum(row[0] == level for row in rows), report[key])
    compare("status", 1 if report["problems"] else 0, run.status)
    for level, _, what, advice in rows:
        if level == "problem" and not advice and "no directory for ledgers" not in what:
            raise Failed("a problem without advice: " + what)
    return run.status, rows


def expect(rows, level, area, *parts):
    """There is exactly one finding of LEVEL and AREA that has all PARTS."""
    fitting = [row for row in rows if row[:2] == (level, area) and all(
        part in "%s; %s" % (row[2], row[3]) for part in parts)]
    if len(fitting) != 1:
        raise Failed("%d findings are %s, %s, %s in:\n%s" % (
            len(fitting), level, area, parts, "\n".join(map(str, rows))))


def expect_none(rows, level, area=None):
    compare("findings of %s %s" % (level, area), [], [
        row for row in rows if row[0] == level and area in (None, row[1])])


def executable(place, name, text):
    path = place.write(name, text)
    os.chmod(path, 0o755)
    return path


def copied(place, name, change=None):
    """A copy of p_clean whose bytes CHANGE, a function, has changed."""
    path = place.file(name)
    shutil.copy(place.program("clean"), path)
    if change:
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            change(data)
            file.seek(0)
            file.write(data)
            file.truncate(len(data))
    return path


# ---- the program ----

def good_program(place):
    """a program that can be recorded: no problem; it is not started"""
    program = place.program("clean")
    _, rows = findings(place, program)
    expect_none(rows, "problem")
    expect(rows, "ok", "library", os.path.realpath(place.options.preload))
    expect(rows, "ok", "program", "is a program for ")
    expect(rows, "ok", "program", "the dynamic loader loads libgpuleak.so into " + program)
    expect(rows, "ok", "program", "is linked to the driver's library")
    expect(rows, "ok", "stacks", "has debug information: stacks have files and lines")
    expect(rows, "ok", "limits", "ledgers go to " + os.path.join(place.runtime, "gpuleak"))
    run = place.command("doctor", program, "argument")
    lines = run.stdout.splitlines()
    compare("first line", "gpuleak doctor: 0 problems, %d warnings; nothing keeps gpuleak from "
            "recording %s" % (sum(row[0] == "warning" for row in rows), program),
            lines[0].replace("1 warning;", "1 warnings;"))
    compare("one line per finding", len(rows), len(lines) - 2)
    compare("its own output", False, "clean" in lines)
    started = place.file("started")
    script = executable(place, "script", "#!/bin/sh\n: >%s\n" % started)
    for argv in ((script,), ("/bin/sh", "-c", ": >" + started)):
        findings(place, *argv)
        compare("started", False, os.path.exists(started))
    place.nothing_left()


def no_program(place):
    """without a program: the machine alone; wrong usage ends with 2"""
    _, rows = findings(place, env={"PATH": "/usr/bin:/bin"})
    expect_none(rows, "problem")
    compare("areas", set(), {row[1] for row in rows} - {
        "library", "driver", "OpenCL", "Python", "stacks", "limits"})
    for words, said in ((["--start"], "gpuleak: doctor: --start needs a program: gpuleak doctor --start "
                         "./app\n"),
                        (["--sart"], "gpuleak: doctor: unknown flag '--sart' (did you mean --start?); `gpuleak "
                         "doctor --help` lists them\n"),
                        (["--format", "html"], "gpuleak: doctor: bad value 'html' of --format: expected is "
                         "text or json\n")):
        run = place.command("doctor", *words)
        compare("%s" % words, (2, "", said), (run.status, run.stdout, run.stderr))


def other_machine(place):
    """a program for another processor, a 32-bit program"""
    def other(data):
        was, = struct.unpack_from("<H", data, MACHINE)
        struct.pack_into("<H", data, MACHINE, 183 if was != 183 else 62)

    def half(data):
        data[4] = 1
    status, rows = findings(place, copied(place, "other", other))
    compare("status", 1, status)
    expect(rows, "problem", "program", "is a program for another processor than libgpuleak.so")
    _, rows = findings(place, copied(place, "half", half))
    expect(rows, "problem", "program", "are not both 64-bit")


def static(place):
    """a static program; one whose stacks have offsets alone; one without unwind tables"""
    def no_loader(data):
        offset, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for at in range(offset, offset + size * count, size):
            if struct.unpack_from("<I", data, at)[0] == 3:
                struct.pack_into("<I", data, at, 0)
    _, rows = findings(place, copied(place, "static", no_loader))
    expect(rows, "problem", "program", "is statically linked", "link the program dynamically")
    _, rows = findings(place, place.program("stripped"))
    expect_none(rows, "problem")
    expect(rows, "warning", "stacks", "no debug information and no symbols", "compile it with -g")
    if shutil.which("objcopy"):
        debug, bare = place.file("app.debug"), place.file("app")
        for words in (["--only-keep-debug", place.program("clean"), debug],
                      ["--strip-all", "--remove-section=.note.gnu.build-id", "--add-gnu-debuglink=" + debug,
                       place.program("clean"), bare]):
            subprocess.run(["objcopy", *words], check=True, cwd=place.path)
        _, rows = findings(place, bare)
        expect(rows, "ok", "stacks", "has debug information")
        os.unlink(debug)
        _, rows = findings(place, bare)
        expect(rows, "warning", "stacks", "no debug information")
        for name, words, level, part in (
                ("tables", ["--remove-section", ".eh_frame"], "warning", "no unwind tables (.eh_frame)"),
                ("nvcc", ["--add-section", ".nv_fatbin=" + place.write("fat", "code")], "ok",
                 "was built by nvcc with the static CUDA runtime: its calls are seen")):
            subprocess.run(["objcopy", *words, place.program("clean"), place.file(name)], check=True)
            _, rows = findings(place, place.file(name))
            expect(rows, level, "program", part)
            expect_none(rows, "problem")
    elif os.environ.get("GPULEAK_MUST_RUN"):
        raise Failed("no objcopy")


@needs("musl")
def musl(place):
    """a program of the musl C library, also behind a script and env"""
    program = place.program("musl")
    for argv in ((program,), (executable(place, "script", "#!%s\n" % program),),
                 (executable(place, "by_env", "#!/usr/bin/env -S A=1 %s\n" % program),)):
        _, rows = findings(place, *argv)
        expect(rows, "problem", "program", "uses the musl C library", "a build of the program for glibc")


def privileged(place):
    """a set-user-ID program of another user"""
    path = copied(place, "setuid")
    if os.getuid() == 0:
        os.chown(path, 65534, -1)
    else:
        path = next((name for name in ("/usr/bin/passwd", "/usr/bin/su", "/bin/su") if os.path.exists(name)
                     and os.stat(name).st_mode & stat.S_ISUID), None)
        if not path:
            return
    if os.getuid() == 0:
        os.chmod(path, 0o4755)
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        return  # the kernel ignores the bit there, and so does doctor
    _, rows = findings(place, path)
    if not any("is setuid: the loader ignores LD_PRELOAD" in row[2] for row in rows):
        with open("/proc/self/status", encoding="ascii") as file:
            if "NoNewPrivs:\t1" in file.read():
                return  # nor in such a process
    expect(rows, "problem", "program", "is setuid: the loader ignores LD_PRELOAD", "run a copy of the file")


def scripts(place):
    """scripts: followed to their interpreter, also by env; what takes the preload away is named"""
    program = place.program("clean")
    for head in ("#!%s\n", "#! %s -x\n", "#!/usr/bin/env %s\n", "#!/usr/bin/env -S -i A=1 %s\n"):
        path = executable(place, "script", head % program)
        _, rows = findings(place, path)
        expect(rows, "ok", "program", "%s is a script of %s" % (path, program))
        expect(rows, "ok", "program", "the dynamic loader loads libgpuleak.so into " + program)
    path = executable(place, "script", "#!/bin/sh\n# unset LD_PRELOAD\necho\n  unset LD_PRELOAD\n"
                      "LD_PRELOAD=libx.so ./app\nenv -i ./app\n")
    _, rows = findings(place, path)
    for line in (4, 5, 6):
        expect(rows, "warning", "program", "%s:%d may remove LD_PRELOAD" % (path, line))
    expect_none(rows, "problem")
    for head, part in (("#!/nowhere/sh\n", "a script of /nowhere/sh, which cannot be started"),
                       ("#!/usr/bin/env nowhere-sh\n", "a script of nowhere-sh, which cannot be started"),
                       ("#!\n", "which cannot be started"), ("#!/usr/bin/env\n", "which cannot be started")):
        _, rows = findings(place, executable(place, "script", head))
        expect(rows, "problem", "program", part)
    loop = executable(place, "loop", "#!%s\n" % place.file("loop"))
    _, rows = findings(place, loop)
    expect(rows, "warning", "program", "it is not an ELF file")


def starters(place):
    """sudo, docker and others that a preload does not survive, also if they are not installed"""
    with open(os.path.join(os.path.dirname(__file__), "../../tools/doctor/starters.def"),
              encoding="utf-8") as file:
        rows_of = [line.split('"')[1::2] + [line.split(",")[1].strip()] for line in file
                   if line.startswith("STARTER(")]
    compare("rows", True, len(rows_of) > 15)
    for name, _, advice, effect in rows_of:
        executable(place, name, "#!/bin/sh\n")
        _, rows = findings(place, name, "x", env={"PATH": place.path + ":/usr/bin:/bin"})
        expect(rows, "problem" if effect == "LOSES" else "note", "program", name + ": ", advice)
    status, rows = findings(place, "sudo", "ls", env={"PATH": "/nowhere"})
    compare("one problem", (1, 1), (status, sum(row[0] == "problem" for row in rows)))
    _, rows = findings(place, "env", "-i", "ls", env={"PATH": "/usr/bin:/bin"})
    expect(rows, "problem", "program", "env -i removes all variables")


def not_there(place):
    """no such program, a folder, a file that is not executable"""
    for word, part in (("nosuch", "nosuch cannot be started: not found in PATH"),
                       ("./nosuch", "./nosuch cannot be started: No such file"),
                       (place.path, "cannot be started: Is a directory"), ("", "cannot be started"),
                       (place.write("data", "x"), "cannot be started: Permission denied; chmod +x"),
                       ("/" + "x" * 5000, "File name too long")):
        status, rows = findings(place, word)
        compare("status for " + word[:20], 1, status)
        expect(rows, "problem", "program", part)
    _, rows = findings(place, executable(place, "text", "neither a script nor ELF\n"))
    expect(rows, "warning", "program", "it is not an ELF file")
    run = place.command("doctor", "\x1b[31mred\n")
    compare("names are escaped", (1, False), (run.status, "\x1b" in run.stdout))


def damaged(place):
    """damaged program files: doctor never crashes"""
    chance = random.Random(5)

    def damage(data):
        for _ in range(chance.choice((1, 4, 64))):
            data[chance.randrange(chance.choice((64, 1024, len(data))))] = chance.randrange(256)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)):]
    for _ in range(60):
        path = copied(place, "damaged", damage)
        run = place.command("doctor", "--format", "json", path)
        compare("status", True, run.status in (0, 1))
        compare("stderr", "", run.stderr)
        json.loads(run.stdout)


PROGRAMS = [good_program, no_program, other_machine, static, musl, privileged, scripts, starters, not_there,
            damaged]


# ---- the loader, drivers, Python ----

def library(place):
    """other preloads, a library that is not there or that the loader refuses"""
    if place.reports_under_limits():  # AddressSanitizer wants no library before its own
        _, rows = findings(place, env={"LD_PRELOAD": "libm.so.6"})
        expect(rows, "note", "library", "has libm.so.6: gpuleak run puts libgpuleak.so in front of it")
        run = place.command("doctor", env={"LD_PRELOAD": "/nowhere/libx.so:" + place.options.preload})
        compare("status", 0, run.status)
        for part in ("LD_PRELOAD of this shell names /nowhere/libx.so, which cannot be read",
                     "LD_PRELOAD of this shell has %s already" % place.options.preload):
            compare(part, 1, run.stdout.count(part))
    status, rows = findings(place, place.program("clean"), env={"GPULEAK_LIBRARY": place.file("none.so")})
    compare("status", 1, status)
    broken = place.write("libgpuleak.so", "no library\n")
    _, rows = findings(place, place.program("clean"), env={"GPULEAK_LIBRARY": broken})
    expect(rows, "problem", "program", "does not load libgpuleak.so into")
    _, rows = findings(place, place.program("clean"), env={"LD_LIBRARY_PATH": None})
    compare("the driver that the program needs", True, any("libcuda.so.1" in row[2] for row in rows))


def driver_folder(place):
    folder = place.file("driver")
    os.makedirs(folder, exist_ok=True)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        if not os.path.exists(os.path.join(folder, name)):
            shutil.copy(place.module("libcuda-doctor"), os.path.join(folder, name))
    return folder


def driver(place):
    """the driver's and NVML's versions; no function that makes a context is called"""
    folder = driver_folder(place)
    called = place.file("called")
    for mode in ("", "print"):
        _, rows = findings(place, env={"LD_LIBRARY_PATH": folder, "DOCTOR_CALLED": called,
                                       "DOCTOR_DRIVER": mode})
        expect(rows, "ok", "driver", "libcuda.so.1 is %s/libcuda.so.1, for CUDA 12.4" % folder)
        expect(rows, "ok", "driver", "NVML works: driver 550.54.15, 3 devices")
        compare("a context was made", False, os.path.exists(called))
    os.rename(os.path.join(folder, "libcuda.so.1"), os.path.join(folder, "libcuda.so.550.54.15"))
    os.symlink("libcuda.so.550.54.15", os.path.join(folder, "libcuda.so.1"))
    _, rows = findings(place, env={"LD_LIBRARY_PATH": folder})
    expect(rows, "ok", "driver", "for CUDA 12.4, driver 550.54.15")
    _, rows = findings(place, env={"LD_LIBRARY_PATH": folder, "DOCTOR_DRIVER": "mismatch"})
    expect(rows, "problem", "driver", "different versions; restart the machine")
    for value in ("", "-1"):
        _, rows = findings(place, env={"LD_LIBRARY_PATH": folder, "CUDA_VISIBLE_DEVICES": value})
        expect(rows, "warning", "driver", 'CUDA_VISIBLE_DEVICES is "%s"' % value)
    _, rows = findings(place, env={"LD_LIBRARY_PATH": folder, "CUDA_VISIBLE_DEVICES": "0"})
    expect_none(rows, "warning", "driver")


def broken_driver(place):
    """a driver that crashes or hangs when it is loaded, that is no library, and none at all"""
    folder = driver_folder(place)
    _, rows = findings(place, env={"LD_LIBRARY_PATH": folder, "DOCTOR_DRIVER": "crash"})
    expect(rows, "problem", "driver", "libcuda.so.1 does not work: Aborted")
    expect(rows, "warning", "driver", "NVML (libnvidia-ml.so.1) does not work: Aborted")
    os.unlink(os.path.join(folder, "libnvidia-ml.so.1"))
    _, rows = findings(place, env={"LD_LIBRARY_PATH": folder, "DOCTOR_DRIVER": "hang"})
    expect(rows, "problem", "driver", "libcuda.so.1 does not work: Connection timed out")
    place.write("driver/libcuda.so.1", "no library\n")
    _, rows = findings(place, env={"LD_LIBRARY_PATH": folder})
    expect(rows, "warning", "driver", "libcuda.so.1 cannot be loaded: ")
    os.unlink(os.path.join(folder, "libcuda.so.1"))
    status, rows = findings(place, env={"LD_LIBRARY_PATH": folder})
    if not any("libcuda.so.1 is /" in row[2] for row in rows):  # the machine's own driver
        if any(row[:2] == ("ok", "OpenCL") and "platform" in row[2] for row in rows):
            compare("status", 0, status)
        expect(rows, "note", "driver", "libcuda.so.1 is not on this machine")


def no_gpu(place):
    """without a GPU: what CUDA programs, PyTorch and the whole machine can do; a problem where nothing can be recorded"""
    empty = place.file("vendors")
    os.mkdir(empty)
    folder = driver_folder(place)
    hidden = {"LD_LIBRARY_PATH": folder, "CUDA_VISIBLE_DEVICES": "", "OCL_ICD_VENDORS": empty}
    here = {**hidden, "CUDA_VISIBLE_DEVICES": None}
    _, rows = findings(place, env=here)
    expect_none(rows, "problem", "driver")
    for env in (hidden, {**here, "DOCTOR_DRIVER": "no-gpu"}):
        _, rows = findings(place, env=env)
        expect(rows, "problem", "driver", "nothing can be recorded", "PoCL")
        _, rows = findings(place, place.program("clean"), env=env)
        expect(rows, "problem", "driver", "p_clean uses CUDA, and no GPU works here", "gpuleak run --fake-gpu")
        _, rows = findings(place, "/bin/true", env=env)
        expect(rows, "problem", "driver", "nothing can be recorded")
    _, rows = findings(place, env={**here, "DOCTOR_DRIVER": "no-gpu"})
    expect(rows, "warning", "driver", "NVML works, and finds no GPU")
    _, rows = findings(place, "--fake-gpu", place.program("clean"), env=hidden)
    expect_none(rows, "problem", "driver")


def no_gpu_for_python(place):
    """without a GPU: PyTorch needs one, and --fake-gpu can't help; a problem for a program that imports it"""
    folder = driver_folder(place)
    hidden = {"LD_LIBRARY_PATH": folder, "CUDA_VISIBLE_DEVICES": "-1"}
    python3 = fake_python(place, "echo 'version cpython 3 11 2 /usr/bin/python3'\n"
                          "echo 'package torch 2.7.1 %s'\n" % place.path)
    place.write("uses.py", "import sys\nimport torch\n")
    place.write("other.py", "import sys\n")
    said = "PyTorch needs a GPU: --fake-gpu can't help"
    for words, env, level in ((["uses.py"], hidden, "problem"), (["other.py"], hidden, "warning"),
                              (["-c", "import torch"], hidden, "problem")):
        for fake in ([], ["--fake-gpu"]):
            _, rows = findings(place, *fake, "python3", *words, env={**env, **python3})
            expect(rows, level, "Python", said)
    _, rows = findings(place, "python3", "uses.py", env={"LD_LIBRARY_PATH": folder, **python3})
    compare("with a GPU", False, any(said in row[2] for row in rows))


def missing_library(place):
    """a program whose libcuda or libcudart the loader does not find: what to do"""
    for name, parts in ((b"libcuda.so.9", ["install NVIDIA's driver; without a GPU, use --fake-gpu"]),
                        (b"libcudart.so", ["LD_LIBRARY_PATH", "nvidia-cuda-runtime", "--fake-gpu has its own"])):
        def needs_other(data, name=name):
            if b"\0libcuda.so.1\0" not in data:
                raise Failed("p_clean does not need libcuda.so.1")
            data[:] = data.replace(b"\0libcuda.so.1\0", b"\0" + name + b"\0")
        program = copied(place, "other", needs_other)
        _, rows = findings(place, program)
        missing = "needs %s, which the loader does not find" % name.decode()
        if name == b"libcuda.so.9" or any(missing in row[2] for row in rows):  # some systems have the runtime
            expect(rows, "problem", "program", missing, *parts)


def run_without_driver(place):
    """run of a program that fails without a driver: a hint at --fake-gpu, and none where it is of no use"""
    folder = driver_folder(place)
    hint = "gpuleak: no CUDA driver works on this machine; `gpuleak doctor --fake-gpu /bin/false` checks if " \
        "--fake-gpu helps\n"
    broken = {"LD_LIBRARY_PATH": folder, "DOCTOR_DRIVER": "crash"}
    for words, env, wanted in (([], broken, True), (["--gate"], broken, True), (["--report", "none"], broken, False),
                               ([], {"LD_LIBRARY_PATH": folder}, False), (["--fake-gpu"], broken, False)):
        run = place.command("run", *words, "--", "/bin/false", env=env)
        compare("%s: status, hint" % words, (1, wanted), (run.status, run.stderr.endswith(hint)))
    run = place.command("run", "--", "/bin/true", env=broken)
    compare("a program that succeeds", False, hint.split("`")[0] in run.stderr)


def opencl(place):
    """OpenCL's platforms: one that loads, one that does not"""
    folder = place.file("vendors")
    os.mkdir(folder)
    place.write("vendors/good.icd", os.path.join(place.options.standin, "libcuda.so.1") + "\n")
    place.write("vendors/bad.icd", "libnowhere.so\n")
    place.write("vendors/empty.icd", "")
    place.write("vendors/README", "x\n")
    _, rows = findings(place, env={"OCL_ICD_VENDORS": folder, "OPENCL_LAYERS": "libgpuleak.so"})
    expect(rows, "ok", "OpenCL", "vendors/good.icd: platform ")
    expect(rows, "warning", "OpenCL", "vendors/bad.icd names libnowhere.so, which cannot be loaded")
    expect(rows, "note", "OpenCL", "OPENCL_LAYERS has libgpuleak.so")
    compare("no other .icd", False, any("empty.icd" in row[2] or "README" in row[2] for row in rows))


def fake_python(place, text):
    os.makedirs(place.file("bin"), exist_ok=True)
    executable(place, "bin/python3", "#!/bin/sh\n" + text)
    return {"PATH": place.file("bin") + ":/usr/bin:/bin"}


def python(place):
    """the interpreter's version, and the packages that it finds; a fake one, and a real one"""
    _, rows = findings(place, env=fake_python(place, "echo version cpython 3 12 1 /opt/python3\n"
                                              "echo module yes; echo package cupy-cuda12x 13.4 /opt/site\n"
                                              "echo package pycuda 2025.1 /opt/site\n"))
    expect(rows, "ok", "Python", "/opt/python3 is CPython 3.12.1: stacks have its functions and lines")
    expect(rows, "note", "Python", "cupy-cuda12x 13.4 in /opt/site: the blocks of its cache", "--bypass-pools")
    expect(rows, "ok", "Python", "pycuda 2025.1 in /opt/site: each of its buffers is seen")
    for text, level, part in (("echo version pypy 3 10 1\n", "warning", "is pypy 3.10.1: stacks do not"),
                              ("echo version cpython 3 99 0\n", "warning", "use CPython 3.8 to 3."),
                              ("echo version cpython 2 12 0\n", "warning", "is cpython 2.12.0: stacks do not"),
                              ("echo Traceback; exit 1\n", "warning", "does not print its version"),
                              ("", "warning", "does not print its version"),
                              ("kill -9 $$\n", "warning", "does not print its version")):
        _, rows = findings(place, env=fake_python(place, text))
        expect(rows, level, "Python", part)
    os.makedirs(place.file("site/pyopencl-1.2.dist-info"))
    place.write("site/pyopencl-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: pyopencl\nVersion: 1.2\n")
    script = executable(place, "script", "#!/usr/bin/env python3\nopen('started', 'w')\n")
    _, rows = findings(place, script, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": place.file("site")})
    expect(rows, "ok", "Python", "is CPython 3.")
    expect(rows, "ok", "Python", "pyopencl 1.2 in " + place.file("site"))
    compare("the script ran", False, os.path.exists(place.file("started")))
    _, rows = findings(place, place.program("clean"))
    compare("Python for a program in C", False, any(row[1] == "Python" for row in rows))


def torch(place):
    """PyTorch: whether its report function has a known shape"""
    stand_in = os.path.join(place.options.programs, "../frameworks/torch")
    text = "echo version cpython 3 12 1\necho package torch 2.9.1 %s\n" % place.file("site")
    os.makedirs(place.file("site/torch/lib"))
    for source, level, part in (
            ("libc10.so", "ok", "its tensors are recorded inside its cache"),
            ("unknown/libc10.so", "warning", "has a signature that gpuleak does not know"),
            (None, "warning", "has no torch/lib/libc10.so that can be read")):
        target = place.file("site/torch/lib/libc10.so")
        if source:
            shutil.copy(os.path.join(stand_in, source), target)
        else:
            os.unlink(target)
        _, rows = findings(place, env=fake_python(place, text))
        expect(rows, level, "Python", "torch 2.9.1 in " + place.file("site"), part)


CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x20000, 0x08000000, 0x10000000


# Binds everything but Docker's mark of a container into the folder $root.
NO_CONTAINER = """
mount -t tmpfs tmpfs "$root"
for entry in /*; do
	if [ -L "$entry" ]; then cp -P "$entry" "$root/"
	elif [ -d "$entry" ]; then mkdir "$root$entry"; mount --rbind "$entry" "$root$entry"
	else : >"$root$entry"; mount --bind "$entry" "$root$entry"
	fi
done
mount -t tmpfs tmpfs "$root/run"
"""


def other_machine_by(script, root=None):
    """Returns a preexec_fn that runs SCRIPT in namespaces of its own: what SCRIPT mounts is there for
    the command alone. The command's root folder is ROOT if there is one."""
    def change():
        user, group = os.getuid(), os.getgid()
        flags = CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWUSER if user else 0)
        if ctypes.CDLL(None, use_errno=True).unshare(flags):
            raise OSError(ctypes.get_errno(), "unshare")
        if user:
            for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % user),
                               ("gid_map", "0 %d 1" % group)):
                with open("/proc/self/" + name, "w", encoding="ascii") as file:
                    file.write(text)
        # By its full path and without the libraries that the test names.
        subprocess.run(["/bin/sh", "-ec", "mount --make-rprivate /\n" + script], check=True,
                       env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "root": root or ""})
        if root:
            here = os.getcwd()
            os.chroot(root)
            os.chdir(here)
    return change


def may_mount():
    try:
        return subprocess.run(["true"], check=False, preexec_fn=other_machine_by(
            "mount -t tmpfs tmpfs /mnt")).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def elsewhere(place, script, *words, root=None, **env):
    env.setdefault("LD_LIBRARY_PATH", driver_folder(place))
    return findings(place, *words, env=env, preexec_fn=other_machine_by(script, root))[1]


def containers(place):
    """a container by Podman's mark, or by the variable of a pod; no container without them"""
    root, folder = place.file("root"), place.file("nothing")
    for path in (root, folder):
        os.mkdir(path)
    for mark, env, level in (("", {}, None), (": >$root/run/.containerenv", {}, "note"),
                             (": >$root/.dockerenv", {}, "note"),
                             ("", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "note")):
        rows = elsewhere(place, NO_CONTAINER + mark, root=root, **env)
        if level:
            expect(rows, level, "driver", "a container: NVML may not know the process by its number here")
        else:
            compare("a container", False, any("a container" in row[2] for row in rows))
        rows = elsewhere(place, NO_CONTAINER + mark, root=root, LD_LIBRARY_PATH=folder, **env)
        if not any("libcuda.so.1 is /" in row[2] for row in rows):  # the machine's own driver
            expect(rows, "note", "driver", "libcuda.so.1 is not on this machine",
                   "--gpus all" if level else "install NVIDIA's driver")


def machine(place):
    """WSL, Jetson, containers; a library on a file system without programs; no shared memory"""
    place.write("version", "Linux version 5.15.0-microsoft-standard-WSL2 (root@buildkitsandbox)\n")
    rows = elsewhere(place, "mount --bind '%s' /proc/version" % place.file("version"))
    expect(rows, "note", "driver", "WSL: NVML has no figure for one process")

    shutil.copytree("/etc", place.file("etc"), symlinks=True, ignore_dangling_symlinks=True,
                    ignore=lambda folder, names: [name for name in names if not os.access(
                        os.path.join(folder, name), os.R_OK)])
    place.write("etc/nv_tegra_release", "# R36 (release), REVISION: 4.0\n")
    place.write("etc/ld.so.preload", "")
    rows = elsewhere(place, "mount --bind '%s' /etc" % place.file("etc"))
    expect(rows, "note", "driver", "Jetson: device and host share one memory")
    expect(rows, "note", "library", "/etc/ld.so.preload is there")

    containers(place)
    shown = place.file("shown")
    os.mkdir(shown)
    program, library = place.program("clean"), place.options.preload
    rows = elsewhere(place, "mount -t tmpfs -o noexec tmpfs '%s'; cp '%s' '%s' '%s'" % (
        shown, library, program, shown), os.path.join(shown, os.path.basename(program)),
        GPULEAK_LIBRARY=os.path.join(shown, os.path.basename(library)))
    expect(rows, "problem", "library", "is on a file system that is mounted noexec", "another file system")
    expect(rows, "problem", "program", "cannot be started: Permission denied", "is mounted noexec")
    if os.getuid() == 0:
        rows = elsewhere(place, "echo 0 >/proc/sys/kernel/shmmni")
        expect(rows, "problem", "limits", "no System V shared memory", "raise kernel.shmmni")
    rows = elsewhere(place, "mount -t tmpfs tmpfs /proc")
    expect(rows, "problem", "limits", "/proc is not mounted", "mount -t proc proc /proc")
    compare("gpuleak is installed", False, any("install gpuleak again" in str(row[3]) for row in rows))


machine.probe = lambda options: None if may_mount() else "this process may not mount"


MACHINES = [library, driver, broken_driver, machine, no_gpu, no_gpu_for_python, missing_library,
            run_without_driver, opencl, python, torch]


# ---- this shell, and --start ----

def shell(place):
    """variables that gpuleak does not read, bad values, and a limit that is too low"""
    _, rows = findings(place, env={"GPULEAK_SUPRESSIONS": "x", "GPULEAK_FORMAT": "htlm", "GPULEAK_POOL": "fast",
                                   "GPULEAK_LIBRARY": place.options.preload, "GPULEAK_REPORT": ""})
    expect(rows, "warning", "shell", "no option GPULEAK_SUPRESSIONS", "did you mean GPULEAK_SUPPRESSIONS?")
    expect(rows, "warning", "shell", "GPULEAK_FORMAT has the bad value 'htlm'", "expected is text or json")
    expect(rows, "note", "shell", "GPULEAK_POOL is set to 'fast'")
    _, rows = findings(place, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)))
    expect(rows, "problem", "limits", "ulimit -f is 64 KiB: gpuleak run records nothing")
    if place.reports_under_limits():
        for size, level, part in ((4 << 30, "note", "ulimit -v is 4096 MiB"),
                                  ((16 << 20) - 4096, "problem", "ulimit -v is 16380 KiB: nothing is recorded")):
            _, rows = findings(place, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
            expect(rows, level, "limits", part)
    run = place.command("doctor", stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(1))
    compare("closed standard output", (0, ""), (run.status, run.stderr))


def limited_address_space(place):
    """ulimit -v: a library that does not fit into it is not called damaged"""
    os.mkdir(place.file("vendors"))
    place.write("vendors/large.icd", place.module("large_library") + "\n")
    env = {"OCL_ICD_VENDORS": place.file("vendors")}
    _, rows = findings(place, env=env)
    expect(rows, "ok", "OpenCL", "large.icd: platform ", "large_library.so")
    if place.reports_under_limits():
        size = 200 << 20 # the library takes 256 MiB, the command much less
        _, rows = findings(place, env=env, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                                                 (size, size)))
        expect(rows, "warning", "OpenCL", "large_library.so, which cannot be loaded",
               "raise the limit on address space first (ulimit -v)")


def start(place):
    """--start runs the program once, and tells what was recorded"""
    _, rows = findings(place, "--start", place.program("ends"))
    expect(rows, "ok", "start", "1 process made GPU calls, and was recorded")
    _, rows = findings(place, "--start", "/bin/sh", "-c", "'%s'; '%s'; :" % (
        place.program("ends"), place.program("clean")))
    expect(rows, "ok", "start", "2 processes made GPU calls, and were recorded")
    _, rows = findings(place, "--start", place.program("no_gpu"), "9")
    expect(rows, "warning", "start", "ended with status 9")
    expect(rows, "warning", "start", "gpuleak saw no GPU call of " + place.program("no_gpu"))
    count = executable(place, "count", "#!/bin/sh\necho x >>%s\n" % place.file("runs"))
    findings(place, "--start", "--", count)
    compare("runs", "x\n", place.read("runs"))
    run = place.command("doctor", "--start", place.program("clean"))
    compare("its output", True, run.stdout.startswith("clean\ngpuleak doctor: 0 problems"))
    place.nothing_left()


DOCTOR = PROGRAMS + MACHINES + [shell, limited_address_space, start]
