// SPDX-License-Identifier: MIT
// Uploads ten frames to the device and never releases them: for docs/guides/languages/cpp.md. Has
// nothing that a reader of that page does not need.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <vector>

namespace video {

class Filter {
public:
	Filter()
	{
		cl_platform_id platform;
		cl_device_id device;

		clGetPlatformIDs(1, &platform, nullptr);
		clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
		context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
	}

	~Filter() { clReleaseContext(context); }

	template <typename Pixel> cl_mem upload(std::vector<Pixel> pixels)
	{
		return clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
				      pixels.size() * sizeof(Pixel), pixels.data(), nullptr);
	}

private:
	cl_context context;
};

} // namespace video

int main()
{
	video::Filter filter;
	std::vector<cl_mem> history;

	for (int frame = 0; frame < 10; frame++)
		history.push_back(filter.upload(std::vector<float>(1 << 18)));
	history.clear(); // does not release the buffers
}
