/* SPDX-License-Identifier: MIT
 *
 * The report for programs as an object: schema gpuleak-report/1. Defines the keys and their order,
 * which are stable. Later versions may add keys.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct judgement;
struct report;

/* Returns what print_json() writes. If HAS_WORDS is set, it also has words of the text report, for
 * the HTML page: see print_html.c. */
json_t *json_report(const struct report *report, const struct judgement *judgement,
		    bool has_words);

/* Returns the key "gate". The rest of the report does not depend on the result of the gate. */
json_t *json_gate(const struct judgement *judgement);
