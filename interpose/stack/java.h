/* SPDX-License-Identifier: MIT
 *
 * Java frames of the calling thread. Interpreted Java methods have the same native frames, so only
 * the JVM itself can distinguish them. Never attaches a thread, and calls the JVM only in states of
 * a thread in which HotSpot allows it.
 */
#ifndef GPULEAK_JAVA_H
#define GPULEAK_JAVA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct recorder;

/* Modules were loaded since the last java_look(). */
extern _Atomic bool java_is_due __attribute__((visibility("hidden")));
/* The process has a JVM whose frames can be read. */
extern _Atomic bool java_is_there __attribute__((visibility("hidden")));

/* Searches this process for a JVM. Calls the loader. */
void java_look(void);

/* No JVM is called until the next search, because a module is about to be closed. */
static inline void java_forget(void)
{
	atomic_store(&java_is_there, false);
	atomic_store(&java_is_due, true);
}

/* Locking: the caller holds no lock and runs on the thread's own stack, because the JVM may let the
 * thread wait for a garbage collection. Returns the ref of the thread's innermost Java frames, at
 * most GPULEAK_STACK_DEPTH of them. Writes them into the ledger if they are new. Returns 0 if the
 * thread runs no Java, or must not call the JVM now. */
uint32_t java_frames(struct recorder *recorder);

#endif
