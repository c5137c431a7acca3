/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: does the preload reach a program? Follows scripts to their interpreters, reads
 * the program's file, and lets the dynamic loader list what it would load. The loader does not
 * start the program for that.
 */
#include <elf.h>

#include "report/util/path.h"
#include "tools/doctor/doctor_checks.h"
#include "tools/doctor/elf_facts.h"
#include "tools/doctor/probe.h"
#include "tools/launch/program.h"
#include "tools/launch/system.h"

#define LOADER_SECONDS 10
#define SCRIPTS_MAX 4
#define SCRIPT_BYTES (64u << 10)
/* what the loader prints */
#define NOT_PRELOADED "from LD_PRELOAD cannot be preloaded"
#define MISSING "error while loading shared libraries: "

static const struct starter {
	const char *name;
	bool loses;
	const char *why, *advice;
} starters[] = {
#define LOSES true
#define KEEPS false
#define STARTER(name, effect, why, advice) { name, effect, why, advice },
#include "tools/doctor/starters.def"
#undef STARTER
#undef LOSES
#undef KEEPS
};

/* Returns the row of the program at PATH, or NULL. */
static const struct starter *find_starter(const char *path)
{
	for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
		if (strcmp(starters[i].name, path_last(path)) == 0)
			return &starters[i];
	return NULL;
}

/* Replaces PATH, a script, by the file of its interpreter. env(1) as the interpreter is replaced by
 * the program that it starts. Returns 1, 0 if PATH is no script, or -errno. */
static int follow_script(char path[PATH_MAX])
{
	char head[512], *line, *word, *rest;
	struct program found;
	int r;

	if (file_head(path, head, sizeof(head)) < 3 || strncmp(head, "#!", 2) != 0)
		return 0;
	line = head + 2;
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line, " \t\r", &rest);
	if (word && strcmp(path_last(word), "env") == 0)
		do
			word = strtok_r(NULL, " \t\r", &rest);
		while (word && (word[0] == '-' || strchr(word, '=')));
	if (!word)
		return -ENOEXEC;
	r = program_find(word, &found);
	strcpy(path, r == 0 ? found.path : word);
	return r == 0 ? 1 : r;
}

/* Finds the file that the kernel starts for the program at PATH. */
static void find_file(struct doctor *doctor, const char *path, struct doctor_target *target)
{
	char before[PATH_MAX];
	int r;

	strcpy(target->file, path);
	for (int i = 0; i < SCRIPTS_MAX; i++) {
		/* pyenv's python3 is a shell script. */
		if (!target->python[0] && strncmp(path_last(target->file), "python", 6) == 0)
			strcpy(target->python, target->file);
		strcpy(before, target->file);
		r = follow_script(target->file);
		if (r == 0)
			break;
		if (r < 0) {
			doctor_problem(doctor, "%s is a script of %s, which cannot be started: %s",
				       before, target->file, strerror(-r));
			doctor_advise(doctor, "install that interpreter, or correct the first line "
				      "of the script");
			target->file[0] = '\0';
			return;
		}
		target->is_script = true;
		doctor_ok(doctor, "%s is a script of %s", before, target->file);
	}
}

/* Searches a shell script for commands that remove the preload. */
static void check_shell_script(struct doctor *doctor, const char *path)
{
	static const char *const words[] = { "unset LD_PRELOAD", "LD_PRELOAD=", "env -i " };
	FREE_AT_END char *text = malloc(SCRIPT_BYTES);
	char *line, *rest;
	int number = 1;

	if (file_head(path, text, SCRIPT_BYTES) < 3 || strncmp(text, "#!", 2) != 0)
		return;
	for (line = text; line; line = rest, number++) {
		rest = strchr(line, '\n');
		if (rest)
			*rest++ = '\0';
		line += strspn(line, " \t");
		for (size_t i = 0; *line != '#' && i < sizeof(words) / sizeof(words[0]); i++) {
			if (!strstr(line, words[i]))
				continue;
			doctor_warn(doctor, "%s:%d may remove LD_PRELOAD for programs that the "
				    "script starts: %s", path, number, words[i]);
			doctor_advise(doctor, "put gpuleak run -- in front of the program inside "
				      "the script");
			break;
		}
	}
}

static const char *machine_name(unsigned int machine)
{
	return machine == EM_X86_64    ? "x86-64"
	       : machine == EM_AARCH64 ? "aarch64"
	       : machine == EM_386     ? "32-bit x86"
	       : machine == EM_ARM     ? "32-bit arm"
	       : machine == EM_PPC64   ? "ppc64"
				       : "unknown";
}

/* Adds what the program's file has for the report: files and lines, unwind tables, CUDA code. */
static void add_facts(struct doctor *doctor, const struct doctor_target *target,
		      const struct elf_facts *facts)
{
	if (facts->has_memory_sanitizer) {
		doctor_problem(doctor, "%s has MemorySanitizer: it crashes with a preloaded "
			       "library", target->file);
		doctor_advise(doctor, "use another build of it for gpuleak");
	}
	if (facts->uses_dlmopen)
		doctor_note(doctor, "%s calls dlmopen(): gpuleak does not see libraries in a "
			    "namespace of their own, and the report names them", target->file);
	if (!facts->has_unwind_tables) {
		doctor_warn(doctor, "%s has no unwind tables (.eh_frame): stacks end at its frames",
			    target->file);
		doctor_advise(doctor, "build it with -fasynchronous-unwind-tables, and do not "
			      "strip that section");
	}
}

/* Returns the length of the word at TEXT. */
static int word_length(const char *text)
{
	return (int)strcspn(text, " \t\n");
}

/* Adds a finding if the library in this line of the loader's list does not work without a GPU. */
static void check_listed(struct doctor *doctor, const struct doctor_target *target,
			 const char *line)
{
	char path[PATH_MAX];
	const char *at = line + word_length(line);

	if (!target->fake || strncmp(at, " => /", 5) != 0)
		return;
	at += 4;
	snprintf(path, sizeof(path), "%.*s", word_length(at), at);
	if (!fake_gpu_defeats(target->fake, path))
		return;
	doctor_warn(doctor, "--fake-gpu: %s contains NVIDIA's runtime: its calls fail without a "
		    "GPU", path);
	doctor_advise(doctor, "test this program with a GPU (`gpuleak help without-a-gpu`)");
}

/* Adds a finding about the library NAME, of LENGTH bytes, which the loader does not find. */
static void add_missing(struct doctor *doctor, const struct doctor_target *target,
			const char *name, int length)
{
	doctor_problem(doctor, "%s needs %.*s, which the loader does not find", target->file,
		       length, name);
	if (strncmp(name, "libcudart.so", strlen("libcudart.so")) == 0)
		doctor_advise(doctor, "set LD_LIBRARY_PATH to its folder, for example "
			      "/usr/local/cuda/lib64; if it is not there, install the CUDA runtime "
			      "of this version (pip: nvidia-cuda-runtime, NVIDIA's packages: "
			      "cuda-cudart); without a GPU, --fake-gpu has its own");
	else if (strncmp(name, "libcuda.so", strlen("libcuda.so")) == 0)
		doctor_advise(doctor, "install NVIDIA's driver; without a GPU, use --fake-gpu "
			      "(`gpuleak help without-a-gpu`)");
	else
		doctor_advise(doctor, "install it, or set LD_LIBRARY_PATH to its folder");
}

/* Adds findings for the loader's list of libraries, for example
 * "libcuda.so.1 => /usr/lib/libcuda.so.1 (0x...)" and "libfoo.so => not found". */
static void read_list(struct doctor *doctor, struct doctor_target *target,
		      const struct elf_facts *facts, const char *text)
{
	bool runtime = false, driver = false, opencl = false;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += strspn(line, " \t\n");
		if (strncmp(line, "libcudart.so", strlen("libcudart.so")) == 0)
			runtime = true;
		if (strncmp(line, "libcuda.so", strlen("libcuda.so")) == 0)
			driver = true;
		if (strncmp(line, "libOpenCL", strlen("libOpenCL")) == 0)
			opencl = true;
		check_listed(doctor, target, line);
		if (strncmp(line + word_length(line), " => not found", 13) == 0)
			add_missing(doctor, target, line, word_length(line));
	}
	target->uses_cuda = facts->has_cuda_code || runtime || driver;
	if (facts->has_cuda_code && !runtime && !target->fake)
		doctor_ok(doctor, "%s was built by nvcc with the static CUDA runtime: its calls "
			  "are seen", target->file);
	else if (runtime)
		doctor_ok(doctor, "%s uses the CUDA runtime as a library: its calls are seen",
			  target->file);
	else if (driver || opencl)
		doctor_ok(doctor, "%s is linked to the driver's library: its calls are seen",
			  target->file);
	else if (!target->is_script && !target->python[0])
		doctor_note(doctor, "%s is not linked to CUDA or OpenCL: calls of libraries that "
			    "it opens while it runs are seen, too, unless it opens them with "
			    "RTLD_DEEPBIND or dlmopen(); --start finds that out", target->file);
}

/* Adds a finding about the reason in TEXT why the loader lists no libgpuleak.so. */
static void add_not_loaded(struct doctor *doctor, struct doctor_target *target, const char *text)
{
	const char *missing = strstr(text, MISSING), *reason = strstr(text, NOT_PRELOADED);

	if (missing && strstr(missing, ": cannot open shared object file")) {
		missing += strlen(MISSING);
		target->uses_cuda = strncmp(missing, "libcuda", strlen("libcuda")) == 0;
		add_missing(doctor, target, missing, (int)strcspn(missing, ":"));
		return;
	}
	reason = reason ? strchr(reason, '(') : NULL;
	reason = reason ? reason : text;
	doctor_problem(doctor, "the dynamic loader does not load libgpuleak.so into %s: %.*s",
		       target->file, (int)strcspn(reason, "\n"), reason);
	doctor_advise(doctor, "build gpuleak on the system where the program runs");
}

/* Lets the loader list what it would load for the program with the library preloaded. */
static void list_libraries(struct doctor *doctor, struct doctor_target *target,
		       const struct elf_facts *facts)
{
	char *argv[] = { (char *)facts->interpreter, (char *)"--list", (char *)target->file,
			 NULL };
	char preload[PATH_MAX * 3 + 1];
	const bool more = target->fake && target->fake->preload[0];
	AT_END(probe_finish) struct probe probe = { 0 };
	int r;

	snprintf(preload, sizeof(preload), "%s%s%s", target->library, more ? ":" : "",
		 more ? target->fake->preload : "");
	r = probe_command(argv, preload, LOADER_SECONDS, &probe);
	if (r < 0) {
		doctor_warn(doctor, "%s --list %s did not work: %s", facts->interpreter,
			    target->file, strerror(-r));
	} else if (strstr(probe.text, target->library) && !strstr(probe.text, NOT_PRELOADED)) {
		doctor_ok(doctor, "the dynamic loader loads libgpuleak.so into %s", target->file);
		read_list(doctor, target, facts, probe.text);
	} else {
		add_not_loaded(doctor, target, probe.text);
	}
}

static bool is_glibc_loader(const char *path)
{
	const char *base = path_last(path);

	return path[0] == '/' && strncmp(base, "ld-linux", strlen("ld-linux")) == 0;
}

/* Adds a finding if the program cannot use the stand-ins of --fake-gpu. */
static void check_without_gpu(struct doctor *doctor, const struct doctor_target *target)
{
	char why[600];
	const char *advice;

	if (!target->fake ||
	    fake_gpu_inspect(target->fake, target->file, why, sizeof(why), &advice) == 0)
		return;
	doctor_problem(doctor, "--fake-gpu: %s %s", target->file, why);
	doctor_advise(doctor, "%s", advice);
}

static void check_file(struct doctor *doctor, struct doctor_target *target)
{
	struct elf_facts facts;
	int r = elf_facts_read(target->file, &facts);

	if (r < 0 || !facts.is_elf) {
		doctor_warn(doctor, "%s cannot be read as a program: %s", target->file,
			    r < 0 ? strerror(-r) : "it is not an ELF file");
		return;
	}
	doctor_ok(doctor, "%s is a program for %s, loaded by %s", target->file,
		  machine_name(facts.machine), facts.interpreter[0] ? facts.interpreter : "itself");
	check_without_gpu(doctor, target);
	if (target->library[0] && is_glibc_loader(facts.interpreter))
		list_libraries(doctor, target, &facts);
	add_facts(doctor, target, &facts);
}

static void add_starter(struct doctor *doctor, const struct starter *starter)
{
	doctor_add(doctor, starter->loses ? DOCTOR_PROBLEM : DOCTOR_NOTE, "%s: %s", starter->name,
		   starter->why);
	doctor_advise(doctor, "%s", starter->advice);
}

void doctor_check_program(struct doctor *doctor, struct doctor_target *target)
{
	char **argv = target->argv;
	const struct starter *starter;
	struct program program;
	int r = program_find(argv[0], &program);

	doctor->area = "program";
	doctor->program = argv[0];
	starter = find_starter(r == 0 ? program.path : argv[0]);
	if (starter)
		add_starter(doctor, starter);
	if (starter && starter->loses)
		return;
	if (r < 0) {
		doctor_problem(doctor, "%s cannot be started: %s", argv[0],
			   r == -ENOENT && !strchr(argv[0], '/') ? "not found in PATH"
								 : strerror(-r));
		doctor_advise(doctor, r == -EACCES ? "chmod +x it; if that does not help, its file "
						     "system is mounted noexec"
						   : "name the file with its folder");
		return;
	}
	if (strcmp(path_last(argv[0]), "env") == 0 && argv[1] &&
	    (strcmp(argv[1], "-i") == 0 || strcmp(argv[1], "-") == 0)) {
		doctor_problem(doctor, "env %s removes all variables", argv[1]);
		doctor_advise(doctor, "start gpuleak behind it: env -i gpuleak run -- PROGRAM");
	}
	find_file(doctor, program.path, target);
	check_shell_script(doctor, program.path);
	if (!target->file[0] || program_find(target->file, &program) < 0)
		return;
	if (program.deaf[0]) {
		doctor_problem(doctor, "%s", program.deaf);
		doctor_advise(doctor, "%s", program.advice);
	} else {
		check_file(doctor, target);
	}
}
