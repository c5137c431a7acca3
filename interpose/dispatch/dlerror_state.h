/* SPDX-License-Identifier: MIT
 *
 * Saves and restores the application's dlerror() state around gpuleak's own loader calls. Every
 * successful loader call clears a pending message, and reading the message also clears it. So the
 * message is read first, and produced again afterwards.
 */
#ifndef GPULEAK_DLERROR_STATE_H
#define GPULEAK_DLERROR_STATE_H

struct dlerror_state {
	char message[1024]; /* "": no message was pending */
};

/* Call these around loader calls in a wrapper. Do not call them in a lookup: it calls the loader on
 * the application's behalf, and must change the state as that call does. */
void dlerror_take(struct dlerror_state *ret);
void dlerror_give_back(const struct dlerror_state *state);

#endif
