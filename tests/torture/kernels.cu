/* SPDX-License-Identifier: MIT
 *
 * The kernels of torture, waits and the asynchronous stand-in (which knows them by name and
 * never looks into an image). kernels.h is made of this file by kernels.sh.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ void spin(u64 clocks)
{
	u64 start = clock64();

	while (clock64() - start < clocks)
		;
}

extern "C" __global__ void gl_fill(u32 *p, u64 words, u32 value, u64 clocks)
{
	spin(clocks);
	for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < words;
	     i += (u64)gridDim.x * blockDim.x)
		p[i] = value;
}

extern "C" __global__ void gl_check(const u32 *p, u64 words, u32 value, u32 *wrong, u64 clocks)
{
	u32 differ = 0;

	spin(clocks);
	for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < words;
	     i += (u64)gridDim.x * blockDim.x)
		differ += p[i] != value;
	if (differ)
		atomicAdd_system(wrong, differ);
}

extern "C" __global__ void gl_spin(u64 clocks)
{
	spin(clocks);
}

extern "C" __global__ void gl_wait(volatile u32 *flag)
{
	while (!*flag)
		__nanosleep(1000);
}

static __device__ void touch(char *p, u64 offset, u32 writes)
{
	if (writes)
		p[offset] = 1;
	else
		*(volatile char *)(p + offset);
}

/* For the guard's tests, which load the kernels from a file: they are not in kernels.h. */
extern "C" __global__ void gl_touch(char *p, u64 offset, u32 writes)
{
	touch(p, offset, writes);
}

struct touched {
	char *p[2];
	u64 offset;
	u32 which, writes;
};

extern "C" __global__ void gl_touch_struct(struct touched t)
{
	touch(t.p[t.which & 1], t.offset, t.writes);
}
