/* SPDX-License-Identifier: MIT
 *
 * Chooses the frame that names each holder. Many programs allocate by one function of their own,
 * for example one that checks for errors. Its name would be that of all holders, so its callers
 * name them.
 */
#ifndef GPULEAK_REPORT_HOLDER_FRAMES_H
#define GPULEAK_REPORT_HOLDER_FRAMES_H

struct report_frame;
struct report_holders;

/* Stores in RET, an array with an element for each holder, the caller that names it, or NULL: then
 * describe_place() names it. Returns 0 or -ENOMEM. */
int holder_frames_choose(const struct report_holders *held, const struct report_frame **ret);

#endif
