/* SPDX-License-Identifier: MIT
 *
 * Short forms of C++ names, and of lines. The mangled names are from the symbol tables of torch
 * 2.7.1, where no comment says otherwise.
 * Links: test_short_name.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "report/util/short_line.h"
#include "report/util/short_name.h"

struct pair {
	const char *name, *expected; /* NULL: the name stays whole */
};

static void expect(const char *name, const char *expected)
{
	char ret[SHORT_NAME_MAX];

	assert_string_equal(short_name(name, ret), expected ? expected : name);
}

static void test_pytorch(void **state)
{
	static const struct pair rows[] = {
		{ "_ZN2at4_ops2mm4callERKNS_6TensorES4_", NULL },
		{ "_ZN2at12_GLOBAL__N_132structured_mm_out_cpu_functional22set_output_raw_strid"
		  "edElN3c108ArrayRefIlEES4_NS2_13TensorOptionsENS3_INS_7DimnameEEE",
		  "at::(anonymous namespace)::structured_mm_out_cpu_functional::"
		  "set_output_raw_strided" },
		{ "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskE"
		  "EPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE",
		  "torch::autograd::Engine::evaluate_function" },
		{ "_ZN5torch8autograd9generated14AddmmBackward05applyEOSt6vectorIN2at6TensorESa"
		  "IS5_EE",
		  "torch::autograd::generated::AddmmBackward0::apply" },
		{ "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6T"
		  "ensorESaIS9_EEbbbS7_", "torch::autograd::Engine::execute" },
		{ "_ZN3c104impl28wrap_kernel_functor_unboxed_INS0_6detail24WrapFunctionIntoFunc"
		  "tor_INS_26CompileTimeFunctionPointerIFN2at6TensorENS_14DispatchKeySetERKS6_S"
		  "9_EXadL_ZN5torch8autograd12VariableType12_GLOBAL__N_12mmES7_S9_S9_EEEES6_NS_"
		  "4guts8typelist8typelistIJS7_S9_S9_EEEEESA_E4callEPNS_14OperatorKernelES7_S9_"
		  "S9_",
		  "c10::impl::wrap_kernel_functor_unboxed_::call" },
		{ "_ZZZN2at6native12_GLOBAL__N_127flash_attention_kernel_implERKNS_6TensorES4_S"
		  "4_S4_S4_dbSt8optionalIS2_ES5_IdEENKUlvE_clEvENKUlvE0_clEv",
		  "at::native::(anonymous namespace)::flash_attention_kernel_impl" },
		{ "_ZN3c1010Dispatcher12registerImplENS_12OperatorNameESt8optionalINS_11Dispatc"
		  "hKeyEENS_14KernelFunctionES2_INS_4impl12CppSignatureEESt10unique_ptrINS_14Fu"
		  "nctionSchemaESt14default_deleteISA_EENSt7__cxx1112basic_stringIcSt11char_tra"
		  "itsIcESaIcEEE",
		  "c10::Dispatcher::registerImpl" },
		{ "_ZNSt17_Function_handlerIFvvEN5torch3jit12_GLOBAL__N_124ForkedSubgraphSRLaun"
		  "cherEE9_M_invokeERKSt9_Any_data", "std::_Function_handler::_M_invoke" },
		/* with a return type */
		{ "_ZN2at6native12_GLOBAL__N_116qcat_nhwc_kernelILb0EEENS_6TensorERKSt6vectorIS"
		  "t17reference_wrapperIKS3_ESaIS7_EEldl",
		  "at::native::(anonymous namespace)::qcat_nhwc_kernel" },
		{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt"
		  "5arrayIPcLm3EEEEviT0_T1_", "at::native::vectorized_elementwise_kernel" },
		/* docs/developers/pytorch.md */
		{ "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
		  "c10::reportMemoryUsageToProfiler" },
	};
	void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
	char *(*demangle)(const char *, char *, size_t *, int *) = NULL;

	(void)state;
	if (!library)
		skip();
	*(void **)&demangle = dlsym(library, "__cxa_demangle");
	assert_non_null(demangle);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status = -1;
		char *name = demangle(rows[i].name, NULL, NULL, &status);

		assert_int_equal(status, 0);
		expect(name, rows[i].expected);
		free(name);
	}
	dlclose(library);
}

#define LONG "an_application_with_very_long_names::some_module::another_module::"

static void test_scopes(void **state)
{
	static const struct pair rows[] = {
		{ "make_buffer(std::vector<float, std::allocator<float> > const&)",
		  "make_buffer" },
		{ "a_function_of_c_that_has_a_name_of_far_more_than_sixty_characters", NULL },
		{ "at::native::(anonymous namespace)::one_of_many_kernels_of_this_library_of::mm",
		  "at::native::...::one_of_many_kernels_of_this_library_of::mm" },
		{ "at::native::one::two::three::four::five::six::seven::eight::nine::ten::eleven",
		  "at::native::...::five::six::seven::eight::nine::ten::eleven" },
		{ LONG "Matrix::operator()(int, int) const",
		  "an_application_with_very_long_names::some_module::...::Matrix::operator()" },
		{ LONG "operator<< <int>(std::ostream&, int)",
		  "an_application_with_very_long_names::some_module::another_module::"
		  "operator<<" },
		{ LONG "operator-<int>(int)",
		  "an_application_with_very_long_names::some_module::another_module::operator-" },
		{ LONG "operator->() const",
		  "an_application_with_very_long_names::some_module::another_module::operator->" },
		{ LONG "operator unsigned long() const",
		  "an_application_with_very_long_names::some_module::another_module::"
		  "operator unsigned long" },
		{ "void* " LONG "operator new[](unsigned long)",
		  "an_application_with_very_long_names::some_module::another_module::"
		  "operator new" },
		{ "Trainer::step(std::vector<std::pair<int, long>, std::allocator<int> >) "
		  "[clone .cold]",
		  "Trainer::step" },
		/* '<' as an operator cannot be distinguished from a bracket */
		{ "std::enable_if<(sizeof (int))<(8), float>::type mesh::Mesh::refine_it<int>()",
		  NULL },
		{ "void (*a_function_that_returns_a_pointer_to_another_function(int))(char, char)",
		  NULL },
		{ "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop::a_long_name_of::it",
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect(rows[i].name, rows[i].expected);
}

/* Brackets that do not match, and names of 64 KiB. */
static void test_hostile(void **state)
{
	static const char characters[] = "<>()[]{}:: operator~-&a";
	char *name = malloc(65536), ret[SHORT_NAME_MAX];
	unsigned int random = 1;
	struct timespec start, stop;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int round = 0; round < 200; round++) {
		size_t length = round < 190 ? 400 : 65535;

		for (size_t i = 0; i < length; i++) {
			random = random * 1103515245u + 12345u;
			name[i] = characters[(random >> 16) %
					     (round % (sizeof(characters) - 1) + 1)];
		}
		name[length] = '\0';
		assert_true(strlen(short_name(name, ret)) <= SHORT_NAME_MAX);
	}
	clock_gettime(CLOCK_MONOTONIC, &stop);
	assert_true(stop.tv_sec - start.tv_sec < 5);
	free(name);
}

static void expect_lines(size_t columns, const char *line, const char *expected,
			 const char *expected_rest)
{
	char *text = strdup(line), *rest;

	assert_non_null(text);
	rest = short_line(text, columns);
	assert_string_equal(text, expected);
	assert_string_equal(rest ? rest : "", expected_rest);
	assert_true(strlen(text) <= columns || strlen(line) <= columns);
	free(text);
}

static void expect_line(size_t columns, const char *line, const char *expected)
{
	expect_lines(columns, line, expected, "");
}

static void test_line(void **state)
{
	static const char line[] = "1 leak at f (/home/me/src/app/a.c:10), called from g "
				   "(/home/me/src/app/b.c:3)";

	(void)state;
	expect_line(sizeof(line) - 1, line, line);
	/* as few folders as needed, the first path first; what follows loses the same folder */
	expect_line(72, line,
		    "1 leak at f (.../src/app/a.c:10), called from g (.../src/app/b.c:3)");
	expect_line(60, "f (/home/me/src/a.c:1), g (/home/you/b.c:2), h (/home/me/src/c.c:3)",
		    "f (.../a.c:1), g (/home/you/b.c:2), h (.../c.c:3)");
	expect_line(57, line, "1 leak at f (.../a.c:10), called from g (.../b.c:3)");
	/* then the last parts of the sentence follow in another line */
	expect_lines(30, line, "1 leak at f (.../a.c:10),", "called from g (.../b.c:3)");
	expect_lines(40, line, "1 leak at f (.../a.c:10),", "called from g (.../b.c:3)");
	expect_lines(20, line, "1 leak at f", "(.../a.c:10), called from g (.../b.c:3)");
	/* a comma in parentheses ends no part of the sentence */
	expect_lines(34, "1 leak at f<T>, called from g(int, long) in h",
		     "1 leak at f<T>,", "called from g(int, long) in h");
	/* not a path: no slash, or a space in what is not absolute */
	expect_lines(30, "f(int, a/b) (pid 12) of n (x y/z/w), and more",
		     "f(int, a/b) (pid 12)", "of n (x y/z/w), and more");
	expect_line(30, "of g (docs/examples/kept.py:16) now", "of g (.../kept.py:16) now");
	/* never in the middle of a character */
	expect_line(8, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", "\xc3\xa4\xc3\xa4...");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pytorch),
		cmocka_unit_test(test_scopes),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
