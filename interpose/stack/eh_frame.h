/* SPDX-License-Identifier: MIT
 *
 * Reads .eh_frame, the unwind tables of a module. Finds the entry of an address, and reads the
 * numbers of its instructions. frames.c interprets the instructions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct eh_reader {
	const uint8_t *at, *end;
	bool bad; /* a read went beyond the end */
};

uint8_t eh_read_u8(struct eh_reader *r);
uint64_t eh_read_uleb(struct eh_reader *r);
int64_t eh_read_sleb(struct eh_reader *r);
void eh_skip(struct eh_reader *r, uint64_t bytes);

/* The call frame instructions of a function: first those of its CIE, then those of its FDE. */
struct eh_entry {
	struct eh_reader common, own;
	uintptr_t start; /* of the function */
	uint64_t code_alignment;
	int64_t data_alignment;
	bool is_signal_frame;
};

/* Finds the entry of the function that contains PC. PC is a return address minus 1. Takes the locks
 * that module_find() takes: none since glibc 2.35. Returns false if there is no entry, or if it is
 * unreadable. */
bool eh_frame_find(const void *pc, struct eh_entry *ret);
