/* SPDX-License-Identifier: MIT
 *
 * The gate: decides if a report passes, and lists the reasons. It passes only if the report is
 * proven to be clean. Must not read files, depend on formats, or print.
 */
#pragma once

#include "report/subjects/judgement.h"

/* Fills in *RET; the caller releases it with judgement_finish(). */
void judge(const struct judge_input *input, struct judgement *ret);
