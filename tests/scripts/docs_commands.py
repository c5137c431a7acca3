#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands of documentation pages as a reader would, and holds what they print to what
the page says. TAP, one line a block.

    docs_commands.py --build BUILD [--venv DIR] [--schemas DIR] PAGE...

Of a page, each fenced block says by its info string what it is:

    console                 transcript: `$ command`, then what it prints. Each line must come, in
                            this order, others may lie between; `...` stands for anything, also
                            on a line of its own. `[exit status 23]` is the status; else it is 0
    console pycuda          the same, with PyCUDA on the stand-in driver (DIR, see pycuda.sh)
    console torch           the same, with PyTorch's stand-ins on the stand-in driver
    console with WHAT...    the same for another language: programs that must be in PATH, headers
                            (a.h), and `opencl` if it needs a driver
    console not-run: WHY    not run here: what it needs
    yaml SCHEMA             valid by that schema in DIR (see schemas.sh): github-workflow,
                            gitlab-ci, kubernetes; `yaml` alone: parses. The shell steps of the
                            first two are run (docs_workflows.py)
    python                  compiles
    text, c, cmake          nothing to check
    sh                      readme_commands.sh runs it in README.md and install.md, programs-limits
                            that of faults.md; `sh as-root` only in a new system. On other pages
                            an error: nothing would run it
    sh no-test: WHY         not run here: what it needs

A command that is not in such a block, but indented or in a block of text, is an error. A PAGE that ends with .yaml is a
block of the kind `yaml kubernetes`, a folder stands for its pages.
The blocks of a page run one after the other in one folder, with the build's gpuleak in PATH, its
library where the plain name preloads, and docs/examples below. What is not installed is skipped,
with GPULEAK_MUST_RUN it fails."""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import docs_workflows

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TIMEOUT = 120
STATUS = re.compile(r"^\[exit status (\d+)\]$")


COMMAND = (r"(?:\$ |gpuleak (?:run|report|check|diff|top|attach|doctor|help)\b|GPULEAK_\w+=\S* \S|"
           r"LD_PRELOAD=|(?:pip|pytest|python3|git|meson|ninja|docker|kubectl|sudo|curl|nvcc|cmake) |"
           r"(?:apt|apt-get) |tools/\w+\.sh\b)")
INDENTED = re.compile("^    " + COMMAND)
IN_TEXT = re.compile("^" + COMMAND)
# Tests run the blocks of the kind `sh` of these pages.
SHELL_PAGES = ("README.md", "docs/guides/install.md", "docs/guides/faults.md")
FENCE = re.compile(r"^( *)(```|~~~)")


class Wrong(Exception):
    pass


class Skip(Exception):
    pass


def pages_of(name):
    """The page NAME, or the pages of a folder."""
    if not os.path.isdir(name):
        return [name]
    return sorted(glob.glob(os.path.join(name, "**", "*.md"), recursive=True))


def blocks(page):
    """(line number, info string, lines) of each fenced block. A .yaml file is one block."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    if page.endswith(".yaml"):
        yield 1, "yaml kubernetes", lines
        return
    start = None
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence and start is None:
            start, info, blanks = number, line[fence.end():].strip(), len(fence[1])
        elif fence:
            yield start, info, [text[min(blanks, len(text) - len(text.lstrip())):]
                                for text in lines[start:number - 1]]
            start = None
        elif start is None and INDENTED.match(line):
            yield number, "", [line]
    if start is not None:
        raise Wrong("%s:%d: a block without an end" % (page, start))


def steps(lines):
    """[(command, status, lines that it prints)] of a transcript; a command goes on behind a \\."""
    ret, going_on = [], False
    for line in lines:
        if going_on:
            ret[-1][0] += "\n" + line
        elif line.startswith("$ "):
            ret.append([line[2:], 0, []])
        elif not ret:
            raise Wrong("begins without a command")
        elif STATUS.match(line):
            ret[-1][1] = int(STATUS.match(line)[1])
        elif line.strip() not in ("", "..."):
            ret[-1][2].append(line)
        going_on = (going_on or line.startswith("$ ")) and line.endswith("\\")
    if not ret:
        raise Wrong("no command")
    return ret


def pattern(line):
    return re.compile(".*".join(re.escape(part) for part in line.strip().split("...")))


def run_step(command, status, wanted, folder, env):
    try:
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, timeout=TIMEOUT,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Wrong("$ %s\nno end in %d s" % (command, TIMEOUT)) from None
    printed = done.stdout.decode(errors="replace")
    told = "$ %s\n%s[exit status %d]" % (command, printed, done.returncode)
    if done.returncode != status:
        raise Wrong("%s\nthe page says exit status %d" % (told, status))
    rest = iter(printed.split("\n"))
    for line in wanted:
        if not any(pattern(line).search(got) for got in rest):
            raise Wrong("%s\nnot printed, or not in this order: %s" % (told, line))


def object_file(document):
    """deployment-apps-v1.json of a Kubernetes object, pod-v1.json."""
    group, _, version = document["apiVersion"].rpartition("/")
    return "-".join([document["kind"].lower()] + [group.partition(".")[0]][:bool(group)]
                    + [version]) + ".json"


def validator(jsonschema, schema, path):
    """SCHEMA refers to files beside PATH, by names in the web that nobody need reach."""
    class Beside(jsonschema.RefResolver):
        def resolve_remote(self, uri):
            name = os.path.basename(uri.partition("#")[0])
            with open(os.path.join(os.path.dirname(path), name), encoding="utf-8") as file:
                return json.load(file)

    return jsonschema.Draft7Validator(schema, resolver=Beside(schema.get("$id", "file://" + path),
                                                              schema))


class Runner:
    def __init__(self, options):
        self.options = options
        self.home = tempfile.mkdtemp(prefix="gpuleak-docs-")
        build = os.path.realpath(options.build)
        self.env = {
            "HOME": self.home, "LC_ALL": "C.UTF-8", "POCL_CACHE_DIR": os.path.join(self.home, "pocl"),
            "PYTHONDONTWRITEBYTECODE": "1", "LD_LIBRARY_PATH": os.path.join(build, "interpose"),
            "PATH": os.pathsep.join([os.path.join(build, "tools"), "/usr/bin", "/bin"]),
        }
        self.standin = os.path.join(build, "standin", "driver")

    def folder(self):
        folder = tempfile.mkdtemp(dir=self.home)
        shutil.copytree(os.path.join(ROOT, "docs", "examples"),
                        os.path.join(folder, "docs", "examples"))
        runtime = os.path.join(folder, ".runtime")
        os.mkdir(runtime, 0o700)
        self.env["XDG_RUNTIME_DIR"] = runtime
        return folder

    def pycuda(self):
        """The environment with PyCUDA in it."""
        if not self.options.venv:
            raise Skip("no --venv")
        made = subprocess.run([os.path.join(ROOT, "tests", "frameworks", "pycuda.sh"),
                               self.options.venv, self.standin], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if made.returncode:
            raise Skip("PyCUDA was not built: " + made.stderr[-500:])
        return {**self.env,
                "PATH": os.path.join(os.path.realpath(self.options.venv), "bin") + os.pathsep
                        + self.env["PATH"],
                "LD_LIBRARY_PATH": self.env["LD_LIBRARY_PATH"] + os.pathsep + self.standin}

    def torch(self):
        """The environment with PyTorch's stand-ins in it."""
        here = os.path.join(ROOT, "tests", "frameworks", "torch", "site-packages")
        libraries = os.path.join(os.path.realpath(self.options.build), "tests", "frameworks",
                                 "torch")
        if not os.path.exists(os.path.join(libraries, "libtorch_python.so")):
            raise Skip("no C++ compiler or no python3-dev")
        return {**self.env, "STANDIN_TORCH": libraries, "PYTHONPATH": here,
                "LD_LIBRARY_PATH": self.env["LD_LIBRARY_PATH"] + os.pathsep + self.standin}

    def language(self, needed):
        """The environment, if all that is NEEDED is here."""
        for what in needed:
            here = glob.glob("/etc/OpenCL/vendors/*.icd") if what == "opencl" else \
                glob.glob("/usr/include/" + what) if what.endswith(".h") else \
                shutil.which(what, path=self.env["PATH"])
            if not here:
                raise Skip("no " + what)
        return self.env

    def schemas(self):
        if not self.options.schemas:
            raise Skip("no --schemas")
        made = subprocess.run([os.path.join(ROOT, "tests", "scripts", "schemas.sh"),
                               self.options.schemas], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if made.returncode:
            raise Skip("no schemas: " + made.stderr[-500:])
        return os.path.realpath(self.options.schemas)

    def console(self, rest, lines, folder):
        if rest.startswith("not-run: ") and len(rest) > len("not-run: "):
            steps(lines)
            return
        if rest not in ("", "pycuda", "torch") and not rest.startswith("with "):
            raise Wrong("console %s: not known" % rest)
        env = self.language(rest.split()[1:]) if rest.startswith("with ") else self.pycuda() if rest == "pycuda" else self.torch() if rest == "torch" else self.env
        if not rest and subprocess.run(["/usr/bin/python3", "-c", "import pyopencl"], check=False,
                                       stderr=subprocess.DEVNULL).returncode:
            raise Skip("no PyOpenCL")
        for command, status, wanted in steps(lines):
            run_step(command, status, wanted, folder, env)

    def yaml(self, schema, lines, folder):
        try:
            import yaml
        except ImportError:
            raise Skip("no python3-yaml") from None
        # GitHub's `on:` is a word, not the truth value that YAML 1.1 makes of it.
        loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {
            first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:bool"]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()}})
        loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), "tf")
        documents = list(yaml.load_all("\n".join(lines), Loader=loader))
        kinds = dict if schema else (dict, list)
        if not documents or not all(isinstance(one, kinds) for one in documents):
            raise Wrong("no mapping")
        if not schema:
            return
        if schema != "kubernetes":
            self.workflows(schema, documents, folder)
        try:
            import jsonschema
        except ImportError:
            raise Skip("no python3-jsonschema") from None
        schemas = self.schemas()
        for document in documents:
            path = os.path.join(schemas, schema + ".json")
            if schema == "kubernetes":
                path = os.path.join(schemas, schema, object_file(document))
            if not os.path.exists(path):
                raise Wrong("no schema " + os.path.basename(path))
            with open(path, encoding="utf-8") as file:
                told = json.load(file)
            for error in validator(jsonschema, told, path).iter_errors(document):
                raise Wrong("%s: %s" % ("/".join(map(str, error.absolute_path)), error.message))

    def workflows(self, schema, documents, folder):
        for document in documents:
            try:
                docs_workflows.check(schema, document, tempfile.mkdtemp(dir=folder),
                                     os.path.realpath(self.options.build), self.standin)
            except docs_workflows.Failed as failed:
                raise Wrong(str(failed)) from None

    @staticmethod
    def python(rest, lines, folder):
        del rest, folder
        try:
            compile("\n".join(lines), "the block", "exec")
        except SyntaxError as error:
            raise Wrong(str(error)) from None

    @staticmethod
    def text(rest, lines, folder):
        del rest, folder
        for line in filter(IN_TEXT.match, lines):
            raise Wrong("a command in a block that is not run: " + line)

    @staticmethod
    def sh(rest, lines, folder):
        del rest, lines, folder

    c = cmake = text

    def check(self, page, info, lines, folder):
        kind, _, rest = info.partition(" ")
        if kind not in ("console", "yaml", "python", "text", "c", "cmake", "sh") or kind == "sh" and (
                rest not in ("", "as-root") and not re.match("no-test: .", rest)):
            raise Wrong("a block of kind '%s' says not how to check it" % kind)
        if info == "sh" and os.path.relpath(page, ROOT) not in SHELL_PAGES:
            raise Wrong("nothing runs it: say why not, `sh no-test: WHY`")
        getattr(self, kind)(rest.strip(), lines, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--venv")
    parser.add_argument("--schemas")
    parser.add_argument("pages", nargs="+")
    options = parser.parse_args()
    runner, number, failed = Runner(options), 0, 0
    try:
        for page in [page for name in options.pages for page in pages_of(name)]:
            folder = runner.folder()
            for line, info, lines in blocks(page):
                number, problem, skip = number + 1, "", ""
                try:
                    runner.check(page, info, lines, folder)
                except Wrong as wrong:
                    problem = str(wrong)
                except Skip as why:
                    problem, skip = (str(why), "") if os.environ.get("GPULEAK_MUST_RUN") else ("", str(why))
                failed += bool(problem)
                print("%sok %d - %s:%d %s%s" % ("not " if problem else "", number, os.path.basename(page),
                                                line, info, " # SKIP " + skip if skip else ""))
                for text in problem.split("\n") if problem else ():
                    print("# " + text)
                sys.stdout.flush()
    finally:
        shutil.rmtree(runner.home, ignore_errors=True)
    print("1..%d" % number)
    return 1 if failed or not number else 0


if __name__ == "__main__":
    sys.exit(main())
