/* SPDX-License-Identifier: MIT
 *
 * The options of this process, read once from GPULEAK_* before main. Values are copies:
 * programs overwrite their environment.
 */
#pragma once

#include <stdbool.h>

#include "ledger/options.h"

extern struct options config __attribute__((visibility("hidden")));

/* The text of each option's value, as the user gave it. NULL: the default is used. */
extern const char *config_texts[OPTION_COUNT] __attribute__((visibility("hidden")));

/* The value of GPULEAK_ROSTER, the path of the roster (roster.h); NULL if not set. */
extern const char *config_roster __attribute__((visibility("hidden")));

/* The value of GPULEAK_RUN (run_environment.h); NULL if not set. */
extern const char *config_run __attribute__((visibility("hidden")));

/* True after config_read(). The application may look up functions before that, for example in a
 * constructor of another library. */
extern bool config_is_read __attribute__((visibility("hidden")));

/* True while this process does not record: before an attachment, and after its end. Then lookups
 * return the driver's own functions. */
extern _Atomic bool recording_is_off __attribute__((visibility("hidden")));

/* True in a process that was started with GPULEAK_RECORD=off. Its next GPU call that passes through
 * gpuleak looks for a request if *recording_request is not 0. */
extern bool recording_is_prepared __attribute__((visibility("hidden")));
extern const _Atomic uint32_t *recording_request __attribute__((visibility("hidden")));

/* True after config_read_settings(): recording began by an attachment. */
extern bool recording_was_requested __attribute__((visibility("hidden")));

void config_read(void);

/* Replaces all values by those of SETTINGS, lines of GPULEAK_NAME=value (ledger/attach.h). Calls
 * INTERNAL_SETTING for each "NAME=value", which returns true if it is no option. Returns false if a
 * line has another form, or if there is no room. */
typedef bool config_setting(const char *setting);
bool config_read_settings(const char *settings, config_setting *internal_setting);

/* Prints what was wrong with the options, one line each. Prints once in a process, and only if
 * there is something to report: a process without a GPU call prints nothing. */
void config_warn(void);
