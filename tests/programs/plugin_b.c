/* SPDX-License-Identifier: MIT
 *
 * Another plugin that leaks, of the same shape: only names, lines and sizes differ.
 */
#include "cu.h"

void plugin_work(void);

/* A line or two more than the other one has. */

static void encode(void)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, 2222), "encode"); /* @encode */
}

void plugin_work(void)
{
	encode(); /* @work */
}
