# SPDX-License-Identifier: MIT
"""Runs the shell steps of action.yml as GitHub's runner does, and fills in templates/gpuleak.yml as
GitLab does, without the services.

Only what action.yml uses is known: expressions that are conditions joined by &&, inputs, outputs of
steps and two fields of `github`. Anything else raises Unknown, so that no step is skipped or run by
mistake. Steps with `uses:` are not run: the caller gets what they would get."""

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def parse(text):
    import yaml  # not every machine has it
    return yaml.safe_load(text)


class Unknown(Exception):
    pass


def plain(value):
    """Returns the text of a scalar of YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def component(given):
    """Returns {name: job} of the component. Inputs replace their names in the file's text."""
    spec, body = (ROOT / "templates/gpuleak.yml").read_text(encoding="utf-8").split("\n---\n")
    declared = parse(spec)["spec"]["inputs"]
    if set(given) - set(declared):
        raise Unknown("no input of the component: %s" % (set(given) - set(declared)))
    missing = [name for name, one in declared.items() if "default" not in one and name not in given]
    if missing:
        raise Unknown("a required input is missing: %s" % missing)
    inputs = {name: plain(given.get(name, one.get("default"))) for name, one in declared.items()}
    place = re.compile(r"\$\[\[ inputs\.([\w-]+) \]\]")
    jobs = parse(place.sub(lambda found: inputs[found[1]], body))
    for job in jobs.values():
        job["variables"] = {name: value["value"] if isinstance(value, dict) else value
                            for name, value in job["variables"].items()}
    return jobs


class Composite:
    """One use of the action. RUN is called as run(script, environment, folder): (status, text)."""

    def __init__(self, given, github, run):
        self.action = parse((ROOT / "action.yml").read_text(encoding="utf-8"))
        declared = self.action["inputs"]
        if set(given) - set(declared):
            raise Unknown("no input of the action: %s" % (set(given) - set(declared)))
        missing = [name for name, one in declared.items()
                   if one.get("required") and name not in given]
        if missing:
            raise Unknown("a required input is missing: %s" % missing)
        self.inputs = {name: plain(given.get(name, one.get("default", "")))
                       for name, one in declared.items()}
        self.github, self.call, self.steps = github, run, {}
        self.status, self.printed, self.uses = 0, "", []

    def value(self, word):
        """Returns the text of a term without operators."""
        literal = re.fullmatch(r"'(.*)'", word)
        if literal:
            return literal[1]
        parts = word.split(".")
        if parts[0] == "inputs" and parts[1] in self.inputs:
            return self.inputs[parts[1]]
        if parts[0] == "github" and len(parts) == 2:
            return self.github[parts[1]]
        if parts[0] == "steps" and parts[2] == "outputs":
            return self.steps.get(parts[1], {}).get(parts[3], "")
        raise Unknown(word)

    def fill(self, text):
        return EXPRESSION.sub(lambda found: self.value(found[1]), str(text))

    def is_wanted(self, condition):
        if condition is None:
            return self.status == 0
        terms = EXPRESSION.fullmatch(condition)[1].split(" && ")
        if terms[0] != "!cancelled()":
            raise Unknown(condition)
        for term in terms[1:]:
            left, operator, right = term.split(" ")
            if operator not in ("==", "!="):
                raise Unknown(term)
            if (self.value(left) == self.value(right)) != (operator == "=="):
                return False
        return True

    def shell(self, step, output):
        environment = {name: self.fill(text) for name, text in step.get("env", {}).items()}
        environment.update({"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(output)})
        output.write_text("", encoding="utf-8")
        folder = self.fill(step.get("working-directory", "."))
        status, text = self.call(step["run"], environment, folder)
        lines = output.read_text(encoding="utf-8").splitlines()
        self.steps[step.get("id")] = dict(line.split("=", 1) for line in lines)
        self.status, self.printed = self.status or status, self.printed + text

    def run(self, folder):
        """Runs all steps. FOLDER is for the file of their outputs."""
        for step in self.action["runs"]["steps"]:
            if not self.is_wanted(step.get("if")):
                continue
            if "uses" in step:
                self.uses.append({"uses": step["uses"], "with": {
                    name: self.fill(text) for name, text in step.get("with", {}).items()}})
            elif step["shell"] == "bash":
                self.shell(step, pathlib.Path(folder) / "output")
            else:
                raise Unknown("shell: %s" % step["shell"])
        outputs = {name: self.fill(one["value"]) for name, one in self.action["outputs"].items()}
        os.unlink(pathlib.Path(folder) / "output")
        return outputs
