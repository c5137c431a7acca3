/* SPDX-License-Identifier: MIT
 *
 * Linked statically: no loader, so no preload and nothing to notice.
 */
#include <stdio.h>

int main(void)
{
	printf("static\n");
	return 3;
}
