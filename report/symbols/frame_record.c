/* SPDX-License-Identifier: MIT
 *
 * Searches backwards for the instruction that stores the return address. A function that calls
 * another one has such an instruction, mostly at its start. Reads the file's code; must not trust
 * its headers.
 */
#include "report/symbols/frame_record.h"

#define CODE_MAX 4096u /* bytes before the call */

#define FRAME_POINTER 29u
#define LINK 30u
#define STACK_POINTER 31u

/* Returns true if INSTRUCTION is "stp", which stores two registers, relative to the stack pointer:
 * [sp, #n] or [sp, #n]! */
static bool stores_two(uint32_t instruction)
{
	return (instruction & 0xff400000) == 0xa9000000 &&
	       (instruction >> 5 & 31) == STACK_POINTER;
}

/* Returns true if INSTRUCTION is "str", which stores one register, relative to the stack
 * pointer. */
static bool stores_one(uint32_t instruction)
{
	return ((instruction & 0xffc00000) == 0xf9000000 ||
		(instruction & 0xffe00c00) == 0xf8000c00) &&
	       (instruction >> 5 & 31) == STACK_POINTER;
}

bool frame_record_is_missing(const uint32_t *code, size_t count)
{
	while (count-- > 0) {
		uint32_t first = code[count] & 31, second = code[count] >> 10 & 31;

		if (stores_two(code[count]) && (first == LINK || second == LINK))
			return first != FRAME_POINTER || second != LINK;
		if (stores_one(code[count]) && first == LINK)
			return true;
	}
	return false;
}

bool frame_record_is_missing_at(Elf *file, GElf_Addr address)
{
	GElf_Ehdr header;
	size_t count;

	if (!gelf_getehdr(file, &header) || header.e_machine != EM_AARCH64 ||
	    elf_getphdrnum(file, &count) < 0)
		return false;
	address &= ~(GElf_Addr)3;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr part;
		GElf_Addr before, bytes;
		Elf_Data *code;

		if (!gelf_getphdr(file, (int)i, &part) || part.p_type != PT_LOAD ||
		    address < part.p_vaddr || address - part.p_vaddr >= part.p_filesz)
			continue;
		before = address - part.p_vaddr;
		bytes = (before < CODE_MAX ? before : CODE_MAX) & ~(GElf_Addr)3;
		code = elf_getdata_rawchunk(file, (int64_t)(part.p_offset + before - bytes), bytes,
					    ELF_T_WORD);
		return code &&
		       frame_record_is_missing(code->d_buf, code->d_size / sizeof(uint32_t));
	}
	return false;
}
