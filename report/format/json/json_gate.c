/* SPDX-License-Identifier: MIT
 *
 * The report does not depend on the result of the gate, so the result is a separate key. It
 * exists only if a gate was requested.
 */
#include "report/format/json/json_gate.h"

#include "report/describe/json_helpers.h"
#include "report/gate/judge.h"

json_t *json_gate(const struct judgement *judgement)
{
	return JSON_OBJECT(
		{ "status", json_integer(judgement->verdict) },
		{ "reasons", JSON_LIST(judgement->reasons, judgement->reason_count, json_text_at) },
		{ "notes", JSON_LIST(judgement->notes, judgement->note_count, json_text_at) });
}
