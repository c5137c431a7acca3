/* SPDX-License-Identifier: MIT
 *
 * Writes objects that are not memory: grouped like leaks, but without bytes.
 */
#include "report/format/json/json_objects.h"

#include "report/format/json/json_history.h"
#include "report/format/json/json_helpers.h"
#include "report/model/model.h"

static json_t *object_json(const struct report_leak *object)
{
	json_t *ret = json_object();

	json_set(&ret, "api", json_text(object->api));
	json_set(&ret, "kind", json_text(object->kind));
	json_set(&ret, "count", json_number(object->blocks));
	json_set(&ret, "references", json_number(object->references));
	json_set(&ret, "stack", json_stack(object->stack));
	if (object->history)
		json_set(&ret, "history", json_history(object->history));
	return ret;
}

json_t *json_objects(const struct report_process *process)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < process->object_count && ret; i++)
		json_append(&ret, object_json(&process->objects[i]));
	return ret;
}
