# SPDX-License-Identifier: MIT
"""SARIF 2.1.0: against a schema, and against what GitHub's code scanning does with it."""

import gzip
import json
import os
import urllib.parse

from tools import HERE, module, same, true


def shortened(log):
    """The log with the first and the last of very many results: validators take their time."""
    results = log["runs"][0]["results"]
    if len(results) <= 200:
        return log
    return {**log, "runs": [{**log["runs"][0], "results": results[:100] + results[-100:]}]}


def parsed(place, content):
    """The one run, once the schemas took the file."""
    log = json.loads(content)
    jsonschema = module("jsonschema")
    schemas = [os.path.join(HERE, "schemas", "sarif.json")]
    schemas += [s for s in [os.environ.get("GPULEAK_SARIF_SCHEMA")] if s]
    for path in schemas:
        with open(path, encoding="utf-8") as file:
            schema = json.load(file)
        validator = jsonschema.validators.validator_for(schema)(schema)
        for error in validator.iter_errors(shortened(log)):
            raise AssertionError("%s: %s: %s" % (path, list(error.path), error.message[:400]))
    run = log["runs"][0]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    for result in run["results"]:
        same(len(result["locations"]), 1, "locations")
        # A type of error that a broken ledger makes up has no rule.
        true(result["ruleId"] in rules or "::error file" in result["ruleId"], "a rule")
    true(len(run["results"]) <= 25000, "results")
    true(len(gzip.compress(content)) <= 10000000, "bytes once packed")
    return run


def uri(result):
    return result["locations"][0]["physicalLocation"]["artifactLocation"]


def shape(run):
    return [(r["ruleId"], r["level"], len(r.get("suppressions", [])),
             r.get("properties", {}).get("bytes")) for r in run["results"]]


def clean(place):
    """A clean program: no result, an invocation that succeeded."""
    run = parsed(place, place.report("sarif", place.ledger("l", "leaks", 0)))
    same(run["results"], [])
    same([i["executionSuccessful"] for i in run["invocations"]], [True])
    same(run["invocations"][0]["exitCode"], 0)


def leaks(place):
    """Wrong frees first, then leaks by size, at the application's own lines."""
    source = os.path.join(os.path.dirname(HERE), "formats", "leaks.c")
    run = parsed(place, place.report("sarif", place.ledger("l", "leaks_apart", 2, "double"),
                                     env={"GITHUB_WORKSPACE": os.path.dirname(HERE)}))
    same(shape(run), [("double-free", "error", 0, 500), ("leak", "error", 0, 2000),
                      ("leak", "error", 0, 1000)])
    same(uri(run["results"][0]), {"uri": "formats/leaks.c", "uriBaseId": "SRCROOT"})
    base = run["originalUriBaseIds"]["SRCROOT"]["uri"]
    same(urllib.parse.unquote(base), "file://%s/" % os.path.dirname(HERE))
    with open(source, encoding="utf-8") as file:
        line = [n for n, text in enumerate(file, 1) if "SITES(SITE)" in text]
    same(run["results"][1]["locations"][0]["physicalLocation"]["region"], {"startLine": line[0]})
    frames = run["results"][1]["stacks"][0]["frames"]
    same([f["location"]["logicalLocations"][0]["fullyQualifiedName"] for f in frames[:2]],
         ["leak_2", "main"])
    same([s["message"]["text"] for s in run["results"][0]["stacks"]],
         ["invalid free at", "allocated at", "first freed at"])
    same(len(run["results"][0]["relatedLocations"]), 2)


def one_line(place):
    """Leaks of one line by several stacks: one result, with the fingerprints of the other parts."""
    run = parsed(place, place.report("sarif", place.ledger("l", "leaks", 3)))
    (result,) = run["results"]
    same((result["properties"]["bytes"], result["occurrenceCount"]), (6000, 3))
    same([(part["bytes"], part["blocks"]) for part in result["properties"]["parts"]],
         [(2000, 1), (1000, 1)])
    same(len({result["partialFingerprints"]["gpuleakStack/v1"],
              *(part["fingerprint"] for part in result["properties"]["parts"])}), 3)


def elsewhere(place):
    """A file outside of the tree has an absolute URI."""
    run = parsed(place, place.report("sarif", place.ledger("l", "leaks", 1)))
    true(uri(run["results"][0])["uri"].startswith("file:///"), uri(run["results"][0]))
    true("uriBaseId" not in uri(run["results"][0]), "no base")


def stable(place):
    """Fingerprints differ by site, and stay over two runs and over an edit."""
    def prints(name, program):
        run = parsed(place, place.report("sarif", place.ledger(name, program, 3, "double")))
        return [r["partialFingerprints"] for r in run["results"]]
    first = prints("a", "leaks_apart")
    same(len({p["gpuleakStack/v1"] for p in first}), 4)
    same(prints("b", "leaks_apart"), first)
    same(prints("c", "leaks_shifted"), first)


def verdicts(place):
    """What the gate lets pass is a warning; the verdict is in the run's properties."""
    ledger = place.ledger("l", "leaks_apart", 2)
    run = parsed(place, place.report("sarif", "--max-leaked-bytes", 3000, ledger))
    same([r["level"] for r in run["results"]], ["warning"] * 2)
    same(run["properties"]["gate"]["status"], 0)
    run = parsed(place, place.report("sarif", "--max-leaked-bytes", 0, ledger))
    same([r["level"] for r in run["results"]], ["error"] * 2)
    same(run["properties"]["gate"]["status"], 23)


def suppressed(place):
    """A suppressed leak is a result that is suppressed, with the pattern."""
    rules = place.write("rules", b"leak:leak_1\n")
    run = parsed(place, place.report("sarif", "--suppressions", rules,
                                     place.ledger("l", "leaks_apart", 2)))
    same(shape(run), [("leak", "error", 0, 2000), ("leak", "error", 1, 1000)])
    same(run["results"][1]["suppressions"],
         [{"kind": "external", "justification": "suppressed by leak:leak_1"}])


def incomplete(place):
    """What could not be read makes an invocation that did not succeed."""
    run = parsed(place, place.command(
        "report", "--format", "sarif", place.ledger("l", "leaks", 0),
        place.write("broken", b"no ledger"), status=1).stdout)
    same([i["executionSuccessful"] for i in run["invocations"]], [True, False])
    same(run["invocations"][1]["toolExecutionNotifications"][0]["level"], "error")
    run = parsed(place, place.made("sarif", "empty"))
    same([i["executionSuccessful"] for i in run["invocations"]], [False])


def nothing(place):
    """Status 24: no result, an invocation that did not succeed, and the verdict."""
    run = parsed(place, place.nothing("sarif"))
    same(run["results"], [])
    same([i["executionSuccessful"] for i in run["invocations"]], [False])
    same(run["properties"]["gate"]["status"], 24)


def tensors(place):
    """What accumulates is a warning with a rule of its own, at its line."""
    run = parsed(place, place.made("sarif", "tensors", "23", env={"GITHUB_WORKSPACE": "/src/app"}))
    same(shape(run), [("accumulation", "warning", 0, 204800), ("cache", "note", 0, 2097152),
                      ("accumulation", "warning", 1, 15360)])
    kept = run["results"][0]
    same(uri(kept), {"uri": "train.py", "uriBaseId": "SRCROOT"})
    same(kept["locations"][0]["physicalLocation"]["region"], {"startLine": 8})
    same(kept["message"]["text"],
         "204,800 bytes (200.0 KiB) in 400 tensors (PyTorch caching allocator, device 0) "
         "accumulate: 400 of 400 kept, 2 per second until the loop ended, allocated at train_step "
         "(/src/app/train.py:8), called from <module> (/src/app/train.py:20)")
    same(kept["properties"], {"api": "c10::reportMemoryUsageToProfiler", "kind": "suballocation",
                              "device": 0, "bytes": 204800, "blocks": 400,
                              "cache": "PyTorch caching allocator", "allocatedBlocks": 400})
    same(kept["occurrenceCount"], 400)
    rule = [rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "accumulation"]
    same(rule[0]["defaultConfiguration"], {"level": "warning"})
    same(len(parsed(place, place.made("sarif", "wild-tensors"))["results"]), 7)


def hostile(place):
    """Names of any bytes stay inside their strings, files inside their tree."""
    run = parsed(place, place.made("sarif", "hostile", env={"GITHUB_WORKSPACE": "/src/app"}))
    same([(r["level"], len(r["suppressions"])) for r in run["results"]],
         [("error", 0), ("error", 0), ("error", 0), ("error", 0), ("note", 0), ("error", 1)])
    where = uri(run["results"][0])
    same(where["uriBaseId"], "SRCROOT")
    true(set(where["uri"]) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789/-._~+@%"), where)
    frames = [s["location"].get("physicalLocation", {}).get("artifactLocation", {})
              for s in run["results"][0]["stacks"][0]["frames"]]
    same(frames[4], {"uri": "file:///src/app/../../etc/passwd"})
    same([i["executionSuccessful"] for i in run["invocations"]], [False, False])


def caches(place):
    """A cache is a note."""
    run = parsed(place, place.made("sarif", "caches"))
    same(shape(run), [("cache", "note", 0, 4096), ("leak", "error", 1, 100)])


def ranks(place):
    """Several processes: an invocation each, results say whose they are."""
    run = parsed(place, place.made("sarif", "ranks"))
    same([i["executionSuccessful"] for i in run["invocations"]], [True, True, True, False, True])
    same([i.get("exitSignalNumber") for i in run["invocations"]], [None, None, 9, None, None])
    same([r["provenance"]["invocationIndex"] for r in run["results"]], [1])


def many(place):
    """Thirty thousand leaks: 25,000 results, the last one sums up the rest."""
    run = parsed(place, place.made("sarif", "many"))
    same(len(run["results"]), 25000)
    left = 30000 - 24999
    true(run["results"][-1]["message"]["text"].startswith(
        "and %d more, the first of them here: %d blocks, %d bytes;" % (
            left, left, left * (left + 1) // 2)), run["results"][-1]["message"])


def huge(place):
    """What GitHub would refuse for its size gets fewer results."""
    run = parsed(place, place.made("sarif", "huge"))
    true(1 < len(run["results"]) < 25000, len(run["results"]))
    true(run["results"][-1]["message"]["text"].startswith("and "), "a sum")


def out_of_memory(place):
    """A request that ended the program is an error at its line; one that was tolerated is none."""
    run = parsed(place, place.report("sarif", place.out_of_memory("drop", "exit:3", status=3)))
    same(shape(run), [("out-of-memory", "error", 0, 64 << 20)])
    (result,) = run["results"]
    true(uri(result)["uri"].endswith("/oom.c"), uri(result))
    true(result["message"]["text"].startswith("out of memory: 64.0 MiB wanted at want ("),
         result["message"])
    same([stack["message"]["text"] for stack in result["stacks"]], ["wanted at"])
    os.unlink(place.path("oom.gpuleak"))
    same(parsed(place, place.report("sarif", place.out_of_memory("drop", status=0)))["results"], [])


CHECKS = [nothing, out_of_memory, tensors, clean, leaks, one_line, elsewhere, stable, verdicts, suppressed, incomplete, hostile, caches,
          ranks, many, huge]
