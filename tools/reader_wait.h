/* SPDX-License-Identifier: MIT
 *
 * Limits how long an application that ends waits for the reader of its report. The library starts
 * `gpuleak report --at-exit` at the end of the application, and waits for it. The reader of a pipe
 * may be slow, or read only after it has seen the application end.
 */
#pragma once

/* Stores lines for stderr in memory from now on. So a full pipe does not delay the verdict. */
void reader_wait_hold_lines(void);

/* Writes the stored lines, and from now on each line at once. */
void reader_wait_release_lines(void);

/* Limits the time for which all further output waits for readers, of the stored lines too. If
 * pipes, sockets or terminals do not take the output within 2 seconds, a child process continues at
 * that place, and this process exits with STATUS. The child closes the application's other
 * descriptors. If there is no child, the rest is not written. */
void reader_wait_limit(int status);
