# SPDX-License-Identifier: MIT
"""Memory of CUDA graphs, and what ends with contexts: graph.c and contexts.c."""

from harness import Call, Case, End, Error, Leak, Refused

ALLOC = "cuMemAlloc_v2"
FREE = "cuMemFree_v2"
ASYNC = "cuMemAllocAsync"
NODE = "cuGraphAddMemAllocNode"


def graph(name, story, **more):
    return Case("graph: " + name, "graph", (story,), **more)


def leak(api, size, stack, **more):
    return Leak(api, size, stack + ["main@main"], kind="graph", **more)


def destroyed_again(api, what, made):
    return Error("double-free", api, ["destroyed@%s_again" % what, "main@main"], 1, made,
                 Call(api, ["destroyed@%s_once" % what, "main@main"]))



GRAPH = [
    graph("captured and never launched", "never", peak=0),
    graph("launched and lost", "leak", allocated=(1, 1001), peak=1001,
          leaks=[leak(ASYNC, 1001, ["capture@captured", "leak@leak"])]),
    graph("every call that allocates in a capture", "captures",
          allocated=(4, 1101 + 1102 + 1103 + 1104), peak=1101 + 1102 + 1103 + 1104,
          leaks=[leak(ASYNC, 1101, ["captures@one"]),
                 leak("cuMemAllocAsync_ptsz", 1102, ["captures@two"]),
                 leak("cuMemAllocFromPoolAsync", 1103, ["captures@three"]),
                 leak("cuMemAllocFromPoolAsync_ptsz", 1104, ["captures@four"])]),
    graph("nodes made by hand", "nodes", allocated=(4, 1201 + 1202 + 1203 + 1204), freed=1,
          peak=1201 + 1202 + 1203 + 1204,
          leaks=[leak(NODE, 1201, ["by_hand@node", "nodes@by_hand"]),
                 leak("cuGraphAddNode", 1202, ["nodes@any_node"]),
                 leak("cuGraphAddNode_v2", 1203, ["nodes@any_node_v2"])]),
    graph("on another device", "device", env={"STANDIN_DEVICES": "2"}, allocated=(1, 1251),
          peak=1251, leaks=[leak(NODE, 1251, ["device@elsewhere_node"], device=1)]),
    graph("freed by each call that may", "freed", allocated=(5, 5 * 1301), freed=5, peak=1301),
    Case("graph: launched 8 times, freed at each launch", "graph", ("auto",), stdout="00000000\n",
         allocated=(8, 8 * 1401), freed=7, peak=1401,
         leaks=[Leak(ASYNC, 1401, ["capture@captured", "again@again", "main@auto"],
                     kind="graph")]),
    Case("graph: launched again while its memory is there", "graph", ("refused",),
         stdout="01111111\n", allocated=(1, 1401), peak=1401,
         leaks=[Leak(ASYNC, 1401, ["capture@captured", "again@again", "main@refused"],
                     kind="graph")]),
    graph("allocated and freed inside", "inside", peak=0),
    graph("freed twice", "twice", stdout="again: 1\nby launch again: 1\n",
          allocated=(2, 2 * 1601), freed=2, peak=1601,
          errors=[Error("double-free", FREE, ["twice@twice", "main@main"], 1,
                        Call(ASYNC, ["capture@captured", "twice@main_twice", "main@main"], 1601),
                        Call(FREE, ["twice@once", "main@main"])),
                  Error("double-free", "cuGraphLaunch", ["twice@launch_twice", "main@main"], 1,
                        Call(ASYNC, ["capture@captured", "twice@main_twice", "main@main"], 1601),
                        Call("cuGraphLaunch", ["twice@by_launch", "main@main"]))]),
    graph("one that frees another's and makes its own", "both-ways",
          stdout="own is there: 1\nother's is not: 1\n", allocated=(2, 1651 + 1652), freed=2,
          errors=[Error("double-free", "cuGraphLaunch", ["both_ways@second", "main@main"], 1,
                        Call(NODE, ["by_hand@node", "both_ways@others", "main@main"], 1651),
                        Call("cuGraphLaunch", ["launch@launch", "both_ways@first",
                                               "main@main"]))]),
    graph("freed before its launch", "early", stdout="early: 1\n", peak=0,
          errors=[Error("invalid-free", FREE, ["early@early", "main@main"], 1)]),
    graph("no launch works", "failing", env={"STANDIN_FAIL": "cuGraphLaunch:1+=2"},
          stdout="2 2 2 2 \n", peak=0),
    graph("a launch in the middle fails", "failing", env={"STANDIN_FAIL": "cuGraphLaunch:3=1"},
          stdout="0 0 1 0 \n", allocated=(3, 3 * 1801), freed=2, peak=1801,
          leaks=[leak(ASYNC, 1801, ["capture@captured", "failing@failing"])]),
    graph("the last launch fails, the context is dead", "failing",
          env={"STANDIN_FAIL": "cuGraphLaunch:4=700"}, stdout="0 0 0 700 \n",
          allocated=(3, 3 * 1801), freed=2, peak=1801,
          leaks=[leak(ASYNC, 1801, ["capture@captured", "failing@failing"])]),
    graph("destroyed with its memory outstanding", "destroyed",
          stdout="exec again: 1\ngraph again: 1\n", allocated=(2, 1901 + 1902), freed=1,
          peak=1901 + 1902,
          leaks=[leak(ASYNC, 1901, ["capture@captured", "destroyed@destroyed"])],
          errors=[destroyed_again("cuGraphExecDestroy", "exec", Call(
                      "cuGraphInstantiateWithFlags", ["instantiate@instantiated",
                                                      "destroyed@instantiate", "main@main"], 0)),
                  destroyed_again("cuGraphDestroy", "graph", Call(
                      "cuStreamEndCapture", ["end_capture@end", "capture@capture",
                                             "destroyed@destroyed", "main@main"], 0))]),
    graph("the driver refuses to destroy", "stuck",
          env={"STANDIN_FAIL": "cuGraphDestroy:1=999,cuGraphExecDestroy:1=999"},
          stdout="999 999\n", allocated=(2, 2 * 1951), freed=1, peak=1951,
          leaks=[leak(ASYNC, 1951, ["capture@captured", "stuck@stuck"])]),
    graph("captures that fail", "invalidated", stdout="900 901\n" * 3, allocated=(1, 2002),
          peak=2002, leaks=[leak(ASYNC, 2002, ["capture@captured", "invalidated@after"])]),
    Case("graph: captured by another thread", "graph", ("threads",), allocated=(1, 2101),
         peak=2101, leaks=[Leak(ASYNC, 2101, ["capture@captured", "capture_elsewhere@elsewhere"],
                                kind="graph")]),
    graph("beside captures of each mode", "modes",
          stdout="".join("into a capture: 801\nmode %d: status 1, end 0\n" % mode
                         for mode in range(3)),
          allocated=(6, 3 * 2201 + 3 * 2204), freed=5, peak=2201 + 2204,
          leaks=[leak(NODE, 2201, ["by_hand@node", "modes@beside"])]),
    graph("captured into a graph that was there", "to-graph", allocated=(3, 2301 + 2 * 2302),
          peak=2301 + 2 * 2302,
          leaks=[leak(NODE, 2301, ["by_hand@node", "to_graph@before"]),
                 leak(ASYNC, 2 * 2302, ["to_graph@into"], blocks=2)]),
    graph("a child that moved", "child", allocated=(1, 2401), peak=2401,
          leaks=[leak(NODE, 2401, ["by_hand@node", "child@child"])]),
    graph("updated with other graphs", "updated", stdout="instantiated: 801\n",
          allocated=(5, 2451 + 3 * 2452 + 2454), freed=4, peak=2454,
          leaks=[leak(NODE, 2454, ["by_hand@node", "updated@fourth_graph"])]),
    graph("bad arguments", "wrong", stdout="1 1 1 1 1 1 1\n1 1 1 1 1 1 1 1\n400 900 1 0 0 0\n",
          peak=0),
    graph("invalid streams", "wild", stdout="400 400 1\n", peak=0,
          errors=[Error("invalid-free", "cuMemFreeAsync", ["wild@foreign", "main@main"], 1)]),
    graph("made and destroyed in a loop", "loop", stdout="grown: no\n",
          allocated=(44000, 44000 * 3000), freed=44000, peak=3000),
    graph("in 8 threads at once", "storm",
          allocated=(12001, 8 * 500 * (2 * 512 + 1024) + 1001), freed=12000,
          leaks=[leak(ASYNC, 1001, ["capture@captured", "leak@leak", "storm@after_storm"])]),
    graph("after a reset", "reset", stdout="dead: 709\n", allocated=(2, 2601 + 2602), freed=1,
          peak=2601 + 2602,
          refused=[Refused(FREE, ["reset@dead_free", "main@main"], 709,
                           Call("cuGraphAddMemAllocNode", ["by_hand@node", "reset@alloc_node",
                                                           "main@main"], 2602),
                           what="freed later")],
          leaks=[leak(ASYNC, 2601, ["capture@captured", "reset@kept"])]),
]

# What make() makes: bytes by call. Opened and mapped memory has none of its own.
ENDING = {
    ALLOC: 1000, "cuMemAllocPitch_v2": 2048, "cuMemAllocManaged": 3000, "cuMemHostAlloc": 4000,
    "cuMemHostRegister_v2": 4096, "cuArrayCreate_v2": 4000, "cuMipmappedArrayCreate": 1024,
    "cuIpcOpenMemHandle_v2": 0, "cuImportExternalMemory": 0,
    "cuExternalMemoryGetMappedBuffer": 0, "cuExternalMemoryGetMappedMipmappedArray": 0,
}
LASTING = 5001 + 5002 + 5003


def lasting(story):
    def left(api, size, marker, kind):
        return Leak(api, size, ["make_lasting@" + marker, "destroyed@lasting", "main@" + story],
                    kind=kind)
    return [left(ASYNC, 5001, "async", "stream-ordered"), left("cuMemPoolCreate", 0, "pool", "mempool"),
            left("cuMemAllocFromPoolAsync", 5002, "from_pool", "stream-ordered"),
            left(ASYNC, 5003, "captured", "graph")]


def late(api, free_marker, result, maker, marker, shared=False):
    """A free of what make() made, after cuCtxDestroy."""
    stack = ["make@" + marker]
    if shared:
        stack = ["share@" + marker, "make@share"]
    return Error("free-after-context", api,
                 ["free_late@" + free_marker, "destroyed@late", "main@main_late"], result,
                 Call(maker, stack + ["destroyed@made", "main@main_late"], ENDING[maker]),
                 Call("cuCtxDestroy_v2", ["destroyed@destroy", "main@main_late"]))


KINDS = {"cuMemAllocManaged": "managed", "cuMemHostAlloc": "pinned",
         "cuMemHostRegister_v2": "registered", "cuArrayCreate_v2": "array",
         "cuMipmappedArrayCreate": "array", "cuIpcOpenMemHandle_v2": "ipc",
         "cuImportExternalMemory": "external", "cuExternalMemoryGetMappedBuffer": "external",
         "cuExternalMemoryGetMappedMipmappedArray": "external"}
MARKERS = ["linear", "pitched", "managed", "pinned", "registered", "array", "mipmapped", "opened",
           "imported", "mapped", "levels"]


def destroyed(story):
    """All that make() made, which ended with the context that destroyed() destroys."""
    return [End(Leak(api, ENDING[api], (["share@" + marker, "make@share"]
                                        if marker in MARKERS[7:] else ["make@" + marker]) +
                     ["destroyed@made", "main@" + story], kind=KINDS.get(api, "device")),
                Call("cuCtxDestroy_v2", ["destroyed@destroy", "main@" + story]))
            for api, marker in zip(ENDING, MARKERS)]


def end(story, size, marker, api, ended):
    """A block of allocate() that ended with its context, in the story STORY."""
    return End(Leak(ALLOC, size, ["allocate@allocate", story + "@" + marker,
                                  "main@main_" + story]),
               Call(api, [story + "@" + ended, "main@main_" + story]))


def contexts(name, story, **more):
    return Case("contexts: " + name, "contexts", (story,), **more)


CONTEXTS = [
    contexts("every family that ends with one", "destroyed",
             allocated=(len(ENDING) + 4, sum(ENDING.values()) + LASTING),
             with_context=(len(ENDING), sum(ENDING.values())), ends=destroyed("main_destroyed"),
             leaks=lasting("main_destroyed")),
    contexts("every family, freed too late", "late",
             stdout="1 1 1 1 713 400 400 1 1 400 400\n",
             allocated=(len(ENDING) + 4, sum(ENDING.values()) + LASTING),
             with_context=(len(ENDING), sum(ENDING.values())), ends=destroyed("main_late"),
             leaks=lasting("main_late"),
             errors=[
                 late(FREE, "free_linear", 1, ALLOC, "linear"),
                 late("cuMemFreeAsync", "free_pitched", 1, "cuMemAllocPitch_v2", "pitched"),
                 late(FREE, "free_managed", 1, "cuMemAllocManaged", "managed"),
                 late("cuMemFreeHost", "free_pinned", 1, "cuMemHostAlloc", "pinned"),
                 late("cuMemHostUnregister", "unregister", 713, "cuMemHostRegister_v2",
                      "registered"),
                 late("cuArrayDestroy", "free_array", 400, "cuArrayCreate_v2", "array"),
                 late("cuMipmappedArrayDestroy", "free_mipmapped", 400, "cuMipmappedArrayCreate",
                      "mipmapped"),
                 late("cuIpcCloseMemHandle", "close", 1, "cuIpcOpenMemHandle_v2", "opened", True),
                 late(FREE, "free_buffer", 1, "cuExternalMemoryGetMappedBuffer", "mapped", True),
                 late("cuMipmappedArrayDestroy", "free_levels", 400,
                      "cuExternalMemoryGetMappedMipmappedArray", "levels", True),
                 late("cuDestroyExternalMemory", "free_external", 400, "cuImportExternalMemory",
                      "imported", True),
             ]),
    contexts("attached and detached", "attached",
             stdout="used twice: 0\nused no more: 1\nno out-parameter: 1\nno context: 201\n",
             allocated=(3, 6001 + 6002 + 6003), freed=1, peak=6003,
             with_context=(2, 6002 + 6003),
             ends=[end("attached", 6002, "detached", "cuCtxDetach", "detach"),
                   end("attached", 6003, "other", "cuCtxDestroy_v2", "destroy_other")],
             errors=[Error("free-after-context", FREE,
                           ["attached@free_detached", "main@main_attached"], 1,
                           Call(ALLOC, ["allocate@allocate", "attached@detached",
                                        "main@main_attached"], 6002),
                           Call("cuCtxDetach", ["attached@detach", "main@main_attached"]))]),
    contexts("green ones own no memory", "green",
             stdout="reset: 800\ncurrent: 709\nprimary: 0\nno out-parameter: 1 1\n",
             allocated=(3, 7001 + 7002 + 7003), freed=1, peak=7001 + 7002,
             with_context=(1, 7002),
             refused=[Refused(FREE, ["green@in_dead", "main@main_green"], 709,
                              Call(ALLOC, ["allocate@allocate", "green@green",
                                           "main@main_green"], 7001), what="freed later")],
             ends=[end("green", 7002, "lost", "cuDevicePrimaryCtxReset_v2", "reset")],
             leaks=[Leak(ALLOC, 7003, ["allocate@allocate", "green@after", "main@main_green"])]),
    contexts("a green one was the last to hold the primary", "last-hold",
             allocated=(2, 7101 + 7102), peak=7101 + 7102, with_context=(2, 7101 + 7102),
             ends=[end("last_hold", size, marker, "cuGreenCtxDestroy", "last")
                   for size, marker in ((7101, "first_held"), (7102, "second_held"))]),
    contexts("released at exit, and freed after that", "at-exit", stdout="late: 709 709\n",
             allocated=(2, 9001 + 9002), freed=2, peak=9001 + 9002, late=2,
             refused=[Refused(api, ["free_at_exit@" + at], 709, Call(made, stack + [
                 "at_exit@" + maker, "main@main_at_exit"], size), what="after the shutdown")
                      for api, at, made, stack, maker, size in (
                          (FREE, "late_linear", ALLOC, ["allocate@allocate"], "until_exit", 9001),
                          ("cuMemFreeAsync", "late_async", ASYNC, [], "async_until_exit", 9002))]),
    contexts("freed while a dead one is current", "dead",
             stdout="there: 709\ngone: 709\nforeign: 709\nthere: 0\n",
             allocated=(2, 8001 + 8002), freed=1, peak=8001 + 8002, with_context=(1, 8002),
             ends=[end("dead", 8002, "gone", "cuDevicePrimaryCtxReset_v2", "dead_reset")],
             refused=[Refused(FREE, ["dead@in_reset", "main@main_dead"], 709,
                              Call(ALLOC, ["allocate@allocate", "dead@there", "main@main_dead"],
                                   8001), what="freed later")],
             errors=[Error("free-after-context", FREE, ["dead@free_gone", "main@main_dead"], 709,
                           Call(ALLOC, ["allocate@allocate", "dead@gone", "main@main_dead"],
                                8002),
                           Call("cuDevicePrimaryCtxReset_v2",
                                ["dead@dead_reset", "main@main_dead"]))]),
]
