#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs what action.yml, templates/gpuleak.yml and .pre-commit-hooks.yaml run: action.py BUILD. TAP.

The scripts are taken from these files and run as the services run them, with real pip, a wheel
packed from the build, and the stand-in driver. A gate that was not judged must never pass."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(ROOT / "packaging"), str(ROOT / "tests/scripts")]
import contents  # noqa: E402


def environment(work, build):
    """The variables of a runner, none of this process's own."""
    return {"HOME": str(work), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PIP_NO_INDEX": "1",
            "XDG_RUNTIME_DIR": str(work), "LD_LIBRARY_PATH": str(build / "standin/driver"),
            "RUNNER_TEMP": str(work / "temp"), "GITHUB_PATH": str(work / "path"),
            "GITHUB_STEP_SUMMARY": str(work / "summary"), "GITHUB_WORKSPACE": str(work / "project"),
            "GITHUB_SERVER_URL": "file://" + str(work / "server")}


class Runner:
    """A checkout on a runner. Nothing of one action's run is left for the next."""

    def __init__(self, work, build, wheel):
        self.work, self.build, self.wheel = work, build, wheel
        self.env = environment(work, build)
        leaks = build / "tests/formats/leaks_apart"
        self.leaky, self.clean = "'%s' 2" % leaks, "'%s' 0" % leaks
        release = work / "server/owner/gpuleak/releases/download" / ("v" + contents.maker.version())
        release.mkdir(parents=True)
        shutil.copy(wheel, release)

    def shell(self, script, more, folder="."):
        path = self.env["PATH"]
        added = self.work / "path"
        if added.exists():
            path = ":".join(added.read_text().splitlines() + [path])
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
                              cwd=self.work / "project" / folder, timeout=120, check=False,
                              env={**self.env, **more, "PATH": path}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def action(self, given, repository="owner/gpuleak", files=()):
        from composite import Composite
        for name in ("project", "temp"):
            shutil.rmtree(self.work / name, ignore_errors=True)
            (self.work / name).mkdir()
        for name in ("path", "summary"):
            (self.work / name).unlink(missing_ok=True)
        for name, text in files:
            (self.work / "project" / name).write_text(text)
        used = Composite(given, {"action_repository": repository}, self.shell)
        used.outputs = used.run(self.work)
        return used


def summary(runner):
    path = runner.work / "summary"
    return path.read_text() if path.exists() else ""


def results(used):
    """The results of the SARIF file that the action would upload; None without one."""
    for step in used.uses:
        if "/upload-sarif@" in step["uses"]:
            report = json.loads(pathlib.Path(step["with"]["sarif_file"]).read_text())
            return report["runs"][0]["results"]
    return None


def errors(text):
    return [line for line in text.splitlines() if line.startswith("::error title=gpuleak::")]


def check_verdicts(tap, runner):
    used = runner.action({"run": runner.leaky, "upload-sarif": "true", "artifact": "report"})
    tap.check(used.status == 23 and used.outputs["status"] == "23",
              "a leak fails the action with 23", used.status, used.printed)
    tap.check("::error file=" in used.printed and "leaks.c" in used.printed, "with annotations",
              used.printed)
    tap.check("gate failed" in summary(runner), "and the step's summary", summary(runner))
    tap.check(len(results(used) or []) == 2, "the SARIF report for code scanning has both leaks",
              used.uses)
    page = [step["with"] for step in used.uses if "/upload-artifact@" in step["uses"]]
    tap.check(len(page) == 1 and page[0]["name"] == "report"
              and "</html>" in pathlib.Path(page[0]["path"].strip()).read_text(),
              "and the artifact the HTML report", used.uses)
    used = runner.action({"run": runner.clean, "upload-sarif": "true"})
    tap.check(used.status == 0 and results(used) == [], "a clean program passes", used.printed)
    tap.check("gate passed" in summary(runner), "and the summary has that", summary(runner))
    tap.check(not [s for s in used.uses if "artifact" in s["uses"]], "no artifact unless named")
    used = runner.action({"run": runner.leaky + " && exit 7"})
    tap.check(used.status == 7, "the script's own status comes first", used.status, used.printed)
    used = runner.action({"run": "export A=1\n%s |\n cat\nexit 0" % runner.leaky})
    tap.check(used.status == 23, "a script of several lines", used.status, used.printed)
    tap.check(used.uses == [], "nothing is uploaded unless wanted", used.uses)


def check_closed(tap, runner):
    """The gate fails closed."""
    for name, given, status in (
            ("no GPU call", {"run": "true"}, 24),
            ("a command that is missing", {"run": "no-such-command"}, 127),
            ("an empty command", {"run": " \n"}, 1),
            ("an option that does not exist",
             {"run": runner.clean, "options": "--nonsense 1"}, 125),
            ("a format of the user's", {"run": runner.clean, "options": "--format text"}, 1),
            ("a baseline that is missing", {"run": runner.clean, "baseline": "none"}, 125),
            ("an update without a baseline", {"run": runner.clean, "update-baseline": "true"}, 1),
            ("a wrong truth value",
             {"run": runner.clean, "baseline": "b", "update-baseline": "yes"}, 1)):
        used = runner.action(dict(given, **{"upload-sarif": "true"}))
        tap.check(used.status == status and used.uses == [], name + ": the step fails, no upload",
                  used.status, used.printed)
    used = runner.action({"run": "no-such-command"})
    tap.check("no-such-command: command not found" in used.printed, "the missing command is named",
              used.printed)
    for name, given, repository in (
            ("a wheel that is missing", {"wheel": "/none/gpuleak-1-py3-none-any.whl"}, ""),
            ("a release without the wheel", {}, "owner/another"),
            ("no wheel and no release", {}, "")):
        used = runner.action(dict(given, run=runner.clean), repository)
        tap.check(used.status == 1 and len(errors(used.printed)) == 1, name + ": one error",
                  used.status, used.printed)


def check_baseline(tap, runner):
    used = runner.action({"run": runner.leaky, "baseline": "known", "update-baseline": "true",
                          "artifact": "known"})
    known = (runner.work / "project/known").read_text()
    tap.check(used.status == 0 and "\ngpuleak-baseline 1\n" in known, "a baseline is written",
              used.printed)
    tap.check(str(runner.work / "project/known") in used.uses[0]["with"]["path"],
              "and is in the artifact", used.uses)
    used = runner.action({"run": runner.leaky, "baseline": "known", "upload-sarif": "true"},
                         files=[("known", known)])
    tap.check(used.status == 0 and {one["level"] for one in results(used)} == {"warning"},
              "with it the same leaks pass, as warnings", used.printed, results(used))
    used = runner.action({"run": runner.leaky.replace(" 2", " 3"), "baseline": "known"},
                         files=[("known", known)])
    tap.check(used.status == 23, "and a third one does not", used.printed)
    used = runner.action({"run": runner.leaky, "upload-sarif": "true",
                          "options": "--suppressions mine  --max-leaked-bytes=9"},
                         files=[("mine", "leak:leak_1\nleak:leak_2\n")])
    tap.check(used.status == 0 and all(one.get("suppressions") for one in results(used)),
              "suppressions count in the SARIF report, too", used.printed, results(used))


def check_component(tap, runner):
    from composite import component

    def run(**given):
        (name, job), = component(dict(given, wheel=given.get("wheel", str(runner.wheel)))).items()
        for old in (runner.work / "project").iterdir():
            old.unlink()
        variables = dict(job["variables"], GITHUB_PATH="")
        return (name, *runner.shell("\n".join(job["script"]), variables))

    (runner.work / "path").unlink(missing_ok=True)
    report = runner.work / "project/gpuleak.xml"
    name, status, text = run(run=runner.leaky + " # a: \"b\" $HOME")
    tap.check(name == "gpu-memory" and status == 23
              and '<failure type="leak"' in report.read_text(),
              "GitLab: a leak fails the job, with a test report", status, text)
    status, text = run(run=runner.clean)[1:]
    tap.check(status == 0 and "<failure" not in report.read_text(),
              "GitLab: a clean program passes", text)
    for what, given, wanted in (
            ("no GPU call", {"run": "true"}, 24),
            ("no command", {"run": ""}, 1),
            ("a command that is missing", {"run": "no-such-command"}, 127),
            ("a wheel that is missing", {"run": runner.clean, "wheel": "/none.whl"}, 1),
            ("no wheel", {"run": runner.clean, "wheel": ""}, 1),
            ("a baseline that is missing", {"run": runner.clean, "baseline": "n"}, 125)):
        status, text = run(**given)[1:]
        tap.check(status == wanted, "GitLab: %s fails the job" % what, status, text)


def check_hooks(tap, runner):
    import yaml
    files = {"budgets": ("kind:pinned 64MiB\n", "kind:wool 64MiB\n"),
             "suppressions": ("leak:mine\n", "leek:mine\n"),
             "baseline": ("gpuleak-baseline 1\n", "something else\n")}
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    tap.check({hook["id"] for hook in hooks} == {"gpuleak-" + name for name in files},
              "the hooks", hooks)
    found = dict(GITHUB_PATH="", PATH="%s:/usr/bin:/bin" % (runner.build / "tools"))
    for hook in hooks:
        kind = hook["id"].partition("-")[2]
        for name, text in zip(("good one", "bad one"), files[kind]):
            (runner.work / "project" / name).write_text(text)

        def run(*names, **more):
            words = hook["entry"].split()
            done = subprocess.run([ROOT / words[0], *words[1:], *names], check=False,
                                  cwd=runner.work / "project", env={**runner.env, **found, **more},
                                  capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

        tap.check(run("good one") == (0, ""), kind + ": a good file passes silently",
                  run("good one"))
        status, text = run("good one", "bad one", "good one")
        tap.check(status == 1 and "bad one:1:" in text, kind + ": a bad line is named", status,
                  text)
        status, text = run("good one", PATH="/usr/bin:/bin")
        tap.check(status == 1 and text.count("\n") == 1, kind + ": without gpuleak it fails", text)


def main():
    build, tap = pathlib.Path(sys.argv[1]).resolve(), contents.Tap()
    # The scripts run the system's pip.
    lacking = subprocess.run(["/usr/bin/python3", "-c", "import yaml, pip"], check=False,
                             stderr=subprocess.PIPE, text=True).stderr.split("\n")[-2:-1]
    if lacking:
        if os.environ.get("GPULEAK_MUST_RUN"):
            sys.exit("Bail out! %s" % lacking[0])
        print("1..0 # SKIP %s" % lacking[0])
        return
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder) / "a runner"
        work.mkdir()
        wheel = contents.pack(contents.make_stage(build, work), contents.make_licenses(work), work)
        runner = Runner(work, build, wheel)
        check_verdicts(tap, runner)
        check_closed(tap, runner)
        check_baseline(tap, runner)
        check_component(tap, runner)
        check_hooks(tap, runner)
    print("1..%d" % tap.number)
    sys.exit(tap.failed)


if __name__ == "__main__":
    main()
