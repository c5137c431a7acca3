/* SPDX-License-Identifier: MIT
 *
 * Throws C++ exceptions through functions that allocate GPU memory, from -O2 and from
 * VLA frames, in two threads, and through a frame whose CFI was registered at run time
 * (__register_frame), before, while and after GPU calls. The output must be the same with
 * and without a tracer.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <alloca.h>

#include "cu.h"

extern "C" void __register_frame(void *);
extern "C" void __deregister_frame(void *);

static const struct driver driver = LINKED_DRIVER;

__attribute__((noinline)) static void thrower(int n)
{
	volatile char *pad = static_cast<volatile char *>(alloca(static_cast<size_t>(16 + n % 256)));
	CUdeviceptr address;
	std::string local(static_cast<size_t>(n % 50), 'x');

	pad[0] = 1;
	must(cuMemAlloc_v2(&address, 512), "alloc");
	must(cuMemFree_v2(address), "free");
	if (n % 3 == 0)
		throw std::runtime_error("three " + std::to_string(n));
	if (n % 3 == 1)
		throw n;
}

__attribute__((noinline)) static int catcher(int n)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, 512), "alloc");
	try {
		thrower(n);
	} catch (const std::exception &e) {
		must(cuMemFree_v2(address), "free");
		return static_cast<int>(strlen(e.what()));
	} catch (int thrown) {
		must(cuMemFree_v2(address), "free");
		return thrown;
	}
	must(cuMemFree_v2(address), "free");
	return -1;
}

static void throw_often(long *ret)
{
	*ret = 0;
	for (int i = 0; i < 5000; i++)
		*ret += catcher(i);
}

/* A function that calls its argument. No register is a frame pointer: only the registered CFI says
 * where the frame ends. The CIE has version 1, no augmentation and data alignment -8. */
#if defined(__x86_64__)
/* push %rbp; sub $32,%rsp; call *%rdi; add $32,%rsp; pop %rbp; ret */
static const unsigned char code[] = { 0x55, 0x48, 0x83, 0xec, 0x20, 0xff, 0xd7, 0x48,
				      0x83, 0xc4, 0x20, 0x5d, 0xc3 };
/* code alignment 1, return address 16; cfa rsp+8, return address at cfa-8 */
static const unsigned char cie[] = { 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0 };
/* after 1: cfa rsp+16, rbp at cfa-16; after 4 more: cfa rsp+48; after 6 more: rsp+16 */
static const unsigned char rules[] = { 0x41, 0x0e, 16, 0x86, 2, 0x44, 0x0e, 48,
				       0x46, 0x0e, 16, 0x41, 0x0e, 8, 0, 0 };
#elif defined(__aarch64__)
/* str x30, [sp, #-32]!; blr x0; ldr x30, [sp], #32; ret */
static const unsigned char code[] = { 0xfe, 0x0f, 0x1e, 0xf8, 0x00, 0x00, 0x3f, 0xd6,
				      0xfe, 0x07, 0x42, 0xf8, 0xc0, 0x03, 0x5f, 0xd6 };
/* code alignment 4, return address in x30; cfa sp */
static const unsigned char cie[] = { 1, 0, 4, 0x78, 30, 0x0c, 31, 0 };
/* after 1 instruction: cfa sp+32, x30 at cfa-32; after 2 more: cfa sp, x30 restored */
static const unsigned char rules[] = { 0x41, 0x0e, 32, 0x9e, 4, 0x42, 0x0e, 0,
				       0xde, 0, 0, 0, 0, 0, 0, 0 };
#endif

static unsigned char eh_frame[96];

static void put(unsigned char **at, const void *bytes, size_t size)
{
	memcpy(*at, bytes, size);
	*at += size;
}

/* One CIE, one FDE with absolute addresses, and the zero that ends them. */
static void make_cfi(const void *start)
{
	unsigned char *at = eh_frame;
	uint32_t length = 4 + sizeof(cie), zero = 0, back;
	uint64_t low = reinterpret_cast<uintptr_t>(start), range = sizeof(code);

	put(&at, &length, 4);
	put(&at, &zero, 4);
	put(&at, cie, sizeof(cie));
	length = 4 + 16 + sizeof(rules);
	put(&at, &length, 4);
	back = static_cast<uint32_t>(at - eh_frame);
	put(&at, &back, 4);
	put(&at, &low, 8);
	put(&at, &range, 8);
	put(&at, rules, sizeof(rules));
	put(&at, &zero, 4);
}

static int allocate_first;

static void callback()
{
	CUdeviceptr address;

	if (allocate_first) {
		must(cuMemAlloc_v2(&address, 512), "alloc");
		must(cuMemFree_v2(address), "free");
	}
	throw std::string("through registered code");
}

static void through_registered(const char *when)
{
	void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*function)(void (*)());

	memcpy(page, code, sizeof(code));
	__builtin___clear_cache(static_cast<char *>(page), static_cast<char *>(page) + sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	memset(eh_frame, 0, sizeof(eh_frame));
	make_cfi(page);
	__register_frame(eh_frame);
	memcpy(&function, &page, sizeof(page));
	for (int i = 0; i < 100; i++) {
		try {
			function(callback);
		} catch (const std::string &thrown) {
			if (i == 0)
				printf("%s: %s\n", when, thrown.c_str());
		}
	}
	__deregister_frame(eh_frame);
	munmap(page, 4096);
}
int main()
{
	long sum = 0, other = 0;

	through_registered("before any GPU call");
	start(&driver);
	through_registered("after cuInit");
	allocate_first = 1;
	through_registered("allocating under it");
	throw_often(&sum);
	std::thread thread([&] {
		CUcontext context;

		must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
		must(cuCtxSetCurrent(context), "set");
		throw_often(&other);
	});
	thread.join();
	allocate_first = 0;
	through_registered("at the end");
	leak_here(&driver);
	printf("%ld %ld\n", sum, other);
	return 0;
}
