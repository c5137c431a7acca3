/* SPDX-License-Identifier: MIT
 *
 * The key "growth" of a process in the JSON report. docs/guides/services.md documents the keys.
 */
#ifndef GPULEAK_REPORT_JSON_GROWTH_H
#define GPULEAK_REPORT_JSON_GROWTH_H

#include <jansson.h>

struct report_growth;

json_t *json_growth(const struct report_growth *growth);

#endif
