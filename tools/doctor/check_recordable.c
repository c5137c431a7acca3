/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor`: can anything be recorded here? Only draws conclusions from what the other
 * checks found, and looks at no other file than the program's.
 */
#include "tools/doctor/doctor_checks.h"

/* Advises how the program of TARGET can run without a GPU. */
static void advise_program(struct doctor *doctor, const struct doctor_target *target)
{
	static struct fake_gpu fake; /* large */
	char text[PATH_MAX * 2];
	const char *advice;

	if (fake_gpu_find(&fake, text, sizeof(text)) < 0)
		doctor_advise(doctor, "run it on a machine with a GPU");
	else if (fake_gpu_inspect(&fake, target->file, text, sizeof(text), &advice) < 0)
		doctor_advise(doctor, "run it on a machine with a GPU; or %s, and use --fake-gpu "
			      "(`gpuleak help without-a-gpu`)", advice);
	else
		doctor_advise(doctor, "run it on a machine with a GPU, or by gpuleak run "
			      "--fake-gpu (`gpuleak help without-a-gpu`)");
}

void doctor_check_recordable(struct doctor *doctor, const struct doctor_target *target)
{
	doctor->area = "driver";
	if (target->has_cuda || target->fake)
		return;
	if (target->uses_cuda) {
		doctor_problem(doctor, "%s uses CUDA, and no GPU works here: its CUDA calls fail, "
			       "and nothing is recorded", target->file);
		advise_program(doctor, target);
	} else if (target->platforms && target->python[0] && !target->has_pyopencl) {
		doctor_warn(doctor, "no GPU works here for CUDA, and the Python has no PyOpenCL: "
			    "only other programs that it starts can use OpenCL");
		doctor_advise(doctor, "run it on a machine with a GPU");
	} else if (!target->platforms) {
		doctor_problem(doctor, "no GPU works here for CUDA, and there is no platform for "
			       "OpenCL: nothing can be recorded");
		doctor_advise(doctor, "run this on a machine with a GPU; without one, --fake-gpu "
			      "helps some CUDA programs (`gpuleak help without-a-gpu`), and PoCL "
			      "those of OpenCL");
	}
}
