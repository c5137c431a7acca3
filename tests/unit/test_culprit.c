/* SPDX-License-Identifier: MIT
 *
 * Which frame a line names: stacks of many languages with the shipped rules, wrappers that most
 * leaks pass through, and how the place is written. Fingerprints must not depend on any of it.
 * Links: test_culprit.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/model/model.h"
#include "report/subjects/subject_words.h"
#include "report/symbols/fingerprint.h"
#include "report/symbols/rules.h"
#include "report/util/report_arena.h"

#define FRAMES_MAX 8
#define SITE "/venv/lib/python3.12/site-packages/"

/* N: function without a line; L: with one; P: of Python; U: no symbols; J: compiled at run time */
#define N(module_, function_) { .module = module_, .function = function_ }
#define L(module_, function_, file_) \
	{ .module = module_, .function = function_, .file = file_, .line = 7 }
#define P(file_, function_) \
	{ .function = function_, .file = file_, .line = 7, .language = FRAME_PYTHON }
#define U(module_) { .module = module_, .offset = 0x1234 }
#define J(function_) { .function = function_, .is_jit = true }
#define CUDA N("/usr/lib/libcuda.so.1", "cuMemAlloc_v2")

struct row {
	const char *what;
	size_t expected;
	struct report_frame frames[FRAMES_MAX];
};

static const struct row rows[] = {
	{ "C", 1, { CUDA, L("/a/app", "make", "/a/app.c"), L("/a/app", "main", "/a/app.c"),
		    N("/lib/libc.so.6", "__libc_start_main") } },
	{ "C without debug information", 1,
	  { CUDA, N("/a/app", "make"), N("/a/app", "main"),
	    L("/lib/libc.so.6", "__libc_start_call_main", "../sysdeps/libc-start.c") } },
	{ "C without symbols", 1, { CUDA, U("/a/app"), N("/lib/libc.so.6", "start") } },
	{ "without symbols, called by a library that has names", 1,
	  { CUDA, U("/a/app"), N("/usr/lib/libglib-2.0.so.0", "g_main_loop_run"), U("/a/app") } },
	{ "a library without debug information", 2,
	  { CUDA, N("/a/libmine.so", "helper"), L("/a/app", "main", "/a/app.c") } },
	{ "a library of the system with debug information", 1,
	  { CUDA, N("/a/app", "callback"), L("/usr/lib/libglib-2.0.so.0", "g_main_loop_run",
					     "/usr/src/glib/gmain.c") } },
	{ "C++, a header of the system", 2,
	  { CUDA, L("/a/app", "Eigen::aligned_new(int)", "/usr/include/eigen3/Memory.h"),
	    L("/a/app", "solve()", "/a/app.cc") } },
	{ "a binding in a package, called by a script", 4,
	  { CUDA, U(SITE "cv2/cv2.so"), P(SITE "cv2/__init__.py", "blur"),
	    N("/usr/bin/python3", "_PyEval_EvalFrameDefault"), P("/a/train.py", "step") } },
	{ "OpenCV of the system", 3,
	  { N("/usr/lib/libOpenCL.so.1", "clCreateBuffer"),
	    U("/usr/lib/x86_64-linux-gnu/libopencv_core.so.406"),
	    N("/usr/lib/x86_64-linux-gnu/libopencv_core.so.406", "cv::UMat::create(int)"),
	    P("/a/ocv2.py", "track") } },
	{ "a Cython module in the source tree, called by a test", 2,
	  { CUDA, U("/a/rmm/device_buffer.cpython-312.so"), P("/a/tests/test_buffer.py", "test"),
	    P(SITE "_pytest/python.py", "pytest_pyfunc_call") } },
	{ "Cython with the C file's lines", 3,
	  { CUDA, L("/a/m.so", "__Pyx_Call", "/a/m.c"), L("/a/m.so", "__pyx_pw_1m_1f", "/a/m.c"),
	    P("/a/train.py", "step") } },
	{ "Cython with its own lines", 1,
	  { CUDA, L("/a/m.so", "__pyx_pf_1m_f", "/a/m.pyx"), P("/a/train.py", "step") } },
	{ "a crate of a program without debug information", 2,
	  { CUDA, N("/a/app", "cudarc::driver::result::malloc_async"), N("/a/app", "app::embed"),
	    N("/a/app", "app::main") } },
	{ "a function of Mono that only calls the driver", 2,
	  { CUDA, J("DriverAPI:cuMemAlloc"), J("Program:Upload ()"),
	    N("/usr/bin/mono-sgen", "mono_jit_exec") } },
	{ "a binding of Java", 2,
	  { CUDA, { .function = "jcuda.driver.JCudaDriver.cuMemFree", .file = "JCudaDriver.java",
		    .line = 3, .language = FRAME_JAVA },
	    { .function = "GPUAI.layer", .file = "GPUAI.java", .line = 9,
	      .language = FRAME_JAVA } } },
	{ "an interpreter of which no function is known", 2,
	  { CUDA, U("/usr/lib/ruby/3.1.0/fiddle.so"), U("/a/gpu/matrix.so"),
	    N("/lib/libruby-3.1.so.3.1", "rb_nogvl") } },
	{ "only packages: an installed command", 2,
	  { CUDA, N(SITE "tool/_c.so", "alloc"), P(SITE "tool/load.py", "load"),
	    P(SITE "tool/cli.py", "main"), P("/venv/bin/tool", "<module>") } },
	{ "code that a package generated", 3,
	  { CUDA, P("<string>", "compiled"), P(SITE "mine/layer.py", "f"), P("/a/train.py", "step"),
	    P("<frozen runpy>", "_run") } },
	{ "only generated code: python -c", 1,
	  { CUDA, P("<string>", "load"), P("<string>", "<module>") } },
	{ "code that was typed", 1, { CUDA, P("<stdin>", "load"), P("/a/train.py", "step") } },
	{ "a package that is called by a framework", 2,
	  { CUDA, N(SITE "torch/lib/libc10.so", "c10::alloc()"), P(SITE "mine/layer.py", "forward"),
	    P(SITE "torch/nn/modules/module.py", "_call_impl") } },
	{ "only a framework", 1,
	  { CUDA, P(SITE "torch/cuda/graphs.py", "capture"), N("/venv/libtorch.so", "at::f()") } },
	{ "a thread of a library", 1,
	  { CUDA, N("/opt/libnccl.so.2", "proxy"), U("/opt/libnccl.so.2") } },
	{ "SYCL", 4,
	  { CUDA, N("/x/libur_adapter_cuda.so.0", "urUSMDeviceAlloc"),
	    N("/x/libsycl.so.8", "sycl::_V1::malloc_device(unsigned long)"),
	    L("/a/app", "sycl::_V1::queue::f()", "/x/include/sycl/queue.hpp"),
	    L("/a/app", "main", "/a/app.cpp") } },
	{ "Rust, a crate", 2,
	  { CUDA, L("/a/app", "cudarc::driver::alloc", "/h/.cargo/registry/src/x/cudarc/mod.rs"),
	    L("/a/app", "app::train", "/a/src/main.rs"),
	    L("/a/app", "core::ops::FnOnce::call_once", "/rustc/9f/library/function.rs") } },
	{ "Rust, vendored", 2,
	  { CUDA, L("/a/app", "cust::alloc", "/a/vendor/cust/src/memory.rs"),
	    L("/a/app", "app::train", "/a/src/main.rs") } },
	{ "Go", 4,
	  { CUDA, L("/a/app", "_cgo_3f_Cfunc_cuMemAlloc", "/tmp/go-build/cgo-gcc-prolog"),
	    L("/a/app", "runtime.asmcgocall.abi0", "/usr/local/go/src/runtime/asm_amd64.s"),
	    L("/a/app", "main._Cfunc_cuMemAlloc", "_cgo_gotypes.go"),
	    L("/a/app", "main.load", "/a/main.go"),
	    L("/a/app", "runtime.main", "/usr/local/go/src/runtime/proc.go") } },
	{ "Go, a module", 2,
	  { CUDA, L("/a/app", "cu.MemAlloc", "/h/go/pkg/mod/gorgonia.org/cu@v0.9.4/memory.go"),
	    L("/a/app", "main.load", "/a/main.go") } },
	{ "Java", 2, { CUDA, L("/a/libjni.so", "Java_Cu_alloc", "/a/jni.c"), J("Main.weights"),
		       J("java.lang.Thread.run") } },
	{ "Java in the interpreter", 1,
	  { CUDA, L("/a/libjni.so", "Java_Cu_alloc", "/a/jni.c"), { .offset = 0x7f00 },
	    N("/usr/lib/jvm/libjvm.so", "JavaCalls::call") } },
	{ "Node", 3,
	  { CUDA, L("/a/node_modules/cu/addon.node", "Alloc", "/a/node_modules/cu/addon.cc"),
	    N("/h/.nvm/bin/node", "v8::internal::Builtin()"),
	    { .function = "onFrame", .file = "/a/a.js", .line = 4, .is_jit = true } } },
	{ "C#", 2,
	  { CUDA, J("void [mine] IL_STUB_PInvoke(long)"), J("long [mine] Program::Load()[Tier0]"),
	    J("void [System.Private.CoreLib] System.Threading.Thread::StartCallback()") } },
	{ "Ruby", 1, { CUDA, N("/var/lib/gems/3.1.0/gems/cumo/cumo.so", "cumo_alloc"),
		       U("/usr/lib/libruby-3.1.so.3.1"), N("/usr/bin/ruby", "main") } },
	{ "pybind11", 3,
	  { CUDA, N("/a/m.so", "pybind11::cpp_function::dispatcher(_object*)"),
	    L("/a/m.so", "f()", "/usr/include/pybind11/pybind11.h"), P("/a/train.py", "step") } },
	{ "only drivers", 0, { CUDA, N("/lib/libc.so.6", "start_thread") } },
};

static struct report_stack read_row(const struct rules *rules, const struct row *row,
				    struct report_frame frames[FRAMES_MAX])
{
	struct report_arena arena = { 0 };
	struct table known = { 0 };
	struct report_stack ret = { .frames = frames };

	memcpy(frames, row->frames, sizeof(row->frames));
	while (ret.count < FRAMES_MAX &&
	       (frames[ret.count].function || frames[ret.count].module || frames[ret.count].offset))
		ret.count++;
	rules_apply(rules, &known, &arena, frames, ret.count);
	arena_finish(&arena);
	return ret;
}

static void test_rows(void **state)
{
	struct rules *rules = rules_shipped();

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct report_frame frames[FRAMES_MAX];
		struct report_stack stack = read_row(rules, &rows[i], frames);
		size_t named = (size_t)(report_stack_culprit(&stack) - frames);

		if (named != rows[i].expected)
			fail_msg("%s: frame %zu, and not %zu", rows[i].what, named,
				 rows[i].expected);
	}
	rules_destroy(rules);
}

/* How the place and its caller are written. PARTIAL, SCRIPT: of the stack. */
static const struct {
	const char *partial, *script;
	struct row row;
} places[] = {
	{ NULL, NULL, { "code that luajit runs", 0,
	  { CUDA, N("/lib/libffi.so.8", "ffi_call"), U("/usr/bin/luajit"),
	    N("/usr/bin/luajit", "lua_pcall") } } },
	{ NULL, "t.lua", { "t.lua (line not known)", 0, { CUDA, U("/usr/bin/luajit") } } },
	{ "use --map", "t.exe", { "t.exe (line not known: use --map)", 0,
	  { CUDA, U(NULL), N("/usr/bin/mono-sgen", "mono_main") } } },
	{ "use --map", NULL, { "code that was compiled at run time (line not known: use --map)", 0,
	  { CUDA, U(NULL) } } },
	{ NULL, "t.lua", { "code that was compiled at run time", 0, { CUDA, U(NULL) } } },
	{ "use --map", "t.js", {
	  "Alloc (/a/a.cc:7), called from t.js (line not known: use --map)", 0,
	  { CUDA, L("/a/addon.node", "Alloc", "/a/a.cc"), U(NULL) } } },
	{ NULL, NULL, { "alloc() (/x/g.cpp:7) in libxgboost.so, for fit (/a/t.py:7), called from "
			"main (/a/t.py:7)", 0,
	  { CUDA, L("/a/libxgboost.so", "alloc()", "/x/g.cpp"),
	    L("/a/libxgboost.so", "predict()", "/x/g.cpp"), P(SITE "xgboost/core.py", "predict"),
	    P("/a/t.py", "fit"), P("/a/t.py", "main") } } },
	/* without line tables */
	{ NULL, NULL, { "make (/a/app: compile with -g for its line), called from load (/a/app)", 0,
	  { CUDA, N("/a/app", "make"), N("/a/app", "load") } } },
	{ NULL, NULL, { "??? (/a/app+0x1234)", 0, { CUDA, U("/a/app") } } },
	/* all of the application is in the library */
	{ NULL, NULL, { "alloc() (/x/g.cpp:7), called from predict() (/x/g.cpp:7)", 0,
	  { CUDA, L("/a/libxgboost.so", "alloc()", "/x/g.cpp"),
	    L("/a/libxgboost.so", "predict()", "/x/g.cpp"), N("/a/app", "main") } } },
	{ NULL, NULL, { "load (/a/t.py:7) through cv2", 0,
	  { CUDA, U(SITE "cv2/cv2.abi3.so"), P(SITE "cv2/__init__.py", "f"),
	    P("/a/t.py", "load") } } },
	{ NULL, NULL, { "load (/a/t.py:7)", 0,
	  { CUDA, U(SITE "pyopencl/_cl.so"), P("/a/t.py", "load") } } },
	{ NULL, NULL, { "convert (/a/a.c:7) through libnppif.so.13", 0,
	  { CUDA, U("/opt/libnppif.so.13"), L("/a/app", "convert", "/a/a.c") } } },
	/* the application's own glue */
	{ NULL, NULL, { "Main.run (Main.java:7)", 0,
	  { CUDA, L("/a/libjni.so", "Java_Main_alloc", "/a/jni.c"),
	    { .function = "Main.run", .file = "Main.java", .line = 7,
	      .language = FRAME_JAVA } } } },
};

static void test_places(void **state)
{
	struct rules *rules = rules_shipped();

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct report_frame frames[FRAMES_MAX];
		struct report_stack stack = read_row(rules, &places[i].row, frames);
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		stack.partial = places[i].partial;
		stack.script = places[i].script;
		describe_place_and_caller(out, &stack, false);
		fclose(out);
		assert_string_equal(text, places[i].row.what);
		free(text);
	}
	rules_destroy(rules);
}

/* A refused free has its caller. */
static void test_refused_free(void **state)
{
	const struct row row = { "", 0, { CUDA, L("/a/app", "release", "/a/a.c"),
					  L("/a/app", "sweep", "/a/b.c") } };
	struct rules *rules = rules_shipped();
	struct report_frame frames[FRAMES_MAX];
	const struct report_stack stack = read_row(rules, &row, frames);
	const struct report_refused_free refused = { .api = "cuMemFree_v2", .result = 900,
						     .stack = &stack };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	describe_refused_free(out, "; a", &refused, "", false);
	fclose(out);
	assert_string_equal(text, "; a refused free at release (/a/a.c:7), called from sweep "
				  "(/a/b.c:7): CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
	free(text);
	rules_destroy(rules);
}

/* A user's rule makes an installed library the application's own code. */
static void test_user_rule(void **state)
{
	static const char text[] = "application path:*-packages/cv2/*\n";
	struct report_frame frames[FRAMES_MAX];
	struct rules *rules = NULL;
	struct report_stack stack;
	char error[256];

	(void)state;
	assert_int_equal(rules_parse(text, strlen(text), "my", &rules, error, sizeof(error)), 0);
	stack = read_row(rules, &rows[7], frames);
	assert_ptr_equal(report_stack_culprit(&stack), &frames[2]);
	rules_destroy(rules);
}

/* ---- wrappers ---- */

#define LEAKS_MAX 20
static char *const callers[] = { "load", "decode", "prefill", "quantize" };

struct leaks {
	struct report_frame frames[LEAKS_MAX][5];
	struct report_stack stacks[LEAKS_MAX];
	struct report_site sites[LEAKS_MAX];
	struct report_leak list[LEAKS_MAX];
	struct report_process process;
	uint64_t fingerprints[LEAKS_MAX];
};

/* Makes COUNT leaks of "device_malloc", which allocates in LINES lines and which OF_CALLERS
 * functions call by "pool". OTHERS of them are of another function. */
static struct leaks *make_leaks(size_t count, unsigned int lines, size_t of_callers, size_t others)
{
	struct leaks *leaks = calloc(1, sizeof(*leaks));

	for (size_t i = 0; i < count; i++) {
		struct report_frame *frames = leaks->frames[i];
		bool is_other = i < others;

		frames[0] = (struct report_frame)CUDA;
		frames[0].role = FRAME_RUNTIME;
		frames[1] = (struct report_frame)L("/a/app", is_other ? "own" : "device_malloc",
						   "/a/app.c");
		frames[1].line += (unsigned int)i % lines;
		frames[2] = (struct report_frame)L("/a/app", "pool", "/a/pool.c");
		frames[3] = (struct report_frame)L("/a/app", callers[i % of_callers], "/a/app.c");
		frames[3].line += (unsigned int)i;
		frames[4] = (struct report_frame)L("/a/app", "main", "/a/app.c");
		leaks->stacks[i] = (struct report_stack){ .frames = frames, .count = 5 };
		leaks->sites[i] = (struct report_site){ .api = "cuMemAlloc_v2", .kind = "device",
							.stack = &leaks->stacks[i] };
		leaks->list[i] = (struct report_leak){ .site = &leaks->sites[i] };
		leaks->fingerprints[i] = report_site_fingerprint2(&leaks->sites[i]);
	}
	leaks->process.leaks = leaks->list;
	leaks->process.leak_count = count;
	mark_wrappers(&leaks->process);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(report_site_fingerprint2(&leaks->sites[i]),
				 leaks->fingerprints[i]);
	return leaks;
}

static void expect_place(struct leaks *leaks, size_t leak, const char *expected)
{
	char *text = NULL, place[FORMAT_PLACE_MAX];
	size_t size;
	FILE *out = open_memstream(&text, &size);

	describe_place(out, &leaks->stacks[leak], false);
	fclose(out);
	assert_string_equal(text, expected);
	format_place(&leaks->stacks[leak], place);
	assert_memory_equal(place, expected, strlen(expected));
	free(text);
	free(leaks);
}

static void test_wrappers(void **state)
{
	(void)state;
	expect_place(make_leaks(8, 1, 4, 0), 1, "decode (/a/app.c:8) through pool");
	expect_place(make_leaks(8, 2, 3, 0), 2, "prefill (/a/app.c:9) through pool");
	/* of two of twenty leaks the other function is the place */
	expect_place(make_leaks(20, 1, 4, 2), 5, "decode (/a/app.c:12) through pool");
	expect_place(make_leaks(20, 1, 4, 2), 1, "own (/a/app.c:7)");
}

/* The function is the place itself: too few call sites, too few callers, or its own lines
 * distinguish the leaks. */
static void test_no_wrappers(void **state)
{
	(void)state;
	expect_place(make_leaks(4, 1, 4, 0), 1, "device_malloc (/a/app.c:7)");
	expect_place(make_leaks(8, 1, 2, 0), 1, "device_malloc (/a/app.c:7)");
	expect_place(make_leaks(8, 4, 4, 0), 1, "device_malloc (/a/app.c:8)");
	expect_place(make_leaks(20, 1, 4, 3), 5, "device_malloc (/a/app.c:7)");
}

/* ---- notebooks ---- */

static void test_cells(void **state)
{
	static const char *const cells[][2] = {
		{ "<ipython-input-3-0123abcd>", "f (In [3]:7)" },
		{ "<ipython-input-12345678901234567890123456789012345678>",
		  "f (In [123456789012345678901234567:7)" },
		{ "/tmp/ipykernel_4711/1234567.py", "f (ipykernel_4711/1234567.py:7)" },
		{ "/tmp/ipykernel_4711/a/b.py", "f (/tmp/ipykernel_4711/a/b.py:7)" },
		{ "/tmp/ipykernel_4711", "f (/tmp/ipykernel_4711:7)" },
		{ "/a/train.py", "f (/a/train.py:7)" }, { "", "f (:7)" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		struct report_frame frame = P(cells[i][0], "f");
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		describe_frame(out, &frame, false);
		fclose(out);
		assert_string_equal(text, cells[i][1]);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	    cmocka_unit_test(test_user_rule),
		cmocka_unit_test(test_places), cmocka_unit_test(test_refused_free),
		cmocka_unit_test(test_wrappers),    cmocka_unit_test(test_no_wrappers),
		cmocka_unit_test(test_cells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
