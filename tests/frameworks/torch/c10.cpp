/* SPDX-License-Identifier: MIT
 *
 * Stand-in for libc10.so: the two report functions, and a profiler behind them that checks what
 * it is given. As PyTorch's, the functions do next to nothing while the profiler is off.
 */
#include "c10.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

namespace
{
constexpr int DEVICES = 16;

struct profiler {
	std::mutex mutex;
	std::unordered_map<void *, std::int64_t> live[DEVICES];
	standin_seen seen[DEVICES] = {};
};

/* Never destroyed: programs free tensors while the process exits. */
profiler *profiler_now = new profiler;
std::atomic<bool> profiling{ std::getenv("STANDIN_PROFILER") != nullptr };

void note_usage(profiler *all, standin_seen *seen, const standin_call *call)
{
	auto &live = all->live[call->index];

	if (call->alloc_size > 0) {
		if (!live.emplace(call->ptr, call->alloc_size).second) {
			seen->contradictions++;
			return;
		}
		seen->live_blocks++;
	} else {
		auto found = live.find(call->ptr);

		if (found == live.end() || found->second != -call->alloc_size) {
			seen->contradictions++;
			return;
		}
		live.erase(found);
		seen->live_blocks--;
	}
	seen->live_bytes += static_cast<std::uint64_t>(call->alloc_size);
}

void note(const standin_call *call)
{
	if (!profiling.load(std::memory_order_relaxed))
		return;
	if (call->type != static_cast<int>(c10::DeviceType::CUDA) || call->index < 0 ||
	    call->index >= DEVICES)
		return;

	std::lock_guard<std::mutex> lock(profiler_now->mutex);
	standin_seen *seen = &profiler_now->seen[call->index];

	seen->sum = standin_sum(seen->sum, call);
	seen->last = *call;
	if (call->ptr) {
		seen->calls++;
		note_usage(profiler_now, seen, call);
	} else {
		seen->outs_of_memory++;
	}
}
} // namespace

std::uint64_t standin_sum(std::uint64_t sum, const standin_call *call)
{
	const std::uint64_t words[] = {
		reinterpret_cast<std::uintptr_t>(call->ptr),
		static_cast<std::uint64_t>(call->alloc_size),
		call->total_allocated,
		call->total_reserved,
		static_cast<std::uint64_t>(call->type) << 8 |
			static_cast<std::uint8_t>(call->index),
	};

	for (std::uint64_t word : words)
		sum = (sum ^ word) * 0x100000001b3 + 1;
	return sum;
}

void standin_profile(int on)
{
	profiling = on;
}

void standin_profiler_seen(int device, standin_seen *ret_seen)
{
	std::lock_guard<std::mutex> lock(profiler_now->mutex);

	*ret_seen = profiler_now->seen[device];
}

namespace c10
{
#if STANDIN_SHAPE == 3
#define MORE , std::int64_t
#else
#define MORE
#endif

void reportMemoryUsageToProfiler(void *ptr, std::int64_t alloc_size, total_bytes total_allocated,
				 total_bytes total_reserved, Device device MORE)
{
	const standin_call call = { ptr,
				    alloc_size,
				    static_cast<std::uint64_t>(total_allocated),
				    static_cast<std::uint64_t>(total_reserved),
				    static_cast<int>(device.type),
				    device.index };

	note(&call);
}

void reportOutOfMemoryToProfiler(std::int64_t alloc_size, total_bytes total_allocated,
				 total_bytes total_reserved, Device device MORE)
{
	const standin_call call = { nullptr,
				    alloc_size,
				    static_cast<std::uint64_t>(total_allocated),
				    static_cast<std::uint64_t>(total_reserved),
				    static_cast<int>(device.type),
				    device.index };

	note(&call);
}
} // namespace c10
