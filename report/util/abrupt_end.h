/* SPDX-License-Identifier: MIT
 *
 * Ends the command where it cannot continue: memory is short, or a file was truncated while its
 * symbols were read. It prints one line and exits, and no signal ends it. A program with this file
 * has a malloc() that does not fail. So report/, tools/ and their libraries handle no failed
 * allocation, and no report lacks a part because of one.
 */
#pragma once

/* Called before the line is printed, unless NULL, and not in a child of the command. Must not
 * allocate: then it would run twice. If it sets ABRUPT_END_STATUS, that is the status. */
extern void (*volatile abrupt_end_before)(void);

/* The exit status; -1: 125 if memory is short, 1 after a truncated file. */
extern volatile int abrupt_end_status;

/* A sentence for the line on short memory: what the user can do after that. */
extern const char *volatile abrupt_end_advice;

/* Handles SIGBUS from now on. Call it first. */
void abrupt_end_start(void);

/* Ends the command because memory is short. */
__attribute__((noreturn)) void abrupt_end_no_memory(void);
