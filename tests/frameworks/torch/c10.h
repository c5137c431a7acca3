/* SPDX-License-Identifier: MIT
 *
 * What the stand-ins for PyTorch's libc10.so and libc10_cuda.so offer. The two report functions
 * have PyTorch's own names; docs/developers/pytorch.md lists their shapes. STANDIN_SHAPE selects
 * the shape: 2 is that of 2.0 and later, 1 that of 1.13, 3 is one that no release has.
 */
#ifndef GPULEAK_TESTS_FRAMEWORKS_C10_H
#define GPULEAK_TESTS_FRAMEWORKS_C10_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace c10
{
enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1 };

struct Device {
	DeviceType type;
	std::int8_t index;
};

#if STANDIN_SHAPE == 1
using total_bytes = std::int64_t;
#else
using total_bytes = std::size_t;
#endif

#if STANDIN_SHAPE == 3
void reportMemoryUsageToProfiler(void *ptr, std::int64_t alloc_size, total_bytes total_allocated,
				 total_bytes total_reserved, Device device, std::int64_t stream);
void reportOutOfMemoryToProfiler(std::int64_t alloc_size, total_bytes total_allocated,
				 total_bytes total_reserved, Device device, std::int64_t stream);
#else
void reportMemoryUsageToProfiler(void *ptr, std::int64_t alloc_size, total_bytes total_allocated,
				 total_bytes total_reserved, Device device);
void reportOutOfMemoryToProfiler(std::int64_t alloc_size, total_bytes total_allocated,
				 total_bytes total_reserved, Device device);
#endif

struct OutOfMemoryError : std::runtime_error {
	using std::runtime_error::runtime_error;
};
} // namespace c10

/* One call of a report function. Out of memory: ptr is null. */
struct standin_call {
	void *ptr;
	std::int64_t alloc_size;
	std::uint64_t total_allocated, total_reserved;
	std::int32_t type, index;
};

/* Returns SUM, continued by CALL: a checksum over all arguments of a sequence of calls. */
std::uint64_t standin_sum(std::uint64_t sum, const standin_call *call);

/* What PyTorch's profiler has seen since it was switched on; libc10.so. */
extern "C" {
struct standin_seen {
	std::uint64_t calls, outs_of_memory; /* calls of the two functions */
	std::uint64_t contradictions; /* allocated twice, freed unknown or with another size */
	std::uint64_t live_blocks, live_bytes; /* from these calls alone; without the CPU */
	std::uint64_t sum;		       /* standin_sum() of the calls for this device */
	standin_call last;
};
void standin_profile(int on);
void standin_profiler_seen(int device, standin_seen *ret_seen);
}

namespace c10::cuda::CUDACachingAllocator
{
/* What the allocator itself counts; libc10_cuda.so. */
struct Stats {
	std::uint64_t allocated_bytes, reserved_bytes, active_bytes, peak_bytes;
	std::uint64_t allocations, segments, ooms;
	std::uint64_t sum; /* standin_sum() of the calls made for this device */
};

struct Segment {
	char *address;
	std::size_t bytes;
	void *stream;
	int pool; /* a private pool, or 0 */
};

void *raw_alloc(std::size_t bytes, int device, void *stream);
std::vector<Segment> snapshot();
void raw_delete(void *ptr);
void recordStream(void *ptr, void *stream);
void emptyCache();
Stats getDeviceStats(int device);
/* Allocations of the calling thread come from the private pool ID until endAllocateToPool(). */
void beginAllocateToPool(int device, int id);
void endAllocateToPool(int device);
void releasePool(int device, int id);
} // namespace c10::cuda::CUDACachingAllocator

#endif
