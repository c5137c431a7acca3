/* SPDX-License-Identifier: MIT
 *
 * The counters of the pools in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_POOL_H
#define GPULEAK_REPORT_JSON_POOL_H

#include <jansson.h>

struct report_pools;

json_t *json_pool(const struct report_pools *pools);

#endif
