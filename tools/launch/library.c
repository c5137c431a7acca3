/* SPDX-License-Identifier: MIT
 *
 * Finds the files that this command needs: in the build tree, relative to the
 * command (so an installation can be moved), or in the configured directory.
 */
#include "tools/launch/library.h"

#include "tools/launch/preload_link.h"
#include "tools/launch/system.h"

#define NAME "libgpuleak.so"
#define MODULE "bypass/sitecustomize.py"
#define FAKE_GPU "gpuleak/fake-gpu" /* below libdir */
#define DRIVER "libcuda.so.1"
#define RUNTIME "libcudart.so.12" /* beside that of 13 */

static int try_path(const char *path, char *ret, size_t size)
{
	char real[PATH_MAX];

	if (!realpath(path, real) || access(real, R_OK) < 0)
		return -errno;
	if (strlen(real) >= size)
		return -ENAMETOOLONG;
	strcpy(ret, real);
	return 0;
}

static int try_beside(const char *directory, const char *way, const char *name, char *ret,
		      size_t size)
{
	FREE_AT_END char *path = text_format("%s/%s/%s", directory, way, name);

	return try_path(path, ret, size);
}

static int own_directory(char *ret, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", ret, size - 1);
	char *slash;

	if (n <= 0)
		return -ENOENT;
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

/* Finds the file NAME in one of three directories: BUILT, that of a build tree (NULL: none),
 * FROM_BINDIR, that of an installation ("": unknown), both relative to this command, and FIXED. */
static int find_file(const char *built, const char *from_bindir, const char *fixed,
		     const char *name, char *ret, size_t size)
{
	char directory[PATH_MAX];

	if (own_directory(directory, sizeof(directory)) == 0 &&
	    ((built && try_beside(directory, built, name, ret, size) == 0) ||
	     (*from_bindir && try_beside(directory, from_bindir, name, ret, size) == 0)))
		return 0;
	return try_beside(fixed, ".", name, ret, size);
}

/* Writes to ERROR that NAME is missing, and returns R. */
static int not_found(int r, const char *name, const char *beside, const char *folder, char *error,
		     size_t size)
{
	snprintf(error, size, "%s is neither beside %s nor in %s: %s; install it there", name,
		 beside, folder, strerror(-r));
	return r;
}

/* Finds the directories of the stand-in driver and runtime in a build tree. Returns false if this
 * command is not in a build tree. */
static bool find_built(char *ret, size_t size)
{
	char directory[PATH_MAX], driver[PATH_MAX], runtime[PATH_MAX];

	if (own_directory(directory, sizeof(directory)) < 0 ||
	    try_beside(directory, "../standin/driver", DRIVER, driver, sizeof(driver)) < 0 ||
	    try_beside(directory, "../standin/runtime", RUNTIME, runtime, sizeof(runtime)) < 0)
		return false;
	*strrchr(driver, '/') = '\0';
	*strrchr(runtime, '/') = '\0';
	return !strpbrk(driver, ":;") && !strpbrk(runtime, ":;") &&
	       snprintf(ret, size, "%s:%s", driver, runtime) < (int)size;
}

int library_find_fake_gpu(char *ret, size_t size, char *error, size_t error_size)
{
	int r;

	if (find_built(ret, size))
		return 0;
	r = find_file(NULL, GPULEAK_LIBDIR_FROM_BINDIR, GPULEAK_LIBDIR, FAKE_GPU "/" DRIVER, ret,
		      size);
	if (r < 0)
		return not_found(r, FAKE_GPU "/" DRIVER, NAME, GPULEAK_LIBDIR, error, error_size);
	*strrchr(ret, '/') = '\0';
	if (strpbrk(ret, ":;")) {
		snprintf(error, error_size, "%s: LD_LIBRARY_PATH cannot contain a path with a "
			 "colon or a semicolon; move it elsewhere", ret);
		return -EINVAL;
	}
	return 0;
}

int library_find_data(const char *built, const char *name, char *ret, size_t size)
{
	return find_file(built, GPULEAK_DATADIR_FROM_BINDIR, GPULEAK_DATADIR, name, ret, size);
}

int library_find_module(char *ret, size_t size, char *error, size_t error_size)
{
	int r = library_find_data("../python", MODULE, ret, size);

	if (r < 0)
		return not_found(r, MODULE, "this command", GPULEAK_DATADIR, error, error_size);
	*strrchr(ret, '/') = '\0';
	if (strchr(ret, ':')) {
		snprintf(error, error_size, "%s: PYTHONPATH cannot contain a path with a colon; "
			 "move it elsewhere", ret);
		return -EINVAL;
	}
	return 0;
}

int library_find(char *ret, size_t size, char *error, size_t error_size)
{
	const char *named = getenv("GPULEAK_LIBRARY");
	char real[PATH_MAX];
	int r = named && *named ? try_path(named, ret, size)
				: find_file("../interpose", GPULEAK_LIBDIR_FROM_BINDIR,
					    GPULEAK_LIBDIR, NAME, ret, size);

	if (r < 0 && named && *named)
		snprintf(error, error_size, "%s (from GPULEAK_LIBRARY): %s", named, strerror(-r));
	else if (r < 0)
		not_found(r, NAME, "this command", GPULEAK_LIBDIR, error, error_size);
	if (r < 0 || !strpbrk(ret, " \t\n:"))
		return r;
	if (strlen(ret) >= sizeof(real))
		return -ENAMETOOLONG;
	strcpy(real, ret);
	return preload_link(real, ret, size, error, error_size);
}
