/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: is the library there, can it be mapped, and what else is preloaded?
 */
#include <sys/statvfs.h>

#include "tools/doctor/doctor_checks.h"
#include "tools/launch/library.h"
#include "tools/launch/system.h"

/* Adds a finding about one word of LD_PRELOAD. */
static void check_word(struct doctor *doctor, const char *word, int length)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s", length, word);
	if (strstr(path, "libgpuleak")) {
		doctor_warn(doctor, "LD_PRELOAD of this shell has %s already: every command of it "
			    "is recorded", path);
		doctor_advise(doctor, "unset LD_PRELOAD, and use gpuleak run");
	} else if (strchr(path, '/') && access(path, R_OK) < 0) {
		doctor_warn(doctor, "LD_PRELOAD of this shell names %s, which cannot be read: the "
			    "loader prints an error for each command", path);
		doctor_advise(doctor, "unset LD_PRELOAD, or name a file that is there");
	} else {
		doctor_note(doctor, "LD_PRELOAD of this shell has %s: gpuleak run puts "
			    "libgpuleak.so in front of it", path);
	}
}

static void check_preload(struct doctor *doctor)
{
	const char *at = getenv("LD_PRELOAD");

	while (at && *(at += strspn(at, " :"))) {
		int length = (int)strcspn(at, " :");

		check_word(doctor, at, length);
		at += length;
	}
	if (access("/etc/ld.so.preload", F_OK) == 0)
		doctor_note(doctor, "/etc/ld.so.preload is there: its libraries are in every "
			    "program, behind libgpuleak.so");
}

void doctor_check_library(struct doctor *doctor, struct doctor_target *target)
{
	const bool has_proc = access("/proc/self/exe", R_OK) == 0; /* leads to the library */
	char error[PATH_MAX * 2];
	struct statvfs vfs;

	doctor->area = "library";
	if (library_find(target->library, sizeof(target->library), error, sizeof(error)) < 0) {
		target->library[0] = '\0';
		doctor_problem(doctor, "%s", error);
		if (!has_proc)
			doctor_advise(doctor, "mount /proc first, see below");
		else
			doctor_advise(doctor, getenv("GPULEAK_LIBRARY") ? "unset GPULEAK_LIBRARY"
									: "install gpuleak again");
	} else if (statvfs(target->library, &vfs) == 0 && (vfs.f_flag & ST_NOEXEC)) {
		doctor_problem(doctor, "%s is on a file system that is mounted noexec: the loader "
			       "cannot map it", target->library);
		doctor_advise(doctor, "install gpuleak on another file system");
	} else {
		doctor_ok(doctor, "%s", target->library);
	}
	check_preload(doctor);
}
