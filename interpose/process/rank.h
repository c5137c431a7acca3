/* SPDX-License-Identifier: MIT
 *
 * Which rank of a parallel job this process is, as its launcher said in the environment.
 */
#ifndef GPULEAK_RANK_H
#define GPULEAK_RANK_H

struct recorder;

/* Looks at the environment as it is now. Before main, since programs change it. */
void rank_read(void);

/* Notes the rank in a new ledger: what the environment says by now, since a worker may get its
 * rank from its own parent's code, or else what it said at the start. */
void rank_write(struct recorder *recorder);

#endif
