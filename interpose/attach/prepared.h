/* SPDX-License-Identifier: MIT
 *
 * A process that was started with GPULEAK_RECORD=off: it can be attached to by a page of a file.
 */
#ifndef GPULEAK_ATTACH_PREPARED_H
#define GPULEAK_ATTACH_PREPARED_H

/* attach.c: makes the words of modules lead past gpuleak's exports. Does nothing if another thread
 * changes words. */
void attach_turn_off_words(void);

/* An attachment has begun. While it lasts, a thread looks for a request to end it, because the
 * wrappers do not. */
void prepared_attached(void);

#endif
