/* SPDX-License-Identifier: MIT
 *
 * A global object whose constructor makes the program's first GPU call before main, and
 * whose destructor frees after it; a function's static; a thread's own; and one that frees
 * when the driver has gone. All but the last keep one block that nobody frees.
 */
#include <cstdio>
#include <thread>

#include "cu.h"

class Pool {
public:
	explicit Pool(std::size_t bytes)
	{
		begin();
		must(cuMemAlloc_v2(&kept, bytes), "pool");
		must(cuMemAlloc_v2(&lost, bytes / 10), "pool"); /* @pool */
	}

	~Pool()
	{
		std::printf("~Pool: %d\n", cuMemFree_v2(kept));
	}

private:
	CUdeviceptr kept = 0, lost = 0;
};

static Pool before_main(1000);

/* Made before the driver, hence destroyed after it. */
class Holder {
public:
	~Holder()
	{
		std::printf("~Holder: %d\n", cuMemFree_v2(held)); /* @holder_free */
	}

	CUdeviceptr held = 0;
};

/* Of all globals here the one that is made first. */
__attribute__((init_priority(200))) static Holder holder;

static void use_static()
{
	static Pool in_function(2000); /* @in_function */
}

static void use_thread()
{
	thread_local Pool in_thread(4000); /* @in_thread */

	(void)in_thread;
}

int main()
{
	must(cuMemAlloc_v2(&holder.held, 8000), "holder"); /* @holder */
	use_static(); /* @main */
	std::thread(use_thread).join();
	return 0;
}
