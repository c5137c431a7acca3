/* SPDX-License-Identifier: MIT
 *
 * open_memstream() with its two moments at which memory may lack.
 */
#include "report/util/text_buffer.h"

#include <errno.h>
#include <stdlib.h>

int words_begin(struct words *words)
{
	*words = (struct words){ 0 };
	words->out = open_memstream(&words->text, &words->length);
	return words->out ? 0 : -ENOMEM;
}

int words_end(struct words *words)
{
	int failed = ferror(words->out);

	failed |= fclose(words->out) != 0;
	words->out = NULL;
	return failed || !words->text ? -ENOMEM : 0;
}

void words_finish(struct words *words)
{
	if (words->out)
		fclose(words->out);
	free(words->text);
	*words = (struct words){ 0 };
}
