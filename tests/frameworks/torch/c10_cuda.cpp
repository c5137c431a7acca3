/* SPDX-License-Identifier: MIT
 *
 * Stand-in for libc10_cuda.so: a caching allocator that takes segments from the driver and calls
 * the report functions as PyTorch's does. Each call is made under the device's lock, after the
 * counters changed; a block's address cannot be reused before its free was reported. The names of
 * the functions are PyTorch's, because reports know its cache by them. PYTORCH_CUDA_ALLOC_CONF
 * (expandable_segments:True, backend:cudaMallocAsync) and PYTORCH_NO_CUDA_MEMORY_CACHING work.
 */
#include "c10.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

extern "C" {
#include "../../programs/vmm.h"

struct vmm_access {
	struct location location;
	int flags;
};
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const struct vmm_access *access,
			size_t count);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuEventCreate(void **event, unsigned int flags);
CUresult cuEventRecord(void *event, void *stream);
CUresult cuEventQuery(void *event);
CUresult cuEventDestroy_v2(void *event);
}

namespace c10::cuda::CUDACachingAllocator
{
namespace
{
constexpr std::size_t MIB = 1 << 20;
constexpr std::size_t UNIT = 512;
constexpr std::size_t SMALL = MIB; /* the largest block of a small segment */

std::size_t rounded_up(std::size_t bytes, std::size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

std::size_t segment_size(std::size_t bytes)
{
	if (bytes <= SMALL)
		return 2 * MIB;
	return bytes < 10 * MIB ? 20 * MIB : rounded_up(bytes, 2 * MIB);
}

bool asked_for(const char *variable, const char *text)
{
	const char *value = std::getenv(variable);

	return value && std::strstr(value, text);
}

struct Pool;

/* A part of a segment. Its neighbours are the parts before and after it, used or not. */
struct Block {
	int device = 0;
	void *stream = nullptr;
	std::size_t size = 0;
	char *ptr = nullptr;
	Pool *pool = nullptr;
	bool allocated = false;
	bool expandable = false;
	Block *prev = nullptr, *next = nullptr;
	std::set<void *> other_streams;
};

struct by_size {
	bool operator()(const Block *a, const Block *b) const
	{
		if (a->stream != b->stream)
			return a->stream < b->stream;
		return a->size != b->size ? a->size < b->size : a->ptr < b->ptr;
	}
};

/* The unused blocks of one size class. */
struct Pool {
	bool small;
	std::set<Block *, by_size> unused;
};

struct PoolPair {
	Pool small{ true, {} }, large{ false, {} };
	bool released = false;
};
} // namespace

namespace Native
{
/* A reserved range of addresses, to whose end memory is mapped as it is needed. */
struct ExpandableSegment {
	ExpandableSegment(int device, std::size_t step);
	bool map(int device, std::size_t steps);
	void unmap(std::size_t steps);
	char *end() const
	{
		return base + handles.size() * step;
	}

	char *base = nullptr;
	std::size_t step, room;
	std::vector<vmm_handle> handles;
	Block *last = nullptr; /* the block at the end */
};

class DeviceCachingAllocator
{
      public:
	explicit DeviceCachingAllocator(int number);
	Block *malloc(std::size_t bytes, void *stream);
	void free(Block *block);
	void record_stream(Block *block, void *stream);
	void empty_cache();
	void begin_pool(int id);
	void end_pool();
	void release_pool(int id);
	void add_segments(std::vector<Segment> *ret);
	Stats stats();

      private:
	bool get_free_block(Pool *pool, std::size_t size, void *stream, Block **ret_block);
	bool alloc_block(Pool *pool, std::size_t size, void *stream, Block **ret_block);
	bool expand(Pool *pool, std::size_t size, void *stream, Block **ret_block);
	Block *alloc_found_block(Block *block, std::size_t size);
	void free_block(Block *block);
	Block *merge(Block *block, Block *with);
	void process_events();
	void release_cached_blocks();
	void release_blocks(Pool *pool);
	void shrink(ExpandableSegment *segment);
	Pool *pool_for(std::size_t size);
	void report(void *ptr, std::int64_t change);
	void report_out_of_memory(std::size_t size);

	std::recursive_mutex mutex;
	int device;
	Stats now = {};
	PoolPair common;
	std::map<int, PoolPair> pools; /* of graphs, by their number */
	std::map<char *, std::pair<std::size_t, Block>> whole; /* segments that are not expandable */
	std::map<std::pair<Pool *, void *>, std::unique_ptr<ExpandableSegment>> expandables;
	std::vector<std::pair<void *, Block *>> events; /* freed, but another stream may use it */
};

namespace
{
bool expandable_segments = asked_for("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
/* The private pool that this thread allocates from, and the device whose pool it is. */
thread_local PoolPair *capturing;
thread_local int capturing_device;

struct properties on_device(int device)
{
	return { 1, 0, { ON_DEVICE, device }, nullptr, { 0 } };
}
} // namespace

ExpandableSegment::ExpandableSegment(int device, std::size_t size_of_step) : step(size_of_step)
{
	std::size_t total;
	CUdeviceptr address;

	must(cuDeviceTotalMem_v2(&total, device), "cuDeviceTotalMem_v2");
	room = rounded_up(total + total / 8, step);
	must(cuMemAddressReserve(&address, room, 0, 0, 0), "cuMemAddressReserve");
	base = reinterpret_cast<char *>(address);
}

/* Returns false, with nothing mapped, if the driver is out of memory. */
bool ExpandableSegment::map(int device, std::size_t steps)
{
	const struct properties properties = on_device(device);
	const struct vmm_access access = { { ON_DEVICE, device }, 3 };

	for (std::size_t done = 0; done < steps; done++) {
		CUdeviceptr at = reinterpret_cast<CUdeviceptr>(end());
		vmm_handle handle;

		if ((handles.size() + 1) * step > room ||
		    cuMemCreate(&handle, step, &properties, 0) != 0) {
			unmap(done);
			return false;
		}
		must(cuMemMap(at, step, 0, handle, 0), "cuMemMap");
		must(cuMemSetAccess(at, step, &access, 1), "cuMemSetAccess");
		handles.push_back(handle);
	}
	return true;
}

void ExpandableSegment::unmap(std::size_t steps)
{
	while (steps--) {
		CUdeviceptr at = reinterpret_cast<CUdeviceptr>(end()) - step;

		must(cuMemUnmap(at, step), "cuMemUnmap");
		must(cuMemRelease(handles.back()), "cuMemRelease");
		handles.pop_back();
	}
}

DeviceCachingAllocator::DeviceCachingAllocator(int number) : device(number)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
}

/* Locking: the caller holds the mutex. */
void DeviceCachingAllocator::report(void *ptr, std::int64_t change)
{
	const standin_call call = { ptr,
				    change,
				    now.allocated_bytes,
				    now.reserved_bytes,
				    static_cast<int>(DeviceType::CUDA),
				    device };
	const Device where = { DeviceType::CUDA, static_cast<std::int8_t>(device) };

	now.sum = standin_sum(now.sum, &call);
#if STANDIN_SHAPE == 3
	reportMemoryUsageToProfiler(ptr, change, now.allocated_bytes, now.reserved_bytes, where, 0);
#else
	reportMemoryUsageToProfiler(ptr, change, now.allocated_bytes, now.reserved_bytes, where);
#endif
}

/* Locking: the caller holds the mutex. */
void DeviceCachingAllocator::report_out_of_memory(std::size_t size)
{
	const std::int64_t wanted = static_cast<std::int64_t>(size);
	const standin_call call = { nullptr,
				    wanted,
				    now.allocated_bytes,
				    now.reserved_bytes,
				    static_cast<int>(DeviceType::CUDA),
				    device };
	const Device where = { DeviceType::CUDA, static_cast<std::int8_t>(device) };

	now.ooms++;
	now.sum = standin_sum(now.sum, &call);
#if STANDIN_SHAPE == 3
	reportOutOfMemoryToProfiler(wanted, now.allocated_bytes, now.reserved_bytes, where, 0);
#else
	reportOutOfMemoryToProfiler(wanted, now.allocated_bytes, now.reserved_bytes, where);
#endif
}

/* Returns the unused blocks from which a block of SIZE is cut. */
Pool *DeviceCachingAllocator::pool_for(std::size_t size)
{
	PoolPair *pair = capturing && capturing_device == device ? capturing : &common;

	return size <= SMALL ? &pair->small : &pair->large;
}

Block *DeviceCachingAllocator::malloc(std::size_t bytes, void *stream)
{
	std::lock_guard<std::recursive_mutex> lock(mutex);
	const std::size_t size = rounded_up(bytes, UNIT);
	Pool *pool = pool_for(size);
	Block *block;

	if (!capturing)
		process_events();
	if (!get_free_block(pool, size, stream, &block) &&
	    !alloc_block(pool, size, stream, &block)) {
		release_cached_blocks();
		if (!alloc_block(pool, size, stream, &block)) {
			report_out_of_memory(size);
			throw OutOfMemoryError("CUDA out of memory. Tried to allocate " +
					       std::to_string(size) + " bytes.");
		}
	}
	return alloc_found_block(block, size);
}

/* Takes the smallest unused block that has room for SIZE. */
bool DeviceCachingAllocator::get_free_block(Pool *pool, std::size_t size, void *stream,
					    Block **ret_block)
{
	Block key;

	key.size = size;
	key.stream = stream;
	auto found = pool->unused.lower_bound(&key);
	if (found == pool->unused.end() || (*found)->stream != stream)
		return false;
	*ret_block = *found;
	pool->unused.erase(found);
	return true;
}

/* Takes a new segment from the driver. Returns false if the driver is out of memory. */
bool DeviceCachingAllocator::alloc_block(Pool *pool, std::size_t size, void *stream,
					 Block **ret_block)
{
	const std::size_t bytes = segment_size(size);
	CUdeviceptr address;

	if (expandable_segments)
		return expand(pool, size, stream, ret_block);
	if (cuMemAlloc_v2(&address, bytes) != 0)
		return false;

	Block *block = new Block;

	block->device = device;
	block->stream = stream;
	block->size = bytes;
	block->ptr = reinterpret_cast<char *>(address);
	block->pool = pool;
	whole[block->ptr] = { bytes, *block };
	now.reserved_bytes += bytes;
	now.segments++;
	*ret_block = block;
	return true;
}

/* Takes a block of SIZE from the end of the pool's expandable segment, which it expands. */
bool DeviceCachingAllocator::expand(Pool *pool, std::size_t size, void *stream, Block **ret_block)
{
	auto &segment = expandables[{ pool, stream }];

	if (!segment)
		segment = std::make_unique<ExpandableSegment>(device, (pool->small ? 2 : 20) * MIB);
	Block *last = segment->last;
	const bool extend = last && !last->allocated && pool->unused.count(last);
	const std::size_t missing = size - (extend ? last->size : 0);
	const std::size_t steps = (missing + segment->step - 1) / segment->step;
	char *at = segment->end();

	if (!segment->map(device, steps))
		return false;
	now.reserved_bytes += steps * segment->step;
	if (extend) {
		pool->unused.erase(last);
	} else {
		Block *block = new Block;

		block->device = device;
		block->stream = stream;
		block->ptr = at;
		block->pool = pool;
		block->expandable = true;
		block->prev = last;
		if (last)
			last->next = block;
		segment->last = last = block;
	}
	last->size += steps * segment->step;
	*ret_block = last;
	return true;
}

/* Cuts SIZE from BLOCK, gives the rest back to the pool, and reports the allocation.
 * Locking: the caller holds the mutex. */
Block *DeviceCachingAllocator::alloc_found_block(Block *block, std::size_t size)
{
	const std::size_t rest = block->size - size;

	if (block->pool->small || block->expandable ? rest >= UNIT : rest > SMALL) {
		Block *right = new Block;

		right->device = device;
		right->stream = block->stream;
		right->size = rest;
		right->ptr = block->ptr + size;
		right->pool = block->pool;
		right->expandable = block->expandable;
		right->prev = block;
		right->next = block->next;
		if (block->next)
			block->next->prev = right;
		else if (block->expandable)
			expandables.at({ block->pool, block->stream })->last = right;
		block->next = right;
		block->size = size;
		block->pool->unused.insert(right);
	}
	block->allocated = true;
	now.allocated_bytes += block->size;
	now.active_bytes += block->size;
	now.allocations++;
	if (now.allocated_bytes > now.peak_bytes)
		now.peak_bytes = now.allocated_bytes;
	report(block->ptr, static_cast<std::int64_t>(block->size));
	return block;
}

void DeviceCachingAllocator::free(Block *block)
{
	std::lock_guard<std::recursive_mutex> lock(mutex);
	void *const ptr = block->ptr;
	const std::size_t size = block->size;

	block->allocated = false;
	now.allocated_bytes -= size;
	now.allocations--;
	if (block->other_streams.empty()) {
		free_block(block);
	} else {
		/* No thread gets the block before its events are done: process_events(). */
		for (void *stream : block->other_streams) {
			void *event;

			must(cuEventCreate(&event, 2), "cuEventCreate");
			must(cuEventRecord(event, stream), "cuEventRecord");
			events.emplace_back(event, block);
		}
	}
	report(ptr, -static_cast<std::int64_t>(size));
}

/* Gives the block back to its pool. Locking: the caller holds the mutex. */
void DeviceCachingAllocator::free_block(Block *block)
{
	now.active_bytes -= block->size;
	block = merge(block, block->prev);
	merge(block, block->next);
	block->pool->unused.insert(block);
}

/* Returns BLOCK, made one with the neighbour WITH if that is unused. */
Block *DeviceCachingAllocator::merge(Block *block, Block *with)
{
	if (!with || with->allocated || !with->pool->unused.count(with))
		return block;
	with->pool->unused.erase(with);
	if (with == block->prev) {
		block->ptr = with->ptr;
		block->prev = with->prev;
		if (block->prev)
			block->prev->next = block;
	} else {
		block->next = with->next;
		if (block->next)
			block->next->prev = block;
		else if (block->expandable)
			expandables.at({ block->pool, block->stream })->last = block;
	}
	block->size += with->size;
	delete with;
	return block;
}

/* Frees the blocks that no other stream uses any more. Locking: the caller holds the mutex. */
void DeviceCachingAllocator::process_events()
{
	for (std::size_t i = 0; i < events.size();) {
		auto [event, block] = events[i];

		if (cuEventQuery(event) != 0) {
			i++;
			continue;
		}
		must(cuEventDestroy_v2(event), "cuEventDestroy_v2");
		events.erase(events.begin() + static_cast<std::ptrdiff_t>(i));
		bool pending = false;

		for (auto &other : events)
			pending |= other.second == block;
		if (!pending) {
			block->other_streams.clear();
			free_block(block);
		}
	}
}

/* Gives all segments without a used block back to the driver.
 * Locking: the caller holds the mutex. */
void DeviceCachingAllocator::release_cached_blocks()
{
	process_events();
	for (Pool *pool : { &common.small, &common.large })
		release_blocks(pool);
	for (auto &pair : pools)
		if (pair.second.released)
			for (Pool *pool : { &pair.second.small, &pair.second.large })
				release_blocks(pool);
	for (auto &segment : expandables)
		shrink(segment.second.get());
}

void DeviceCachingAllocator::release_blocks(Pool *pool)
{
	for (auto next = pool->unused.begin(); next != pool->unused.end();) {
		Block *block = *next;

		if (block->prev || block->next || block->expandable) {
			++next;
			continue;
		}
		must(cuMemFree_v2(reinterpret_cast<CUdeviceptr>(block->ptr)), "cuMemFree_v2");
		now.reserved_bytes -= block->size;
		now.segments--;
		whole.erase(block->ptr);
		next = pool->unused.erase(next);
		delete block;
	}
}

/* Unmaps what is unused at the end of SEGMENT. */
void DeviceCachingAllocator::shrink(ExpandableSegment *segment)
{
	Block *last = segment->last;

	if (!last || last->allocated || !last->pool->unused.count(last))
		return;
	const std::size_t steps = last->size / segment->step;

	last->pool->unused.erase(last);
	segment->unmap(steps);
	now.reserved_bytes -= steps * segment->step;
	last->size -= steps * segment->step;
	if (last->size) {
		last->pool->unused.insert(last);
		return;
	}
	segment->last = last->prev;
	if (last->prev)
		last->prev->next = nullptr;
	delete last;
}

void DeviceCachingAllocator::record_stream(Block *block, void *stream)
{
	std::lock_guard<std::recursive_mutex> lock(mutex);

	if (stream != block->stream)
		block->other_streams.insert(stream);
}

void DeviceCachingAllocator::empty_cache()
{
	std::lock_guard<std::recursive_mutex> lock(mutex);

	release_cached_blocks();
}

void DeviceCachingAllocator::begin_pool(int id)
{
	std::lock_guard<std::recursive_mutex> lock(mutex);

	capturing = &pools[id];
	capturing_device = device;
}

void DeviceCachingAllocator::end_pool()
{
	capturing = nullptr;
}

void DeviceCachingAllocator::release_pool(int id)
{
	std::lock_guard<std::recursive_mutex> lock(mutex);

	pools[id].released = true;
}

/* Adds the segments as memory_snapshot() has them. */
void DeviceCachingAllocator::add_segments(std::vector<Segment> *ret)
{
	std::lock_guard<std::recursive_mutex> lock(mutex);
	auto number = [this](const Pool *pool) {
		for (auto &each : pools)
			if (pool == &each.second.small || pool == &each.second.large)
				return each.first;
		return 0;
	};

	for (auto &each : whole)
		ret->push_back({ each.first, each.second.first, each.second.second.stream,
				 number(each.second.second.pool) });
	for (auto &each : expandables)
		if (!each.second->handles.empty())
			ret->push_back({ each.second->base,
					 each.second->handles.size() * each.second->step,
					 each.first.second, number(each.first.first) });
}

Stats DeviceCachingAllocator::stats()
{
	std::lock_guard<std::recursive_mutex> lock(mutex);

	return now;
}

/* Knows the block of each address. Its own locks are never held during a report. */
class NativeCachingAllocator
{
      public:
	NativeCachingAllocator();
	void *malloc(int device, std::size_t bytes, void *stream);
	void free(void *ptr);
	Block *get_allocated_block(void *ptr, bool remove);

	std::vector<std::unique_ptr<DeviceCachingAllocator>> device_allocator;

      private:
	static constexpr std::size_t SHARDS = 67;
	struct alignas(64) Shard {
		std::mutex mutex;
		std::unordered_map<void *, Block *> blocks;
	};
	Shard &shard_of(void *ptr)
	{
		return shards[reinterpret_cast<std::uintptr_t>(ptr) / UNIT % SHARDS];
	}

	std::array<Shard, SHARDS> shards;
};

NativeCachingAllocator::NativeCachingAllocator()
{
	int devices;

	must(cuInit(0), "cuInit");
	must(cuDeviceGetCount(&devices), "cuDeviceGetCount");
	for (int i = 0; i < devices; i++)
		device_allocator.push_back(std::make_unique<DeviceCachingAllocator>(i));
}

void *NativeCachingAllocator::malloc(int device, std::size_t bytes, void *stream)
{
	Block *block = device_allocator.at(static_cast<std::size_t>(device))->malloc(bytes, stream);
	void *const ptr = block->ptr;
	Shard &shard = shard_of(ptr);
	std::lock_guard<std::mutex> lock(shard.mutex);

	shard.blocks[ptr] = block;
	return ptr;
}

Block *NativeCachingAllocator::get_allocated_block(void *ptr, bool remove)
{
	Shard &shard = shard_of(ptr);
	std::lock_guard<std::mutex> lock(shard.mutex);
	auto found = shard.blocks.find(ptr);

	if (found == shard.blocks.end())
		throw std::runtime_error("invalid device pointer");
	Block *block = found->second;

	if (remove)
		shard.blocks.erase(found);
	return block;
}

void NativeCachingAllocator::free(void *ptr)
{
	Block *block = get_allocated_block(ptr, true);

	device_allocator[static_cast<std::size_t>(block->device)]->free(block);
}
} // namespace Native

namespace
{
Native::NativeCachingAllocator *native()
{
	/* Never destroyed: programs free tensors while the process exits. */
	static auto *const allocator = new Native::NativeCachingAllocator;

	return allocator;
}

const bool uncached = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr;
const bool stream_ordered = asked_for("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync");

void set_current(int device)
{
	thread_local int current = -1;
	CUcontext context;

	native();
	if (device == current)
		return;
	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	current = device;
}
} // namespace

namespace Native
{
/* The allocations without a cache: no report is made of them. */
__attribute__((noinline)) void *uncached_allocate(std::size_t bytes)
{
	CUdeviceptr address;

	if (cuMemAlloc_v2(&address, bytes) != 0)
		throw OutOfMemoryError("CUDA out of memory.");
	return reinterpret_cast<void *>(address);
}
} // namespace Native

namespace CudaMallocAsync
{
__attribute__((noinline)) void *mallocAsync(std::size_t bytes, void *stream)
{
	CUdeviceptr address;

	if (cuMemAllocAsync(&address, bytes, stream) != 0)
		throw OutOfMemoryError("CUDA out of memory.");
	return reinterpret_cast<void *>(address);
}
} // namespace CudaMallocAsync

void *raw_alloc(std::size_t bytes, int device, void *stream)
{
	set_current(device);
	if (uncached)
		return Native::uncached_allocate(bytes);
	if (stream_ordered)
		return CudaMallocAsync::mallocAsync(bytes, stream);
	return native()->malloc(device, bytes, stream);
}

void raw_delete(void *ptr)
{
	if (uncached)
		must(cuMemFree_v2(reinterpret_cast<CUdeviceptr>(ptr)), "cuMemFree_v2");
	else if (stream_ordered)
		must(cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(ptr), nullptr), "cuMemFreeAsync");
	else
		native()->free(ptr);
}

void recordStream(void *ptr, void *stream)
{
	Block *block = native()->get_allocated_block(ptr, false);

	native()->device_allocator[static_cast<std::size_t>(block->device)]->record_stream(block,
											   stream);
}

void emptyCache()
{
	for (auto &allocator : native()->device_allocator)
		allocator->empty_cache();
}

Stats getDeviceStats(int device)
{
	return native()->device_allocator.at(static_cast<std::size_t>(device))->stats();
}

std::vector<Segment> snapshot()
{
	std::vector<Segment> ret;

	for (auto &allocator : native()->device_allocator)
		allocator->add_segments(&ret);
	return ret;
}

void beginAllocateToPool(int device, int id)
{
	native()->device_allocator.at(static_cast<std::size_t>(device))->begin_pool(id);
}

void endAllocateToPool(int device)
{
	native()->device_allocator.at(static_cast<std::size_t>(device))->end_pool();
}

void releasePool(int device, int id)
{
	native()->device_allocator.at(static_cast<std::size_t>(device))->release_pool(id);
}
} // namespace c10::cuda::CUDACachingAllocator
