/* SPDX-License-Identifier: MIT
 *
 * Describes an errno value in words, without locale, allocation or lock. Any thread may call it.
 */
#pragma once

/* Returns the description of ERROR in English, or "unknown error". */
const char *error_text(int error);
