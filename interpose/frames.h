/* SPDX-License-Identifier: MIT
 *
 * Whether the unwinding of a frame depends on nothing but the stack pointer, the frame
 * pointer and the words they lead to: what remembered stacks (stacks.c) rely on.
 */
#ifndef GPULEAK_FRAMES_H
#define GPULEAK_FRAMES_H

#include <stdbool.h>

/* The function around PC (a return address minus 1) computes its frame address, at every
 * point, as stack or frame pointer plus a constant, by its unwind information. False also
 * when there is none, or it can't be read. Takes no lock. */
bool frame_is_plain(const void *pc);

#endif
