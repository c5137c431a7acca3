/* SPDX-License-Identifier: MIT
 *
 * The parts of the JSON report. If memory runs out, a function returns NULL, see json_helpers.h.
 */
#ifndef GPULEAK_REPORT_JSON_SECTIONS_H
#define GPULEAK_REPORT_JSON_SECTIONS_H

#include <jansson.h>

struct report;
struct report_coverage;
struct report_deferred_frees;
struct report_event;
struct report_history;
struct report_keepers;
struct report_holders;
struct report_leak;
struct report_process;
struct report_stack;
struct report_summary;

json_t *json_stack(const struct report_stack *stack);
/* An event is null if neither its call nor its stack is known. An allocation is an event with
 * bytes. */
json_t *json_event(const struct report_event *event);
json_t *json_allocation(const struct report_event *event);
json_t *json_fingerprint(const struct report_leak *leak);
json_t *json_sample(const void *sample); /* [ns, bytes], of a struct report_sample */

/* Sets the keys of PROCESS in *OBJECT, like json_set(). */
void json_add_process(json_t **object, const struct report_process *process);
json_t *json_summary(const struct report_summary *sum);
json_t *json_keepers(const struct report_keepers *keepers);
json_t *json_keepers_time(const struct report_keepers *keepers); /* in seconds */
json_t *json_leak(const void *leak);         /* LEAK is a struct report_leak */
json_t *json_not_memory(const void *object); /* OBJECT is a struct report_leak */
json_t *json_object_kind(const void *item);
/* Returns the word of JSON for a kind of object: "stream" for "object/stream". */
const char *json_object_word(const char *kind);
json_t *json_error(const void *error);       /* ERROR is a struct report_error */
json_t *json_holder(const void *holder);     /* HOLDER is a struct report_leak */
/* The key is left out if the process exported and opened nothing. */
json_t *json_ipc(const struct report_process *process);
/* Sets the keys of HOLDERS in *OBJECT, like json_set(). */
void json_add_holders(json_t **object, const struct report_holders *holders);
json_t *json_out_of_memory(const struct report_process *process);
json_t *json_peak(const struct report_process *process);
json_t *json_deferred(const struct report_deferred_frees *frees);
json_t *json_timeline(const struct report_process *process);
json_t *json_coverage(const struct report_coverage *coverage);
/* These keys are left out if no device has samples, if no costs were recorded, or if the report is
 * not about a job with at least two ranks. */
json_t *json_driver_memory(const struct report_process *process);
json_t *json_driver_costs(const struct report_process *process);
json_t *json_ranks(const struct report *report);

#endif
