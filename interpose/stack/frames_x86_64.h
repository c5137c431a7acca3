/* SPDX-License-Identifier: MIT
 *
 * Checks on x86-64 whether a frame is plain (enum frame_sort in walk.h).
 */
#ifndef GPULEAK_FRAMES_X86_64_H
#define GPULEAK_FRAMES_X86_64_H

#include "interpose/stack/walk.h"

/* Returns how the function that contains PC computes its frame address, from its unwind
 * information: FRAME_BY_POINTER if it uses the frame pointer at any instruction. PC is a return
 * address minus 1. Takes the locks that eh_frame_find() takes. */
enum frame_sort frame_sort_of(const void *pc);

#endif
