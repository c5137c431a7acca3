/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: what stacks are made with: the unwinder, and the debug information of the
 * program.
 */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/doctor_checks.h"
#include "tools/doctor/elf_facts.h"
#include "tools/doctor/probe.h"

#define UNWIND_SECONDS 10

static const char area[] = "stacks";

static void probe_unwinder(FILE *out, void *data)
{
	void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);

	(void)data;
	fputs(library ? "found" : "missing", out);
}

static void check_unwinder(struct doctor *doctor)
{
	struct probe probe;
	int r = probe_call(probe_unwinder, NULL, UNWIND_SECONDS, &probe);

	if (r == 0 && strcmp(probe.text, "found") == 0) {
		doctor_add(doctor, DOCTOR_OK, area, "libunwind.so.8 is there");
	} else {
		doctor_add(doctor, DOCTOR_PROBLEM, area,
			   "libunwind.so.8 is not there: reports have no stacks");
		doctor_advise(doctor, "install the package libunwind8 (libunwind on RHEL)");
	}
	if (r == 0)
		probe_finish(&probe);
}

/* Returns true if the program's debug information is in a file of its own, which is found by the
 * build id. */
static bool has_debug_file(const struct elf_facts *facts)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", facts->build_id,
		 strlen(facts->build_id) > 2 ? facts->build_id + 2 : "");
	return strlen(facts->build_id) > 2 && access(path, R_OK) == 0;
}

void doctor_check_stacks(struct doctor *doctor, const struct doctor_target *target)
{
	struct elf_facts facts;

	check_unwinder(doctor);
	if (!target->file[0] || target->is_script || target->python[0] ||
	    elf_facts_read(target->file, &facts) < 0 ||
	    !facts.is_elf)
		return;
	if (facts.has_debug_info || has_debug_file(&facts)) {
		doctor_add(doctor, DOCTOR_OK, area,
			   "%s has debug information: stacks have files and lines", target->file);
		return;
	}
	doctor_add(doctor, DOCTOR_WARNING, area, "%s has no debug information%s: stacks have %s, "
		   "and no lines", target->file, facts.has_symbols ? "" : " and no symbols",
		   facts.has_symbols ? "functions" : "offsets");
	doctor_advise(doctor, "compile it with -g%s", facts.has_symbols ? "" : ", and do not strip "
								       "it");
}
