/* SPDX-License-Identifier: MIT
 *
 * A plugin that links libcuda itself; who opens it does not, and opens it RTLD_LOCAL: the
 * driver is then in nobody's global scope. With -DEARLY it works in its constructor.
 */
#include "cu.h"

void plugin_work(void);
void plugin_work(void)
{
	static const struct driver linked = LINKED_DRIVER;

	work(&linked);
}

#ifdef EARLY
void in_constructor(void); /* opener.c's */

__attribute__((constructor)) static void early(void)
{
	in_constructor();
	plugin_work();
}
#endif
