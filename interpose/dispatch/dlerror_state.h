/* SPDX-License-Identifier: MIT
 *
 * Keeps the application's dlerror() state over loader calls of our own. Every successful
 * call of the loader clears a message that is pending, and there is no way to look
 * without taking it: so it is taken, and provoked again.
 */
#ifndef GPULEAK_DLERROR_STATE_H
#define GPULEAK_DLERROR_STATE_H

struct dlerror_state {
	char message[1024]; /* "" = none was pending */
};

/* Around loader calls made from a wrapper. Not for lookups, which call the loader on the
 * application's behalf and must change the state as that call does. */
void dlerror_take(struct dlerror_state *ret);
void dlerror_give_back(const struct dlerror_state *state);

#endif
