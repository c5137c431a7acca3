# SPDX-License-Identifier: MIT
"""The table of planted errors: what each level of the guard can find of them in principle, and which
errors the report must then have. Knows nothing of how the guard works, only what it promises."""

import collections

LEVELS = ("copies", "patterns", "pages", "before")  # "before": pages with GPULEAK_GUARD_SIDE=before
ALL = "all"  # copies,patterns,pages

COPY, COPY_FREED = "copy-out-of-bounds", "copy-after-free"
WRITE, WRITE_FREED = "write-out-of-bounds", "write-after-free"
FAULT, DOUBLE = "access-fault", "double-free"
GUARD_TYPES = {COPY, COPY_FREED, WRITE, WRITE_FREED, FAULT}

# One kind of error: for each level the types of which one must be reported. A level whose types are
# given by `may` can find it or not, for instance if a far access meets a mapped page. A level that is
# in neither can't find it. ALSO: types that must be reported by these levels beside it.
Kind = collections.namedtuple("Kind", "must may also", defaults=({}, {}, {}))

KINDS = {
    # ---- kernels ----
    # From within the block to behind it, without a gap. The block ends where a page may end.
    "over": Kind({"patterns": {WRITE}, "pages": {FAULT}}, {"before": {WRITE, FAULT}}),
    # The block ends 24 to 232 bytes before the next multiple of 256 (and of 512): the access does not
    # fault.
    "slack": Kind({"patterns": {WRITE}, "pages": {WRITE}}, {"before": {WRITE}}),
    "gap": Kind({"pages": {FAULT}}, {"patterns": {WRITE}, "before": {WRITE, FAULT}}),
    "far": Kind({}, {"pages": {FAULT}, "before": {FAULT}, "patterns": {WRITE, FAULT}}),
    "before": Kind({"patterns": {WRITE}, "before": {FAULT}}, {"pages": {WRITE, FAULT}}),
    "before far": Kind({"before": {FAULT}}, {"patterns": {WRITE}, "pages": {WRITE, FAULT}}),
    "read over": Kind({"pages": {FAULT}}, {"before": {FAULT}}),
    "nothing": Kind(),
    "write freed": Kind({"patterns": {WRITE_FREED}, "pages": {FAULT}, "before": {FAULT}}),
    "read freed": Kind({"pages": {FAULT}, "before": {FAULT}}),
    # The kernel finds the block's address in memory: no parameter points to the block.
    # With all levels the access faults, so no pattern is read.
    "indirect": Kind({"patterns": {WRITE}, ALL: set()},
                     {"pages": {FAULT}, "before": {WRITE, FAULT}, ALL: {WRITE, FAULT}}),
    # Memory that pages can't hold: stream-ordered, managed.
    "unpaged over": Kind({}, {"patterns": {WRITE}, "pages": {FAULT, WRITE}}),
    # ---- copies, fills and maps by the host; the driver refuses most of them ----
    "into past": Kind({"copies": {COPY}},
                      {"patterns": {WRITE}, "pages": {WRITE, FAULT}, "before": {WRITE, FAULT}}),
    "from past": Kind({"copies": {COPY}}, {"pages": {FAULT}, "before": {FAULT}}),
    "into freed": Kind({"copies": {COPY_FREED}, "patterns": {WRITE_FREED}},
                       {"pages": {FAULT}, "before": {FAULT}}),
    "from freed": Kind({"copies": {COPY_FREED}}, {"pages": {FAULT}, "before": {FAULT}}),
    # After a free in the order of a stream.
    "async freed": Kind({"copies": {COPY_FREED}}, {"patterns": {WRITE_FREED}, "pages": {FAULT}}),
    # ---- two frees ----
    "double free, write": Kind(
        {"patterns": {WRITE_FREED}, "pages": {FAULT}, "before": {FAULT}}, {},
        {level: {DOUBLE} for level in LEVELS}),
    "double free, copy": Kind(
        {"copies": {COPY_FREED}, "patterns": {WRITE_FREED}}, {"pages": {FAULT}, "before": {FAULT}},
        {level: {DOUBLE} for level in LEVELS}),
    # The next block has the address of the freed one, unless the guard keeps that address.
    "stale free": Kind({"patterns": {DOUBLE}, "pages": {DOUBLE}, "before": {DOUBLE}},
                       {"copies": {DOUBLE}}),
    # ---- OpenCL has no pages ----
    "cl over": Kind({"patterns": {WRITE}}),
    "cl over, wide": Kind({}, {"patterns": {WRITE}}),
    "cl write freed": Kind({"patterns": {WRITE_FREED}}),
    "cl into past": Kind({"copies": {COPY}}, {"patterns": {WRITE}}),
    "cl from past": Kind({"copies": {COPY}}),
    # Up to 512 bytes past: refused, as by the driver, although patterns has made the buffer longer.
    "cl refused": Kind({"copies": {COPY}, "patterns": {COPY}}),
    "cl from freed": Kind({"copies": {COPY_FREED}}),
}

# One error. SAMPLE: it needs GPULEAK_GUARD_SAMPLE=1. WHERE: "gpu", or "any" if the stand-in driver or
# PoCL can run it, too.
Error = collections.namedtuple("Error", "kind sample where", defaults=(False, "any"))


def rows(where, **kinds):
    """Kinds in one text, several names each: over="over_1 over_16"."""
    return {name: Error(kind.replace("__", ", ").replace("_", " "), name.startswith(("small_", "trap_")), where)
            for kind, names in kinds.items() for name in names.split()}


TRAPS = "nothing"
RUNTIME = rows(
    "gpu", over="over_1 over_16 over_256 over_4096 large_over_16 packed_over_16 interior_over_16 "
    "small_over_256",
    slack="slack_1 small_over_1", gap="gap_4096", far="far_behind", before="before_1 before_16",
    before_far="before_4096", read_over="read_behind_1 read_behind_4096",
    nothing="read_slack inside trap_reuse trap_async_reuse trap_symbol trap_texture trap_graph "
    "trap_threads trap_host_memory trap_reset",
    indirect="indirect_over_16", unpaged_over="async_over_16",
    write_freed="write_freed write_freed_middle write_freed_stream",
    read_freed="read_freed read_freed_stream", double_free__write="double_free_write",
    double_free__copy="double_free_copy", stale_free="stale_free",
    into_past="copy_past_1 copy_past_4096 copy_async_past copy_peer_past memset_past "
    "memset_async_past copy_two_blocks copy_2d_past memset_2d_past copy_3d_past pinned_past "
    "managed_past async_past",
    from_past="copy_back_past copy_device_past pitched_past",
    from_freed="copy_from_freed", into_freed="copy_into_freed copy_freed_stream memset_freed",
    async_freed="async_freed_copy")
DRIVER = rows(
    "any", into_past="host_to_device host_to_device_far device_to_device unified async_host batch "
    "batch_boxes from_array stream_value set_8 set_16 set_32_words set_2d last_row last_plane two_blocks pitched",
    from_past="device_to_host peer shifted_row batch_to_array "
    "rows_to_array", from_freed="from_freed",
    into_freed="into_freed into_freed_stream set_freed", double_free__copy="double_free",
    async_freed="async_freed", nothing="trap_mapped trap_reuse trap_queries trap_edges")
DRIVER.update(rows(
    "gpu", over="kernel_over_1 kernel_over_4096", before="kernel_before_1",
    read_over="kernel_read_behind", write_freed="kernel_write_freed",
    read_freed="kernel_read_freed"))
OPENCL = rows(
    "any", cl_over="over_1 over_16 over_256 odd_over_1 odd_over_256 large_over_16 over_kept",
    cl_write_freed="write_freed write_freed_queue",
    nothing="read_behind read_freed trap_reuse trap_retained trap_parts trap_queries trap_svm",
    cl_into_past="part_past svm_copy_past svm_fill_past copy_rows_past copy_both_past",
    cl_refused="write_past copy_past fill_past map_past rows_past from_image read_past "
    "copy_from_past to_image", cl_from_freed="svm_from_freed svm_fill_freed svm_map_freed "
    "svm_inside_freed")
OPENCL.update(rows("gpu", nothing="before_16", cl_over__wide="over_4096"))  # they break the heap of PoCL
FRAMEWORK = rows(
    "gpu", over="over_1 over_256 over_4096", slack="slack_1", before="before_16",
    read_over="read_behind", write_freed="write_freed write_freed_stream",
    read_freed="read_freed", into_past="copy_past memset_past copy_across",
    from_past="copy_back_past", from_freed="copy_from_freed", into_freed="copy_into_freed",
    nothing="inside trap_reuse")
KERNELS = {name: error for name, error in FRAMEWORK.items()
           if not name.startswith(("copy_", "memset_"))}
# With PyTorch's cache in place only copies know where a tensor ends.
CACHED = {name: Error("cl " + error.kind if error.kind != "nothing" else "nothing", False, "gpu")
          for name, error in FRAMEWORK.items() if name.startswith(("copy_", "memset_", "trap_"))}
CACHED["copy_into_freed"] = CACHED["copy_from_freed"]

# Of each API its errors, and the words before the error's name; {} is the folder of the programs.
APIS = {
    "runtime-static": (RUNTIME, ["{}/planted-static"]),
    "runtime-shared": (RUNTIME, ["{}/planted-shared"]),
    "driver": (DRIVER, ["{}/planted_driver"]),
    "opencl": (OPENCL, ["{}/planted_cl"]),
    "cupy": (FRAMEWORK, ["python3", "{here}/planted_frameworks.py", "cupy"]),
    "triton": (KERNELS, ["python3", "{here}/planted_frameworks.py", "triton"]),
    "torch": (FRAMEWORK, ["python3", "{here}/planted_frameworks.py", "torch"]),
    "torch-cached": (CACHED, ["python3", "{here}/planted_frameworks.py", "torch"]),
}
SOURCES = {"runtime-static": "planted.cu", "runtime-shared": "planted.cu",
           "driver": "planted_driver.c", "opencl": "planted_cl.c"}
# (error, level): what the level cannot find, and may even take for another error. Counted neither as
# found nor among the errors that the level must find, and fails no test.
FROM_MEMORY = "a pointer that a kernel reads from memory is not seen"
EXPECTED_MISSES = {
    ("indirect_over_16", "pages"): FROM_MEMORY,
    ("indirect_over_16", "before"): FROM_MEMORY,
    ("indirect_over_16", ALL): FROM_MEMORY,
    ("stale_free", "copies"): "the second free frees the next block at the address, which is not kept",
}
SHORT = ("runtime-shared", "cupy", "triton", "torch", "torch-cached")
BYPASS = ("cupy", "triton", "torch")  # these run with --bypass-pools


def expected(kind, level):
    """Returns (types of which one must be found, types that may be found, types beside them)."""
    kind = KINDS[kind]
    if level != ALL:
        return kind.must.get(level, set()), kind.may.get(level, set()), kind.also.get(level, set())
    if ALL in kind.must:
        return kind.must[ALL], kind.may[ALL], set()
    levels = [each for each in LEVELS if each != "before"]
    return tuple(set().union(*(part.get(each, set()) for each in levels)) for part in kind)
