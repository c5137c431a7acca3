/* SPDX-License-Identifier: MIT
 *
 * Found by nobody but who has its folder in a DT_RUNPATH (bind_plugin.c).
 */
int beside_answer(void);
int beside_answer(void)
{
	return 42;
}
