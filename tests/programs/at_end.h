/* SPDX-License-Identifier: MIT
 *
 * What at_end.c and the libraries built from at_end_lib.c have between them.
 */
#ifndef GPULEAK_TESTS_PROGRAMS_AT_END_H
#define GPULEAK_TESTS_PROGRAMS_AT_END_H

void at_end_start(void);

#endif
