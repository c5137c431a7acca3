/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor PID`: can `gpuleak attach` record this process? Makes the decision by the
 * functions of the command itself, and does not stop the process.
 */
#include "tools/doctor/doctor_checks.h"

#include <string.h>
#include <unistd.h>

#include "tools/attach/request.h"
#include "tools/attach/target.h"

void doctor_check_process(struct doctor *doctor, int pid)
{
	char why[REQUEST_ERROR_SIZE], *advice;
	struct target target;

	doctor->area = "process";
	target_read("/proc", pid, &target);
	if (!attach_is_recorded(pid, why, sizeof(why)) &&
	    !target_refuses(&target, geteuid(), why, sizeof(why))) {
		doctor_ok(doctor, "process %d (%s) can be attached to%s: gpuleak attach %d", pid,
			  target.name, target.page[0] ? ", without ptrace" : "", pid);
		if (!target.has_driver)
			doctor_warn(doctor, "it has loaded no driver of CUDA or OpenCL so far");
		return;
	}
	advice = strstr(why, "; ");
	if (advice) {
		*advice = '\0';
		advice += 2;
	}
	doctor_problem(doctor, "process %d %s", pid, why);
	if (advice)
		doctor_advise(doctor, "%s", advice);
}
