/* SPDX-License-Identifier: MIT
 *
 * Links early.c's library, so that its constructor runs first.
 */
void early_is_linked(void);

int main(void)
{
	early_is_linked();
	return 0;
}
