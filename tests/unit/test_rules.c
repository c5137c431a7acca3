/* SPDX-License-Identifier: MIT
 *
 * Rules: what a line means and what is refused, whose code frames with names from real
 * packages are, whose cache took memory at a stack, what a user's rules change, and how a
 * report tells all that.
 * Links: test_rules.c ledger_builder.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/gate/judge.h"
#include "ledger_builder.h"
#include "report/load/load.h"
#include "report/model/model.h"
#include "report/subjects/formats.h"
#include "report/symbols/rule.h"
#include "report/symbols/rules.h"
#include "report/symbols/symbolize.h"
#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/subjects/subject.h"

#define SITE "/usr/lib/python3.11/site-packages/"
#define C10 "c10::cuda::CUDACachingAllocator::Native::"
#define ARGS "(signed char, unsigned long, CUstream_st*)"

static struct rules *parse(const char *text)
{
	struct rules *rules = NULL;
	char error[256] = "";

	if (rules_parse(text, strlen(text), "my.rules", &rules, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return rules;
}

static void refused_bytes(const char *text, size_t length, const char *expected)
{
	struct rules *rules = NULL;
	char error[256] = "";

	assert_true(rules_parse(text, length, "my.rules", &rules, error, sizeof(error)) < 0);
	assert_null(rules);
	assert_string_equal(error, expected);
}

static void refused(const char *text, const char *expected)
{
	refused_bytes(text, strlen(text), expected);
}

#define FIELDS "module:PATTERN, function:PATTERN, file:PATTERN and path:PATTERN"

static void test_refused(void **state)
{
	char *large = calloc(1, RULES_BYTES_MAX + 1), *at = large;

	(void)state;
	refused("# fine\n\nframework\n",
		"my.rules:3: the rule matches nothing; accepted are " FIELDS);
	refused("frame module:x\n",
		"my.rules:1: cannot read 'frame'; a rule begins with application, runtime, "
		"framework, interpreter, package, cache, library, thread or managed");
	refused("runtime modul:x\n", "my.rules:1: cannot read 'modul:x'; accepted are " FIELDS);
	refused("runtime module\n", "my.rules:1: cannot read 'module'; accepted are " FIELDS);
	refused("runtime x:\033[2J\n", "my.rules:1: cannot read 'x:.[2J'; accepted are " FIELDS);
	refused("runtime module:\n",
		"my.rules:1: module: has no pattern; write \"\" for frames whose module is not "
		"known");
	refused("runtime module:a module:b\n", "my.rules:1: module: is given twice");
	refused("runtime function:\"a b\n", "my.rules:1: the closing quote is missing");
	refused("runtime function:\"a\"b\n",
		"my.rules:1: there is no blank behind the closing quote");
	refused("cache module:x\n",
		"my.rules:1: a name in quotes, or the word none, must follow cache, library, "
		"thread or managed");
	refused("library Mine module:x\n",
		"my.rules:1: a name in quotes, or the word none, must follow cache, library, "
		"thread or managed");
	refused("cache \"x\" 0 module:x\n", "my.rules:1: '0' is not a number of blocks");
	refused("cache \"x\" 4294967296 module:x\n",
		"my.rules:1: '4294967296' is not a number of blocks");
	refused("cache \"x\" 7\n", "my.rules:1: the rule matches nothing; accepted are " FIELDS);
	refused("cache none 7 module:x\n", "my.rules:1: cannot read '7'; accepted are " FIELDS);
	refused("library \"x\" 7 module:x\n", "my.rules:1: cannot read '7'; accepted are " FIELDS);
	refused("cache \"\" module:x\n", "my.rules:1: the name in quotes must have 1 to 64 bytes");
	refused_bytes("runtime module:a\0b\n", 18,
		      "my.rules:1: a NUL byte: this is not a rule file");
	refused_bytes(large, RULES_BYTES_MAX + 1,
		      "my.rules: larger than 1 MiB: this is not a rule file");
	at += sprintf(at, "runtime module:");
	memset(at, 'x', 4097);
	refused(large, "my.rules:1: the pattern is longer than 4096 bytes");
	at = large;
	for (int i = 0; i <= RULES_MAX; i++)
		at += sprintf(at, "runtime module:m%d\n", i);
	refused(large, "my.rules:4097: more than 4096 rules");
	free(large);
}

static void test_files(void **state)
{
	char path[] = "/tmp/gpuleak-rules-XXXXXX", error[256], expected[256];
	struct rules *rules = NULL, *shipped = NULL;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "\xef\xbb\xbfruntime module:a\r\nbad\n", 25), 25);
	assert_true(rules_parse(NULL, 0, path, &rules, error, sizeof(error)) < 0);
	snprintf(expected, sizeof(expected), "%s:2: cannot read 'bad'; a rule begins with "
		 "application, runtime, framework, interpreter, package, cache, library, thread or "
		 "managed",
		 path);
	assert_string_equal(error, expected);
	assert_int_equal(ftruncate(fd, 21), 0);
	close(fd);
	assert_int_equal(rules_parse(NULL, 0, path, &rules, error, sizeof(error)), 0);
	shipped = rules_shipped();
	assert_true(rules_size(shipped) > 100);
	assert_int_equal(rules_size(rules), rules_size(shipped) + 1);
	rules_destroy(rules);
	rules_destroy(shipped);
	unlink(path);
	rules = NULL;
	assert_true(rules_parse(NULL, 0, path, &rules, error, sizeof(error)) < 0);
	snprintf(expected, sizeof(expected), "%s: cannot read rules: No such file or directory",
		 path);
	assert_string_equal(error, expected);
	assert_null(rules);
}

static void same_text(const char *a, const char *b)
{
	assert_true((a == NULL) == (b == NULL));
	if (a)
		assert_string_equal(a, b);
}

/* The build compiles gpuleak.rules with compile_rules.py: rules.c parses it into the same rules. */
static void test_shipped(void **state)
{
	const char *root = getenv("SOURCE_ROOT");
	char path[4096], error[256] = "";
	struct rules *rules = NULL;
	size_t count;

	(void)state;
	assert_non_null(root);
	snprintf(path, sizeof(path), "%s/report/symbols/gpuleak.rules", root);
	if (rules_parse(NULL, 0, path, &rules, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	count = rules_size(rules) / 2;
	assert_true(count > 100);
	assert_int_equal(rules_size(rules), 2 * count);
	for (size_t i = 0; i < count; i++) {
		const struct rule *parsed = rules_at(rules, i), *built = rules_at(rules, count + i);

		assert_int_equal(parsed->verb, built->verb);
		same_text(parsed->name, built->name);
		assert_int_equal(parsed->limit, built->limit);
		for (int target = 0; target < RULE_TARGETS; target++)
			same_text(parsed->patterns[target], built->patterns[target]);
	}
	rules_destroy(rules);
}

/* ---- Whose code a frame is ---- */

/* Applies RULES to the COUNT FRAMES of a stack. Returns the rule for the cache, or NULL. */
static const struct rule *apply(const struct rules *rules, struct report_frame *frames,
				size_t count)
{
	struct report_arena arena = { 0 };
	struct table known = { 0 };
	const struct rule *rule;

	rule = rules_apply(rules, &known, &arena, frames, count);
	arena_finish(&arena);
	return rule;
}

static enum frame_role role_of(const struct rules *rules, struct report_frame frame)
{
	apply(rules, &frame, 1);
	return frame.role;
}

struct said {
	const char *module, *function, *file;
	enum frame_role role;
};

static void expect_roles(const char *text, const struct said *rows, size_t count)
{
	struct rules *rules = parse(text);

	for (size_t i = 0; i < count; i++) {
		const struct report_frame frame = { .module = rows[i].module,
						    .function = rows[i].function,
						    .file = rows[i].file };
		enum frame_role role = role_of(rules, frame);

		if (role != rows[i].role)
			fail_msg("%s, %s, %s: %d, and not %d", rows[i].module, rows[i].function,
				 rows[i].file, role, rows[i].role);
	}
	rules_destroy(rules);
}

static void test_roles(void **state)
{
	static const struct said rows[] = {
		{ "/opt/app", "main", "/src/app.c", FRAME_APPLICATION },
		{ "/opt/app", "main", NULL, FRAME_APPLICATION },
		{ NULL, NULL, NULL, FRAME_APPLICATION },
		{ "/usr/lib/libcuda.so.1", NULL, NULL, FRAME_RUNTIME },
		{ "/usr/lib/libcuda.so.580.65", "cuMemAlloc_v2", NULL, FRAME_RUNTIME },
		{ "/home/me/libcuda.so.d/app", "main", NULL, FRAME_APPLICATION },
		{ "/usr/lib/libcudart.so.12", "cudaMalloc", NULL, FRAME_RUNTIME },
		{ SITE "torch/lib/libcudart-9335f6a2.so.12", NULL, NULL, FRAME_RUNTIME },
		{ "/lib/x86_64-linux-gnu/libc.so.6", "start_thread", NULL, FRAME_RUNTIME },
		{ "[vdso]", NULL, NULL, FRAME_RUNTIME },
		{ "/usr/lib/libpocl.so.2", "POclCreateBuffer", NULL, FRAME_RUNTIME },
		/* cudart that is linked in; a name with a line is the application's own */
		{ "/opt/app", "cudaMalloc", NULL, FRAME_RUNTIME },
		{ "/opt/app", "cudaMallocOrDie(unsigned long)", "/src/alloc.cu",
		  FRAME_APPLICATION },
		{ "/opt/app", "libcudart_static_955d0e85", NULL, FRAME_RUNTIME },
		{ "/opt/app", "cudaLaunchKernel", NULL, FRAME_RUNTIME },
		{ "/opt/app", "cudaDeviceSynchronize", NULL, FRAME_RUNTIME },
		{ "/opt/app", "_start", NULL, FRAME_RUNTIME },
		{ "/opt/app", "_start", "/glibc/sysdeps/x86_64/start.S", FRAME_RUNTIME },
		{ "/opt/app", "clone3", "/glibc/sysdeps/x86_64/clone3.S", FRAME_RUNTIME },
		{ "/opt/app", "__libc_csu_init", "/glibc/csu/elf-init.c", FRAME_RUNTIME },
		{ "/opt/app", "_start", "/src/app.c", FRAME_APPLICATION },
		{ "/opt/app", "std::vector<int>::push_back(int&&)",
		  "/usr/include/c++/12/bits/stl_vector.h", FRAME_RUNTIME },
		{ "/opt/app", "void std::__invoke_impl<void, f()::{lambda()#1}>()", NULL,
		  FRAME_RUNTIME },
		{ "/opt/app", "std::hash<Mine>::operator()(Mine) const", "/src/mine.h",
		  FRAME_APPLICATION },
		{ "/opt/app", "cl::Buffer::Buffer(cl::Context const&)",
		  "/usr/include/CL/opencl.hpp", FRAME_RUNTIME },
		{ "/opt/app", "thrust::cuda_cub::malloc(unsigned long)", NULL, FRAME_FRAMEWORK },
		{ "/usr/bin/python3.11", "_PyEval_EvalFrameDefault", NULL, FRAME_INTERPRETER },
		{ "/usr/lib/libpython3.13.so.1.0", "cfunction_call", NULL, FRAME_INTERPRETER },
		{ "/opt/embeds", "_PyEval_EvalFrameDefault", NULL, FRAME_INTERPRETER },
		{ "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so",
		  NULL, NULL, FRAME_INTERPRETER },
		{ "/usr/bin/python3_server", "main", NULL, FRAME_APPLICATION },
		{ SITE "torch/lib/libtorch_cuda.so", "at::native::empty_cuda()", NULL,
		  FRAME_FRAMEWORK },
		{ "/opt/libtorch/lib/libtorch_cpu.so", "at::empty()", NULL, FRAME_FRAMEWORK },
		{ "/home/me/libtorch_myops.so", "myops::run()", NULL, FRAME_APPLICATION },
		{ SITE "torch/_C.cpython-311-x86_64-linux-gnu.so", NULL, NULL, FRAME_FRAMEWORK },
		{ "/usr/lib/libcublas.so.12", "cublasCreate_v2", NULL, FRAME_FRAMEWORK },
		{ SITE "cupy/cuda/memory.cpython-311-x86_64-linux-gnu.so", NULL, NULL,
		  FRAME_FRAMEWORK },
		{ SITE "jax_plugins/xla_cuda12/xla_cuda_plugin.so", NULL, NULL, FRAME_FRAMEWORK },
		/* Python */
		{ NULL, "Module._call_impl", SITE "torch/nn/modules/module.py", FRAME_FRAMEWORK },
		{ NULL, "zeros", SITE "cupy/_creation/basic.py", FRAME_FRAMEWORK },
		{ NULL, "to_device", "/usr/lib/python3/dist-packages/pyopencl/array.py",
		  FRAME_FRAMEWORK },
		{ NULL, "mem_alloc", "/w/pycuda-2024.1-py3.11-linux-x86_64.egg/pycuda/driver.py",
		  FRAME_FRAMEWORK },
		{ NULL, "step", SITE "mymodel/train.py", FRAME_APPLICATION },
		{ NULL, "<module>", "/home/me/pycuda/examples/leak.py", FRAME_APPLICATION },
		{ NULL, "<module>", "<string>", FRAME_APPLICATION },
		{ NULL, "_call_with_frames_removed", "<frozen importlib._bootstrap>",
		  FRAME_RUNTIME },
		{ NULL, "_run_code", "/usr/lib/python3.11/runpy.py", FRAME_RUNTIME },
		{ NULL, "run", "/opt/conda/lib/python3.12/threading.py", FRAME_RUNTIME },
	};

	(void)state;
	expect_roles("", rows, sizeof(rows) / sizeof(rows[0]));
}

/* Frames between a launch and its line, as seen on an H200. */
static void test_launch_roles(void **state)
{
	static const struct said rows[] = {
		{ "/opt/app", "__cudaLaunchKernel_helper",
		  "/usr/local/cuda/include/crt/device_functions.h", FRAME_RUNTIME },
		{ "/opt/app", "__wrapper__device_stub_fill<1024>",
		  "/tmp/tmpxft_00000c03_00000000-6_fill.cudafe1.stub.c", FRAME_RUNTIME },
		{ "/opt/app", "__wrapper__device_stub_fill<1024>", NULL, FRAME_RUNTIME },
	};

	(void)state;
	expect_roles("", rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_user_roles(void **state)
{
	static const struct said rows[] = {
		{ "/usr/lib/libcuda.so.1", NULL, NULL, FRAME_APPLICATION },
		{ "/opt/mylibs/libfast.so", "fast_alloc", NULL, FRAME_FRAMEWORK },
		{ "/opt/other/libfast.so", "fast_alloc", NULL, FRAME_APPLICATION },
		{ "/opt/app", "my alloc()", NULL, FRAME_RUNTIME },
		{ "/opt/app", "my alloc() x", NULL, FRAME_APPLICATION },
		{ NULL, "f", SITE "torch/nn/functional.py", FRAME_APPLICATION },
		{ "/opt/app", "helper", "/src/helper.c", FRAME_RUNTIME },
		{ "/opt/app", "helper", "/src/other.c", FRAME_APPLICATION },
		{ "/opt/stripped.so", NULL, NULL, FRAME_FRAMEWORK },
		{ "/opt/stripped.so", "named", NULL, FRAME_APPLICATION },
	};

	(void)state;
	expect_roles("# mine\n"
		     "application module:libcuda.so*\n"
		     "framework module:/opt/mylibs/*\n"
		     "runtime function:\"my alloc()\"\n"
		     "application path:*-packages/torch/*\r\n"
		     "runtime function:helper file:*/helper.c\n"
		     "framework module:stripped.so function:\"\"\n",
		     rows, sizeof(rows) / sizeof(rows[0]));
}

/* ---- Whose cache ---- */

#define STACK_MAX 8

struct stack_case {
	const char *cache; /* NULL: nobody's */
	struct report_frame frames[STACK_MAX];
};

static const struct rule *cache_rule_of(const struct rules *rules,
					const struct report_frame *frames)
{
	struct report_frame copies[STACK_MAX];
	size_t count = 0;

	for (; count < STACK_MAX && (frames[count].function || frames[count].module); count++)
		copies[count] = frames[count];
	return apply(rules, copies, count);
}

static void expect_caches(const char *text, const struct stack_case *rows, size_t count)
{
	struct rules *rules = parse(text);

	for (size_t i = 0; i < count; i++) {
		const struct rule *rule = cache_rule_of(rules, rows[i].frames);
		const char *cache = rule && !rule->limit ? rule->name : NULL;

		if (strcmp(cache ? cache : "none", rows[i].cache ? rows[i].cache : "none") != 0)
			fail_msg("case %zu: %s, and not %s", i, cache, rows[i].cache);
	}
	rules_destroy(rules);
}

/* Frames, innermost first. Functions and modules are those of the packages. */
#define F(module_, function_) { .module = module_, .function = function_ }
#define CUDART F("/usr/lib/libcudart.so.12", "cudaMalloc")
#define TORCH F(SITE "torch/lib/libtorch_cuda.so", "at::detail::empty_cuda()")
#define TORCH_(function) F(SITE "torch/lib/libtorch_cuda.so", function)
#define C10_(function) F(SITE "torch/lib/libc10_cuda.so", function)
#define CUPY_(function) F(SITE "cupy/cuda/memory.cpython-311-x86_64-linux-gnu.so", function)
#define XLA_(function) F(SITE "jax_plugins/xla_cuda12/xla_cuda_plugin.so", function)
#define RMM_(function) F(SITE "librmm/lib64/librmm.so", function)
#define CUBLAS F("/usr/lib/libcublas.so.12", "cublasCreate_v2")
#define CUBLASLT F("/usr/lib/libcublasLt.so.12", "cublasLtCreate")
#define PYTHON F("/usr/bin/python3.11", "_PyObject_MakeTpCall")
#define OWN F("/opt/app", "train()")
#define PY(function_, file_) { .function = function_, .file = file_ }
#define SCRIPT { .function = "train", .file = "/home/me/train.py" }

static const struct stack_case cache_cases[] = {
	/* PyTorch: with its cache, with expandable segments, without, with cudaMallocAsync */
	{ "PyTorch caching allocator",
	  { CUDART, C10_(C10 "DeviceCachingAllocator::alloc_block(" C10 "(anonymous namespace)::"
			 "AllocParams&, bool)"),
	    C10_(C10 "DeviceCachingAllocator::malloc" ARGS),
	    C10_(C10 "NativeCachingAllocator::malloc(void**, signed char, unsigned long)"),
	    TORCH, OWN } },
	{ "PyTorch caching allocator",
	  { F("/usr/lib/libcuda.so.1", "cuMemCreate"),
	    C10_(C10 "(anonymous namespace)::ExpandableSegment::map(unsigned long)"), TORCH,
	    OWN } },
	{ NULL, { CUDART, C10_(C10 "uncached_allocate(unsigned long)"),
		  C10_(C10 "NativeCachingAllocator::allocate(unsigned long)"), TORCH, OWN } },
	{ NULL, { CUDART, C10_(C10 "NativeCachingAllocator::allocate(unsigned long)"), TORCH } },
	{ NULL, { F("/usr/lib/libcudart.so.12", "cudaMallocAsync"),
		  C10_("c10::cuda::CUDACachingAllocator::CudaMallocAsync::(anonymous namespace)::"
		       "mallocAsync(void**, signed char, unsigned long, CUstream_st*)"), OWN } },
	{ "PyTorch pinned memory cache",
	  { F("/usr/lib/libcudart.so.12", "cudaHostAlloc"),
	    F(SITE "torch/lib/libtorch_cuda.so", "at::cuda::(anonymous namespace)::"
	      "CUDACachingHostAllocatorImpl::allocate_host_memory(unsigned long, void**)"), OWN } },
	/* PyTorch's workspaces of cuBLAS: without its cache, and with it */
	{ "cuBLAS workspaces",
	  { CUDART, C10_(C10 "uncached_allocate(unsigned long)"),
	    C10_(C10 "NativeCachingAllocator::allocate(unsigned long)"),
	    TORCH_("at::cuda::setWorkspaceForHandle(cublasContext*, c10::cuda::CUDAStream)"),
	    TORCH_("at::cuda::getCurrentCUDABlasHandle()"), OWN } },
	{ "cuBLAS workspaces",
	  { CUDART, C10_(C10 "uncached_allocate(unsigned long)"),
	    TORCH_("at::cuda::(anonymous namespace)::setWorkspaceForHandle(cublasContext*)"),
	    OWN } },
	{ "cuBLAS workspaces", { CUDART, C10_(C10 "uncached_allocate(unsigned long)"),
				 TORCH_("at::cuda::getCUDABlasLtWorkspace()"), OWN } },
	{ "PyTorch caching allocator",
	  { CUDART, C10_(C10 "DeviceCachingAllocator::malloc" ARGS),
	    TORCH_("at::cuda::getCurrentCUDABlasHandle()"), OWN } },
	{ NULL, { CUDART, C10_(C10 "uncached_allocate(unsigned long)"),
		  F("/opt/app", "setWorkspaceForHandle(cublasContext*)"), OWN } },
	/* CuPy: pool, no pool, pool of the driver */
	{ "CuPy memory pool",
	  { CUDART, CUPY_("__pyx_pw_4cupy_4cuda_6memory_3_malloc(_object*, _object* const*)"),
	    CUPY_("__pyx_f_4cupy_4cuda_6memory_22SingleDeviceMemoryPool__try_malloc("
		  "__pyx_obj_4cupy_4cuda_6memory_SingleDeviceMemoryPool*, unsigned long)"),
	    SCRIPT } },
	{ NULL, { CUDART, CUPY_("__pyx_pw_4cupy_4cuda_6memory_3_malloc(_object*)"), SCRIPT } },
	{ NULL, { CUDART, CUPY_("__pyx_f_4cupy_4cuda_6memory_malloc_async(unsigned long, int)"),
		  SCRIPT } },
	{ "CuPy pinned memory pool",
	  { CUDART, CUPY_("__pyx_f_4cupy_4cuda_13pinned_memory_16PinnedMemoryPool_malloc"),
	    SCRIPT } },
	/* XLA and TensorFlow */
	{ "XLA BFC allocator", { CUDART, XLA_("stream_executor::DeviceMemAllocator::Alloc()"),
				 XLA_("tsl::BFCAllocator::Extend(unsigned long, unsigned long, "
				      "tsl::AllocationEnd)"), SCRIPT } },
	{ NULL, { CUDART, XLA_("stream_executor::DeviceMemAllocator::Alloc()"), SCRIPT } },
	{ "TensorFlow BFC allocator",
	  { CUDART, F("/t/libtensorflow_framework.so.2", "tsl::BFCAllocator::Extend()"), OWN } },
	/* tinygrad */
	{ "tinygrad cache", { F("/usr/lib/libOpenCL.so.1", "clCreateBuffer"),
			      PY("_alloc", SITE "tinygrad/runtime/ops_cl.py"),
			      PY("LRUAllocator.alloc", "/home/me/tinygrad/tinygrad/device.py"),
			      SCRIPT } },
	{ NULL, { F("/usr/lib/libOpenCL.so.1", "clCreateImage"),
		  PY("__call__", SITE "tinygrad/runtime/ops_cl.py"), SCRIPT } },
	/* RMM: its own library, and older templates in somebody else's */
	{ "RMM pool", { CUDART, RMM_("rmm::_RMM_26_10::mr::cuda_memory_resource::allocate()"),
			RMM_("rmm::_RMM_26_10::mr::detail::pool_memory_resource_impl::"
			     "block_from_upstream(unsigned long, cuda::__4::stream_ref)"), OWN } },
	{ "RMM pool", { CUDART, F("/opt/app", "rmm::mr::pool_memory_resource<rmm::mr::"
				  "cuda_memory_resource>::block_from_upstream(unsigned long)"),
			OWN } },
	{ NULL, { CUDART, RMM_("rmm::_RMM_26_10::mr::cuda_memory_resource::allocate()"), OWN } },
	{ "PyCUDA memory pool",
	  { CUDART, F("/p/_driver.so", "pycuda::memory_pool<(anonymous namespace)::"
		      "device_allocator>::allocate(unsigned long)"), SCRIPT } },
	{ NULL, { CUDART, F("/p/_driver.so", "pycuda::mem_alloc(unsigned long)"), SCRIPT } },
	{ "ONNX Runtime arena",
	  { CUDART, F("/o/libonnxruntime_providers_cuda.so", NULL), SCRIPT } },
	/* A library: whoever called it decides, through other libraries and runtimes. */
	{ NULL, { CUDART, CUBLAS, OWN } },
	{ NULL, { CUDART, CUBLASLT, CUBLAS, OWN } },
	{ NULL, { CUDART, CUBLAS, F("/lib/libffi.so.8", "ffi_call"),
		  F("/d/_ctypes.cpython-311-x86_64-linux-gnu.so", NULL), PYTHON, SCRIPT } },
	{ "cuBLAS workspaces", { CUDART, CUBLAS, TORCH, OWN } },
	{ "cuBLAS workspaces",
	  { CUDART, CUBLAS, F("/usr/lib/libcudnn_ops.so.9", "cudnnCreate"), TORCH, OWN } },
	{ "NCCL buffers", { CUDART, F("/usr/lib/libnccl.so.2", NULL),
			    F("/lib/libc.so.6", "start_thread") } },
	{ NULL, { CUDART, F("/usr/lib/libnccl.so.2", "ncclCommInitRank"), OWN } },
	/* The application's own in between: what is further out called the application. */
	{ NULL, { CUDART, CUBLAS, OWN, TORCH } },
	{ NULL, { CUDART, OWN } },
	{ NULL, { { .module = NULL } } },
};

static void test_caches(void **state)
{
	(void)state;
	expect_caches("", cache_cases, sizeof(cache_cases) / sizeof(cache_cases[0]));
}

static void test_user_caches(void **state)
{
	static const struct stack_case rows[] = {
		{ NULL, { CUDART, C10_(C10 "DeviceCachingAllocator::malloc" ARGS), TORCH, OWN } },
		{ "my pool", { CUDART, F("/opt/libpool.so.1", "grow"), OWN } },
		{ NULL, { CUDART, F("/opt/libpool.so.1", "grow"), F("/opt/app", "once()"), OWN } },
		{ "all of cuBLAS", { CUDART, CUBLAS, OWN } },
		{ "CuPy memory pool",
		  { CUDART, CUPY_("__pyx_f_4cupy_4cuda_6memory_22SingleDeviceMemoryPool__malloc"),
		    SCRIPT } },
		{ "handles of libh", { CUDART, F("/opt/libh.so", "h_create"), TORCH } },
		{ NULL, { CUDART, F("/opt/libh.so", "h_create"), OWN } },
		{ NULL, { CUDART, F("/usr/lib/libcudnn.so.9", "cudnnCreate"), TORCH } },
	};

	(void)state;
	expect_caches("cache none function:c10::cuda::*\n"
		      "cache none function:once()\n"
		      "cache \"my pool\" module:libpool.so*\n"
		      "cache \"all of cuBLAS\" module:libcublas*\n"
		      "library none module:libcudnn.so*\n"
		      "library \"handles of libh\" module:libh.so\n",
		      rows, sizeof(rows) / sizeof(rows[0]));
}

/* ---- Which list of pending frees ---- */

#define NUMBA SITE "numba_cuda/numba/cuda/cudadrv/driver.py"

static void test_pending(void **state)
{
	static const struct report_frame stacks[][STACK_MAX] = {
		{ PY("NumbaCUDAMemoryManager.memalloc.<locals>.allocator", NUMBA),
		  PY("memalloc", NUMBA), SCRIPT },
		{ PY("allocator", NUMBA), PY("memhostalloc", NUMBA), SCRIPT },
		{ PY("allocator", SITE "numba/cuda/cudadrv/driver.py"), SCRIPT },
		/* registered memory, a plugin for memory, a function of the program */
		{ PY("HostOnlyCUDAMemoryManager.mempin.<locals>.allocator", NUMBA), SCRIPT },
		{ PY("allocator", NUMBA), PY("mempin", NUMBA), SCRIPT },
		{ PY("memalloc", SITE "rmm/allocators/numba.py"), PY("memalloc", NUMBA), SCRIPT },
		{ PY("allocator", "/home/me/driver.py"), SCRIPT },
	};
	struct rules *rules = parse("");

	(void)state;
	for (int i = 0; i < 7; i++) {
		const struct rule *rule = cache_rule_of(rules, stacks[i]);

		assert_true((rule != NULL) == (i < 3));
		if (rule)
			assert_string_equal(rule->name, "Numba pending frees");
		if (rule)
			assert_int_equal(rule->limit, 10);
	}
	rules_drop(rules, "Numba pending frees");
	assert_null(cache_rule_of(rules, stacks[0]));
	rules_destroy(rules);
	rules = parse("cache none function:memhostalloc\ncache \"mine\" 7 function:*memalloc\n"
		      "cache \"a cache\" function:allocator\n");
	assert_string_equal(cache_rule_of(rules, stacks[0])->name, "mine");
	assert_int_equal(cache_rule_of(rules, stacks[0])->limit, 7);
	assert_null(cache_rule_of(rules, stacks[1]));
	assert_int_equal(cache_rule_of(rules, stacks[2])->limit, 0);
	rules_destroy(rules);
}

/* ---- The report ---- */

struct fixture {
	struct ledger_builder builder;
	struct loaded_ledger ledger;
	struct symbolizer *symbolizer;
	struct report report;
};

/* 6 blocks: 2 leaked by the application, 3 in caches, 1 freed. */
static void begin_ended(struct fixture *f, const char *rules, uint32_t ended)
{
	static const struct {
		uint64_t pcs[3];
		uint64_t bytes;
		unsigned int blocks;
	} sites[] = {
		{ { 0x8001, 0x1011, 0x1021 }, 1000, 2 }, /* libcuda.so.1, app, app */
		{ { 0x8001, 0x2011, 0x1031 }, 1 << 20, 2 }, /* libcuda.so.1, ONNX Runtime, app */
		{ { 0x8001, 0x3011, 0x4011 }, 4096, 1 }, /* libcuda.so.1, cuBLAS, libtorch_cuda */
	};
	struct ledger_builder *b = &f->builder;
	struct report_process *process;
	char error[256];

	memset(f, 0, sizeof(*f));
	builder_init(b);
	builder_header(b)->ended = ended;
	builder_module(b, "/bin/app", 0x1000, 0x2000, 0x1000, 0);
	builder_module(b, "/o/libonnxruntime_providers_cuda.so", 0x2000, 0x3000, 0x2000, 0);
	builder_module(b, "/c/libcublas.so.12", 0x3000, 0x4000, 0x3000, 0);
	builder_module(b, "/t/libtorch_cuda.so", 0x4000, 0x5000, 0x4000, 0);
	builder_module(b, "/n/libcuda.so.1", 0x8000, 0x9000, 0x8000, 0);
	for (size_t i = 0; i < 3; i++) {
		uint32_t stack = builder_stack(b, sites[i].pcs, 3, 0);
		uint32_t row = builder_row(b, "cuMemAlloc_v2", "device", 0, stack,
					   sites[i].blocks + (i == 0),
					   sites[i].bytes * sites[i].blocks);

		for (unsigned int n = 0; n < sites[i].blocks; n++)
			builder_block(b, row, 0x10000 * (i + 1) + n * 0x8000, sites[i].bytes);
	}
	assert_int_equal(loaded_ledger_copy(b->bytes, b->size, "test", &f->ledger, error,
					    sizeof(error)), 0);
	f->symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	if (rules)
		symbolizer_set_rules(f->symbolizer, parse(rules));
	process = report_process_build(&f->ledger, f->symbolizer, NULL);
	report_add_process(&f->report, process);
}

static void begin(struct fixture *f, const char *rules)
{
	begin_ended(f, rules, LEDGER_EXIT);
}

static void end(struct fixture *f)
{
	report_finish(&f->report);
	symbolizer_destroy(f->symbolizer);
	loaded_ledger_finish(&f->ledger);
	builder_finish(&f->builder);
}

static char *printed(struct fixture *f,
		     int print(const struct report *, const struct judgement *, FILE *))
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(print(&f->report, NULL, out), 0);
	fclose(out);
	return text;
}

static void expect_text(struct fixture *f, const char *expected)
{
	char *text = printed(f, print_text);

	assert_string_equal(text, expected);
	free(text);
}

static void verdict(struct fixture *f, int count_caches, uint64_t budget,
		    enum judge_verdict expected, const char *reason)
{
	const struct judge_input input = { .report = &f->report, .count_caches = count_caches,
					   .max_leaked_bytes = budget };
	struct judgement judgement;

	judge(&input, &judgement);
	assert_int_equal(judgement.verdict, expected);
	assert_int_equal(judgement.reason_count, 1);
	assert_string_equal(judgement.reasons[0], reason);
	judgement_finish(&judgement);
}

static void test_report(void **state)
{
	struct fixture f;
	const struct report_process *process;
	char *json;

	(void)state;
	begin(&f, NULL);
	process = f.report.processes[0];
	assert_int_equal(process->leak_count, 1);
	assert_int_equal(process->cached_count, 2);
	assert_int_equal(process->summary.cached_blocks, 3);
	assert_int_equal(process->summary.cached_bytes, (2 << 20) + 4096);
	assert_int_equal(process->summary.leaked_blocks, 2);
	assert_int_equal(f.report.summary.cached_bytes, (2 << 20) + 4096);
	assert_string_equal(process->cached[0].cache, "ONNX Runtime arena");
	assert_string_equal(process->cached[1].cache, "cuBLAS workspaces");
	expect_text(&f,
		"gpuleak: 1 leak, 1.9 KiB in 2 of 3 blocks never freed, allocated at ??? "
		"(/bin/app+0x10), called from ??? (/bin/app+0x20)\ngpuleak: 6 blocks (2.0 MiB) "
		"allocated by app (pid 4242), 1 freed, 2 held by the ONNX Runtime arena (2.0 "
		"MiB), 1 by the cuBLAS workspaces (4.0 KiB), 2 leaked: 2,000 bytes (1.9 KiB), "
		"peak 0 bytes; exited with status 0\n\nLeak "
		"of 2,000 bytes (1.9 KiB) in 2 blocks (device memory, cuMemAlloc_v2, device 0), "
		"allocated at:\n    #0 ??? (/n/libcuda.so.1+0x0)\n    #1 ??? (/bin/app+0x10)\n    "
		"#2 ??? (/bin/app+0x20)\n\nHeld by caches: not leaks; the gate counts them only "
		"with --gate-caches 1\n  ONNX Runtime arena: 2,097,152 bytes (2.0 MiB) in 2 "
		"blocks, at ??? (/bin/app+0x30) through libonnxruntime_providers_cuda.so\n  cuBLAS "
		"workspaces: 4,096 bytes (4.0 KiB) in 1 "
		"block, at ??? (/c/libcublas.so.12+0x10), called from ??? "
		"(/t/libtorch_cuda.so+0x10)\n");
	json = printed(&f, print_json);
	assert_non_null(strstr(json, "\"cached_bytes\": 2101248,\n    \"cached_blocks\": 3,\n"));
	assert_non_null(strstr(json, "\"cache\": \"ONNX Runtime arena\""));
	assert_non_null(strstr(json, "\"offset\": \"0x10\",\n          \"role\": \"framework\"\n"));
	assert_non_null(strstr(json, "\"offset\": \"0x0\",\n          \"role\": \"runtime\"\n"));
	free(json);
	verdict(&f, 0, 0, JUDGE_FAILED, "2 blocks, 2,000 bytes (1.9 KiB) leaked, 0 allowed");
	verdict(&f, 1, 2000, JUDGE_FAILED, "5 blocks, 2,103,248 bytes (2.0 MiB) leaked or held by "
		"caches, 2,000 bytes (1.9 KiB) allowed");
	verdict(&f, 0, 2000, JUDGE_CLEAN, "2 blocks, 2,000 bytes (1.9 KiB) leaked, 2,000 bytes "
		"(1.9 KiB) allowed");
	end(&f);
}

static void test_clean_report(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "cache \"application's pool\" module:app\n");
	expect_text(&f, "gpuleak: no leaks: 6 blocks (2.0 MiB) allocated by app (pid 4242), 1 "
			"freed, 4 held by the application's pool (2.0 MiB), 1 by the cuBLAS "
			"workspaces (4.0 KiB), peak 0 bytes\n");
	verdict(&f, 0, 0, JUDGE_CLEAN, "nothing leaked; caches hold 2,103,248 bytes (2.0 MiB) in 5 "
		"blocks, which do not count (--gate-caches 1 counts them)");
	verdict(&f, 1, 0, JUDGE_FAILED, "5 blocks, 2,103,248 bytes (2.0 MiB) held by caches, 0 "
		"allowed");
	verdict(&f, 1, 2103248, JUDGE_CLEAN, "5 blocks, 2,103,248 bytes (2.0 MiB) held by caches, "
		"2,103,248 bytes (2.0 MiB) allowed");
	end(&f);
	begin(&f, "cache none module:*\n");
	assert_int_equal(f.report.summary.cached_blocks, 0);
	assert_int_equal(f.report.summary.leaked_blocks, 5);
	end(&f);
}

/* In a list of pending frees are all blocks that are left, or none: four have a frame of the
 * application. */
static void test_pending_report(void **state)
{
	static const struct {
		const char *rules;
		uint32_t ended;
		unsigned int cached, leaked;
	} rows[] = {
		{ "cache \"late frees\" 4 module:app\n", LEDGER_EXIT, 5, 0 },
		{ "cache \"late frees\" 3 module:app\n", LEDGER_EXIT, 1, 4 },
		{ "cache \"late frees\" 4 module:app\n", LEDGER__EXIT, 1, 4 },
		{ "cache \"late frees\" 4 module:app\n", LEDGER_RUNNING, 1, 4 },
		{ "cache none module:app\ncache \"late frees\" 4 module:*\n", LEDGER_EXIT, 1, 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;
		char *text;

		begin_ended(&f, rows[i].rules, rows[i].ended);
		assert_int_equal(f.report.summary.cached_blocks, rows[i].cached);
		assert_int_equal(f.report.summary.leaked_blocks, rows[i].leaked);
		text = printed(&f, print_text);
		assert_true((strstr(text, "4 held by the late frees (2.0 MiB)") != NULL) ==
			    (i == 0));
		assert_true((strstr(text, "  Perhaps held by the late frees: gpuleak run "
				    "--bypass-pools lets nothing pend\n") != NULL) ==
			    (i > 0 && i < 4));
		free(text);
		end(&f);
	}
}

/* ---- Folding ---- */

static void folded(const struct report_frame *frames, size_t count, int whole,
		   const char *expected)
{
	const struct report_stack stack = { .frames = frames, .count = count };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	describe_stack(out, &stack, whole);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

#define R(role_, module_, function_) \
	{ .role = FRAME_##role_, .module = module_, .function = function_ }
#define P(role_, file_, function_) \
	{ .role = FRAME_##role_, .file = file_, .line = 7, .function = function_, \
	  .language = FRAME_PYTHON }

static void test_folding(void **state)
{
	static const struct report_frame python[] = {
		R(RUNTIME, "/n/libcuda.so.1", NULL), R(RUNTIME, "/n/libcudart.so.12", "cudaMalloc"),
		R(FRAMEWORK, "/t/libc10_cuda.so", "malloc"),
		R(FRAMEWORK, "/t/libc10_cuda.so", "allocate"),
		P(FRAMEWORK, "/v/site-packages/torch/nn/linear.py", "forward"),
		R(INTERPRETER, "/usr/bin/python3.11", "call"),
		P(APPLICATION, "/home/me/train.py", "step"),
		P(FRAMEWORK, "/v/site-packages/torch/nn/module.py", "__call__"),
		P(APPLICATION, "/home/me/train.py", "main"),
		R(INTERPRETER, "/usr/bin/python3.11", "run"),
		P(RUNTIME, "/usr/lib/python3.11/runpy.py", "_run_code"),
		R(RUNTIME, "/l/a.so", NULL), R(RUNTIME, "/l/b.so", NULL),
		R(RUNTIME, "/l/c\033.so", NULL), R(RUNTIME, NULL, NULL),
	};
	static const struct report_frame none[] = {
		R(RUNTIME, "/n/libcuda.so.1", NULL), R(FRAMEWORK, "/t/libnccl.so.2", "proxy"),
		R(RUNTIME, "/n/libc.so.6", "read"),
	};
	static const struct report_frame ctypes[] = {
		R(RUNTIME, "/n/libcuda.so.1", NULL), R(INTERPRETER, "/p/_ctypes.so", NULL),
		R(INTERPRETER, "/p/python3", NULL), P(APPLICATION, "/home/me/a.py", "f"),
	};

	(void)state;
	folded(python, 15, 0,
	       "    #0-#3 4 frames of libcuda.so.1, libcudart.so.12, libc10_cuda.so\n"
	       "    #4 forward /v/site-packages/torch/nn/linear.py:7\n"
	       "    #5 call (/usr/bin/python3.11+0x0)\n"
	       "    #6 step /home/me/train.py:7\n"
	       "    #7 __call__ /v/site-packages/torch/nn/module.py:7\n"
	       "    #8 main /home/me/train.py:7\n"
	       "    #9-#14 6 frames of python3.11, runpy.py, a.so, b.so and others\n");
	folded(python + 13, 1, 0, "    #0 ??? (/l/c\\x1B.so+0x0)\n");
	folded(python + 2, 5, 1,
	       "    #0 malloc (/t/libc10_cuda.so+0x0)\n"
	       "    #1 allocate (/t/libc10_cuda.so+0x0)\n"
	       "    #2 forward /v/site-packages/torch/nn/linear.py:7\n"
	       "    #3 call (/usr/bin/python3.11+0x0)\n"
	       "    #4 step /home/me/train.py:7\n");
	folded(none, 3, 0,
	       "    #0 ??? (/n/libcuda.so.1+0x0)\n"
	       "    #1 proxy (/t/libnccl.so.2+0x0)\n"
	       "    #2 read (/n/libc.so.6+0x0)\n");
	folded(ctypes, 4, 0,
	       "    #0 ??? (/n/libcuda.so.1+0x0)\n"
	       "    #1-#2 2 frames of _ctypes.so, python3\n"
	       "    #3 f /home/me/a.py:7\n");
}

/* The engine's thread: no frame of the application, or only those of the thread that waits. */
static void test_threads(void **state)
{
	static const char engine_rule[] = "torch::autograd::Engine::thread_main("
					  "std::shared_ptr<torch::autograd::GraphTask> const&)";
	struct report_frame frames[] = {
		R(RUNTIME, "/n/libcuda.so.1", NULL), R(RUNTIME, "/n/libcudart.so.12", "cudaMalloc"),
		R(FRAMEWORK, "/t/libc10_cuda.so", "malloc"),
		R(FRAMEWORK, "/t/libtorch_cuda.so", "at::native::gpu_kernel_with_a_long_name"
		  "<at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, float)"),
		R(FRAMEWORK, "/t/libtorch_cpu.so", "apply"),
		R(FRAMEWORK, "/t/libtorch_cpu.so", engine_rule),
		R(RUNTIME, "/l/libstdc++.so.6", NULL), R(RUNTIME, "/l/libc.so.6", "start_thread"),
		P(FRAMEWORK, "/v/site-packages/torch/_tensor.py", "backward"),
		P(APPLICATION, "/home/me/train.py", "step"),
	};
	struct report_stack stack = { .frames = frames, .count = 8 };
	struct rules *rules = parse("");
	struct report_frame engine = frames[5];
	char *text = NULL, place[FORMAT_PLACE_MAX];
	size_t size;
	FILE *out;

	(void)state;
	apply(rules, &engine, 1);
	frames[5].thread = engine.thread;
	frames[8].waiting = frames[9].waiting = true;
	folded(frames, 8, 0,
	       "    #0 ??? (/n/libcuda.so.1+0x0)\n"
	       "    #1 cudaMalloc (/n/libcudart.so.12+0x0)\n"
	       "    #2 malloc (/t/libc10_cuda.so+0x0)\n"
	       "    #3-#6 4 frames of libtorch_cuda.so, libtorch_cpu.so, libstdc++.so.6, in "
	       "PyTorch's autograd engine\n");
	folded(frames, 10, 0,
	       "    #0 ??? (/n/libcuda.so.1+0x0)\n"
	       "    #1 cudaMalloc (/n/libcudart.so.12+0x0)\n"
	       "    #2 malloc (/t/libc10_cuda.so+0x0)\n"
	       "    #3-#7 5 frames of libtorch_cuda.so, libtorch_cpu.so, libstdc++.so.6, "
	       "libc.so.6, in PyTorch's autograd engine\n"
	       "    the thread that started this work and waits for it:\n"
	       "    #8 backward /v/site-packages/torch/_tensor.py:7\n"
	       "    #9 step /home/me/train.py:7\n");
	folded(frames + 3, 1, 0, "    #0 at::native::gpu_kernel_with_a_long_name "
				 "(/t/libtorch_cuda.so+0x0)\n");
	folded(frames + 3, 1, 1, "    #0 at::native::gpu_kernel_with_a_long_name"
				 "<at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
				 "(int, float) (/t/libtorch_cuda.so+0x0)\n");
	out = open_memstream(&text, &size);
	describe_place_and_caller(out, &stack, false);
	stack.count = 10;
	fputc('\n', out);
	describe_place_and_caller(out, &stack, false);
	fclose(out);
	assert_string_equal(text, "PyTorch's autograd engine, malloc (/t/libc10_cuda.so)\n"
				  "the backward pass of step (/home/me/train.py:7)");
	assert_string_equal(format_place(&stack, place),
			    "the backward pass of step (/home/me/train.py:7)");
	stack.count = 8;
	assert_string_equal(format_place(&stack, place),
			    "PyTorch's autograd engine, malloc (/t/libc10_cuda.so), called "
			    "from at::native::gpu_kernel_with_a_long_name");
	free(text);
	rules_destroy(rules);
}

/* Frames that run functions of a managed language, and modules whose functions have no names. */
static void test_managed(void **state)
{
	struct rules *rules = parse("managed none module:mine\n"
				    "managed \"use it\" function:run_*\n");
	struct report_frame frames[] = {
		F("/bin/x", "run_loop"), F("/usr/bin/node", "Builtins_InterpreterEntryTrampoline"),
		F("/usr/bin/mono-sgen", NULL), F("/opt/app", "Interpreter"),
		F("/usr/lib/libjvm.so", "JavaMain"), F(NULL, NULL),
	};

	(void)state;
	apply(rules, frames, sizeof(frames) / sizeof(frames[0]));
	assert_string_equal(frames[0].interprets, "use it");
	assert_non_null(strstr(frames[1].interprets, "--interpreted-frames-native-stack"));
	assert_non_null(frames[2].interprets);
	for (int i = 3; i < 6; i++)
		assert_null(frames[i].interprets);
	assert_string_equal(rules_managed(rules, "/opt/dotnet/libcoreclr.so"),
			    "use DOTNET_PerfMapEnabled=1");
	assert_non_null(rules_managed(rules, "/usr/lib/jvm/libjvm.so"));
	assert_null(rules_managed(rules, "/usr/bin/mine"));
	assert_null(rules_managed(rules, "/usr/lib/libc.so.6"));
	rules_destroy(rules);
}

static void test_headline(void **state)
{
	static const struct report_frame frames[] = {
		R(RUNTIME, "/n/libcuda.so.1", NULL), R(INTERPRETER, "/p/python3", "call"),
		R(FRAMEWORK, "/t/libc10_cuda.so", "malloc"), P(APPLICATION, "/a.py", "step"),
		R(INTERPRETER, "/p/python3", "call"), P(APPLICATION, "/a.py", "main"),
	};
	struct report_stack stack = { .frames = frames, .count = 6 };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	describe_place_and_caller(out, &stack, false);
	fclose(out);
	assert_string_equal(text, "step (/a.py:7), called from main (/a.py:7)");
	free(text);
	assert_ptr_equal(report_stack_culprit(&stack), &frames[3]);
	stack.count = 3; /* no application: the framework */
	assert_ptr_equal(report_stack_culprit(&stack), &frames[2]);
	stack.count = 2; /* nor that */
	assert_ptr_equal(report_stack_culprit(&stack), &frames[0]);
	stack.count = 0;
	assert_null(report_stack_culprit(&stack));
}

/* A pattern and a name that would take a matcher that goes back for ever. */
static void test_cost(void **state)
{
	char text[4096] = "runtime function:", name[65536];
	struct report_frame frame = { .function = name };
	struct timespec start, stop;
	struct rules *rules;

	(void)state;
	for (size_t i = strlen(text); i < 4000; i += 2)
		memcpy(text + i, "*a", 3);
	strcat(text, "b\n");
	rules = parse(text);
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_int_equal(role_of(rules, frame), FRAME_APPLICATION);
	clock_gettime(CLOCK_MONOTONIC, &stop);
	assert_true(stop.tv_sec - start.tv_sec < 5);
	rules_destroy(rules);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),	    cmocka_unit_test(test_files),
		cmocka_unit_test(test_shipped),
		cmocka_unit_test(test_roles),	    cmocka_unit_test(test_launch_roles),
		cmocka_unit_test(test_user_roles),
		cmocka_unit_test(test_caches),	    cmocka_unit_test(test_user_caches),
		cmocka_unit_test(test_report),	    cmocka_unit_test(test_clean_report),
		cmocka_unit_test(test_pending),	    cmocka_unit_test(test_pending_report),
		cmocka_unit_test(test_folding),	    cmocka_unit_test(test_managed),
		cmocka_unit_test(test_headline),
		cmocka_unit_test(test_threads),	    cmocka_unit_test(test_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
