/* SPDX-License-Identifier: MIT
 *
 * The ways a process ends, and the verdict at each.
 */
#ifndef GPULEAK_ENDS_H
#define GPULEAK_ENDS_H

#include "format.h"

/* Called by the constructor. */
void ends_start(void);

#endif
