/* SPDX-License-Identifier: MIT
 *
 * The rank of this process in a parallel job, from the launcher's environment variables.
 */
#ifndef GPULEAK_RANK_H
#define GPULEAK_RANK_H

struct recorder;

/* Reads the environment as it is now. Call before main, since programs change it. */
void rank_read(void);

/* Stores the rank in a new ledger. Reads the environment again first, since a worker may get its
 * rank from its parent's code. Otherwise uses what the environment had at the start. */
void rank_write(struct recorder *recorder);

#endif
