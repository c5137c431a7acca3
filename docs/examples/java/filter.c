/* SPDX-License-Identifier: MIT
 *
 * The native methods of Frames.Filter: for docs/guides/languages/java.md. Does no more than OpenCL.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <jni.h>

static cl_context context;

JNIEXPORT void JNICALL Java_Frames_00024Filter_open(JNIEnv *env, jclass class)
{
	cl_platform_id platform;
	cl_device_id device;

	clGetPlatformIDs(1, &platform, NULL);
	clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
	context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
}

JNIEXPORT jlong JNICALL Java_Frames_00024Filter_createBuffer(JNIEnv *env, jclass class, jlong size)
{
	return (jlong)clCreateBuffer(context, CL_MEM_READ_WRITE, (size_t)size, NULL, NULL);
}

JNIEXPORT void JNICALL Java_Frames_00024Filter_close(JNIEnv *env, jclass class)
{
	clReleaseContext(context);
}
