/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: the Python interpreter and the frameworks that it finds. The interpreter runs
 * in a child process and reads what is installed. No framework is imported.
 */
#include "tools/doctor/doctor_checks.h"
#include "tools/doctor/elf_facts.h"
#include "tools/doctor/probe.h"
#include "tools/launch/program.h"
#include "tools/launch/system.h"

#define PYTHON_SECONDS 30
#define SCRIPT_BYTES (64u << 10)

static const char script[] =
	"import sys\n"
	"print('version', sys.implementation.name, *sys.version_info[:3], sys.executable)\n"
	"try:\n"
	"    from importlib import metadata, util\n"
	"    print('module', 'yes' if util.find_spec('gpuleak') else 'no')\n"
	"    for one in metadata.distributions():\n"
	"        name = (one.metadata['Name'] or '').lower()\n"
	"        if name in ('torch', 'jaxlib', 'tensorflow', 'pyopencl', 'pycuda', 'numba',\n"
	"                    'cudf') or name == 'cupy' or name.startswith(('cupy-', 'cudf-')):\n"
	"            print('package', name, one.version, one.locate_file(''))\n"
	"except ImportError:\n"
	"    pass\n";

/* The versions of CPython whose frames the library reads. */
static const int minors[] = {
#define PYTHON(minor, ...) minor,
#include "interpose/stack/python_offsets.def"
#undef PYTHON
};
#define MINORS (sizeof(minors) / sizeof(minors[0]))

/* The names of PyTorch's report functions that the library intercepts. */
static const char *const report_functions[] = {
#define API_BEGIN(name)
#define API_END(name)
#define HOOK(symbol, ...) #symbol,
#define HAND(symbol, ...)
#include "interpose/pytorch/pytorch_rows.def"
#undef API_BEGIN
#undef API_END
#undef HOOK
#undef HAND
	NULL
};

static void check_version(struct doctor *doctor, const char *file, const char *text)
{
	char name[32] = "";
	int major = 0, minor = 0, micro = 0, at = 0;
	bool known = false;

	if (sscanf(text, "version %31s %d %d %d %n", name, &major, &minor, &micro, &at) != 4) {
		doctor_warn(doctor, "%s does not print its version", file);
		doctor_advise(doctor, "run it, which should print the reason");
		return;
	}
	if (text[at]) /* FILE may be a script that starts the interpreter */
		file = text + at;
	for (size_t i = 0; i < MINORS; i++)
		known |= major == 3 && minors[i] == minor;
	if (known && strcmp(name, "cpython") == 0) {
		doctor_ok(doctor, "%s is CPython %d.%d.%d: stacks have its functions and lines",
			  file, major, minor, micro);
		return;
	}
	doctor_warn(doctor, "%s is %s %d.%d.%d: stacks %s have its functions and lines", file, name,
		   major, minor, micro,
		   strcmp(name, "cpython") == 0 && major == 3 && minor > minors[MINORS - 1]
			   ? "may not" : "do not");
	doctor_advise(doctor, "use CPython 3.%d to 3.%d", minors[0], minors[MINORS - 1]);
}

/* Adds a finding about PyTorch below FOLDER: does it report its tensors as gpuleak expects? */
static void check_torch(struct doctor *doctor, const char *version, const char *folder)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/torch/lib/libc10.so", folder), count;

	if (n >= (int)sizeof(path))
		return;
	count = elf_count_exports(path, report_functions);
	if (count > 0) {
		doctor_ok(doctor, "torch %s in %s: its tensors are recorded inside its cache",
			  version, folder);
		return;
	}
	doctor_warn(doctor, count == 0
			   ? "torch %s in %s: its function that reports tensors has a signature "
			     "that gpuleak does not know, so tensors inside its cache are not seen"
			   : "torch %s in %s has no torch/lib/libc10.so that can be read: it is "
			     "not known if its tensors can be recorded",
		   version, folder);
	doctor_advise(doctor, "use gpuleak run --bypass-pools, which makes each tensor a block of "
		      "its own");
}

/* Returns true if TEXT has the word WORD followed by NAME, as in "import torch". */
static bool has_words(const char *text, const char *word, const char *name)
{
	char both[64];

	snprintf(both, sizeof(both), "%s %s", word, name);
	return strstr(text, both) != NULL;
}

/* Returns true if the program of TARGET, or the text of an argument (-c), imports MODULE. */
static bool imports(const struct doctor_target *target, const char *module)
{
	FREE_AT_END char *text = malloc(SCRIPT_BYTES);

	for (char **word = target->argv; word && *word; word++) {
		file_head(*word, text, SCRIPT_BYTES);
		if (has_words(*word, "import", module) || has_words(text, "import", module) ||
		    has_words(text, "from", module))
			return true;
	}
	return false;
}

/* Adds a finding if PACKAGE does nothing on a GPU here. Returns true if it added one. */
static bool check_needs_gpu(struct doctor *doctor, const struct doctor_target *target,
			    const char *package, const char *version)
{
	static const struct { const char *package, *module, *name; } rows[] = {
		{ "torch", "torch", "PyTorch" }, { "jaxlib", "jax", "JAX" },
		{ "tensorflow", "tensorflow", "TensorFlow" }, { "cupy", "cupy", "CuPy" },
		{ "cudf", "cudf", "cuDF" },
	};

	for (size_t i = 0; !target->has_cuda && i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strncmp(package, rows[i].package, strlen(rows[i].package)) != 0)
			continue;
		doctor_add(doctor, imports(target, rows[i].module) ? DOCTOR_PROBLEM
								   : DOCTOR_WARNING,
			   "%s %s: %s needs a GPU: --fake-gpu can't help", package, version,
			   rows[i].name);
		doctor_advise(doctor, "run it on a machine with a GPU; what it does on the CPU is "
			      "not GPU memory");
		return true;
	}
	return false;
}

/* Adds a finding for a line "package NAME VERSION FOLDER" of the script. */
static void check_package(struct doctor *doctor, struct doctor_target *target, char *line)
{
	char *rest, *name, *version;

	strtok_r(line, " ", &rest);
	name = strtok_r(NULL, " ", &rest);
	version = strtok_r(NULL, " ", &rest);
	if (!name || !version || check_needs_gpu(doctor, target, name, version))
		return;
	if (strcmp(name, "pyopencl") == 0)
		target->has_pyopencl = true;
	if (strcmp(name, "torch") == 0) {
		check_torch(doctor, version, rest);
	} else if (strcmp(name, "pyopencl") == 0 || strcmp(name, "pycuda") == 0) {
		doctor_ok(doctor, "%s %s in %s: each of its buffers is seen", name, version, rest);
	} else {
		doctor_note(doctor, "%s %s in %s: the blocks of its cache are seen, not the arrays "
			    "inside", name, version, rest);
		doctor_advise(doctor, "--bypass-pools makes each array a block of its own "
			      "(`gpuleak help kept-tensors`)");
	}
}

static void read_lines(struct doctor *doctor, struct doctor_target *target, const char *file,
		       char *text)
{
	char *rest, *line = strtok_r(text, "\n", &rest);

	check_version(doctor, file, line ? line : "");
	while (line && (line = strtok_r(NULL, "\n", &rest)) != NULL) {
		if (strncmp(line, "package ", 8) == 0)
			check_package(doctor, target, line);
		if (strcmp(line, "module no") == 0)
			doctor_note(doctor, "%s does not find the module gpuleak: scripts cannot "
				    "import it, reports are the same without it", file);
	}
}

void doctor_check_python(struct doctor *doctor, struct doctor_target *target)
{
	char *argv[] = { NULL, (char *)"-c", (char *)script, NULL };
	struct program program;
	AT_END(probe_finish) struct probe probe = { 0 };
	int r;

	doctor->area = "Python";
	if (doctor->program && !target->python[0])
		return;
	if (program_find(target->python[0] ? target->python : "python3", &program) < 0)
		return;
	argv[0] = program.path;
	r = probe_command(argv, NULL, PYTHON_SECONDS, &probe);
	if (r < 0)
		doctor_warn(doctor, "%s did not run: %s", program.path, strerror(-r));
	else
		read_lines(doctor, target, program.path, probe.text);
}
