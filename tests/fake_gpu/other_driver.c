/* SPDX-License-Identifier: MIT
 *
 * In place of NVIDIA's driver: a libcuda.so.1 that is not the stand-in.
 */
int cuInit(unsigned int flags);

int cuInit(unsigned int flags)
{
	(void)flags;
	return 0;
}
