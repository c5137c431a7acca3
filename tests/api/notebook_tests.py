# SPDX-License-Identifier: MIT
"""The magic %%gpuleak in IPython and in a kernel of Jupyter, and gpuleak.memory(), preloaded and not
(ACTIVE=0): what is shown, and that a cell runs as it would without the magic."""

import html
import io
import json
import os
import re
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

from IPython.core.interactiveshell import InteractiveShell

import gpuleak
import helper
from gpuleak import _notebook, _report
from gpuleak._table import Table

ACTIVE = os.environ["ACTIVE"] == "1"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PAGE = os.path.join(ROOT, "docs", "guides", "notebooks.md")
MAKE = "import helper\ndef make(size):\n    return helper.allocate(size)"
HOW = "gpuleak is not in this %s: the cell ran, and nothing was recorded. Start it by\n" \
    "    gpuleak run -- %s\n"


def page_of(table):
    """The data of the page in the HTML of TABLE."""
    found = re.search(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"', table._repr_html_())
    page = html.unescape(found[1])
    return page, json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


class Shell(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shell = InteractiveShell.instance()
        cls.shell.run_cell("%load_ext gpuleak")
        cls.shell.run_cell(MAKE, store_history=True)
        cls.made = cls.shell.execution_count - 1

    def setUp(self):
        self.tables = []
        display = _notebook._display
        _notebook._display = self.tables.append
        self.addCleanup(setattr, _notebook, "_display", display)

    def run_cell(self, text):
        """Runs a cell. Returns its result, its number, and what it printed."""
        number, out, err = self.shell.execution_count, io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            result = self.shell.run_cell(text, store_history=True)
        return result, number, out.getvalue() + err.getvalue()

    def rows(self):
        (table,) = self.tables
        return [(row["line"].partition(", called from ")[2], row["bytes"], row["blocks"])
                for row in table.rows]

    @unittest.skipIf(ACTIVE, "without gpuleak")
    def test_absent(self):
        """The line that starts it, and the cell runs unchanged."""
        result, _, text = self.run_cell("%%gpuleak\nprint('ran')\n1 + 1")
        self.assertEqual((result.result, self.tables), (2, []))
        self.assertTrue(text.startswith("ran\n") and text.endswith(HOW % ("IPython", "ipython")), text)
        with self.assertRaises(ZeroDivisionError):
            self.run_cell("%%gpuleak\n1 / 0")[0].raise_error()

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_cell(self):
        """What the cell left by the lines of the cell, and the small page."""
        self.run_cell("before = make(4096)")
        result, number, _ = self.run_cell(
            "%%gpuleak\n\na = [make(1000) for _ in range(3)]\nhelper.free(make(64))\n"
            "b = make(500)\nmake(7)")
        self.assertGreater(result.result, 0)
        cell = "In [%d]" % number
        self.assertEqual(self.rows(), [(cell + ":3", 3000, 3), (cell + ":5", 500, 1),
                                       (cell + ":6", 7, 1)])
        (table,) = self.tables
        self.assertEqual(table.title, "Cell %s left 3,507 bytes (3.4 KiB) in 5 blocks; it allocated "
                         "3,571 bytes (3.4 KiB) in 6 blocks" % cell)
        self.assertEqual({(row["kind"], row["device"]) for row in table}, {("device memory", 0)})
        page, data = page_of(table)
        self.assertEqual(sum(leak["bytes"] for leak in data["leaks"]), 3507)
        self.assertEqual({data["frames"][at]["file"] for stack in data["stacks"] for at in stack
                          if data["frames"][at]["function"] == "make"}, {"In [%d]" % self.made})
        self.assertIn("Content-Security-Policy", page)
        self.assertIn("<header hidden", page)
        self.assertNotIn("timeline", data)
        self.draw(page)

    def draw(self, page):
        """A browser draws the flame graph of PAGE, and nothing else."""
        sys.path.insert(0, os.path.join(ROOT, "tests", "html"))
        import browser
        if browser.find() is None:
            return
        with tempfile.TemporaryDirectory() as folder, browser.started(browser.find()) as window:
            path = os.path.join(folder, "page.html")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
            window.open(path)
            self.assertEqual((window.complaints(), window.texts("main h2"), window.texts("nav")),
                             ([], ["Who allocated what the cell left"], []))
            self.assertEqual(window.texts(".flame button")[0], "all that the cell left")
            self.assertIn("make", window.texts(".flame button"))
            self.assertFalse(window.js("document.getElementById('top').checkVisibility()"))

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_nothing_left(self):
        _, number, _ = self.run_cell("%%gpuleak\nhelper.free(make(64))")
        (table,) = self.tables
        self.assertEqual(str(table), "Cell In [%d] left nothing allocated; it allocated 64 bytes in "
                         "1 block" % number)
        self.assertNotIn("<iframe", table._repr_html_())

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_errors(self):
        """An error is the cell's, and what it left until then is shown. A cell that did not begin
        shows nothing."""
        result, number, _ = self.run_cell("%%gpuleak\nc = make(100)\n1 / 0")
        self.assertIsInstance(result.error_in_exec, ZeroDivisionError)
        self.assertEqual(self.rows(), [("In [%d]:2" % number, 100, 1)])
        self.tables.clear()
        for text in ("%%gpuleak\n1 +", "%%gpuleak --all\nd = make(1)"):
            result, _, said = self.run_cell(text)
            self.assertFalse(result.success)
            self.assertEqual(self.tables, [])
        self.assertIn("%%gpuleak takes no arguments: --all", said)

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_other_magics(self):
        """Above and below another magic, with await, and as nbconvert writes it in a script."""
        for text in ("%%gpuleak\n%%time\ne = make(11)", "%%time\n%%gpuleak\ne = make(11)",
                     "%%gpuleak\nimport asyncio\nawait asyncio.sleep(0)\ne = make(11)",
                     "get_ipython().run_cell_magic('gpuleak', '', 'e = make(11)\\n')"):
            result, _, _ = self.run_cell(text)
            self.assertTrue(result.success, text)
            self.assertEqual([(table.bytes, table.blocks) for table in self.tables], [(11, 1)], text)
            self.tables.clear()
        self.shell.register_magic_function(lambda line, cell: None, "cell", "gpuleak_other")
        self.assertTrue(self.run_cell("%%gpuleak_other\nx")[0].success)
        self.run_cell("'''\n%%gpuleak\n'''\ne = make(11)")
        self.assertEqual(self.tables, [])

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_no_report(self):
        """If the command fails, its reason is printed, and the cell has run."""
        def fail(*_):
            raise _report.ReportError("no command")

        run, _report.run = _report.run, fail
        self.addCleanup(setattr, _report, "run", run)
        result, _, text = self.run_cell("%%gpuleak\n5")
        self.assertEqual((result.result, text.endswith("gpuleak: no command\n")), (5, True))

    def test_prompt_waits(self):
        """IPython's prompt does not end the cell after its first line."""
        self.assertEqual([self.shell.check_complete(text)[0] for text in
                          ("%%gpuleak", "%%gpuleak\nx = 1", "%%gpuleak\nx = 1\n\n")],
                         ["incomplete", "incomplete", "complete"])

    def test_loaded_twice(self):
        count = len(self.shell.input_transformers_cleanup)
        self.shell.run_cell("%reload_ext gpuleak")
        self.assertEqual(len(self.shell.input_transformers_cleanup), count)


@unittest.skipUnless(ACTIVE, "of preloaded processes")
class Page(unittest.TestCase):
    """The cells of docs/guides/notebooks.md, and the table below them."""

    def test_page(self):
        try:
            import pyopencl
        except ImportError as error:
            self.skipTest(str(error))
        if not pyopencl.get_platforms():
            self.skipTest("no OpenCL platform")
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r"^```text\n(.*?)^```$", file.read(), re.S | re.M)
        at = next(at for at, block in enumerate(blocks) if block.startswith("%%gpuleak"))
        tables, display, shell = [], _notebook._display, InteractiveShell.instance()
        _notebook._display = tables.append
        self.addCleanup(setattr, _notebook, "_display", display)
        shell.reset()
        for cell in ("%load_ext gpuleak", blocks[at - 1], blocks[at]):
            shell.run_cell(cell, store_history=True).raise_error()
        self.assertEqual([str(table) + "\n" for table in tables], [blocks[at + 1]])


class Memory(unittest.TestCase):
    @unittest.skipIf(ACTIVE, "without gpuleak")
    def test_absent(self):
        self.assertEqual((gpuleak.memory().rows, str(gpuleak.memory())),
                         ([], "gpuleak is not preloaded: " + gpuleak.HOW))

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_table(self):
        """All live memory, also what is ignored; its sum is that of the process."""
        mark = gpuleak.mark()
        addresses = [helper.allocate(1 << 20), helper.allocate(24), helper.other(2048)]
        for address in addresses:
            self.addCleanup(helper.free, address)
        gpuleak.ignore(addresses[2])
        table = gpuleak.memory(mark)
        self.assertEqual(table.rows, [
            {"line": helper.place("allocate"), "kind": "device memory", "device": 0,
             "bytes": (1 << 20) + 24, "blocks": 2},
            {"line": helper.place("other"), "kind": "device memory", "device": 0,
             "bytes": 2048, "blocks": 1}])
        self.assertEqual((len(table), table[0], list(table)), (2, table.rows[0], table.rows))
        lines = str(table).split("\n")
        self.assertEqual(lines[0], "1,050,648 bytes (1.0 MiB) in 3 blocks of GPU memory")
        self.assertRegex(lines[1], "^line  +kind  +device  +bytes  +blocks$")
        self.assertRegex(lines[2], "^" + re.escape(helper.place("allocate")) +
                         "  +device memory  +0  +1,048,600  +2$")
        self.assertEqual(gpuleak.memory().bytes, gpuleak.leaked_since().live_bytes)

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_pandas(self):
        try:
            import pandas
        except ImportError as error:
            self.skipTest(str(error))
        self.addCleanup(helper.free, helper.allocate(77))
        frame = pandas.DataFrame(gpuleak.memory(gpuleak.mark() - 1))
        self.assertEqual((list(frame.columns), frame["bytes"].sum()),
                         (["line", "kind", "device", "bytes", "blocks"], 77))

    def test_hostile(self):
        """Names are text, also in HTML. A cache's unused part, and memory without a device."""
        frames = gpuleak.Stack([gpuleak.Frame("<script>alert(1)</script>", "/a&b.c", 3)])
        table = Table([gpuleak.Leak("api", "device", -1, 5, 1, frames),
                       gpuleak.Leak("api", "device", 1, 9, 1, frames, "cache", "cache <x>")], "{} {}")
        self.assertEqual([(row["kind"], row["device"]) for row in table],
                         [("unused in the cache <x>", 1), ("device memory", None)])
        self.assertNotIn("<script>", table._repr_html_())
        self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt; /a&amp;b.c:3", table._repr_html_())


class Kernel(unittest.TestCase):
    """A notebook in a kernel, as Jupyter runs it."""

    def execute(self, *cells, argv=None):
        try:
            import nbclient
            import nbformat
            import ipykernel  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True,
                                kernel_manager_class=self.manager(argv or self.ARGV)).execute()
        return [cell.outputs for cell in notebook.cells]

    ARGV = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    @staticmethod
    def manager(argv):
        """A manager whose kernel is started by ARGV, whatever kernels are installed."""
        from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager

        class Manager(KernelSpecManager):
            def get_kernel_spec(self, name):
                return KernelSpec(language="python", display_name=name, argv=argv)

        class Kernels(AsyncKernelManager):
            def __init__(self, **options):
                super().__init__(**{**options, "kernel_spec_manager": Manager()})

        return Kernels

    @unittest.skipIf(ACTIVE, "of processes without gpuleak")
    def test_kernel_spec(self):
        """The kernel of docs/guides/notebooks.md starts under gpuleak, whoever starts it."""
        with open(PAGE, encoding="utf-8") as file:
            argv = json.loads(re.search(r'^"argv": (\[[^]]*\])', file.read(), re.M)[1])
        self.assertEqual(argv[-4:], self.ARGV[1:])
        outputs = self.execute("import gpuleak\ngpuleak.active()",
                               "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
                               "'goes on'", argv=argv[:-5] + self.ARGV)
        self.assertEqual([output.get("data", {}).get("text/plain") or output.get("ename")
                          for cell in outputs for output in cell],
                         ["True", "KeyboardInterrupt", "'goes on'"])

    def test_notebook(self):
        """Cells by number though they are files of the kernel; the cell's value and error."""
        outputs = self.execute("%load_ext gpuleak\n" + MAKE, "%%gpuleak\nx = make(300)\n'value'",
                               "%%gpuleak\ny = make(20)\nraise KeyError('mine')")
        self.assertEqual([output["data"]["text/plain"] for output in outputs[1]
                          if output["output_type"] == "execute_result"], ["'value'"])
        self.assertEqual([output["evalue"] for output in outputs[2]
                          if output["output_type"] == "error"], ["'mine'"])
        shown = [[output["data"] for output in cell if output["output_type"] == "display_data"]
                 for cell in outputs[1:]]
        if not ACTIVE:
            self.assertEqual(shown, [[], []])
            self.assertIn(HOW % ("kernel", "jupyter lab"),
                          [output.get("text") for output in outputs[1]])
            return
        for (data,), number, size in ((shown[0], 2, 300), (shown[1], 3, 20)):
            lines = data["text/plain"].split("\n")
            self.assertEqual(lines[0], "Cell In [%d] left %d bytes in 1 block; it allocated %d bytes "
                             "in 1 block" % (number, size, size))
            self.assertIn(", called from In [%d]:2 " % number, lines[2])
            page = html.unescape(data["text/html"])
            self.assertIn('"In [%d]"' % number, page)
            self.assertEqual(re.findall(r"ipykernel_\d.*", page), [])
            frames = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])["frames"]
            self.assertEqual({frame["file"] for frame in frames if "role" not in frame and
                              frame.get("language")}, {"In [1]", "In [2]", "In [%d]" % number})


if __name__ == "__main__":
    unittest.main()
