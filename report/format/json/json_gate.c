/* SPDX-License-Identifier: MIT
 *
 * The report does not depend on the result of the gate, so the result is a separate key. It
 * exists only if a gate was requested.
 */
#include "report/format/json/json_gate.h"

#include "report/format/json/json_helpers.h"
#include "report/gate/judge.h"

json_t *json_gate(const struct judgement *judgement)
{
	json_t *object = json_object(), *reasons = json_array(), *notes = json_array();

	for (size_t i = 0; i < judgement->reason_count && reasons; i++)
		json_append(&reasons, json_text(judgement->reasons[i]));
	json_set(&object, "status", json_integer(judgement->verdict));
	json_set(&object, "reasons", reasons);
	for (size_t i = 0; i < judgement->note_count && notes; i++)
		json_append(&notes, json_text(judgement->notes[i]));
	json_set(&object, "notes", notes);
	return object;
}
