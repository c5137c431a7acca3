// SPDX-License-Identifier: MIT
// Uploads ten frames to the device and never releases them: for docs/guides/languages/go.md. The
// garbage collector frees the slice of handles and not the memory behind them.

package main

/*
#cgo LDFLAGS: -lOpenCL
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
*/
import "C"

type Filter struct {
	context C.cl_context
}

func NewFilter() *Filter {
	var platform C.cl_platform_id
	var device C.cl_device_id

	C.clGetPlatformIDs(1, &platform, nil)
	C.clGetDeviceIDs(platform, C.CL_DEVICE_TYPE_ALL, 1, &device, nil)
	return &Filter{C.clCreateContext(nil, 1, &device, nil, nil, nil)}
}

func (filter *Filter) Upload(count int) C.cl_mem {
	return C.clCreateBuffer(filter.context, C.CL_MEM_READ_WRITE, C.size_t(4*count), nil, nil)
}

func main() {
	filter := NewFilter()
	var history []C.cl_mem

	for frame := 0; frame < 10; frame++ {
		history = append(history, filter.Upload(1<<18))
	}
	history = nil // does not release the buffers
	C.clReleaseContext(filter.context)
}
