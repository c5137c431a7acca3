/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: CUDA's driver, NVML, the devices. A child process loads the driver's libraries.
 * It calls only functions that create no context: cuDriverGetVersion(), and NVML.
 */
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>

#include "tools/doctor/doctor_checks.h"
#include "tools/doctor/probe.h"
#include "tools/launch/system.h"

#define DRIVER "libcuda.so.1"
#define DRIVER_SECONDS 10
#define NVML_SECONDS 30 /* without persistence mode the driver first starts each device */
#define NVML_MISMATCH 18
#define NVML_NOT_LOADED 9

/* Loads library NAME in the child, and prints its path. */
static void *load(FILE *out, const char *name)
{
	struct link_map *map;
	void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	const char *error = library ? NULL : dlerror();

	if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
		fprintf(out, "%s\n", map->l_name);
	else
		fprintf(out, "!%s\n", error ? error : "it cannot be loaded");
	fflush(out); /* the next call may crash */
	return library;
}

/* DATA is the name or the path of the library. */
static void probe_libcuda(FILE *out, void *data)
{
	void *library = load(out, data);
	int (*get_version)(int *) =
		library ? (int (*)(int *))dlsym(library, "cuDriverGetVersion") : NULL;
	int version;

	if (get_version && get_version(&version) == 0)
		fprintf(out, "%d", version);
}

static void probe_nvml(FILE *out, void *data)
{
	void *library = load(out, "libnvidia-ml.so.1");
	int (*init)(void), (*get_version)(char *, unsigned int), (*get_count)(unsigned int *);
	char version[96] = "";
	unsigned int devices = 0;
	int r;

	(void)data;
	if (!library)
		return;
	init = (int (*)(void))dlsym(library, "nvmlInit_v2");
	get_version = (int (*)(char *, unsigned int))dlsym(library, "nvmlSystemGetDriverVersion");
	get_count = (int (*)(unsigned int *))dlsym(library, "nvmlDeviceGetCount_v2");
	r = init ? init() : -1;
	if (r == 0 && get_version && get_version(version, sizeof(version)) != 0)
		version[0] = '\0';
	if (r == 0 && get_count)
		get_count(&devices);
	fprintf(out, "%d %u %.*s", r, devices, (int)sizeof(version) - 1, version);
}

/* Returns the version in a file name such as libcuda.so.580.65.06, "" if it has none. */
static const char *version_of_file(const char *path, char ret[PATH_MAX])
{
	const char *found;

	if (!realpath(path, ret))
		return "";
	found = strstr(ret, ".so.");
	return found && strchr(found + 4, '.') ? found + 4 : "";
}

static bool is_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
	       getenv("KUBERNETES_SERVICE_HOST");
}

/* Adds a finding about a library that did not load. */
static void add_missing(struct doctor *doctor, const char *name, const char *error)
{
	if (strstr(error, "No such file")) {
		doctor_note(doctor, "%s is not on this machine: CUDA programs do not run here",
			    name);
		doctor_advise(doctor, "%s; without a GPU, use --fake-gpu (`gpuleak help "
			      "without-a-gpu`)",
			      is_container() ? "start the container with --gpus all; in a pod, "
					       "request nvidia.com/gpu"
					     : "install NVIDIA's driver");
	} else {
		doctor_warn(doctor, "%s cannot be loaded: %s", name, error);
		doctor_advise(doctor, "%s", probe_load_advice("reinstall NVIDIA's driver"));
	}
}

/* Returns a description of the unexpected end of a child. */
static const char *end_of(int r, const struct probe *probe)
{
	if (r < 0)
		return strerror(-r);
	return WIFSIGNALED(probe->status) ? strsignal(WTERMSIG(probe->status))
					  : "the process that loads it ended early";
}

/* Returns true if there is a CUDA driver. Sets `has_cuda` of TARGET if it works. */
static bool check_libcuda(struct doctor *doctor, struct doctor_target *target)
{
	char real[PATH_MAX], *path, *number;
	AT_END(probe_finish) struct probe probe = { 0 };
	int r = probe_call(probe_libcuda, (char *)DRIVER, DRIVER_SECONDS, &probe), version;

	if (probe.text[0] == '!') {
		probe.text[strcspn(probe.text, "\n")] = '\0';
		add_missing(doctor, DRIVER, probe.text + 1);
		return false;
	}
	number = strchr(probe.text, '\n');
	if (number)
		*number++ = '\0';
	if (!number || !*number) {
		doctor_problem(doctor, "libcuda.so.1 does not work: %s", end_of(r, &probe));
		doctor_advise(doctor, "reinstall NVIDIA's driver");
	} else {
		target->has_cuda = true;
		path = probe.text;
		version = atoi(number);
		doctor_ok(doctor, "libcuda.so.1 is %s, for CUDA %d.%d%s%s", path, version / 1000,
			  version % 1000 / 10, *version_of_file(path, real) ? ", driver " : "",
			  version_of_file(path, real));
	}
	return true;
}

static void add_nvml(struct doctor *doctor, int result, unsigned int devices, const char *version)
{
	if (result == 0 && devices == 0) {
		doctor_warn(doctor, "NVML works, and finds no GPU");
		doctor_advise(doctor, is_container() ? "start the container with --gpus all"
						     : "run nvidia-smi, which lists the GPUs");
	} else if (result == 0) {
		doctor_ok(doctor, "NVML works: driver %s, %u device%s",
			  *version ? version : "of unknown version", devices,
			  devices == 1 ? "" : "s");
	} else if (result == NVML_MISMATCH) {
		doctor_problem(doctor, "the driver's libraries and its kernel module have "
			       "different versions");
		doctor_advise(doctor, "restart the machine");
	} else if (result == NVML_NOT_LOADED) {
		doctor_problem(doctor, "the driver's kernel module is not loaded");
		doctor_advise(doctor, "as root: modprobe nvidia");
	} else {
		doctor_warn(doctor, "NVML fails with error %d: reports lack the driver's own "
			    "memory", result);
		doctor_advise(doctor, "run nvidia-smi, which prints the reason");
	}
}

/* Returns true if NVML answered. Clears `has_cuda` of TARGET if NVML finds no GPU that works. */
static bool check_nvml(struct doctor *doctor, struct doctor_target *target)
{
	AT_END(probe_finish) struct probe probe = { 0 };
	unsigned int devices = 1;
	int r = probe_call(probe_nvml, NULL, NVML_SECONDS, &probe), result = -1, at = 0;
	const char *line = strchr(probe.text, '\n');

	if (probe.text[0] == '!') {
		doctor_warn(doctor, "NVML (libnvidia-ml.so.1) cannot be loaded: reports lack the "
			    "driver's own memory");
		doctor_advise(doctor, is_container() ? "start the container with NVIDIA_DRIVER_"
						       "CAPABILITIES=compute,utility"
						     : "install the part of NVIDIA's driver that "
						       "has nvidia-smi");
	} else if (line && sscanf(line + 1, "%d %u %n", &result, &devices, &at) == 2) {
		add_nvml(doctor, result, devices, line + 1 + at);
	} else {
		doctor_warn(doctor, "NVML (libnvidia-ml.so.1) does not work: %s; reports lack the "
			    "driver's own memory", end_of(r, &probe));
		doctor_advise(doctor, "run nvidia-smi, which should print the reason");
	}
	if (result == NVML_MISMATCH || result == NVML_NOT_LOADED || devices == 0)
		target->has_cuda = false;
	return result == 0;
}

/* Returns true if the file at PATH contains WORD in its first bytes. */
static bool file_has(const char *path, const char *word)
{
	char text[512];

	file_head(path, text, sizeof(text));
	return strstr(text, word) != NULL;
}

/* Adds findings about what reports lack on this kind of machine. */
static void check_machine(struct doctor *doctor, bool has_nvml)
{
	if (file_has("/proc/version", "icrosoft"))
		doctor_note(doctor, "WSL: NVML has no figure for one process, so the driver's own "
			    "memory is the growth of the whole device");
	if (access("/etc/nv_tegra_release", F_OK) == 0 ||
	    file_has("/proc/device-tree/model", "Jetson"))
		doctor_note(doctor, "Jetson: device and host share one memory, and reports lack "
			    "the driver's own memory");
	if (has_nvml && is_container())
		doctor_note(doctor, "a container: NVML may not know the process by its number "
			    "here; the driver's own memory is then the growth of the whole device");
}

static void check_devices(struct doctor *doctor, struct doctor_target *target)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (access("/dev/nvidiactl", F_OK) == 0 && access("/dev/nvidiactl", R_OK | W_OK) < 0) {
		doctor_problem(doctor, "/dev/nvidiactl: %s", strerror(errno));
		doctor_advise(doctor, "add your user to the group of that file");
		target->has_cuda = false;
	}
	if (visible && (!*visible || visible[0] == '-')) {
		doctor_warn(doctor, "CUDA_VISIBLE_DEVICES is \"%s\": programs see no device",
			    visible);
		doctor_advise(doctor, "unset CUDA_VISIBLE_DEVICES");
		target->has_cuda = false;
	}
}

void doctor_check_cuda(struct doctor *doctor, struct doctor_target *target)
{
	doctor->area = "driver";
	if (check_libcuda(doctor, target)) {
		check_machine(doctor, check_nvml(doctor, target));
		check_devices(doctor, target);
	}
}

bool doctor_finds_driver(void)
{
	AT_END(probe_finish) struct probe probe = { 0 };

	return probe_call(probe_libcuda, (char *)DRIVER, DRIVER_SECONDS, &probe) == 0 &&
	       probe.text[0] != '!' && probe.text[0];
}

static void add_kernels(struct doctor *doctor, const struct doctor_target *target)
{
	if (target->fake->skip_kernels) {
		doctor_warn(doctor, "--fake-kernels: a kernel launch does nothing, so the "
			    "program's results are invalid");
	} else {
		doctor_note(doctor, "--fake-gpu: a kernel launch fails with cudaErrorNotSupported");
		doctor_advise(doctor, "with --fake-kernels it succeeds and does nothing");
	}
	if (target->python[0])
		doctor_note(doctor, "--fake-gpu: calls of a Python package that contains NVIDIA's "
			    "runtime fail, for example those of PyTorch");
}

void doctor_check_stand_in(struct doctor *doctor, const struct doctor_target *target)
{
	char path[PATH_MAX];
	AT_END(probe_finish) struct probe probe = { 0 };
	const char *number = NULL;
	int r = -ENOENT, version;

	doctor->area = "driver";
	if (!target->fake->directories[0])
		return; /* it is a finding already */
	if (fake_gpu_library(target->fake, DRIVER, path))
		r = probe_call(probe_libcuda, path, DRIVER_SECONDS, &probe);
	if (r == 0 && probe.text[0] != '!')
		number = strchr(probe.text, '\n');
	if (number && number[1]) {
		version = atoi(number + 1);
		doctor_ok(doctor, "--fake-gpu: %s answers in place of a driver, for CUDA %d.%d",
			  path, version / 1000, version % 1000 / 10);
		add_kernels(doctor, target);
	} else {
		doctor_problem(doctor, "--fake-gpu: the stand-in %s does not work: %s", path,
			       end_of(r, &probe));
		doctor_advise(doctor, "install gpuleak again");
	}
}
