/* SPDX-License-Identifier: MIT
 *
 * A plugin that leaks; see plugins.c.
 */
#include "cu.h"

void plugin_work(void);

static void decode(void)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, 1111), "decode"); /* @decode */
}

void plugin_work(void)
{
	decode(); /* @work */
}
