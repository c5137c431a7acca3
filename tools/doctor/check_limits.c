/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: where ledgers go and if there is room, and limits of this shell. Tries what
 * `gpuleak run` does: a folder for ledgers, and a segment of shared memory.
 */
#include <sys/resource.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/statvfs.h>

#include "ledger/format.h"
#include "tools/doctor/doctor_checks.h"
#include "tools/launch/system.h"
#include "tools/ledgers/rundir.h"

#define MIB (1ull << 20)
#define SMALL_ROOM (16 * MIB) /* less room for ledgers than this is a warning */
#define LARGE_ROOM (1024 * MIB)
/* docs/reference/limits.md */
#define ADDRESS_SPACE_MIN (16 * MIB)
#define FILE_SIZE_MIN (128ull << 10)

static void check_ledgers(struct doctor *doctor)
{
	char path[PATH_MAX], error[PATH_MAX * 2], *slash;
	struct statvfs vfs;
	unsigned long long room = 0;

	if (rundir_create(path, sizeof(path), error, sizeof(error)) < 0) {
		doctor_problem(doctor, "%s", error); /* has the advice */
		return;
	}
	if (statvfs(path, &vfs) == 0)
		room = (unsigned long long)vfs.f_bavail * vfs.f_frsize;
	rundir_remove(path);
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	if (room >= LARGE_ROOM) {
		doctor_ok(doctor, "ledgers go to %s, with room for %llu MiB", path, room / MIB);
		return;
	}
	doctor_add(doctor, room < SMALL_ROOM ? DOCTOR_WARNING : DOCTOR_OK, "ledgers go to %s, with "
		   "room for %llu MiB: about %llu thousand live blocks", path, room / MIB,
		   room / sizeof(struct ledger_block) / 1000);
	if (room < SMALL_ROOM)
		doctor_advise(doctor, "set XDG_RUNTIME_DIR to a folder of your own with more room; "
			      "in a container, start it with --shm-size 256m");
}

static void check_shared_memory(struct doctor *doctor)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);

	if (id >= 0) {
		shmctl(id, IPC_RMID, NULL);
		return;
	}
	doctor_problem(doctor, "no System V shared memory: %s; the gate fails, because a process "
		       "that cannot record would not be noticed", strerror(errno));
	doctor_advise(doctor, "raise kernel.shmmni, or allow shmget in the sandbox");
}

static void check_limit(struct doctor *doctor, __rlimit_resource_t resource, const char *name,
			unsigned long long least, const char *below)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return;
	if (limit.rlim_cur < least) {
		doctor_problem(doctor, "%s is %llu KiB: %s", name,
			       (unsigned long long)limit.rlim_cur >> 10, below);
		doctor_advise(doctor, "raise it: %s unlimited", name);
	} else {
		doctor_note(doctor, "%s is %llu MiB, which gpuleak shares with the program", name,
			    (unsigned long long)limit.rlim_cur / MIB);
	}
}

void doctor_check_limits(struct doctor *doctor)
{
	doctor->area = "limits";
	check_ledgers(doctor);
	check_shared_memory(doctor);
	check_limit(doctor, RLIMIT_AS, "ulimit -v", ADDRESS_SPACE_MIN, "nothing is recorded");
	check_limit(doctor, RLIMIT_FSIZE, "ulimit -f", FILE_SIZE_MIN,
		    "gpuleak run records nothing, and its gate fails");
	if (access("/proc/self/exe", R_OK) < 0) {
		doctor_problem(doctor, "/proc is not mounted, and gpuleak needs it");
		doctor_advise(doctor, "as root: mount -t proc proc /proc");
	}
	doctor_ok(doctor, "ptrace is not needed: gpuleak report PID and gpuleak top PID read the "
		  "ledger of your own processes");
}
