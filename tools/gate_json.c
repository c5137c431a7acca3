/* SPDX-License-Identifier: MIT
 *
 * The gate is no part of a report's model: a report is the same whoever judges it. So the
 * verdict is added here, to the report's JSON as it was printed.
 */
#include "gate_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "escape.h"
#include "judge.h"

static json_t *gate(const struct judgement *judgement)
{
	json_t *reasons = json_array();
	json_t *object = json_object();

	for (size_t i = 0; i < judgement->reason_count; i++) {
		char *clean = utf8_repair(judgement->reasons[i]);

		if (!clean || json_array_append_new(reasons, json_string(clean)) < 0) {
			json_decref(reasons);
			reasons = NULL;
		}
		free(clean);
	}
	if (json_object_set_new(object, "status", json_integer(judgement->verdict)) < 0 ||
	    json_object_set_new(object, "reasons", reasons) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

int gate_json_add(const struct judgement *judgement, char **text, size_t *length)
{
	json_t *root = json_loadb(*text, *length, 0, NULL);
	char *dump = NULL, *whole = NULL;

	if (json_object_set_new(root, "gate", gate(judgement)) == 0)
		dump = json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	if (dump && asprintf(&whole, "%s\n", dump) < 0)
		whole = NULL;
	free(dump);
	if (!whole)
		return -ENOMEM;
	free(*text);
	*text = whole;
	*length = strlen(whole);
	return 0;
}
