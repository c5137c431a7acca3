/* SPDX-License-Identifier: MIT
 *
 * The result of the gate in the JSON report: key "gate".
 */
#ifndef GPULEAK_REPORT_JSON_GATE_H
#define GPULEAK_REPORT_JSON_GATE_H

#include <jansson.h>

struct judgement;

json_t *json_gate(const struct judgement *judgement);

#endif
