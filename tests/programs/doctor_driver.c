/* SPDX-License-Identifier: MIT
 *
 * A driver's library for `gpuleak doctor` (cases_doctor.py): DOCTOR_DRIVER chooses whether loading
 * it crashes or never ends, and what NVML answers. Functions that would start a context write the
 * file that DOCTOR_CALLED names.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *mode(void)
{
	const char *text = getenv("DOCTOR_DRIVER");

	return text ? text : "";
}

__attribute__((constructor)) static void begin(void)
{
	if (strcmp(mode(), "crash") == 0)
		abort();
	while (strcmp(mode(), "hang") == 0)
		pause();
	if (strcmp(mode(), "print") == 0 && write(STDOUT_FILENO, "noise\n", 6) < 0)
		abort();
}

int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context);
int cuDevicePrimaryCtxRetain(void **context);
int cuMemAlloc_v2(void **memory);
int cuDriverGetVersion(int *version);
int nvmlInit_v2(void);
int nvmlSystemGetDriverVersion(char *version, unsigned int size);
int nvmlDeviceGetCount_v2(unsigned int *count);

static int called(void)
{
	const char *path = getenv("DOCTOR_CALLED");

	if (path)
		close(open(path, O_CREAT | O_WRONLY, 0600));
	return 0;
}

int cuInit(unsigned int flags) { (void)flags; return called(); }
int cuCtxCreate_v2(void **context) { (void)context; return called(); }
int cuDevicePrimaryCtxRetain(void **context) { (void)context; return called(); }
int cuMemAlloc_v2(void **memory) { (void)memory; return called(); }

int cuDriverGetVersion(int *version)
{
	*version = 12040;
	return 0;
}

/* The same file is NVML. */
int nvmlInit_v2(void) { return strcmp(mode(), "mismatch") == 0 ? 18 : 0; }

int nvmlSystemGetDriverVersion(char *version, unsigned int size)
{
	strncpy(version, "550.54.15", size);
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = strcmp(mode(), "no-gpu") == 0 ? 0 : 3;
	return 0;
}
