# SPDX-License-Identifier: MIT
"""Every case: the program and the exact report that it must give. FUNCTION@MARKER names a
line of the program's source by the marker that stands on it."""

import cases_accumulation
import cases_api
import cases_attach
import cases_attached
import cases_blocked
import cases_bypassed
import cases_cl_history
import cases_cl_mapped
import cases_cl_objects
import cases_cl_pool
import cases_cl_released
import cases_command
import cases_doctor
import cases_costs
import cases_field
import cases_followed
import cases_gate
import cases_go
import cases_graph
import cases_guard
import cases_guard_pages
import cases_guard_patterns
import cases_held
import cases_interpreters
import cases_ipc
import cases_java
import cases_leaving
import cases_limits
import cases_lost
import cases_missing_calls
import cases_names
import cases_objects
import cases_oom
import cases_parked
import cases_peak
import cases_pool
import cases_nvtx_memory
import cases_ranges
import cases_report
import cases_rules
import cases_signals
import cases_sanitized
import cases_short_memory
import cases_steps
import cases_top
import cases_traced
import cases_trust
import cases_truth
import cases_vmm
import stories
from harness import Call, Case, End, Error, Leak, Refused

FREE = "cuMemFree_v2"
ALLOC = "cuMemAlloc_v2"

DESTROYED = [End(Leak(ALLOC, size, ["allocate@allocate", "main@" + marker]),
                 Call("cuCtxDestroy_v2", ["main@destroy"]))
             for size, marker in ((1000, "never_freed"), (2000, "gone"))]

CUDA = [
    Case("clean", "clean", stdout="clean\n", allocated=(3, 7096), freed=3, peak=5096),
    Case("invalid frees", "cuda_wrong_frees",
         stdout="drop: 0\nagain: 1\ninside: 1\nforeign: 1\ndrop: 0\nzero: 0\n",
         allocated=(3, 175000), freed=2, peak=175000,
         leaks=[Leak(ALLOC, 100000, ["allocate@allocate", "main@forgotten"])],
         errors=[
             Error("double-free", FREE, ["drop_again@again", "main@second"], 1,
                   Call(ALLOC, ["allocate@allocate", "main@twice"], 5000),
                   Call(FREE, ["drop@drop", "main@first"])),
             Error("interior-free", FREE, ["drop_inside@inside", "main@middle"], 1,
                   Call(ALLOC, ["allocate@allocate", "main@whole"], 70000)),
             Error("invalid-free", FREE, ["drop_foreign@foreign", "main@stranger"], 1),
         ]),
    Case("stolen block", "cuda_stolen", stdout="same address\nclose mesh: 1\n",
         allocated=(2, 60001), freed=2, peak=30001,
         errors=[
             Error("double-free", FREE, ["close_mesh@close_q", "main@main_close_q"], 1,
                   Call(ALLOC, ["open_mesh@q", "main@main_q"], 30001),
                   Call(FREE, ["clean_up@steal", "main@main_steal"]),
                   (Call(ALLOC, ["open_texture@p", "main@main_p"], 30000),
                    Call(FREE, ["close_texture@close_p", "main@main_close_p"]))),
         ]),
    Case("all calls", "cuda_all_calls", stdout="pitch 1024\npitch 1536\n",
         allocated=(10, 1001 + 1002 + 3000000 + 3000001 + 2 * 7 * 1024 + 2 * 5 * 1536 + 5003
                    + 5004),
         freed=5,
         peak=1001 + 3000000 + 3000001,
         leaks=[
             Leak("cuMemAlloc", 1001, ["linear@v1", "main@linear"]),
             Leak(ALLOC, 3000000, ["linear@v2", "main@linear"]),
             Leak("cuMemAllocPitch", 7 * 1024, ["pitched@pitch_v1", "main@pitched"]),
             Leak("cuMemAllocPitch_v2", 5 * 1536, ["pitched@pitch_v2", "main@pitched"]),
             Leak("cuMemAllocManaged", 5003, ["managed@managed", "main@main_managed"],
                  kind="managed"),
         ]),
    Case("families", "families",
         allocated=(12, sum(range(10001, 10007)) + sum(range(20001, 20005)) + 2 * 4096),
         freed=7,
         peak=10001 + 10003 + 20001 + 20003 + 20004,
         leaks=[
             Leak("cuMemAllocAsync", 10001, ["stream_ordered@async", "leak@main_stream",
                                             "main@leak"], kind="stream-ordered"),
             Leak("cuMemAllocAsync_ptsz", 10003, ["stream_ordered@async_ptsz", "leak@main_stream",
                                                  "main@leak"], kind="stream-ordered"),
             Leak("cuMemAllocHost_v2", 20001, ["host@host", "leak@main_host", "main@leak"],
                  kind="pinned"),
             Leak("cuMemHostAlloc", 20003, ["host@host_alloc", "leak@main_host", "main@leak"],
                  kind="pinned"),
             Leak("cuMemHostRegister_v2", 4096, ["host@register", "leak@main_host", "main@leak"],
                  kind="registered"),
         ]),
    Case("families, freed twice", "families", ("twice",), stdout="again: 1\nback again: 713\n",
         allocated=(2, 20005 + 4096), freed=2, peak=20005,
         errors=[
             Error("double-free", "cuMemFreeHost", ["twice@again", "main@twice"], 1,
                   Call("cuMemHostAlloc", ["twice@made", "main@twice"], 20005),
                   Call("cuMemFreeHost", ["twice@once", "main@twice"])),
             Error("double-free", "cuMemHostUnregister", ["twice@back_again", "main@twice"], 713,
                   Call("cuMemHostRegister_v2", ["twice@lent", "main@twice"], 4096),
                   Call("cuMemHostUnregister", ["twice@back", "main@twice"])),
         ]),
    Case("families mixed up", "families", ("mixed",), stdout="as device: 1\nas host: 1\n",
         allocated=(2, 20006 + 10007), freed=2, peak=20006,
         errors=[
             Error("mismatched-free", FREE, ["mixed_up@as_device", "main@mixed"], 1,
                   Call("cuMemHostAlloc", ["mixed_up@pinned", "main@mixed"], 20006)),
             Error("mismatched-free", "cuMemFreeHost", ["mixed_up@as_host", "main@mixed"], 1,
                   Call(ALLOC, ["mixed_up@device", "main@mixed"], 10007)),
         ]),
    Case("arrays", "families", ("arrays",),
         allocated=(5, 2 * 16000 + 4096 + 4 * (128 + 32 + 8 + 2 + 1) + 4 * (128 + 32)), freed=2,
         leaks=[Leak("cuArrayCreate_v2", 16000, ["arrays@flat", "main@arrays"], kind="array"),
                Leak("cuArray3DCreate_v2", 4096, ["arrays@deep", "main@arrays"], kind="array"),
                Leak("cuMipmappedArrayCreate", 4 * (128 + 32 + 8 + 2 + 1),
                     ["arrays@mipmaps", "main@arrays"], kind="array")]),
    Case("array destroyed twice", "families", ("array-twice",), stdout="again: 400\n",
         allocated=(1, 16000), freed=1, peak=16000,
         errors=[Error("double-free", "cuArrayDestroy",
                       ["array_twice@destroy_again", "main@array_twice"], 400,
                       Call("cuArrayCreate_v2", ["array_twice@flat2", "main@array_twice"], 16000),
                       Call("cuArrayDestroy", ["array_twice@destroy", "main@array_twice"]))]),
    Case("objects destroyed by another type's call", "families", ("other-destroy",),
         stdout="mipmaps as array: 400\narray as mipmaps: 400\npool as array: 400\n"
                "destroyed as array: 400\n",
         allocated=(3, 16000 + 4 * (128 + 32)), freed=3, peak=16000 + 4 * (128 + 32),
         errors=[Error("mismatched-free", "cuArrayDestroy",
                       ["other_destroy@as_array", "main@other_destroy"], 400,
                       Call("cuMipmappedArrayCreate",
                            ["other_destroy@other_mipmaps", "main@other_destroy"],
                            4 * (128 + 32))),
                 Error("mismatched-free", "cuMipmappedArrayDestroy",
                       ["other_destroy@as_mipmaps", "main@other_destroy"], 400,
                       Call("cuArrayCreate_v2",
                            ["other_destroy@other_array", "main@other_destroy"], 16000)),
                 Error("mismatched-free", "cuArrayDestroy",
                       ["other_destroy@pool_as_array", "main@other_destroy"], 400,
                       Call("cuMemPoolCreate",
                            ["other_destroy@other_pool", "main@other_destroy"], 0)),
                 Error("double-free", "cuArrayDestroy",
                       ["other_destroy@dead_as_array", "main@other_destroy"], 400,
                       Call("cuMipmappedArrayCreate",
                            ["other_destroy@other_mipmaps", "main@other_destroy"],
                            4 * (128 + 32)),
                       Call("cuMipmappedArrayDestroy",
                            ["other_destroy@by_its_own", "main@other_destroy"]))]),
    Case("host memory unregistered inside a range", "families", ("inside",),
         stdout="inside: 1\ninside pinned: 1\noutside: 713\n",
         allocated=(2, 4096 + 20007), freed=2, peak=20007,
         errors=[Error("interior-free", "cuMemHostUnregister",
                       ["inside@inside_lent", "main@inside"], 1,
                       Call("cuMemHostRegister_v2", ["inside@lent_whole", "main@inside"], 4096)),
                 Error("interior-free", "cuMemHostUnregister",
                       ["inside@inside_pinned", "main@inside"], 1,
                       Call("cuMemHostAlloc", ["inside@pinned_whole", "main@inside"], 20007)),
                 Error("invalid-free", "cuMemHostUnregister",
                       ["inside@outside", "main@inside"], 713)]),
    Case("pools", "families", ("pools",), allocated=(4, 40001 + 40002), freed=2,
         peak=40001 + 40002,
         leaks=[Leak("cuMemAllocFromPoolAsync", 40001, ["pools@from_pool", "main@pools"],
                     kind="stream-ordered"),
                Leak("cuMemPoolCreate", 0, ["pools@pool", "main@pools"], kind="mempool")]),
    Case("pool of another process", "families", ("imported",), stdout="same: yes\nagain: 1\n",
         allocated=(5, 50001), freed=3, peak=50001,
         leaks=[Leak("cuMemPoolImportFromShareableHandle", 0, ["imported@import", "main@imported"],
                     kind="mempool"),
                Leak("cuMemPoolImportPointer", 0, ["imported@import_lost", "main@imported"],
                     kind="ipc", keeps=50001)],
         errors=[Error("double-free", "cuMemFreeAsync",
                       ["imported@free_imported_again", "main@imported"], 1,
                       Call("cuMemPoolImportPointer", ["imported@import_block", "main@imported"],
                            0),
                       Call("cuMemFreeAsync", ["imported@free_imported", "main@imported"]))]),
    Case("captured allocation", "families", ("captured",), allocated=(0, 0), freed=0, peak=0),
    Case("context destroyed", "context", allocated=(3, 3500), freed=0, peak=3500,
         with_context=(2, 3000), ends=DESTROYED,
         leaks=[Leak(ALLOC, 500, ["allocate@allocate", "main@primary"])]),
    Case("context reset", "context", ("reset",), allocated=(2, 3000), freed=0, peak=3000,
         with_context=(2, 3000),
         ends=[End(Leak(ALLOC, 3000, ["allocate@allocate", "main@lost"], blocks=2),
                   Call("cuDevicePrimaryCtxReset_v2", ["main@reset"]))]),
    Case("context released", "context", ("release",), allocated=(1, 1000), freed=0, peak=1000,
         with_context=(1, 1000),
         ends=[End(Leak(ALLOC, 1000, ["allocate@allocate", "main@released"]),
                   Call("cuDevicePrimaryCtxRelease_v2", ["let_go@last", "main@let_go"]))]),
    Case("context reset, suppressed", "context", ("reset",), allocated=(2, 3000), freed=0,
         peak=3000, with_context=(2, 3000), suppressions="leak:allocate\n",
         suppressed_ends=[End(Leak(ALLOC, 3000, ["allocate@allocate", "main@lost"], blocks=2),
                              Call("cuDevicePrimaryCtxReset_v2", ["main@reset"]))]),
    Case("context released at exit", "context", ("at_exit",), allocated=(1, 1000), freed=0,
         peak=1000, leaks=[Leak(ALLOC, 1000, ["allocate@allocate", "main@held"])]),
    Case("two devices", "context", ("devices",), env={"STANDIN_DEVICES": "2"},
         allocated=(3, 3000), freed=0, peak=3000,
         leaks=[Leak(ALLOC, 2000, ["allocate@allocate", "two_devices@turns", "main@devices"],
                     blocks=2, device=1),
                Leak(ALLOC, 1000, ["allocate@allocate", "two_devices@turns", "main@devices"])]),
    Case("free after context", "context", ("free",), stdout="late: 1\n",
         allocated=(3, 3500), freed=0, peak=3500, with_context=(2, 3000), ends=DESTROYED,
         leaks=[Leak(ALLOC, 500, ["allocate@allocate", "main@primary"])],
         errors=[Error("free-after-context", FREE, ["free_late@late", "main@main_late"], 1,
                       Call(ALLOC, ["allocate@allocate", "main@gone"], 2000),
                       Call("cuCtxDestroy_v2", ["main@destroy"]))]),
]

GROUPING = [
    Case("a thousand blocks from one line", "grouping", ("many",), allocated=(1000, 500500),
         freed=0, peak=500500,
         leaks=[Leak(ALLOC, 500500, ["allocate@allocate", "main@many"], blocks=1000)]),
    Case("two calls in one line", "grouping", ("line",), allocated=(2, 300), freed=0, peak=300,
         leaks=[Leak(ALLOC, 300, ["allocate@allocate", "main@one_line"], blocks=2)]),
    Case("two ways to one allocator", "grouping", ("paths",), allocated=(6, 15000), freed=0,
         peak=15000,
         leaks=[Leak(ALLOC, 9000, ["allocate@allocate", "load_weights@weights",
                                   "main@main_weights"], blocks=3),
                Leak(ALLOC, 6000, ["allocate@allocate", "load_inputs@inputs",
                                   "main@main_inputs"], blocks=3)]),
    Case("recursion within the depth", "grouping", ("20",), allocated=(2, 2000), freed=0,
         peak=2000,
         leaks=[Leak(ALLOC, 1000, ["allocate@allocate", "recurse@bottom"]
                     + ["recurse@recurse"] * 20 + ["main@deep"]),
                Leak(ALLOC, 1000, ["allocate@allocate", "recurse@bottom"]
                     + ["recurse@recurse"] * 21 + ["main@deeper"])]),
    Case("recursion beyond the depth", "grouping", ("100",), allocated=(2, 2000), freed=0,
         peak=2000,
         leaks=[Leak(ALLOC, 2000, ["allocate@allocate", "recurse@bottom"]
                     + ["recurse@recurse"] * 62, blocks=2)]),
    Case("depth 8", "grouping", ("100",), env={"GPULEAK_STACK_DEPTH": "8"}, allocated=(2, 2000),
         freed=0, peak=2000,
         leaks=[Leak(ALLOC, 2000, ["allocate@allocate", "recurse@bottom"]
                     + ["recurse@recurse"] * 6, blocks=2)]),
    Case("depth 256", "grouping", ("100",), env={"GPULEAK_STACK_DEPTH": "256"},
         allocated=(2, 2000), freed=0, peak=2000,
         leaks=[Leak(ALLOC, 1000, ["allocate@allocate", "recurse@bottom"]
                     + ["recurse@recurse"] * 100 + ["main@deep"]),
                Leak(ALLOC, 1000, ["allocate@allocate", "recurse@bottom"]
                     + ["recurse@recurse"] * 101 + ["main@deeper"])]),
    Case("depth 0", "grouping", ("paths",), env={"GPULEAK_STACK_DEPTH": "0"},
         allocated=(6, 15000), freed=0, peak=15000, leaks=[Leak(ALLOC, 15000, [], blocks=6)]),
    Case("inlined frames", "inlined", allocated=(1, 7680), freed=0, peak=7680,
         leaks=[Leak(ALLOC, 7680, ["render::Surface::reserve@reserve", "render::resize@resize",
                                   "render::frame@frame", "main@main"])]),
]


def failing(name, fail, stdout, **more):
    return Case(name, "failing", env={"STANDIN_FAIL": fail}, stdout=stdout, **more)


ALLOCATED = "alloc 0: 0\nalloc 1: 0\nalloc 2: 0\n"
STILL_THERE = [Leak(ALLOC, 2000, ["allocate@allocate", "main@main"])]


def refused(code, what):
    return [Refused(FREE, ["main@free"], code,
                    Call(ALLOC, ["allocate@allocate", "main@main"], 2000), what=what)]


FAILING = [
    failing("a failing allocation", "cuMemAlloc_v2:2=2",
            "alloc 0: 0\nalloc 1: 2\nalloc 2: 0\nfree 0: 0\nfree 2: 0\n",
            allocated=(2, 4000), freed=2, peak=4000),
    failing("no allocation works", "cuMemAlloc_v2:1+=2", "alloc 0: 2\nalloc 1: 2\nalloc 2: 2\n",
            peak=0),
] + [
    failing("a free that fails with %d" % code, "cuMemFree_v2:2=%d" % code,
            ALLOCATED + "free 0: 0\nfree 1: %d\nfree 2: 0\n" % code, allocated=(3, 6000), freed=2,
            peak=6000, leaks=STILL_THERE, refused=refused(code, "never freed"))
    for code in (1, 2, 999)
] + [
    failing("a free that fails with %d" % code, "cuMemFree_v2:2=%d" % code,
            ALLOCATED + "free 0: 0\nfree 1: %d\nfree 2: 0\n" % code, allocated=(3, 6000), freed=3,
            peak=6000, late=1, refused=refused(code, what))
    for code, what in ((4, "after the shutdown"), (700, "in a broken context"))
] + [
    failing("a driver that is broken from here on", "cuMemFree_v2:1+=700",
            ALLOCATED + "free 0: 700\nfree 1: 700\nfree 2: 700\n", allocated=(3, 6000), freed=3,
            peak=6000, late=3,
            refused=[Refused(FREE, ["main@free"], 700,
                             Call(ALLOC, ["allocate@allocate", "main@main"], 1000), 3,
                             "in a broken context")]),
]

def too_late(stack, size, made):
    """A block that was freed after the driver had shut down."""
    return Refused(FREE, stack, 4, Call(ALLOC, made, size), what="after the shutdown")


TOO_LATE = [too_late(["free_early_handler@free_early"], 1000, ["allocate@allocate", "main@first"]),
            too_late(["free_destructor@free_late"], 3000, ["allocate@allocate", "main@third"]),
            too_late(["at_end_stop@at_end_lib.c:free_held"], 4000,
                     ["at_end_start@at_end_lib.c:held", "main@start"])]
AT_END = [
    # The early handler and the destructor find the driver shut down.
    Case("freed at the end", "at_end", stdout="started\n", allocated=(6, 10150), freed=4,
         peak=10150, late=3, refused=TOO_LATE,
         leaks=[Leak(ALLOC, 80, ["at_end_start@at_end_lib.c:library", "main@start"]),
                Leak(ALLOC, 70, ["allocate@allocate", "main@nobody"])]),
    Case("freed at the end by a plugin too", "at_end", ("{programs}/at_end_plugin.so",),
         stdout="started\n", allocated=(8, 14240), freed=5, peak=14240, late=4,
         refused=TOO_LATE + [too_late(["at_end_stop@at_end_lib.c:free_held"], 4000, [
             "at_end_start@at_end_lib.c:held", "open_plugin@plugin", "main@main_plugin"])],
         leaks=[Leak(ALLOC, 90, ["at_end_start@at_end_lib.c:library", "open_plugin@plugin",
                                 "main@main_plugin"]),
                Leak(ALLOC, 80, ["at_end_start@at_end_lib.c:library", "main@start"]),
                Leak(ALLOC, 70, ["allocate@allocate", "main@nobody"])]),
    Case("freed by a handler of quick_exit", "at_end", ("quick",), stdout="started\n",
         allocated=(6, 10150), freed=1, peak=10150,
         leaks=[Leak(ALLOC, 4000, ["at_end_start@at_end_lib.c:held", "main@start"]),
                Leak(ALLOC, 3000, ["allocate@allocate", "main@third"]),
                Leak(ALLOC, 1000, ["allocate@allocate", "main@first"]),
                Leak(ALLOC, 80, ["at_end_start@at_end_lib.c:library", "main@start"]),
                Leak(ALLOC, 70, ["allocate@allocate", "main@nobody"])]),
    Case("global objects", "globals", stdout="~Pool: 0\n~Pool: 0\n~Pool: 0\n~Holder: 4\n",
         allocated=(7, 15700), freed=4, late=1, peak=15700,
         refused=[too_late(["Holder::~Holder@holder_free"], 8000, ["main@holder"])],
         leaks=[Leak(ALLOC, 400, ["Pool::Pool@pool", "use_thread@in_thread"]),
                Leak(ALLOC, 200, ["Pool::Pool@pool", "use_static@in_function", "main@main"]),
                Leak(ALLOC, 100, ["Pool::Pool@pool"])]),
]

THREADS = [
    Case("peak of one thread", "threads", stdout="done\n", allocated=(200, 50000), freed=200,
         peak=30000),
    Case("storm of threads", "threads", ("storm",), env={"STANDIN_ARENAS": "1"}, stdout="done\n",
         allocated=(256032, 256000 * 512 + 3200), freed=256000,
         leaks=[Leak(ALLOC, 3200, ["storm@storm_lost"], blocks=32)]),
    Case("storm of threads in arenas of their own", "threads", ("storm",), stdout="done\n",
         allocated=(256032, 256000 * 512 + 3200), freed=256000,
         leaks=[Leak(ALLOC, 3200, ["storm@storm_lost"], blocks=32)]),
    Case("freed by another thread", "threads", ("hand",), stdout="done\n",
         allocated=(100000, 100000000), freed=100000),
    Case("threads that come and go", "threads", ("go",), stdout="done\n",
         allocated=(2000, 256000), freed=1999,
         leaks=[Leak(ALLOC, 128, ["passing@passing"])]),
    stories.ledger_stays_small, stories.fork_in_storm, stories.leave_in_storm,
]


def opencl(name, story, **more):
    return Case("OpenCL: " + name, "cl_leak", (story,), **more)


def cl(size, stack, api="clCreateBuffer", kind="cl-buffer", keeps=None):
    return Leak(api, size, stack, kind=kind, keeps=keeps)


OPENCL = [
    opencl("3 of 5 buffers", "five", stdout="3 of 5 lost\n", allocated=(5, 15000), freed=2,
           peak=15000,
           leaks=[cl(4000, ["create@create", "five@retained", "main@main"]),
                  cl(3000, ["create@create", "five@lost", "main@main"]),
                  cl(1000, ["create@create", "five@forgotten", "main@main"])]),
    opencl("clean", "clean", allocated=(2, 3000), freed=2, peak=3000),
    opencl("sub-buffers, released before and after", "sub", freed=4,
           allocated=(4, 8192 + 16384 + 4096 + 2048)),
    opencl("sub-buffer lost", "lost-sub", allocated=(2, 12288), freed=0,  # its parent is held
           leaks=[cl(4096, ["cut@cut", "lost_sub_buffer@main_cut", "main@main"],
                     "clCreateSubBuffer", "cl-sub-buffer", keeps=8192)]),
    opencl("image", "image", allocated=(2, 16384), freed=1, peak=8192,
           leaks=[cl(8192, ["image@image", "main@main"], "clCreateImage", "cl-image")]),
    opencl("shared virtual memory", "svm", stdout="1 shared\n",
           allocated=(4, 5001 + 5002 + 5003 + 5004), freed=3, peak=5001 + 5002 + 5003 + 5004,
           leaks=[cl(5001, ["shared_virtual@svm", "main@main"], "clSVMAlloc", "cl-svm")]),
    opencl("buffer with properties", "properties", stdout="properties made\n",
           allocated=(1, 7000), freed=0, peak=7000,
           leaks=[cl(7000, ["properties@properties", "main@main"],
                     "clCreateBufferWithProperties")]),
    opencl("failed calls", "failed", stdout="no bytes: -61\nnothing: -38\n", peak=0),
    opencl("released once too often", "twice-held", stdout="again: 0\n", allocated=(2, 12288),
           freed=1,
           leaks=[cl(4096, ["cut@cut", "twice_held@holder", "main@main"], "clCreateSubBuffer",
                     "cl-sub-buffer")],
           errors=[Error("double-free", "clReleaseMemObject",
                         ["release_again@again", "twice_held@twice", "main@main"], 0,
                         Call("clCreateBuffer", ["create@create", "twice_held@parent",
                                                 "main@main"], 8192),
                         Call("clReleaseMemObject", ["release@release", "twice_held@once",
                                                     "main@main"]))]),
    stories.pipe,
    stories.deadly_release,
    stories.opencl_child,
]

FAMILIES = {
    **cases_gate.FAMILIES,
    **cases_cl_history.FAMILIES,
    **cases_guard_patterns.FAMILIES,
    **cases_cl_mapped.FAMILIES,
    **cases_cl_objects.FAMILIES,
    **cases_cl_pool.FAMILIES,
    **cases_cl_released.FAMILIES,
    "api": cases_api.CASES,
    "attach": cases_attach.ATTACH,
    "blocked": cases_blocked.BLOCKED,
    "bypassed": cases_bypassed.BYPASSED,
    "command": cases_command.WORDS + cases_command.REPORTS + cases_command.RUNS
    + cases_command.FOREIGN,
    "doctor": cases_doctor.DOCTOR,
    "field": cases_field.CASES,
    "cuda": CUDA,
    "go": cases_go.GO,
    "grouping": GROUPING,
    "graph": cases_graph.GRAPH,
    "contexts": cases_graph.CONTEXTS,
    "failing": FAILING,
    "at-end": AT_END,
    "threads": THREADS,
    "opencl": OPENCL,
    "ends": stories.ENDS,
    "attached": cases_attached.ATTACHED,
    "followed": cases_followed.FOLLOWED,
    "processes": stories.PROCESSES,
    "gate": stories.GATE,
    "input": stories.INPUT,
    "unseen": stories.UNSEEN,
    "guard": cases_guard.GUARD,
    "guard-pages": cases_guard_pages.GUARD_PAGES,
    "held": cases_held.HELD,
    "leaving": cases_leaving.LEAVING,
    "signals": cases_signals.SIGNALS,
    "objects": cases_objects.OBJECTS,
    "costs": cases_costs.COSTS_CASES,
    "ipc": cases_ipc.IPC,
    "interpreters": cases_interpreters.INTERPRETERS,
    "java": cases_java.JAVA,
    "limits": cases_limits.LIMITS,
    "lost": cases_lost.LOST,
    "missing-calls": cases_missing_calls.MISSING_CALLS,
    "names": cases_names.NAMES,
    "oom": cases_oom.OOM,
    "parked": cases_parked.PARKED,
    "peak": cases_peak.PEAK,
    "traced": cases_traced.TRACED,
    "pool": cases_pool.POOL,
    "ranges": cases_ranges.RANGES,
    "nvtx-memory": cases_nvtx_memory.NVTX_MEMORY,
    "report": cases_report.REPORT,
    "rules": cases_rules.RULES,
    "sanitized": cases_sanitized.SANITIZED,
    "short-memory": cases_short_memory.SHORT_MEMORY,
    "steps": cases_steps.STEPS,
    "accumulation": cases_accumulation.ACCUMULATION,
    "top": cases_top.TOP,
    "vmm": cases_vmm.VMM,
    "trust": cases_trust.TRUST,
    "truth": cases_truth.TRUTH,
}
