/* SPDX-License-Identifier: MIT
 *
 * Coroutines that allocate behind their first suspension: in a part that the compiler makes
 * of the function, with a name of the compiler's own.
 */
#include <coroutine>
#include <exception>

#include "cu.h"

namespace net {

struct Task {
	struct promise_type {
		Task get_return_object()
		{
			return { std::coroutine_handle<promise_type>::from_promise(*this) };
		}
		std::suspend_always initial_suspend() { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};
	std::coroutine_handle<promise_type> handle;
};

struct Session {
	Task receive(std::size_t bytes);
};

Task Session::receive(std::size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "first"); /* @first */
	co_await std::suspend_always{};
	must(cuMemAlloc_v2(&address, 2 * bytes), "second"); /* @second */
}

template <typename T> Task fill(T bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "fill"); /* @fill */
	co_return;
}

/* Names as compilers make them for parts and copies of functions. */
void part(std::size_t bytes) __asm__("_ZN3net4partEm.isra.0.part.1.cold");
void part(std::size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "part"); /* @part */
}

void clang(std::size_t bytes) __asm__("_ZN3net5clangEm.resume");
void clang(std::size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "clang"); /* @clang */
}

} // namespace net

static void finish(net::Task task)
{
	while (!task.handle.done())
		task.handle.resume();
	task.handle.destroy();
}

int main()
{
	net::Session session;

	begin();
	finish(session.receive(100));
	finish(net::fill(400L));
	net::part(20);
	net::clang(10);
	return 0;
}
