/* SPDX-License-Identifier: MIT
 *
 * Shortens long C++ names for text that people read. Must not be used for keys, patterns or
 * machine-readable formats. Thread-safe.
 */
#pragma once

#define SHORT_NAME_MAX 256
#define SHORT_NAME_WHOLE 60 /* names up to this length stay whole */

/* Returns NAME if it is short. Otherwise writes a shorter form to RET and returns RET. The short
 * form of a C++ name has no arguments and no template arguments. If it is still long, it lacks
 * scopes: "at::native::...::mm". Any other name is cut if it is extremely long. */
const char *short_name(const char *name, char ret[SHORT_NAME_MAX]);
