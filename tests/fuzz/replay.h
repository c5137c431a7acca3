/* SPDX-License-Identifier: MIT
 *
 * With -DFUZZ_REPLAY: a main that runs a fuzz target over the files that are its arguments.
 */
#ifndef GPULEAK_TESTS_FUZZ_REPLAY_H
#define GPULEAK_TESTS_FUZZ_REPLAY_H

#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef FUZZ_REPLAY
int main(int argc, char **argv)
{
	static uint8_t data[2 << 20];

	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		size_t size;

		if (!f) {
			perror(argv[i]);
			return 1;
		}
		size = fread(data, 1, sizeof(data), f);
		fclose(f);
		LLVMFuzzerTestOneInput(data, size);
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
#endif

#endif
