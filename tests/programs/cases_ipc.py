# SPDX-License-Identifier: MIT
"""Memory that two processes share by handles of cuIpcGetMemHandle: whose it is, whether it was
freed, and by which lines, in one report on both."""

import json
import os
import signal

from harness import Failed, compare, frame_text
from stories import needs, one_line

MIB = 1 << 20
MAKE = ["make@make", "own@block", "main@owner"]
EXPORT = ["export_block@export", "own@exported", "main@owner"]
DROP = ["drop@drop", "own@freed", "main@owner"]
OPEN = ["open_block@open", "work@opened", "main@worker"]


def frames(stack):
    return [text for text in (frame_text(frame, "ipc.c") for frame in stack) if text]


def event(told):
    return told and (told["api"], frames(told["stack"]))


def told_open(group):
    """A group of what a process has open, without who the exporter is."""
    return (group["state"], group["blocks"], group["references"], group["bytes"],
            event(group), event(group["allocated"]), event(group["exported"]),
            event(group["freed"]))


def opened(state, freed=None, size=4 * MIB, references=1, at=OPEN, made=MAKE, shared=EXPORT):
    known = state != "unknown"
    return (state, 1, references, size if known else None, ("cuIpcOpenMemHandle_v2", at),
            ("cuMemAlloc_v2", made) if known else None,
            ("cuIpcGetMemHandle", shared) if known else None, freed)


def split(report):
    """The owner's object and the worker's of a report on both."""
    compare("processes", 2, len(report["processes"]))
    both = sorted(report["processes"], key=lambda process: -process["summary"]["allocated_bytes"])
    for process in both:
        compare("notes", [], process["notes"])
    return both


def run_mode(place, mode, status, env=None, options=()):
    """Runs both processes under `gpuleak run`: the run, the owner and the worker."""
    run = place.command("run", "--gate", "--format", "json", "--report",
                        place.file("report.json"), *options, "--", place.program("ipc"), mode,
                        env=env)
    compare("exit status\n" + run.stderr, status, run.status)
    return (run, *split(place.json("report.json")))


def text_of(place, mode, options=()):
    run = place.command("run", *options, "--", place.program("ipc"), mode)
    compare("exit status\n" + run.stderr, 0, run.status)
    return run.stderr


def one_open(owner, worker):
    compare("opened by the owner", [], owner["ipc"]["open"])
    (group,) = worker["ipc"]["open"]
    if group["exporter"]:
        compare("exporter", {key: owner["process"][key] for key in ("pid", "host", "exe")},
                group["exporter"])
    return told_open(group)


def wrong(owner, worker, freed=("cuMemFree_v2", DROP)):
    """Checks that the owner is told of one block that it freed while the worker had it open."""
    (group,) = owner["ipc"]["freed_while_open"]
    compare("freed while open", (4 * MIB, 1, ("cuMemAlloc_v2", MAKE),
                                 ("cuIpcGetMemHandle", EXPORT), freed,
                                 worker["process"]["pid"], ("cuIpcOpenMemHandle_v2", OPEN)),
            (group["bytes"], group["blocks"], event(group["allocated"]),
             event(group["exported"]), event(group["freed"]), group["importer"]["pid"],
             event(group["opened"])))


def right(owner):
    compare("freed while open", [], owner["ipc"]["freed_while_open"])


def kept_bytes(*processes):
    return tuple(process["summary"]["keeps_bytes"] for process in processes)


@needs("ipc")
def freed(place):
    """IPC: freed by its owner while another process has it open, which never closes it"""
    _, owner, worker = run_mode(place, "freed", 23)
    compare("open", opened("freed", ("cuMemFree_v2", DROP)), one_open(owner, worker))
    wrong(owner, worker)
    compare("exports", (0, 0, 1), tuple(owner["ipc"][key] for key in (
        "exported_blocks", "exported_bytes", "exported_freed_blocks")))
    compare("leaks", [[], [("ipc", 0, 1, 4 * MIB)]],
            [[(leak["kind"], leak["bytes"], leak["blocks"], leak["keeps_bytes"])
              for leak in process["leaks"]] for process in (owner, worker)])
    compare("kept", (0, 4 * MIB), kept_bytes(owner, worker))


@needs("ipc")
def freed_text(place):
    """IPC: the text report names the line of the free and the line of the open, in both processes"""
    text = text_of(place, "freed")
    first = text.split("\n", maxsplit=1)[0]
    for part in ("gpuleak: 4.0 MiB freed at drop (", "ipc.c:", ", still open in p_ipc (pid ",
                 ") when it ended (opened at open_block ("):
        if part not in first:
            raise Failed("%r is not in %s" % (part, first))
    one_line(text, "Freed, but still open in another process: 4,194,304 bytes (4.0 MiB) in 1 block",
             "freed by cuMemFree_v2 at:")
    one_line(text, "  opened in that process by cuIpcOpenMemHandle_v2 at open_block (")
    compare("totals, of both and of the one", 2, text.count("1 leaked: 0 bytes, which keeps 4.0 MiB, "))
    one_line(text, "Leak of 0 bytes in 1 block that keeps 4,194,304 bytes (4.0 MiB) (memory of "
             "another process",
             "never closed (cuIpcCloseMemHandle missing), opened at:")
    one_line(text, "  the owner freed the memory while this process had it open, with cuMemFree_v2 at drop (")
    one_line(text, "  Memory of p_ipc (pid ", "): 4,194,304 bytes (4.0 MiB) in 1 block")


@needs("ipc")
def closed(place):
    """IPC: closed and then freed: nothing is wrong, and nothing is noted"""
    run, owner, worker = run_mode(place, "closed", 0)
    compare("open", ([], []), (owner["ipc"]["open"], worker["ipc"]["open"]))
    right(owner)
    compare("exports", 1, owner["ipc"]["exported_freed_blocks"])
    if "open" in run.stderr:
        raise Failed(run.stderr)


@needs("ipc")
def freed_after(place):
    """IPC: never closed, but its process had ended when the owner freed it: only a leak"""
    _, owner, worker = run_mode(place, "unclosed", 23)
    after = ["drop@drop", "own@freed_last", "main@owner"]
    compare("open", opened("freed-after-end", ("cuMemFree_v2", after)), one_open(owner, worker))
    right(owner)
    one_line(text_of(place, "unclosed"),
             "  the owner freed the memory after this process had ended, with cuMemFree_v2 at drop (")


@needs("ipc")
def kept(place):
    """IPC: neither closed nor freed: a leak of each process"""
    _, owner, worker = run_mode(place, "kept", 23)
    compare("open", opened("allocated"), one_open(owner, worker))
    compare("counts at its owner", (4 * MIB, 0), kept_bytes(owner, worker))
    right(owner)
    compare("exports", (1, 4 * MIB), (owner["ipc"]["exported_blocks"],
                                      owner["ipc"]["exported_bytes"]))
    one_line(text_of(place, "kept"), "  the owner never freed the memory")


@needs("ipc")
def unopened(place):
    """IPC: exported and never opened: nothing is wrong"""
    run = place.command("run", "--gate", "--format", "json", "--report",
                        place.file("report.json"), "--", place.program("ipc"), "unopened")
    compare("exit status", 0, run.status)
    owner, worker = split(place.json("report.json"))
    right(owner)
    compare("the worker shares nothing", False, "ipc" in worker)


@needs("ipc")
def opened_twice(place):
    """IPC: opened twice by one process: one block with two references, which needs two closes"""
    _, owner, worker = run_mode(place, "twice", 23)
    after = ["drop@drop", "own@freed_last", "main@owner"]
    compare("open", opened("freed-after-end", ("cuMemFree_v2", after)), one_open(owner, worker))
    (leak,) = worker["leaks"]
    compare("history", [("create", None), ("retain", ["open_block@open_again"] + OPEN[1:]),
                        ("release", ["work@close", "main@worker"])],
            [(entry["op"], None if entry["op"] == "create" else frames(entry["stack"]))
             for entry in leak["history"]["events"]])
    compare("blocks", 1, worker["summary"]["allocated_blocks"])


@needs("ipc")
def closed_too_often(place):
    """IPC: two closes end what was opened twice, and a third is a double free"""
    run, _, worker = run_mode(place, "again", 23)
    compare("stdout", "the same address: 1\nonce more: 1\n", run.stdout)
    compare("leaks", [], worker["leaks"])
    (error,) = worker["errors"]
    compare("error", ("double-free", "cuIpcCloseMemHandle", ["work@close_wrong", "main@worker"]),
            (error["type"], error["api"], frames(error["stack"])))


@needs("ipc")
def wrong_free(place):
    """IPC: cuMemFree of opened memory takes no reference, and is a mismatched free"""
    run, _, worker = run_mode(place, "cu_free", 23)
    compare("stdout", "the same address: 1\nfreed: 1\n", run.stdout)
    compare("leaks", [], worker["leaks"])
    (error,) = worker["errors"]
    compare("error", ("mismatched-free", "cuMemFree_v2", ["work@wrong_free", "main@worker"]),
            (error["type"], error["api"], frames(error["stack"])))


@needs("ipc")
def inside(place):
    """IPC: a handle of an address inside a block is the block's"""
    _, owner, worker = run_mode(place, "inside", 23)
    compare("open", opened("freed", ("cuMemFree_v2", DROP)), one_open(owner, worker))
    wrong(owner, worker)


@needs("ipc")
def context_destroyed(place):
    """IPC: the owner destroys the context of a block that is open elsewhere"""
    _, owner, worker = run_mode(place, "context", 23)
    wrong(owner, worker, ("cuCtxDestroy_v2", ["own@destroyed", "main@owner"]))


@needs("ipc")
def address_again(place):
    """IPC: two blocks at one address, one after the other, are kept apart by their handles"""
    _, owner, worker = run_mode(place, "reused", 23)
    first = opened("freed", ("cuMemFree_v2", ["drop@drop", "own@freed_first", "main@owner"]))
    second = opened("freed-after-end",
                    ("cuMemFree_v2", ["drop@drop", "own@freed_last", "main@owner"]),
                    at=["open_block@open", "work@opened_again", "main@worker"],
                    made=["make@make", "own@block_again", "main@owner"],
                    shared=["export_block@export", "own@exported_again", "main@owner"])
    compare("open", sorted([first, second], key=str),
            sorted((told_open(group) for group in worker["ipc"]["open"]), key=str))
    compare("freed while open", 1, len(owner["ipc"]["freed_while_open"]))


@needs("ipc")
def killed(place):
    """IPC: the process that has it open is killed"""
    _, owner, worker = run_mode(place, "killed", 23)
    compare("open", opened("freed", ("cuMemFree_v2", DROP)), one_open(owner, worker))
    wrong(owner, worker)
    one_line(text_of(place, "killed"), "  never closed by p_ipc (pid ", ", which was killed")


@needs("ipc")
def without_gpuleak(place):
    """IPC: the process that has it open is not recorded: nothing is said about it"""
    run = place.command("run", "--follow", "off", "--format", "json", "--report",
                        place.file("report.json"), "--", place.program("ipc"), "without")
    compare("exit status", 0, run.status)
    report = place.json("report.json")
    compare("ipc", (1, [], []), (report["ipc"]["exported_blocks"], report["ipc"]["open"],
                                 report["ipc"]["freed_while_open"]))


def ledgers(place, mode):
    """Runs both processes with ledgers that stay: the owner's and the worker's."""
    run = place.preloaded([place.program("ipc"), mode],
                          {"GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("%p.gpuleak")})
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    (other,) = [name for name in os.listdir(place.path)
                if name.endswith(".gpuleak") and name != "%d.gpuleak" % run.pid]
    return place.file("%d.gpuleak" % run.pid), place.file(other)


@needs("ipc")
def one_side_missing(place):
    """IPC: the ledger of one side alone: whose memory it is stays unknown, and none is called freed"""
    owner, worker = ledgers(place, "freed")
    run = place.command("report", "--format", "json", worker)
    compare("stderr", "", run.stderr)
    (group,) = json.loads(run.stdout)["ipc"]["open"]
    compare("exporter", None, group["exporter"])
    compare("open", opened("unknown"), told_open(group))
    compare("kept", (4 * MIB,), kept_bytes(json.loads(run.stdout)))
    one_line(place.command("report", worker).stdout,
             "  Memory of a process that is not in this report: 1 block")
    run = place.command("report", "--format", "json", owner)
    compare("freed while open", [], json.loads(run.stdout)["ipc"]["freed_while_open"])
    for both in ((owner, worker), (worker, owner)):
        run = place.command("report", "--format", "json", *both)
        told = split(json.loads(run.stdout))
        wrong(*told)
        compare("open", opened("freed", ("cuMemFree_v2", DROP)), one_open(*told))


@needs("ipc")
def still_running(place):
    """IPC: a report while both processes live says that it is still open"""
    process = place.start([place.program("ipc"), "running"],
                          {"LD_PRELOAD": place.options.preload, "GPULEAK_REPORT": "none",
                           "GPULEAK_LEDGER": place.file("%p.gpuleak")}, start_new_session=True)
    try:
        compare("stdout", b"freed\n", process.stdout.readline())
        names = sorted(place.file(name) for name in os.listdir(place.path)
                       if name.endswith(".gpuleak"))
        compare("ledgers", 2, len(names))
        owner, worker = split(json.loads(
            place.command("report", "--format", "json", *names).stdout))
        wrong(owner, worker)
        compare("ended", "running", worker["process"]["ended"])
        one_line(place.command("report", *names).stdout, "  still open in p_ipc (pid %d, still "
                 "running)" % worker["process"]["pid"])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@needs("ipc")
def suppressed(place):
    """IPC: memory whose open is suppressed is listed, but is no finding of its owner"""
    rules = place.write("rules", "leak:open_block\n")
    _, owner, worker = run_mode(place, "suppressed", 0, options=("--suppressions", rules))
    right(owner)
    compare("leaked", [False], [group["leaked"] for group in worker["ipc"]["open"]])
    if "still open" in text_of(place, "suppressed", ("--suppressions", rules)):
        raise Failed("the text report names suppressed memory")


@needs("ipc")
def with_a_pool(place):
    """IPC: the same with a pool"""
    for mode in ("fast", "strict"):
        _, owner, worker = run_mode(place, "freed", 23, env={"GPULEAK_POOL": mode})
        compare("open", opened("freed", ("cuMemFree_v2", DROP)), one_open(owner, worker))
        wrong(owner, worker)


@needs("ipc")
def many(place):
    """IPC: of 5,000 exports of freed blocks the last ones are kept, and the report notes the others"""
    run = place.command("run", "--gate", "--format", "json", "--report",
                        place.file("report.json"), "--", place.program("ipc"), "many")
    compare("exit status", 0, run.status)
    report = place.json("report.json")
    owner = max(report["processes"], key=lambda process: process["summary"]["allocated_bytes"])
    compare("exports", (0, 5001), (owner["ipc"]["exported_blocks"],
                                   owner["ipc"]["exported_freed_blocks"]))
    (note,) = owner["notes"]
    if not note.startswith("the IPC handles of 905 blocks"):
        raise Failed(note)


IPC = [freed, freed_text, closed, freed_after, kept, unopened, opened_twice, closed_too_often,
       wrong_free, inside, context_destroyed, address_again, killed, without_gpuleak,
       one_side_missing, still_running, suppressed, with_a_pool, many]
