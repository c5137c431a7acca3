/* SPDX-License-Identifier: MIT
 *
 * What stacks depend on the processor for: registers, the caller of a wrapper, return addresses.
 */
#pragma once

#if defined(__x86_64__)
#include "interpose/stack/arch_x86_64.h"
#else
#include "interpose/stack/arch_aarch64.h"
#endif
