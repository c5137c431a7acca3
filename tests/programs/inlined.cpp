/* SPDX-License-Identifier: MIT
 *
 * Built with optimization: the function that leaks and its caller have no code of their
 * own, yet a report must name both.
 */
#include "cu.h"

namespace render {

class Surface {
public:
	__attribute__((always_inline)) inline void reserve(std::size_t bytes)
	{
		must(cuMemAlloc_v2(&address, bytes), "reserve"); /* @reserve */
		asm volatile("" ::: "memory");
	}

private:
	CUdeviceptr address = 0;
};

__attribute__((always_inline)) inline void resize(Surface &surface, int width)
{
	surface.reserve(4u * width); /* @resize */
	asm volatile("" ::: "memory");
}

__attribute__((noinline)) void frame(int width)
{
	Surface surface;

	resize(surface, width); /* @frame */
	asm volatile("" ::: "memory");
}

} // namespace render

int main()
{
	begin();
	render::frame(1920); /* @main */
	asm volatile("" ::: "memory");
	return 0;
}
