/* SPDX-License-Identifier: MIT
 *
 * A library that needs 256 MiB of address space.
 */
extern char large_library[256 << 20];
char large_library[256 << 20];
