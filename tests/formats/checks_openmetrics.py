# SPDX-License-Identifier: MIT
"""OpenMetrics: read by Prometheus' own Python client, and in the older format by promtool, whose
reader is that of node_exporter's textfile collector."""

from tools import module, same, tool, true


def series(place, content):
    """{(name, labels): value}, once both readers took it."""
    place.run(tool("promtool"), "check", "metrics", stdin=content)
    parser = module("prometheus_client.openmetrics.parser")
    text = content.decode("utf-8")
    true(text.endswith("\n# EOF\n"), "the end")
    found = {}
    for fam in parser.text_string_to_metric_families(text):
        true(fam.name.startswith("gpuleak_"), fam.name)
        for sample in fam.samples:
            same(sample.timestamp, None, "timestamp")
            key = sample.name, frozenset(sample.labels.items())
            true(key not in found, "twice: %s" % (key,))
            found[key] = sample.value
    return found


def values(found, name, *labels):
    """Of the series NAME, by the values of LABELS."""
    ret = {}
    for (sample, own), value in found.items():
        if sample == name:
            ret[tuple(dict(own).get(label) for label in labels)] = value
    return ret


def leaks(place):
    """Live, leaked, ever allocated and freed, by kind and device; errors by type."""
    found = series(place, place.report("openmetrics", place.ledger("l", "leaks", 3, "double")))
    by = ("program", "device", "kind")
    key = ("leaks", "0", "device")
    same(values(found, "gpuleak_live_bytes", *by), {key: 6000})
    same(values(found, "gpuleak_live_blocks", *by), {key: 3})
    same(values(found, "gpuleak_allocated_bytes_total", *by), {key: 6500})
    same(values(found, "gpuleak_allocated_blocks_total", *by), {key: 4})
    same(values(found, "gpuleak_freed_blocks_total", *by), {key: 1})
    same(values(found, "gpuleak_leaked_bytes", "program"), {("leaks",): 6000})
    same(values(found, "gpuleak_peak_bytes"), {(): 6500})
    same(values(found, "gpuleak_memory_peak_bytes", "memory", "device"), {("device", "0"): 6500})
    same(values(found, "gpuleak_errors_total", "type"), {("double-free",): 1, ("other",): 0})
    same(values(found, "gpuleak_gaps"), {(): 0})
    sites = values(found, "gpuleak_site_leaked_bytes", "function", "file", "api", "site")
    same(sorted(sites.values()), [1000, 2000, 3000])
    same({k[:3] for k in sites}, {("allocate", "leaks.c", "cuMemAlloc_v2")})
    same(len({k[3] for k in sites}), 3, "sites")


def nothing(place):
    """Status 24: the verdict, and no process."""
    found = series(place, place.nothing("openmetrics"))
    same(values(found, "gpuleak_gate"), {(): 24})
    same(values(found, "gpuleak_processes"), {(): 0})


def clean(place):
    """A clean program has every family, at 0."""
    found = series(place, place.report("openmetrics", place.ledger("l", "leaks", 0)))
    same(values(found, "gpuleak_leaked_bytes"), {(): 0})
    same(values(found, "gpuleak_live_bytes"), {(): 0})
    same(values(found, "gpuleak_errors_total", "type"), {("other",): 0})
    same(values(found, "gpuleak_processes"), {(): 1})
    same(values(found, "gpuleak_gate"), {})


def verdicts(place):
    """The verdict is a number."""
    ledger = place.ledger("l", "leaks", 1)
    for budget, verdict in ((1000, 0), (999, 23)):
        found = series(place, place.report("openmetrics", "--max-leaked-bytes", budget, ledger))
        same(values(found, "gpuleak_gate"), {(): verdict})


def pool(place):
    """The pool's figures are there when there is one."""
    found = series(place, place.report("openmetrics", place.ledger(
        "l", "leaks", 1, env={"GPULEAK_POOL": "strict"})))
    by = ("device", "api", "kind")
    hits = values(found, "gpuleak_pool_hits_total", *by)
    same(set(hits), {("0", "CUDA", "device")})
    native = values(found, "gpuleak_pool_driver_allocations_total", *by)
    same(native[("0", "CUDA", "device")] + hits[("0", "CUDA", "device")], 2)
    true(values(found, "gpuleak_pool_reserved_bytes", *by)[("0", "CUDA", "device")] >= 1000,
         "reserved")


def incomplete(place):
    """What is missing is a number of its own."""
    found = series(place, place.command(
        "report", "--format", "openmetrics", place.ledger("l", "leaks", 0),
        place.write("broken", b"no ledger"), status=1).stdout)
    same(values(found, "gpuleak_gaps"), {(): 1})


def hostile(place):
    """Names of any bytes stay inside their labels; a type that is unknown is no label."""
    found = series(place, place.made("openmetrics", "hostile", "24"))
    same(values(found, "gpuleak_errors_total", "type"), {("double-free",): 1, ("other",): 6})
    same(len(values(found, "gpuleak_site_leaked_bytes", "site")), 2)
    (program,), = values(found, "gpuleak_leaked_bytes", "program")
    true(program.startswith("e;v i<l>&\"'%0A\\x0A::error"), program)
    same(values(found, "gpuleak_cached_bytes"), {(): 60})
    same(values(found, "gpuleak_suppressed_bytes"), {(): 50})


def many(place):
    """Thirty thousand leaks: fifty series, the largest."""
    found = series(place, place.made("openmetrics", "many"))
    sites = values(found, "gpuleak_site_leaked_bytes", "site")
    same(sorted(sites.values(), reverse=True), [float(n) for n in range(30000, 29950, -1)])
    true(len(found) < 150, len(found))


def ranks(place):
    """Several processes, two of one pid: no series comes twice."""
    found = series(place, place.made("openmetrics", "ranks"))
    same(values(found, "gpuleak_leaked_bytes", "pid", "image"),
         {("10", None): 0, ("11", None): 3072, ("12", None): 0, ("13", None): 0, ("13", "2"): 0})
    same(sum(values(found, "gpuleak_running", "pid", "image").values()), 1)


def tensors(place):
    """Live suballocations by pool, and the call sites that accumulate."""
    found = series(place, place.made("openmetrics", "tensors"))
    by = ("device", "cache")
    same(values(found, "gpuleak_suballocated_bytes", *by),
         {("0", "PyTorch caching allocator"): 106 * 512, ("1", "PyTorch caching allocator"): 0})
    same(values(found, "gpuleak_suballocated_blocks", *by),
         {("0", "PyTorch caching allocator"): 106, ("1", "PyTorch caching allocator"): 0})
    same(values(found, "gpuleak_accumulating_sites", "program"), {("python3",): 1})
    by = ("function", "file", "device", "kind")
    same(values(found, "gpuleak_site_accumulated_bytes", *by),
         {("train_step", "train.py", "0", "suballocation"): 204800})
    same(values(found, "gpuleak_site_accumulated_blocks", *by),
         {("train_step", "train.py", "0", "suballocation"): 400})
    same(values(found, "gpuleak_cached_bytes"), {(): 2097152})
    same(values(series(place, place.made("openmetrics", "constant")),
                "gpuleak_accumulating_sites"), {(): 0})
    same(values(series(place, place.made("openmetrics", "caches")),
                "gpuleak_accumulating_sites"), {})
    same(values(series(place, place.made("openmetrics", "trainings")),
                "gpuleak_accumulating_sites", "pid"), {("1",): 1, ("2",): 0})
    found = series(place, place.made("openmetrics", "wild-tensors"))
    same(values(found, "gpuleak_accumulating_sites"), {(): 7})


def objects(place):
    """Objects that are not memory, by kind; beside a final out-of-memory, which is no site."""
    found = series(place, place.report("openmetrics", place.ledger("o", "p_objects", "left")))
    same([values(found, "gpuleak_objects" + name, "kind")[("stream",)]
          for name in ("", "_created_total", "_destroyed_total")], [4, 6, 2])
    found = series(place, place.report("openmetrics", place.out_of_memory("exit:3", status=3)))
    same(values(found, "gpuleak_site_leaked_bytes", "function"), {("weights",): 40 << 20})
    same(values(found, "gpuleak_out_of_memory_total"), {(): 1})
    found = series(place, place.report("openmetrics", place.ledger("l", "leaks", 0)))
    same(values(found, "gpuleak_objects", "kind").get(("stream",)), None)


def growing(place):
    """Call sites that grow, and memory pools of the driver; clean: neither."""
    found = series(place, place.report("openmetrics", place.ledger("g", "p_steps", "call", "5")))
    by = ("function", "file", "api", "kind", "device")
    leak = ("leak", "steps.c", "cuMemAlloc_v2", "device", "0")
    for name, value in (("bytes", 5 << 20), ("blocks", 20), ("bytes_per_step", 1 << 20),
                        ("blocks_per_step", 4)):
        same(values(found, "gpuleak_suspect_" + name, *by), {leak: value})
    found = series(place, place.report("openmetrics", place.ledger("k", "p_parked", "keep", "take:96m",
                                                                   "back")))
    by = ("device", "pool", "when")
    same(values(found, "gpuleak_parked_reserved_bytes", *by),
         {("0", "default", "peak"): 96 << 20, ("0", "default", "exit"): 96 << 20})
    same(values(found, "gpuleak_parked_used_bytes", "when"), {("peak",): 96 << 20, ("exit",): 0})
    same(values(found, "gpuleak_refused_frees_total"), {(): 0})
    found = series(place, place.report("openmetrics", place.ledger("l", "leaks", 0)))
    same((values(found, "gpuleak_suspect_bytes"), values(found, "gpuleak_parked_used_bytes")), ({}, {}))


CHECKS = [growing, nothing, objects, tensors, leaks, clean, verdicts, pool, incomplete, hostile, many, ranks]
