/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: OpenCL's loader and the platforms that it would find. A child process loads the
 * libraries, because their constructors are the vendors' code.
 */
#include <dirent.h>

#include "tools/doctor/doctor_checks.h"
#include "tools/doctor/probe.h"
#include "tools/launch/system.h"

#define OPENCL_SECONDS 10
#define PLATFORMS_MAX 16

/* Adds a finding unless the library NAME loads. FILE is where its name is. Returns true if it
 * loads. */
static bool check_loads(struct doctor *doctor, const char *name, const char *file)
{
	AT_END(probe_finish) struct probe probe = { 0 };
	int r = probe_library(name, OPENCL_SECONDS, &probe);
	const char *why = r < 0 ? strerror(-r)
			  : !probe_succeeded(&probe) ? "it crashes when it is loaded"
			  : probe.length             ? probe.text
						     : NULL;

	if (why) {
		doctor_warn(doctor, "%s names %s, which cannot be loaded: %s", file, name, why);
		doctor_advise(doctor, "%s",
			      probe_load_advice("reinstall the OpenCL platform of that library, or "
						"remove the file"));
	}
	return !why;
}

/* Reads the name of a library from an .icd file. */
static bool read_icd(const char *path, char ret[PATH_MAX])
{
	file_head(path, ret, PATH_MAX);
	ret[strcspn(ret, "\r\n")] = '\0';
	return *ret;
}

/* Returns the folder of .icd files. The loaders have two names for the variable. */
static const char *vendor_folder(void)
{
	static const char *const variables[] = { "OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH" };
	struct stat st;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);

		if (value && stat(value, &st) == 0 && S_ISDIR(st.st_mode))
			return value;
	}
	return "/etc/OpenCL/vendors";
}

static size_t check_platforms(struct doctor *doctor)
{
	const char *folder = vendor_folder();
	char path[PATH_MAX], library[PATH_MAX];
	struct dirent *entry;
	size_t count = 0;
	AT_END(close_folder) DIR *dir = opendir(folder);

	while (dir && count < PLATFORMS_MAX && (entry = readdir(dir)) != NULL) {
		size_t length = strlen(entry->d_name);

		if (length < 5 || strcmp(entry->d_name + length - 4, ".icd") != 0 ||
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >=
			    (int)sizeof(path) ||
		    !read_icd(path, library))
			continue;
		count++;
		if (check_loads(doctor, library, path))
			doctor_ok(doctor, "%s: platform %s", path, library);
	}
	return count;
}

void doctor_check_opencl(struct doctor *doctor, struct doctor_target *target)
{
	const char *layers = getenv("OPENCL_LAYERS");
	AT_END(probe_finish) struct probe probe = { 0 };
	size_t platforms;
	int r;

	doctor->area = "OpenCL";
	target->platforms = platforms = check_platforms(doctor);
	r = probe_library("libOpenCL.so.1", OPENCL_SECONDS, &probe);
	if (r == 0 && probe_succeeded(&probe) && !probe.length) {
		doctor_ok(doctor, "libOpenCL.so.1 is there, with %zu platform%s", platforms,
			  platforms == 1 ? "" : "s");
		if (!platforms)
			doctor_advise(doctor, "OpenCL programs need one, for example the package "
				      "pocl-opencl-icd");
	} else {
		doctor_note(doctor, "libOpenCL.so.1 is not on this machine: only programs with an "
			    "OpenCL loader of their own use OpenCL here");
	}
	if (layers && strstr(layers, "libgpuleak"))
		doctor_note(doctor, "OPENCL_LAYERS has libgpuleak.so: OpenCL is recorded without a "
			    "preload");
}
