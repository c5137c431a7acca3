/* SPDX-License-Identifier: MIT
 *
 * Chooses the frame that names each holder, which is a call site with live memory. Many programs
 * allocate through one function of their own, for example one that checks for errors. All holders
 * would then be named after this function. So they are named after its callers instead.
 */
#ifndef GPULEAK_REPORT_HOLDER_FRAMES_H
#define GPULEAK_REPORT_HOLDER_FRAMES_H

struct report_frame;
struct report_holders;

/* RET is an array with one element per holder. Stores in each the frame of the caller that names
 * the holder, or NULL if describe_place() names it. */
void holder_frames_choose(const struct report_holders *held, const struct report_frame **ret);

#endif
