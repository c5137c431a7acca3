/* SPDX-License-Identifier: MIT
 *
 * Marks what libgpuleak.so exports.
 */
#pragma once

#define EXPORT __attribute__((visibility("default")))
