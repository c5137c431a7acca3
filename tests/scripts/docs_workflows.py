# SPDX-License-Identifier: MIT
"""Runs the shell steps of the workflows on the pages for CI systems, as GitHub's and GitLab's
runners do, each in three projects: tests that leak, clean tests, tests without a GPU call.

One thing is replaced, the same for each workflow: `pip install` of the wheel whose address is in
the variable GPULEAK_WHEEL puts the built command in PATH, and that of pytest a file which runs the
tests. Before it there is neither, so a workflow without this step fails. Steps with `uses:` are not
run. What they upload must be there. `uses: OWNER/gpuleak@...` is this checkout's action.yml, and
GitLab's `include: component:` its templates/gpuleak.yml."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import composite

ACTION = "OWNER/gpuleak@"
TIMEOUT = 120
WHEEL = "https://wheels.example/gpuleak-1.0.0-py3-none-manylinux_2_28_x86_64.whl"
# What the reader tests, and how the step that tests it must end.
PROJECTS = {"leaks": ("leaks 2", 23), "clean": ("leaks 0", 0), "no GPU call": ("true", 24)}
PIP = """#!/bin/sh
# pip, and Python's -m pip
case "${0##*/} $*" in
"python3 -m pip install "*|"pip install "*) ;;
python3\\ *) exec /usr/bin/python3 "$@";;
*) echo "not expected: $0 $*" >&2; exit 1;;
esac
target=
for word; do
	[ "$target" != next ] || target=$word
	case $word in
	--target) target=next;;
	"%(wheel)s") [ -z "$target" ] || {
			mkdir -p "$target/gpuleak/_native/bin"
			ln -s "%(command)s" "$target/gpuleak/_native/bin"
		}
		ln -sfn "%(command)s" "%(bin)s/gpuleak";;
	pytest) echo "import os; os.execv('./tests', ['./tests'])" >pytest.py;;
	esac
done
"""


class Failed(Exception):
    pass


class Project:
    """A checkout with tests, and an account on a runner."""

    def __init__(self, folder, build, standin, words):
        self.folder = os.path.join(folder, "project")
        bin_folder, temporary = os.path.join(folder, "bin"), os.path.join(folder, "temporary")
        for name in (self.folder, bin_folder, temporary):
            os.makedirs(name)
        pip = PIP % {"wheel": WHEEL, "bin": bin_folder,
                     "command": os.path.join(build, "tools", "gpuleak")}
        for path, text in ((os.path.join(bin_folder, "pip"), pip),
                           (os.path.join(bin_folder, "python3"), pip),
                           (os.path.join(self.folder, "tests"), "#!/bin/sh\nexec %s\n" % words)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        self.env = {
            "HOME": temporary, "LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": temporary,
            "LD_LIBRARY_PATH": standin, "PATH": bin_folder + ":/usr/bin:/bin",
            "RUNNER_TEMP": temporary, "GITHUB_WORKSPACE": self.folder,
            "GITHUB_PATH": os.path.join(temporary, "path"),
            "GITHUB_STEP_SUMMARY": os.path.join(temporary, "summary"),
        }

    def run(self, script, more, *options):
        """The status of a shell script, and what it prints."""
        done = subprocess.run(["bash", "-e", *options, "-c", script], cwd=self.folder,
                              env={**self.env, **more}, timeout=TIMEOUT, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if os.path.exists(self.env["GITHUB_PATH"]):
            with open(self.env["GITHUB_PATH"], encoding="utf-8") as file:
                self.env["PATH"] = ":".join(file.read().split() + [self.env["PATH"]])
            os.unlink(self.env["GITHUB_PATH"])
        return done.returncode, done.stdout.decode(errors="replace")

    def content(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            raise Failed("to be uploaded, but: %s" % error) from None


def variables(*maps):
    """The variables of a workflow, a job and a step, with those of the repository filled in."""
    return {name: composite.plain(value).replace("${{ vars.GPULEAK_WHEEL }}", WHEEL)
            for each in maps for name, value in (each or {}).items()}


def uploads(project, step, leaks):
    """Checks the files that STEP uploads: whole reports on LEAKS leaks."""
    wanted = step.get("with") or {}
    if step["uses"].startswith("github/codeql-action/upload-sarif@"):
        try:
            run = json.loads(project.content(wanted["sarif_file"]))["runs"][0]
        except ValueError as error:
            raise Failed("%s: %s" % (wanted["sarif_file"], error)) from None
        if len(run["results"]) != leaks or not run["invocations"][0]["executionSuccessful"]:
            raise Failed("%s: %s" % (wanted["sarif_file"], run))
    elif step["uses"].startswith("actions/upload-artifact@"):
        if "</html>" not in project.content(wanted["path"].strip()):
            raise Failed("%s is no page" % wanted["path"])
    elif not step["uses"].startswith(("actions/checkout@", "actions/setup-python@")):
        raise Failed("uses: %s: what it does is not known" % step["uses"])


def is_wanted(step, outcomes, failed):
    """Whether a runner runs STEP, by its `if:`, of which two forms are known."""
    condition = step.get("if")
    if condition is None:
        return not failed
    if condition == "always()":
        return True
    match = re.fullmatch(r"always\(\) && steps\.(\w+)\.outcome == 'success'", condition)
    if not match:
        raise Failed("if: %s: not known" % condition)
    return outcomes[match[1]]


def use_action(project, step, leaks):
    """The status of a step that uses this project's action, and what it prints."""
    used = composite.Composite(variables(step["with"]), {"action_repository": "OWNER/gpuleak"},
                               lambda script, more, _: project.run(script, more, "-o", "pipefail"))
    used.run(project.env["HOME"])
    for inner in used.uses:
        uploads(project, inner, leaks)
    return used.status, used.printed


def github_job(project, document, job, leaks):
    """The status of the first step that failed, or 0; and what was printed."""
    outcomes, status, printed = {}, 0, ""
    for step in job["steps"]:
        if not is_wanted(step, outcomes, status):
            continue
        if step.get("uses", "").startswith(ACTION):
            own, text = use_action(project, step, leaks)
            outcomes[step.get("id")] = own == 0
            status, printed = status or own, printed + text
            continue
        if "uses" in step:
            uploads(project, step, leaks)
            continue
        own, text = project.run(step["run"], variables(document.get("env"), job.get("env"),
                                                       step.get("env")))
        outcomes[step.get("id")] = own == 0
        status, printed = status or own, printed + "$ %s\n%s[%d]\n" % (step["run"], text, own)
    return status, printed


def gitlab_job(project, document, job, leaks):
    """The same of a job of GitLab, where a CI/CD variable is one of the shell."""
    if "image" not in job or "script" not in job:
        raise Failed("a job without an image or a script")
    status, printed = project.run("\n".join(job.get("before_script", []) + job["script"]),
                                  {name: text.replace("$GPULEAK_WHEEL", WHEEL) for name, text in
                                   variables({"GPULEAK_WHEEL": WHEEL}, document.get("variables"),
                                             job.get("variables")).items()}, "-o", "pipefail")
    reports = job.get("artifacts", {}).get("reports", {})
    if "junit" in reports:
        root = ElementTree.fromstring(project.content(reports["junit"]))
        failures = [case.get("type") for case in root.iter("failure")]
        wanted = {23: ["leak"] * leaks + ["gate"], 24: ["nothing-to-judge"]}.get(status, [])
        if failures != wanted:
            raise Failed("%s: failures %s, wanted %s" % (reports["junit"], failures, wanted))
    return status, printed


def check(schema, document, folder, build, standin):
    """Raises Failed unless each job of a workflow ends as its tests do."""
    leaks = os.path.join(build, "tests", "formats", "leaks_apart")
    jobs = document["jobs"] if schema == "github-workflow" else {
        name: job for name, job in document.items() if isinstance(job, dict) and "script" in job}
    for one in document.get("include", []):
        if not re.match(r"\$CI_SERVER_FQDN/OWNER/gpuleak/gpuleak@", one["component"]):
            raise Failed("component %s: not known" % one["component"])
        jobs.update(composite.component(one["inputs"]))
    run = github_job if schema == "github-workflow" else gitlab_job
    for name, job in jobs.items():
        for kind, (words, wanted) in PROJECTS.items():
            place = os.path.join(folder, name, kind)
            project = Project(place, build, standin, words.replace("leaks", '"%s"' % leaks))
            try:
                status, printed = run(project, document, job, 2 if wanted == 23 else 0)
            except Failed as failed:
                raise Failed("%s, %s: %s" % (name, kind, failed)) from None
            if status != wanted:
                raise Failed("%s, %s: ended with %s, wanted %s\n%s" % (name, kind, status, wanted,
                                                                      printed))
