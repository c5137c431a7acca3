/* SPDX-License-Identifier: MIT
 *
 * Marks what libgpuleak.so exports.
 */
#ifndef GPULEAK_EXPORT_H
#define GPULEAK_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#endif
