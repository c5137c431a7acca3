#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does what a cluster does with packaging/kubernetes/pod.yaml, by bubblewrap: pod.py BUILD. TAP.

The images are made as packaging/container/Containerfile says, from this build. The application's
image is this machine's /usr, read-only: a PyOpenCL program runs there, which leaks.

image.sh passes images that buildah made: --tree FOLDER holds gpuleak, --init FOLDER is the image of
the init container, --command its command in JSON. --node-exporter FILE serves the metrics."""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
import contents  # noqa: E402

sys.path.insert(0, str(contents.ROOT / "packaging/container"))
from tree import make_tree  # noqa: E402

POD = contents.ROOT / "packaging/kubernetes/pod.yaml"
CONTAINERFILE = contents.ROOT / "packaging/container/Containerfile"
SECONDS = 90
LEAKED = 10 * (4 << 20)
# What the application's image has of this machine. The build is not there.
IMAGE = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc")
PROGRAM = """
import os, runpy, sys, time
kept = runpy.run_path("/app/frames_pyopencl.py")
while not os.path.exists("/app/go"):
    time.sleep(0.05)
sys.exit(7)
"""


def build_images(context, work):
    """Returns {stage: (folder with its files, command)} of the Containerfile. A base image is empty
    here, as its programs are those of this machine."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.M))
    stages, folder, name = {}, None, None
    for line in filter(None, map(str.strip, text.split("\n"))):
        word, _, rest = line.partition(" ")
        words = shlex.split(rest) if word != "CMD" else json.loads(rest)
        if word == "FROM":
            base, name = words[0], words[2]
            folder = work / "images" / name
            stages[name] = folder, []
            if base in stages:
                shutil.copytree(stages[base][0], folder)
            else:
                folder.mkdir(parents=True)
        elif word == "COPY":
            from_stage = words[0].startswith("--from=") and words.pop(0)[len("--from="):]
            source = stages[from_stage][0] if from_stage else context
            shutil.copytree(source / words[0].lstrip("/"), folder / words[1].lstrip("/"),
                            dirs_exist_ok=True)
        elif word == "CMD":
            stages[name] = folder, words
        elif word not in ("ARG", "LABEL"):
            raise SystemExit("%s: this test does not know %s" % (CONTAINERFILE, word))
    return stages


def make_context(build, work):
    """Returns the folder that the images are built from, made from a wheel of this build."""
    wheel = contents.pack(contents.make_stage(build.resolve(), work), contents.make_licenses(work), work)
    make_tree(wheel, work / "context")
    return work / "context"


class Pod:
    def __init__(self, spec, work):
        self.spec, self.work = spec, work
        self.folders = {volume["name"]: work / "volumes" / volume["name"]
                        for volume in spec["volumes"]}
        for folder in self.folders.values():
            folder.mkdir(parents=True)

    def container(self, name):
        return next(one for one in self.spec["initContainers"] + self.spec["containers"]
                    if one["name"] == name)

    def words(self, name, image=None, more=(), env=None):
        """Returns the words of bwrap for the container NAME. IMAGE: the files of its image, which has
        the programs of this machine if it has none. MORE: further mounts as words of bwrap."""
        ret = ["bwrap", "--die-with-parent", "--clearenv", "--proc", "/proc", "--dev", "/dev",
               "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"]
        if not self.spec.get("shareProcessNamespace"):
            ret.append("--unshare-pid")
        whole = image and (image / "bin/cp").exists()
        for entry in () if whole else IMAGE:
            path = pathlib.Path("/", entry)
            if path.is_symlink():
                ret += ["--symlink", os.readlink(path), str(path)]
            elif path.exists():
                ret += ["--ro-bind", str(path), str(path)]
        for entry in sorted(image.iterdir()) if image else ():
            if entry.name not in ("proc", "sys", "dev", "tmp"):
                ret += ["--ro-bind", str(entry), "/" + entry.name]
        ret += more
        container = self.container(name)
        for mount in container.get("volumeMounts", ()):
            ret += ["--ro-bind" if mount.get("readOnly") else "--bind",
                    str(self.folders[mount["name"]]), mount["mountPath"]]
        values = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "POCL_CACHE_DIR": "/tmp/pocl",
                  "LC_ALL": "C.UTF-8", **(env or {}),
                  **{one["name"]: one["value"] for one in container.get("env", ())}}
        for key, value in values.items():
            ret += ["--setenv", key, value]
        return ret


def series(text):
    """Returns {name: sum of its values}."""
    ret = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name = re.match(r"\w+", line).group()
            ret[name] = ret.get(name, 0) + float(line.rsplit(" ", 1)[1])
    return ret


def wait_for(read, wanted):
    """Returns what READ returned last: once it has all WANTED, or when the time is over."""
    end = time.monotonic() + SECONDS
    while True:
        found = read()
        if wanted.items() <= found.items() or time.monotonic() > end:
            return found
        time.sleep(0.1)


def served(tap, pod, program):
    """Serves the metrics by node_exporter, and returns the series that it serves."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    words = pod.words("node-exporter", more=["--ro-bind", str(program), "/node_exporter"])
    server = subprocess.Popen([*words, "/node_exporter", *pod.container("node-exporter")["args"],
                               "--web.listen-address=127.0.0.1:%d" % port], stderr=subprocess.DEVNULL)

    def read():
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=5) as answer:
                return series(answer.read().decode())
        except OSError:
            return {}
    found = wait_for(read, {"gpuleak_live_bytes": LEAKED})
    server.send_signal(signal.SIGTERM)
    server.wait()
    tap.check(found.get("gpuleak_live_bytes") == LEAKED and
              found.get("node_textfile_scrape_error") == 0, "node_exporter serves it", found)


def run_pod(tap, pod, images, work, options):
    """Starts the containers of the pod in their order."""
    init, command = images["init"]
    done = subprocess.run(pod.words("gpuleak", init) + command, check=False,
                          capture_output=True, text=True)
    library = pod.folders["gpuleak"] / "lib/libgpuleak.so"
    tap.check(done.returncode == 0 and library.exists() and os.access(
        pod.folders["gpuleak"] / "bin/gpuleak", os.X_OK), "the init container copies gpuleak",
        done.stdout + done.stderr)

    app = work / "app"
    app.mkdir()
    shutil.copy(contents.ROOT / "docs/examples/frames_pyopencl.py", app)
    (app / "serve.py").write_text(PROGRAM)
    mount = ["--ro-bind", str(app), "/app"]
    with open(work / "log", "w", encoding="utf-8") as log:
        model = subprocess.Popen(pod.words("model", more=mount) + ["/usr/bin/python3", "/app/serve.py"],
                                 stdout=subprocess.DEVNULL, stderr=log)
    reader = pod.container("gpuleak-reader")
    (app / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.3\n")  # the test does not wait 15 s
    (app / "sleep").chmod(0o755)
    reading = subprocess.Popen(
        pod.words("gpuleak-reader", more=mount, env={"PATH": "/app:/usr/bin:/bin"}) +
        reader["command"] + reader["args"], stderr=subprocess.PIPE, text=True)
    file = pod.folders["metrics"] / "gpuleak.prom"

    def read():
        return series(file.read_text()) if file.exists() else {}
    live = {"gpuleak_live_bytes": LEAKED, "gpuleak_running": 1}
    found = wait_for(read, live)
    tap.check(live.items() <= found.items(), "its metrics have the live memory of the program that runs",
              found, (work / "log").read_text())
    sites = [line for line in file.read_text().splitlines() if "site_leaked_bytes{" in line] if found else []
    tap.check(len(sites) == 1 and "frames_pyopencl.py" in sites[0], "and the place in the source", sites)
    check_text(tap, file)
    if options.node_exporter:
        served(tap, pod, options.node_exporter)

    (app / "go").touch()
    tap.check(model.wait() == 7, "the program's own exit status is that of the container",
              model.returncode)
    text = (work / "log").read_text()
    tap.check("{:,} bytes".format(LEAKED) in text and re.search(r"frames_pyopencl\.py:\d+", text),
              "the log of the container has the report", text)
    ended = {"gpuleak_leaked_bytes": LEAKED, "gpuleak_running": 0}
    found = wait_for(read, ended)
    tap.check(ended.items() <= found.items(), "the metrics tell that it ended, and what leaked", found)
    reading.terminate()
    said = reading.communicate()[1]
    tap.check(said == "", "gpuleak-reader prints nothing", said)


def check_text(tap, file):
    """node_exporter reads the older of both formats, as promtool does."""
    promtool = shutil.which("promtool")
    if not promtool:
        tap.check(not os.environ.get("GPULEAK_MUST_RUN"), "promtool reads them # SKIP no promtool")
        return
    text = file.read_text() if file.exists() else ""
    done = subprocess.run([promtool, "check", "metrics"], input=text, check=False,
                          capture_output=True, text=True)
    tap.check(done.returncode == 0 and text, "promtool reads them", done.stdout + done.stderr)


def check_volume(tap, pod, images, work):
    """An image volume: the image is the folder, and it is read-only."""
    words = pod.words("model", more=["--ro-bind", str(work / "app"), "/app"])
    source = str(pod.folders["gpuleak"])
    at = words.index(source)
    words[at] = str(images["gpuleak"][0])
    run = ["/opt/gpuleak/bin/gpuleak", "run", "--gate", "--", "/usr/bin/python3", "/app/frames_pyopencl.py"]
    done = subprocess.run([*words, "--unsetenv", "LD_PRELOAD", *run], check=False,
                          capture_output=True, text=True)
    tap.check(done.returncode == 23 and "frames_pyopencl.py:" in done.stderr,
              "the image works as a read-only volume, too", done.returncode, done.stderr)


def check_names(tap, pod, images):
    """Each path of the pod is one that the image has, or a mount."""
    files = images["gpuleak"][0]
    env = {one["name"]: one["value"] for one in pod.container("model")["env"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in pod.container("model")["volumeMounts"]}
    tap.check((files / os.path.relpath(env["LD_PRELOAD"], mounts["gpuleak"])).exists(),
              "the library is where LD_PRELOAD names it", env)
    top = sorted(path.name for path in files.iterdir())
    tap.check(top == ["bin", "include", "lib", "share"] and
              (files / "share/doc/gpuleak/THIRD-PARTY.txt").exists(),
              "the image holds only gpuleak, with the licences", top)
    served_folder = next(arg for arg in pod.container("node-exporter")["args"]
                         if arg.startswith("--collector.textfile.directory="))
    tap.check(served_folder.partition("=")[2] in [
        mount["mountPath"] for mount in pod.container("node-exporter")["volumeMounts"]
        if mount["name"] == "metrics"], "node_exporter reads the folder of the metrics", served_folder)


def missing():
    """Returns what this machine lacks for the test, or None."""
    try:
        import yaml  # noqa: F401
    except ImportError:
        return "no python3-yaml"
    if not shutil.which("bwrap"):
        return "no bubblewrap"
    if subprocess.run(["/usr/bin/python3", "-c", "import pyopencl"], check=False,
                      capture_output=True).returncode:
        return "no PyOpenCL"
    return None


def unable():
    """Returns why bubblewrap does not work here, or None: nothing that could be installed."""
    done = subprocess.run(["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"],
                          check=False, capture_output=True, text=True)
    return "bubblewrap may not mount here: " + done.stderr.strip() if done.returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--tree", type=pathlib.Path)
    parser.add_argument("--init", type=pathlib.Path)
    parser.add_argument("--command", type=json.loads)
    parser.add_argument("--node-exporter", type=pathlib.Path)
    options = parser.parse_args()
    lack = missing()
    if lack and os.environ.get("GPULEAK_MUST_RUN"):
        print("not ok 1 - the pod must run here, but %s\n1..1" % lack)
        sys.exit(1)
    lack = lack or unable()
    if lack:
        print("ok 1 - the pod # SKIP %s\n1..1" % lack)
        return
    import yaml
    tap = contents.Tap()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        images = build_images(options.tree or make_context(options.build, work), work)
        if options.init:
            tap.check(options.command == images["init"][1], "buildah reads the same command", options)
            images["init"] = options.init, options.command
        pod = Pod(yaml.safe_load(POD.read_text())["spec"], work)
        check_names(tap, pod, images)
        run_pod(tap, pod, images, work, options)
        check_volume(tap, pod, images, work)
    print("1..%d" % tap.number)
    sys.exit(tap.failed)


if __name__ == "__main__":
    main()
