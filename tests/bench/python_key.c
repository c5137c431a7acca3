/* SPDX-License-Identifier: MIT
 *
 * What it costs to know the Python frames of the calling thread again: the recording half's own
 * python_key(), called in a loop by a Python program below as many frames as it likes. Loaded
 * through ctypes by python.py; without a preload.
 */
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "interpose/recorder/recorder.h"
#include "interpose/stack/python.h"

#define EXPORT_HERE __attribute__((visibility("default")))

int bench_start(void) EXPORT_HERE;
double bench_key(unsigned int depth, int times) EXPORT_HERE;
double bench_first(unsigned int depth, int times) EXPORT_HERE;
unsigned int bench_frames(unsigned int depth) EXPORT_HERE;

static double now_ns(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static struct recorder *recorder;

/* 1 if an interpreter was found and is known. */
int bench_start(void)
{
	struct ledger_header header = { 0 };

	recorder = mmap(NULL, sizeof(*recorder), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (recorder == MAP_FAILED || ledger_writer_create(&recorder->writer, NULL, &header) < 0)
		return 0;
	recorder->header = recorder->writer.header;
	recorder->stack_depth = 64;
	python_want();
	python_look(recorder);
	return atomic_load(&python_now) != NULL;
}

/* How many frames are there. */
unsigned int bench_frames(unsigned int depth)
{
	struct python_chain chain;

	python_read(atomic_load(&python_now), depth, &chain);
	return chain.frames;
}

/* ns for the key of up to DEPTH frames: what every recorded call pays. */
double bench_key(unsigned int depth, int times)
{
	double start = now_ns();
	uint64_t sum = 0;

	for (int i = 0; i < times; i++)
		sum += python_key(depth);
	__asm__ volatile("" : : "r"(sum));
	return (now_ns() - start) / times;
}

/* ns for their names and lines: what a stack pays that this thread meets for the first time. */
double bench_first(unsigned int depth, int times)
{
	double start = now_ns();
	uint64_t sum = 0;

	for (int i = 0; i < times; i++)
		sum += python_intern(recorder, depth, 0);
	__asm__ volatile("" : : "r"(sum));
	return (now_ns() - start) / times;
}
