/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: what stacks are made with: the unwinder, and the debug information of the
 * program.
 */
#include "tools/doctor/doctor_checks.h"
#include "tools/doctor/elf_facts.h"
#include "tools/doctor/probe.h"
#include "tools/launch/system.h"

#define UNWIND_SECONDS 10

static void check_unwinder(struct doctor *doctor)
{
	AT_END(probe_finish) struct probe probe = { 0 };
	int r = probe_library("libunwind.so.8", UNWIND_SECONDS, &probe);

	if (r == 0 && probe_succeeded(&probe) && !probe.length) {
		doctor_ok(doctor, "libunwind.so.8 is there");
	} else {
		doctor_problem(doctor, "libunwind.so.8 is not there: reports have no stacks");
		doctor_advise(doctor, "install the package libunwind8 (libunwind on RHEL)");
	}
}

/* Returns true if the file FOLDER/LINK is there, in one of the places where debuggers look. FOLDER
 * is the folder of the program. */
static bool has_linked_file(const char *folder, const char *link)
{
	static const struct { const char *before, *after; } places[] = {
		{ "", "/" }, { "", "/.debug/" }, { "/usr/lib/debug", "/" }
	};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (snprintf(path, sizeof(path), "%s%s%s%s", places[i].before, folder,
			     places[i].after, link) < (int)sizeof(path) &&
		    access(path, R_OK) == 0)
			return true;
	return false;
}

/* Returns true if the debug information of the program at FILE is in a file of its own. */
static bool has_debug_file(const char *file, const struct elf_facts *facts)
{
	char path[PATH_MAX], *slash;

	if (strlen(facts->build_id) > 2) {
		snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug",
			 facts->build_id, facts->build_id + 2);
		if (access(path, R_OK) == 0)
			return true;
	}
	if (!facts->debug_link[0] || !realpath(file, path))
		return false;
	slash = strrchr(path, '/');
	*slash = '\0';
	return has_linked_file(path, facts->debug_link);
}

void doctor_check_stacks(struct doctor *doctor, const struct doctor_target *target)
{
	struct elf_facts facts;

	doctor->area = "stacks";
	check_unwinder(doctor);
	if (!target->file[0] || target->is_script || target->python[0] ||
	    elf_facts_read(target->file, &facts) < 0 ||
	    !facts.is_elf)
		return;
	if (facts.has_debug_info || has_debug_file(target->file, &facts)) {
		doctor_ok(doctor, "%s has debug information: stacks have files and lines",
			  target->file);
		return;
	}
	doctor_warn(doctor, "%s has no debug information%s: stacks have %s, and no lines",
		    target->file, facts.has_symbols ? "" : " and no symbols",
		    facts.has_symbols ? "functions" : "offsets");
	doctor_advise(doctor, "compile it with -g%s",
		      facts.has_symbols ? "" : ", and do not strip it");
}
