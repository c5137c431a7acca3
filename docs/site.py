# SPDX-License-Identifier: MIT
"""The hooks of mkdocs.yml: what the site has and docs/ has not. The first page, gpuleak's commands,
a report of a real run, and the files of the tree that pages link to. Pages stay as GitHub shows
them; what mkdocs reads in another way is rewritten here. GPULEAK in the environment is the
command."""
import os
import pathlib
import re
import sys
import tempfile

from mkdocs.exceptions import Abort
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
sys.dont_write_bytecode = True
import man  # noqa: E402
import picture  # noqa: E402

EXAMPLE = """# A report to try

gpuleak made this report when the site was built: it ran
[viewer_pyopencl.py](examples/viewer_pyopencl.py), a picture viewer that keeps its thumbnails. Click
into the flame graph, sort the table, move over the timeline; [The HTML report](guides/html.md)
explains each part. The file is [report.html](report.html).

```console
$ gpuleak run --gate --format html --report report.html -- python3 viewer.py
%s```

<iframe src="report.html" title="The HTML report"
  style="width: 100%%; height: 80vh; border: 1px solid"></iframe>
"""
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def cell(text):
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


def commands_page(gpuleak):
    """What `gpuleak COMMAND --help-all` prints, for each command."""
    out = ["# Commands", "", "From `gpuleak COMMAND --help-all`. The manual pages have the same."]
    for command, what in man.commands(gpuleak).items():
        manual = man.Help(man.output_of(gpuleak, command, "--help-all"))
        out += ["", "## gpuleak " + command, "", what[0].upper() + what[1:] + ".", "",
                "```text", manual.usage, "```"]
        table = False
        for flags, value, lines in manual.flags:
            if not flags:
                out, table = out + ["", "### %s: %s" % (command, value)], False
                continue
            out += [] if table else ["", "| flag | meaning |", "|---|---|"]
            table = True
            out.append("| `%s` | %s |" % ((flags + " " + value).strip(), cell(" ".join(lines))))
    return "\n".join(out) + "\n"


def example_run(gpuleak):
    """(what gpuleak printed, the report), or Abort with the reason."""
    why = picture.missing_opencl()
    if why:
        raise Abort("the example report needs PyOpenCL and PoCL: " + why)
    with tempfile.TemporaryDirectory(prefix="gpuleak-site-") as folder:
        printed = picture.run_example(gpuleak, pathlib.Path(folder))
        return printed, (pathlib.Path(folder) / "report.html").read_text(encoding="utf-8")


def examples_page():
    """The folder that GitHub would list."""
    folder = ROOT / "docs/examples"
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return "# The guides' programs\n\n" + "".join(
        "- [%s](examples/%s)\n" % (name, name) for name in names)


def first_page():
    """The README's beginning, with a transcript and a picture, and the index of docs/."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    beginning = readme[:readme.index("\n## What it finds")].replace("](docs/", "](")
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    return beginning + "\n## Documentation\n" + index.partition("\n")[2]


def targets(path, text):
    """Yields (link, file of the tree) for each link of the page at PATH that leaves docs/."""
    for _, target, _ in LINK.findall(text):
        name = target.partition("#")[0]
        if name and not re.match(r"[a-z]+:", name):
            found = pathlib.Path(os.path.normpath(path.parent / name))
            if not found.is_relative_to(ROOT / "docs") or found.suffix in (".in", ".sh") or (
                    found.suffix == ".py" and found.parent == ROOT / "docs"):
                yield target, found


def place_of(found):
    """Where the site has a file of the tree: as it is, a page of Markdown as text."""
    name = found.relative_to(ROOT).as_posix()
    return "source/" + name + (".txt" if found.suffix in (".md", "") else "")


def on_config(config):
    """Fills the navigation's languages: a page each, so a new page needs no entry."""
    pages = sorted((ROOT / "docs/guides/languages").glob("*.md"))
    for entry in config.nav:
        if "Languages" in entry:
            entry["Languages"] = ["guides/languages/" + page.name for page in pages]
    return config


def on_files(files, config):
    gpuleak = os.environ.get("GPULEAK")
    if not gpuleak:
        raise Abort("GPULEAK is not set: docs/site.sh builds the site")
    printed, report = example_run(os.path.realpath(gpuleak))
    made = {"reference/commands.md": commands_page(gpuleak), "report.html": report,
            "example.md": EXAMPLE % printed, "examples.md": examples_page()}
    for page in list(files.documentation_pages()):
        path = ROOT / "docs" / page.src_uri
        for _, found in targets(path, path.read_text(encoding="utf-8")):
            if found.is_file():
                made[place_of(found)] = found.read_bytes()
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


# Whose pages the search lists first.
BOOST = {"guides": 3, "developers": 0.3}


def on_page_markdown(markdown, page, config, files):
    del config, files
    page.meta["search"] = {"boost": BOOST.get(page.file.src_uri.partition("/")[0], 1)}
    if page.file.src_uri == "README.md":
        markdown = first_page()
    path = ROOT / "docs" / page.file.src_uri
    up = "../" * page.file.src_uri.count("/")
    moved = {target: found for target, found in targets(path, markdown)}

    def link(match):
        found = moved.get(match[2])
        if found and found.is_file():
            return match[1] + up + place_of(found) + match[3]
        return match[0].replace("examples)", "examples.md)")

    out, fenced = [], False
    for line in markdown.split("\n"):
        if line.startswith("```"):
            # "console not-run: WHY" says to tests how to run a block.
            line, fenced = line if fenced else "```" + line[3:].partition(" ")[0], not fenced
        elif not fenced:
            line = LINK.sub(link, line)
            if line.startswith("|"):  # a bar inside of code ends no cell here
                line = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line)
        out.append(line)
    return "\n".join(out)
