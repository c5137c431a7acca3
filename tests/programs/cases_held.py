# SPDX-License-Identifier: MIT
"""What the driver holds for itself: figures from NVML's stand-in, asked from outside, against
what is tracked; and everything that NVML may fail at, which must cost no more than the line."""

import os
import shutil
import time

from harness import Failed, TIMEOUT, a_place, but_written, compare, frame_text

MIB = 1 << 20
UUID = "GPU-7374616e-6469-6e2d-6770-752d757569%02x"


def nvml_folder(place, name="nvml"):
    """The folder of NVML's stand-in; "nvml/old" has an older one."""
    return os.path.join(os.path.dirname(place.options.programs), "standin", name)


def figures(place, nvml="nvml", **more):
    """Variables that lead to NVML's stand-in."""
    return {"STANDIN_NVML": place.file("nvml"), "LD_LIBRARY_PATH": "%s:%s" % (
        nvml_folder(place, nvml), place.options.standin), **more}


def beside_driver(place, **more):
    """The same for who is not led there: it lies beside the driver that the process uses."""
    drivers = place.file("drivers")
    os.mkdir(drivers)
    shutil.copy(os.path.join(place.options.standin, "libcuda.so.1"), drivers)
    shutil.copy(os.path.join(nvml_folder(place), "libnvidia-ml.so.1"), drivers)
    return {"STANDIN_NVML": place.file("nvml"), "LD_LIBRARY_PATH": drivers, **more}


def sampled(place, *args, status=0, env=None, **how):
    """The JSON report of `gpuleak run` over p_held."""
    if not os.path.exists(place.file("nvml")):
        place.write("nvml", "")
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        place.program("held"), *args, env=env or figures(place, **how))
    compare("status, stdout and stderr", (status, "", ""),
            (run.status, run.stdout, but_written(run.stderr)))
    place.nothing_left()
    return place.json("report.json")


def only_device(report):
    compare("devices", 1, len(report.get("devices", [])))
    return report["devices"][0]


def figure(device):
    return [device[key] // MIB for key in ("tracked_bytes", "held_bytes", "driver_bytes")]


def place_of(call):
    texts = (frame_text(frame, "held.c") for frame in call["stack"])
    return call["api"], [text for text in texts if text]


def is_silent(report):
    if "devices" in report:
        raise Failed("there are figures: %s" % report["devices"])


# ---- figures ----

def growth(place):
    """held: the driver's own part, where it grew most, and at which call"""
    device = only_device(sampled(place, "grow"))
    compare("who", (0, "Stand-in GPU 0", UUID % 0, "0000:01:00.0", "nvml-process"),
            tuple(device[key] for key in ("device", "name", "uuid", "bus_id", "source")))
    compare("tracked, held, driver's", [64, 1464, 1400], figure(device))
    compare("at most", 1400 * MIB, device["driver_bytes_at_most"])
    grown = device["grown_most"]
    compare("grown most", 800 * MIB, grown["bytes"])
    compare("calls", 1, grown["calls"])
    compare("call", ("cuModuleLoadData", ["load@load", "grow@main_load", "main@main_grow"]),
            place_of(grown["call"]))
    call = grown["call"]
    if not grown["from_ns"] <= call["began_ns"] <= call["ended_ns"] <= grown["to_ns"]:
        raise Failed("the call is not between the samples: %s" % grown)
    seen = sorted({(tracked // MIB, held // MIB) for _, tracked, held in device["samples"]})
    compare("samples", [(0, 500), (64, 564), (64, 1364), (64, 1464)], seen)
    times = [at for at, _, _ in device["samples"]]
    compare("order of samples", sorted(times), times)


def growth_of_context(place):
    """held: what is held from the start grew with the context"""
    grown = only_device(sampled(place, "begin"))["grown_most"]
    compare("call", ("cuDevicePrimaryCtxRetain",
                     ["use_device@retain", "begin_only@main_begin", "main@main_begin_only"]),
            place_of(grown["call"]))
    compare("since", 0, grown["from_ns"])


def growth_without_call(place):
    """held: a growth without a call has its time only"""
    grown = only_device(sampled(place, "unmarked"))["grown_most"]
    compare("grown most", (300 * MIB, 0, None), (grown["bytes"], grown["calls"], grown["call"]))


def slow_query(place):
    """held: a query that waits for the driver does not delay the next ones for long"""
    compare("figure", [64, 564, 500], figure(only_device(sampled(place, "slow"))))


def every_call(place):
    """held: every call that makes the driver hold more is noted, a refused one is not"""
    grown = only_device(sampled(place, "all"))["grown_most"]
    compare("calls", 12, grown["calls"])
    compare("first call", ("cuCtxCreate", ["call_all@create", "main@main_all"]),
            place_of(grown["call"]))


def text(place):
    """held: the line of the text report"""
    place.write("nvml", "")
    run = place.command("run", "--", place.program("held"), "grow", env=figures(place))
    lines = [line for line in run.stderr.split("\n") if " tracked, " in line]
    compare("lines", 1, len(lines))
    start = ("gpuleak: device 0 (Stand-in GPU 0): 64.0 MiB tracked, 1.3 GiB held by the driver "
             "itself (contexts, modules, local memory, unused pool memory) at its peak, at ")
    if not lines[0].startswith(start):
        raise Failed("not as it must start:\n" + lines[0])
    for part in ("; that grew most (+800.0 MiB) between ",
                 ", where cuModuleLoadData was called at load (", "/held.c:"):
        if part not in lines[0]:
            raise Failed("%s is not in:\n%s" % (part, lines[0]))


def two_devices(place):
    """held: each device by its UUID, whatever its number is"""
    report = sampled(place, "two", STANDIN_DEVICES="2")
    compare("figures", [(0, [10, 300, 290]), (1, [20, 700, 680])],
            [(device["device"], figure(device)) for device in report["devices"]])


def by_either(place):
    """held: without a UUID each device by its bus id, without that by its UUID"""
    for wrong in ("answer nvmlDeviceGetUUID 3\n",
                  "answer nvmlDeviceGetPciInfo_v3 3\nanswer nvmlDeviceGetHandleByPciBusId_v2 3\n"):
        place.write("nvml", wrong)
        report = sampled(place, "two", wrong, STANDIN_DEVICES="2")
        compare("figures", [(0, [10, 300, 290]), (1, [20, 700, 680])],
                [(device["device"], figure(device)) for device in report["devices"]])


def old_driver(place):
    """held: a driver that has the first version of the list only"""
    device = only_device(sampled(place, "old", nvml="nvml/old"))
    compare("tracked, held, driver's", [64, 500, 436], figure(device))


def whole_device(place):
    """held: without a figure of the process, what the device has in use more than before"""
    place.write("nvml", "used 0 %d\nused 1 5\n" % (1000 * MIB))
    device = only_device(sampled(place, "device"))
    compare("source", "nvml-device", device["source"])
    compare("tracked, held, driver's", [64, 500, 436], figure(device))


def whole_device_text(place):
    """held: the text says when the figure is the whole device's"""
    place.write("nvml", "used 0 %d\n" % (1000 * MIB))
    run = place.command("run", "--", place.program("held"), "device", env=figures(place))
    if "shown is the increase since the start on the whole device, other processes included" not in run.stderr:
        raise Failed("not said in:\n" + run.stderr)


def no_value(place):
    """held: a process that is listed without a figure"""
    place.write("nvml", "used 0 %d\n" % (1000 * MIB))
    report = sampled(place, "device", "process compute 0 1 -\nused 0 %d\n" % (1100 * MIB))
    compare("tracked, held, driver's", [64, 100, 36], figure(only_device(report)))


# ---- one sample ----

def at_exit(place):
    """held: a plain preload asks once, at its end"""
    place.write("nvml", "")
    run = place.preloaded([place.program("held"), "hold", "600"], beside_driver(
        place, GPULEAK_FORMAT="json", GPULEAK_REPORT=place.file("report.json")))
    compare("status, stdout and stderr", (0, "", ""), (run.status, run.stdout, run.stderr))
    device = only_device(place.json("report.json"))
    compare("tracked, held, driver's", [64, 600, 536], figure(device))
    compare("grown most, samples", (None, 1), (device["grown_most"], device["samples_taken"]))


def at_exit_text(place):
    """held: the line of a plain preload; more tracked than held is no negative number"""
    for mib, words in (("600", "64.0 MiB tracked, 536.0 MiB held by the driver itself ("),
                       ("50", "64.0 MiB tracked, 50.0 MiB held by the process in all at ")):
        with a_place(place.options) as inner:
            inner.write("nvml", "")
            run = inner.preloaded([inner.program("held"), "hold", mib], beside_driver(inner))
            if words not in run.stderr or "grew most" in run.stderr:
                raise Failed("%s is not in:\n%s" % (words, run.stderr))


def managed(place):
    """held: managed memory counts as far as it lies on the device, so there are two bounds"""
    place.write("nvml", "")
    run = place.preloaded([place.program("held"), "hold", "600", "managed"], beside_driver(
        place, GPULEAK_FORMAT="json", GPULEAK_REPORT=place.file("report.json")))
    compare("status", 0, run.status)
    device = only_device(place.json("report.json"))
    compare("tracked, held, driver's", [96, 600, 504], figure(device))
    compare("managed, at most", (32 * MIB, 536 * MIB),
            (device["managed_bytes"], device["driver_bytes_at_most"]))


def by_pid(place):
    """held: `gpuleak report PID` asks about a running process"""
    place.write("nvml", "")
    env = figures(place, LD_PRELOAD=place.options.preload, GPULEAK_REPORT="none")
    process = place.start([place.program("held"), "hold", "600", "wait"], env, stdin=-1)
    try:
        compare("first line", b"ready\n", process.stdout.readline())
        told = place.command("report", "--format", "json", "--report", place.file("report.json"),
                             str(process.pid), env=figures(place))
        compare("status and stderr", (0, ""), (told.status, but_written(told.stderr)))
        device = only_device(place.json("report.json"))
        compare("tracked, held, driver's", [64, 600, 536], figure(device))
    finally:
        process.communicate(b"\n")


def why_none(place):
    """held: with GPULEAK_VERBOSE the report says why there is no figure"""
    place.write("nvml", "")
    env = {"STANDIN_NVML": place.file("nvml")}
    process = place.start([place.program("held"), "hold", "", "wait"], dict(
        env, LD_PRELOAD=place.options.preload, GPULEAK_REPORT="none"), stdin=-1)
    try:
        compare("first line", b"ready\n", process.stdout.readline())
        for verbose, count in (("0", 0), ("1", 1)):
            told = place.command("report", str(process.pid), env=dict(
                env, GPULEAK_VERBOSE=verbose))
            compare("lines", count, told.stdout.count(
                "gpuleak: p_held (pid %d): the driver's own memory is unknown: "
                "libnvidia-ml.so.1 was not found\n" % process.pid))
    finally:
        process.communicate(b"\n")


# ---- no figures of the device ----

# As of a GPU that shares its memory with the CPU.
NO_DEVICE_FIGURES = ("answer nvmlDeviceGetMemoryInfo 3", "total 0 0\ntotal 1 0")


def process_figure_alone(place):
    """held: without a figure of the whole device, the process's own one is used"""
    for wrong in NO_DEVICE_FIGURES:
        with a_place(place.options) as inner:
            inner.write("nvml", wrong + "\n")
            run = inner.preloaded([inner.program("held"), "hold", "600", "", wrong], beside_driver(
                inner, GPULEAK_FORMAT="json", GPULEAK_REPORT=inner.file("report.json")))
            compare("status and stderr", (0, ""), (run.status, run.stderr))
            device = only_device(inner.json("report.json"))
            compare("source", "nvml-process", device["source"])
            compare("tracked, held, driver's", [64, 600, 536], figure(device))


def no_figure_at_all(place):
    """held: without any figure there is no sum, and with GPULEAK_VERBOSE one line says why"""
    for wrong in NO_DEVICE_FIGURES:
        with a_place(place.options) as inner:
            inner.write("nvml", wrong + "\n")
            is_silent(sampled(inner, "device", wrong))
            os.unlink(inner.file("nvml.calls"))  # the program counts the calls of its own sampler
            inner.write("nvml", wrong + "\n")
            run = inner.command("run", "--", inner.program("held"), "device", wrong,
                                env=figures(inner, GPULEAK_VERBOSE="1"))
            compare("lines", ["NVML has no memory figures for this device, for example because GPU and CPU "
                              "share one memory"],
                    [line.split(" is unknown: ")[1] for line in run.stderr.split("\n")
                     if "driver's own memory" in line])


# ---- no figures ----

def nothing_known(place):
    """held: whatever NVML fails at, there is no figure and not a word of it"""
    for wrong in ("answer nvmlInit_v2 9", "answer nvmlDeviceGetCount_v2 999",
                  "answer nvmlDeviceGetHandleByIndex_v2 4\n"
                  "answer nvmlDeviceGetHandleByPciBusId_v2 4",
                  "answer nvmlDeviceGetComputeRunningProcesses_v3 3\n"
                  "answer nvmlDeviceGetGraphicsRunningProcesses_v3 3\n"
                  "answer nvmlDeviceGetMPSComputeRunningProcesses_v3 3\n"
                  "answer nvmlDeviceGetMemoryInfo 4",
                  # NVML lists another process only, and does not tell how full the device is. If
                  # it told, the report would have that figure.
                  "process compute 0 1 5\nanswer nvmlDeviceGetMemoryInfo 4"):
        with a_place(place.options) as inner:
            inner.write("nvml", wrong + "\n")
            run = inner.preloaded([inner.program("held"), "hold", ""], beside_driver(
                inner, GPULEAK_FORMAT="json", GPULEAK_REPORT=inner.file("report.json")))
            compare("status and stderr", (0, ""), (run.status, run.stderr))
            is_silent(inner.json("report.json"))
            is_silent(sampled(inner, "hold", ""))


def no_library(place):
    """held: without NVML there is no figure and not a word of it"""
    env = {"STANDIN_NVML": place.file("nvml")}
    run = place.preloaded([place.program("held"), "hold", ""], dict(
        env, GPULEAK_FORMAT="json", GPULEAK_REPORT=place.file("report.json")))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    is_silent(place.json("report.json"))
    is_silent(sampled(place, "hold", "", env=env))


def wedged(place):
    """held: a driver that never answers costs neither the run nor the program's exit"""
    start = time.monotonic()
    is_silent(sampled(place, "hold", "hang", "hanging"))
    run = place.preloaded([place.program("held"), "hold", "hang"], beside_driver(
        place, GPULEAK_FORMAT="json", GPULEAK_REPORT=place.file("report.json")))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    is_silent(place.json("report.json"))
    if time.monotonic() - start > TIMEOUT / 2:
        raise Failed("it took %.1f s" % (time.monotonic() - start))


def wedged_at_once(place):
    """held: a driver that hangs in NVML's first call does not delay the program"""
    place.write("nvml", "hang nvmlInit_v2\n")
    start = time.monotonic()
    is_silent(sampled(place, "hold", ""))
    if time.monotonic() - start > TIMEOUT / 2:
        raise Failed("it took %.1f s" % (time.monotonic() - start))


def sampler_of(pid):
    """The sampler's pid, once it has left everything behind."""
    for _ in range(30000):
        for name in os.listdir("/proc"):
            try:
                with open("/proc/%s/stat" % name, encoding="ascii", errors="replace") as file:
                    words = file.read().rsplit(")", 1)
            except OSError:
                continue
            if words[0].endswith("(gpuleak-sampler") and words[1].split()[1] == str(pid):
                return int(name)
        time.sleep(0.001)
    raise Failed("there is no sampler")


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def apart(place):
    """held: the sampler holds no file of its parent, has no terminal, and ends with it"""
    place.write("nvml", "hang nvmlInit_v2\n")
    run = place.start([place.options.command, "run", "--", place.program("held"), "hold", "",
                       "wait"], figures(place), stdin=-1)
    try:
        compare("first line", b"ready\n", run.stdout.readline())
        sampler = sampler_of(run.pid)
        for _ in range(30000):
            files = sorted(os.readlink("/proc/%d/fd/%s" % (sampler, name)).split(":")[0]
                           for name in os.listdir("/proc/%d/fd" % sampler))
            if "pipe" not in files:
                break
            time.sleep(0.001)
        compare("files", [3 * ["/dev/null"], 1],
                [[name for name in files if name == "/dev/null"], files.count("socket")])
        compare("others", [], [name for name in files
                               if name not in ("/dev/null", "socket") and "nvml" not in name])
        compare("session", sampler, os.getsid(sampler))
        run.kill()
        for _ in range(30000):
            if not is_alive(sampler):
                return
            time.sleep(0.001)
        raise Failed("the sampler outlives `gpuleak run`")
    finally:
        run.kill()
        run.communicate()


def clean_is_one_line(place):
    """held: a clean report stays one line"""
    place.write("nvml", "")
    run = place.command("run", "--", place.program("clean"), env=figures(place))
    compare("lines", 1, len(run.stderr.splitlines()))


HELD = [growth, growth_of_context, growth_without_call, slow_query, every_call, text, two_devices,
        by_either, old_driver, whole_device, whole_device_text, no_value, at_exit, at_exit_text, managed,
        by_pid, why_none, process_figure_alone, no_figure_at_all, nothing_known, no_library, wedged, wedged_at_once, apart,
        clean_is_one_line]
for story in HELD:
    story.needs = "held"
