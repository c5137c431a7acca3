/* SPDX-License-Identifier: MIT
 *
 * Finds which process exported the memory that another process has open.
 */
#pragma once

struct report;

/* Fills in the fields of struct report_ipc that are set by ipc_match(). Call it when REPORT has all
 * its processes. A second call changes nothing. */
void ipc_match(struct report *report);
