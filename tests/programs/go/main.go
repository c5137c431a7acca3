// SPDX-License-Identifier: MIT

// Goroutines that leak through C. The argument names what they do. A line that a report must name
// has a marker.
package main

/*
#include "cu.h"

static CUcontext context;

static void up(void) { begin(); must(cuDevicePrimaryCtxRetain(&context, 0), "retain"); }

// A goroutine may continue on another thread, so each call sets the context.
static void lose(unsigned int bytes)
{
	CUdeviceptr address;

	must(cuCtxSetCurrent(context), "current");
	must(cuMemAlloc_v2(&address, bytes), "alloc");
}

extern void calledFromC(int depth);

static void callBack(int depth) { calledFromC(depth); lose(1000); }
*/
import "C"

import (
	"os"
	"runtime"
	"sync"
)

//go:noinline
func oldLeak(bytes int) {
	C.lose(C.uint(bytes)) // @old
}

//go:noinline
func newLeak(bytes int) {
	C.lose(C.uint(bytes)) // @new
}

// Uses so much stack that the goroutine's stack must grow, which moves it.
//
//go:noinline
func deep(depth int, leak func(int), bytes int) byte {
	var room [4096]byte

	room[depth%len(room)] = 1
	if depth == 0 {
		leak(bytes) // @bottom
	} else {
		room[1] += deep(depth-1, leak, bytes) // @deep
	}
	return room[0]
}

//export calledFromC
func calledFromC(depth C.int) {
	deep(int(depth), newLeak, 3000) // @from_c
}

// For a program that loads this as a library.
//
//export start
func start() {
	C.up()
}

// Calls C, which calls Go, which calls C.
//
//go:noinline
func outer(depth int) {
	C.callBack(C.int(depth)) // @outer
}

func threads() {
	var group sync.WaitGroup

	for i := 0; i < 16; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 50; j++ {
				if (i+j)%2 == 0 {
					oldLeak(100) // @thread_old
				} else {
					deep(j%5, newLeak, 10) // @thread_new
				}
				runtime.Gosched()
			}
		}(i) // @group
	}
	group.Wait()
}

// From the third call on, gpuleak knows these stacks.
//
//go:noinline
func repeat() {
	for i := 0; i < 50; i++ {
		oldLeak(100)        // @repeat_old
		newLeak(10)         // @repeat_new
		deep(1, oldLeak, 2) // @repeat_deep
	}
}

// The compiler writes the body of this function into its caller.
func inlinedLeak(bytes int) {
	C.lose(C.uint(bytes)) // @inlined
}

//go:noinline
func inlines() {
	inlinedLeak(50) // @inlines_50

	inlinedLeak(60) // @inlines_60
	if C.uint(C.sizeof_int) == 4 {
		inlinedLeak(70) // @inlines_70
	}
}

func main() {
	C.up()
	switch os.Args[1] {
	case "two":
		oldLeak(1000) // @two_old
		newLeak(2000) // @two_new
	case "callback":
		outer(3) // @callback
	case "grow":
		outer(100) // @grow
	case "repeat":
		repeat() // @main_repeat
	case "inlined":
		inlines() // @main_inlined
	case "deep":
		deep(1000, oldLeak, 7)
	case "threads":
		threads()
	}
}
