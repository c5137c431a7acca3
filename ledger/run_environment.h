/* SPDX-License-Identifier: MIT
 *
 * The variable GPULEAK_RUN: the names of the variables that `gpuleak run` has set for its program.
 * If a program of the run starts another one with an environment that lacks them, the library puts
 * them back.
 *
 * The value is a list of words, separated by blanks:
 *
 *   NAME            if NAME is missing, it gets the value that it has in the calling program
 *   NAME=ELEMENTS   NAME is a list. The elements that it lacks are added: behind the others in
 *                   LD_PRELOAD, in front of them in other lists. Elements are separated by colons.
 *                   Blanks, newlines and percent signs in them are %20, %0A and %25.
 */
#pragma once

#define RUN_ENVIRONMENT "GPULEAK_RUN"
/* A program that is started with this string in its environment gets nothing back. */
#define RUN_ENVIRONMENT_OFF "GPULEAK_FOLLOW=off"
