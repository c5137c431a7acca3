#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The alerts of packaging/prometheus and the dashboard of packaging/grafana: fleet.py BUILD. TAP.

promtool tests the rules and parses each expression of the dashboard, and a Prometheus that scrapes a
service that leaks raises an alert. Both are skipped where they are not installed (Debian package
prometheus). The dashboard is also read by Grafana's models where Python has grafana_foundation_sdk."""

import contextlib
import functools
import http.server
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging/prometheus/gpuleak.rules.yml"
RULES_TEST = ROOT / "tests/packaging/fleet/rules_test.yml"
DASHBOARD = ROOT / "packaging/grafana/gpuleak.json"
PANELS = ("stat", "timeseries", "table")
INTERVAL = 3  # seconds between two scrapes, and between two evaluations
LATE = 2      # more seconds, because the machine may be busy
DEADLINE = 60
ALLOCATE = "assert driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 20)) == 0"
BEGIN = """
import ctypes, sys, time
driver, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0
assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
"""
SERVICE = BEGIN + """
def handle_request():
    %s
for _ in range(int(sys.argv[1])):
    handle_request()
    time.sleep(0.1)
""" % ALLOCATE


class Skipped(Exception):
    pass


def need(name):
    found = shutil.which(name)
    if not found and os.environ.get("GPULEAK_MUST_RUN"):
        raise AssertionError("%s is not installed" % name)
    if not found:
        raise Skipped("%s is not installed (Debian package prometheus)" % name)
    return found


def run(*words, **more):
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                         timeout=120, **more)
    assert ran.returncode == 0, "%s: %s%s" % (words[0], ran.stdout, ran.stderr)
    return ran.stdout


def dashboard():
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def expressions():
    """The dashboard's expressions, with a value for each variable."""
    return [re.sub(r"\$\w+", ".*", target["expr"]) for panel in dashboard()["panels"]
            for target in panel["targets"]]


# ---- the cases ----

def rules(_build, _work):
    """Each alert fires for its series, and for no other"""
    promtool = need("promtool")
    run(promtool, "check", "rules", RULES)
    run(promtool, "test", "rules", RULES_TEST.name, cwd=RULES_TEST.parent)
    tested = RULES_TEST.read_text(encoding="utf-8")
    for name in re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8")):
        assert tested.count("alertname: " + name) >= 2, "%s is not tested" % name


def overlap(a, b):
    return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and
            a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])


def schema(_build, _work):
    """The dashboard has what Grafana requires, and no panels that overlap"""
    page = dashboard()
    for key, kind in (("uid", str), ("title", str), ("schemaVersion", int), ("panels", list),
                      ("templating", dict), ("time", dict)):
        assert isinstance(page[key], kind), key
    ids = [panel["id"] for panel in page["panels"]]
    assert len(ids) == len(set(ids)), ids
    for panel in page["panels"]:
        place = panel["gridPos"]
        assert panel["type"] in PANELS and panel["title"] and panel["targets"], panel["title"]
        assert 0 <= place["x"] and place["x"] + place["w"] <= 24, panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert {panel["datasource"]["uid"]} | {target["datasource"]["uid"]
                                               for target in panel["targets"]} == {"${datasource}"}
    for a, b in itertools.combinations(page["panels"], 2):
        assert not overlap(a["gridPos"], b["gridPos"]), (a["title"], b["title"])
    known = {each["name"] for each in page["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(page))) - {"__all"}
    assert used <= known, used - known


def losses(before, after, path=""):
    """Yields the places in BEFORE that differ in AFTER."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from losses(value, after.get(key), path + "." + key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after)):
            yield from losses(one, other, "%s[%d]" % (path, number))
    elif before != after:
        yield path


def models(_build, _work):
    """Grafana's own models of a dashboard and its panels read every key of the dashboard"""
    try:
        from grafana_foundation_sdk.cog import encoder, plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard
    except ImportError as error:
        raise Skipped("no grafana_foundation_sdk (PyPI)") from error
    plugins.register_default_plugins()

    def lost(page):
        read = Dashboard.from_json(page)
        return {path for path in losses(page, json.loads(encoder.JSONEncoder().encode(read)))
                if not path.endswith("].definition")}  # Grafana writes it, and the models lack it

    assert not lost(dashboard()), lost(dashboard())
    wrong = dashboard()
    wrong["panels"][0]["fieldConfig"]["defaults"]["unlt"] = "bytes"
    assert lost(wrong) == {".panels[0].fieldConfig.defaults.unlt"}, lost(wrong)


def parsed(_build, work):
    """Prometheus parses each expression of the dashboard"""
    promtool = need("promtool")
    path = work / "expressions.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": [
        {"record": "panel:%d" % number, "expr": expr}
        for number, expr in enumerate(expressions())]}]}), encoding="utf-8")
    told = run(promtool, "check", "rules", path)
    assert "%d rules found" % len(expressions()) in told, told


@functools.cache
def samples(build):
    """What gpuleak writes of many ledgers, and of ranks that grow and accumulate: texts by name."""
    ret = {}
    with tempfile.TemporaryDirectory(prefix="gpuleak-fleet-") as work:
        ledger, grown = pathlib.Path(work) / "ledger", pathlib.Path(work) / "grown"
        for fixture in sorted((ROOT / "tests/golden/fixtures").iterdir()):
            if fixture.suffix:
                continue
            run(build / "tests/golden/ledger_from_text", fixture, ledger)
            for command in ("report", "check"):
                ret[fixture.name + "-" + command] = subprocess.run(
                    [build / "tools/gpuleak", command, "--format", "openmetrics", ledger],
                    capture_output=True, text=True, check=False).stdout
            ledger.unlink()
        for name, words in (("grown", ("/usr/bin/python3", "-c", SERVICE, 40)),
                            ("kept", (build / "tests/programs/p_accumulation", "kept"))):
            run(build / "tools/gpuleak", "run", "--fake-gpu", "--accumulation", "on", "--step-every",
                "500ms", "--format", "openmetrics", "--report", grown, "--", *words,
                env={**os.environ, "RANK": "5", "WORLD_SIZE": "8"})
            ret[name] = grown.read_text(encoding="utf-8")
    return ret


def variables():
    """The series and the label that each variable of the dashboard asks for."""
    return re.findall(r"label_values\((\w+)[^,]*, *(\w+)\)", json.dumps(dashboard()["templating"]))


def names(build, _work):
    """Each series that they use is one that gpuleak writes"""
    written = set(re.findall(r"# HELP (\w+)", "\n".join(samples(build).values())))
    used = "\n".join(expressions() + [series for series, _ in variables()])
    used += "\n" + "\n".join(re.findall(r"expr: (.*)", RULES.read_text(encoding="utf-8")))
    wanted = set(re.findall(r"\bgpuleak_\w+", used))
    assert len(wanted) > 10 and wanted <= written, wanted - written


def lines(build, work):
    """The series by line are bounded, have the rank, and add up to what is live"""
    program = BEGIN + "".join(
        "def line_%d():\n    for _ in range(%d): %s\nline_%d()\n" % (number, number, ALLOCATE, number)
        for number in range(1, 31))
    told = work / "lines.prom"
    run(build / "tools/gpuleak", "run", "--fake-gpu", "--format", "openmetrics", "--report", told, "--",
        "/usr/bin/python3", "-c", program, env={**os.environ, "RANK": "5", "WORLD_SIZE": "8"})
    text = told.read_text(encoding="utf-8")
    found = re.findall(r'^gpuleak_line_bytes\{.*rank="5".*line="([^"]*)"} (\d+)$', text, re.M)
    sums = [int(value) for _, value in found]
    assert [name.split(" ")[0] for name, _ in found] == [
        *("line_%d" % number for number in range(30, 10, -1)), "other"], found
    assert sums[0] == 30 << 20 and sums[-1] == 55 << 20, sums
    assert sum(sums) == int(re.search(r"^gpuleak_leaked_bytes\{.*} (\d+)$", text, re.M)[1]), sums
    assert re.search(r'^gpuleak_process_info\{.*rank="5".*ended="exit"} 1$', text, re.M), text


def ranks(build, work):
    """One report over many ranks: the odd one first, and few lines about those that are alike"""
    env = {**os.environ, "LD_LIBRARY_PATH": str(build / "standin/driver"), "GPULEAK_REPORT": "none",
           "LD_PRELOAD": str(build / "interpose/libgpuleak.so"), "WORLD_SIZE": "20",
           "GPULEAK_LEDGER": str(work / "job" / "%q{RANK}.gpuleak")}
    (work / "job").mkdir()
    for rank in range(20):
        run(build / "tests/programs/p_ranks", "one shared", "rank", rank,
            env={**env, "RANK": str(rank)})
    told = run(build / "tools/gpuleak", "report", work / "job")
    assert told.startswith("gpuleak: only rank 3 leaks 1.0 MiB at take "), told
    assert told.count("exited with status 0") == 9, told
    assert "\nAnd 11 more ranks without findings of their own; --verbose 1 lists them\n" in told, told
    told = run(build / "tools/gpuleak", "report", "--verbose", "1", work / "job")
    assert told.count("exited with status 0") == 20, told


def free_port():
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def get(port, path):
    with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=5) as answer:
        return answer.read().decode()


def until(what, deadline=DEADLINE, missing=""):
    """Returns when WHAT first returned something true. MISSING: what an error names."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        try:
            if what():
                return time.monotonic()
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("%s failed for %d s %s" % (what.__name__, deadline, missing))


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {".prom": "text/plain; version=0.0.4"}

    def log_message(self, *_):
        pass


def serve(folder):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def start_prometheus(program, work, served, pages):
    """Returns the port and the command of a Prometheus that scrapes PAGES from the port SERVED."""
    port, config = free_port(), work / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "%ds" % INTERVAL, "evaluation_interval": "%ds" % INTERVAL},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": name, "metrics_path": "/%s.prom" % name,
                            "static_configs": [{"targets": ["127.0.0.1:%d" % served]}]}
                           for name in pages],
    }), encoding="utf-8")
    return port, [program, "--config.file=%s" % config, "--storage.tsdb.path=%s" % (work / "data"),
                  "--web.listen-address=127.0.0.1:%d" % port]


@contextlib.contextmanager
def processes(work, *commands):
    """Runs COMMANDS until the block ends. Adds what they printed to an error."""
    running = []
    try:
        with open(work / "log", "wb") as log:
            for words in commands:
                running.append(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log))
            yield
    except AssertionError as error:
        raise AssertionError("%s\n%s" % (error, (work / "log").read_text()[-3000:])) from error
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(20)


def panels(build, work):
    """Each panel and each variable has data in a Prometheus that scraped what gpuleak writes"""
    program = need("prometheus")
    served = work / "served"
    served.mkdir()
    for name, text in samples(build).items():
        (served / (name + ".prom")).write_text(text, encoding="utf-8")
    server = serve(served)
    port, words = start_prometheus(program, work, server.server_port, samples(build))
    without = {(panel["title"], re.sub(r"\$\w+", ".*", target["expr"]))
               for panel in dashboard()["panels"] for target in panel["targets"]}
    without |= {("variable", '%s{%s!=""}' % each) for each in variables()}

    def have_data():
        for title, expr in sorted(without):
            # An expression with `or vector(0)` has a value in any case.
            answer = json.loads(get(port, "/api/v1/query?" + urllib.parse.urlencode(
                {"query": expr.replace(" or vector(0)", "")})))["data"]
            if answer["result"]:
                without.remove((title, expr))
        return not without

    try:
        with processes(work, words):
            until(have_data, DEADLINE, without)
    finally:
        server.shutdown()


def fires(build, work):
    """A Prometheus that scrapes a service that leaks raises the alert within two intervals"""
    program = need("prometheus")
    served = work / "served"
    served.mkdir()
    server = serve(served)
    port, words = start_prometheus(program, work, server.server_port, ["service"])
    service = [build / "tools/gpuleak", "run", "--fake-gpu", "--step-every", "1s", "--every", "1s",
               "--format", "openmetrics", "--report", served / "service.prom", "--",
               "/usr/bin/python3", "-c", SERVICE, 10**6]

    def grows():
        return "gpuleak_suspect_bytes_per_step{" in get(server.server_port, "/service.prom")

    def firing():
        alerts = json.loads(get(port, "/api/v1/alerts"))["data"]["alerts"]
        return [each for each in alerts if each["state"] == "firing" and
                each["labels"]["alertname"] == "GpuleakGrowth" and
                each["labels"]["function"] == "handle_request"]

    try:
        with processes(work, words, service):
            began = until(grows)
            took = until(firing) - began
        print("# %.1f s, with an interval of %d s" % (took, INTERVAL))
        assert took <= 2 * INTERVAL + LATE, took
    finally:
        server.shutdown()


CASES = (rules, schema, models, parsed, names, panels, lines, ranks, fires)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    failed = 0
    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory(prefix="gpuleak-fleet-") as work:
            try:
                case(build, pathlib.Path(work))
                print("ok %d - %s" % (number, case.__doc__), flush=True)
            except Skipped as why:
                print("ok %d - %s # SKIP %s" % (number, case.__doc__, why), flush=True)
            except Exception as error:  # pylint: disable=broad-except
                failed += 1
                print("not ok %d - %s" % (number, case.__doc__))
                print("\n".join("# " + line for line in repr(error).split("\\n")), flush=True)
    print("1..%d" % len(CASES))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
