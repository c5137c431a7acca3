/* SPDX-License-Identifier: MIT
 *
 * Puts the gate's verdict into a JSON report.
 */
#ifndef GPULEAK_TOOLS_GATE_JSON_H
#define GPULEAK_TOOLS_GATE_JSON_H

#include <stddef.h>

struct judgement;

/* Adds the key "gate": {"status": 23, "reasons": ["..."]} to the object that *TEXT is, and
 * replaces *TEXT (malloc'd, *LENGTH bytes). 0, or -ENOMEM with *TEXT as it was. */
int gate_json_add(const struct judgement *judgement, char **text, size_t *length);

#endif
