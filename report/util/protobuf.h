/* SPDX-License-Identifier: MIT
 *
 * Encodes fields of protocol buffers, for pprof and perfetto. Numbers and bytes are the only wire
 * types that both have. Each function writes to AT and returns the end. Must not allocate.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PROTO_NUMBER_MAX 12 /* bytes of a field with a number */
#define PROTO_HEAD_MAX 12   /* bytes before the content of a message */

static inline unsigned char *put_varint(unsigned char *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (unsigned char)(value | 0x80);
	*at++ = (unsigned char)value;
	return at;
}

static inline unsigned char *put_number(unsigned char *at, unsigned int field, uint64_t value)
{
	return put_varint(put_varint(at, field << 3), value);
}

/* Writes the bytes that come before the content of FIELD, which has SIZE bytes: field number and
 * size. */
static inline unsigned char *put_head(unsigned char *at, unsigned int field, size_t size)
{
	return put_varint(put_varint(at, field << 3 | 2), size);
}
