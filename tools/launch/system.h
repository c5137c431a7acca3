/* SPDX-License-Identifier: MIT
 *
 * Includes what most files of the command need of the C library and of report/util/, and the
 * questions about processes. Must not declare anything itself.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/util/escape.h"
#include "report/util/memory.h"
#include "report/util/text_buffer.h"
#include "tools/launch/process.h"
