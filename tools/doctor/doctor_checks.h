/* SPDX-License-Identifier: MIT
 *
 * The checks of `gpuleak doctor`. Each adds findings about one area. None creates a GPU context,
 * and only the last one starts the user's program. They cannot fail: what cannot be found out is a
 * finding, too.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "tools/doctor/doctor_findings.h"
#include "tools/launch/fake_gpu.h"

struct doctor_target {
	char library[PATH_MAX]; /* libgpuleak.so; "": not found */
	/* the file that the kernel starts: the user's program, or a script's interpreter */
	char file[PATH_MAX];
	bool is_script;         /* `file` is not the user's program, but starts it */
	char python[PATH_MAX];  /* the interpreter of a Python program; "": not a Python program */
	struct fake_gpu *fake;  /* --fake-gpu: the stand-ins; NULL: a GPU is used */
	char **argv;            /* the user's program and its arguments; NULL: none is named */
	bool uses_cuda;         /* the program's file is linked to CUDA, or nvcc made it */
	bool has_cuda;          /* a driver and a GPU work, so that CUDA calls can be recorded */
	bool has_pyopencl;      /* the Python has the package */
	size_t platforms;       /* of OpenCL */
};

/* The library, and what else is preloaded. Sets `library`. */
void doctor_check_library(struct doctor *doctor, struct doctor_target *target);

/* Whether the preload reaches the program `argv`. Sets `file`, `is_script`, `python` and
 * `uses_cuda`. */
void doctor_check_program(struct doctor *doctor, struct doctor_target *target);

/* CUDA's driver, NVML and the devices. Sets `has_cuda`. */
void doctor_check_cuda(struct doctor *doctor, struct doctor_target *target);

/* Returns true if there is a CUDA driver. Loads it in a child process. */
bool doctor_finds_driver(void);

/* What answers in place of a driver, if TARGET has stand-ins. */
void doctor_check_stand_in(struct doctor *doctor, const struct doctor_target *target);
/* OpenCL's loader and platforms. Sets `platforms`. */
void doctor_check_opencl(struct doctor *doctor, struct doctor_target *target);

/* The interpreter of TARGET, or else python3, and the frameworks that it finds. Sets
 * `has_pyopencl`. */
void doctor_check_python(struct doctor *doctor, struct doctor_target *target);

/* Whether anything can be recorded with what the other checks found. */
void doctor_check_recordable(struct doctor *doctor, const struct doctor_target *target);

/* What stacks are made with. */
void doctor_check_stacks(struct doctor *doctor, const struct doctor_target *target);

/* Where ledgers go, and limits of this shell. */
void doctor_check_limits(struct doctor *doctor);

/* Whether `gpuleak attach` can record process PID. */
void doctor_check_process(struct doctor *doctor, int pid);

/* Runs the program ARGV by `gpuleak run`, and checks what was recorded. FLAG: a flag of `gpuleak
 * run`, or NULL. */
void doctor_check_start(struct doctor *doctor, const char *flag, char **argv);
