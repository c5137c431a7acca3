/* SPDX-License-Identifier: MIT
 *
 * Includes what nearly every subject needs: the builder, and the words of text and JSON. Only files
 * of this folder include it.
 */
#pragma once

#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"
#include "report/model/builder.h"
#include "report/subjects/subject.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
