/* SPDX-License-Identifier: MIT
 *
 * Wraps open_memstream(). If it fails, or if writing to it failed, the functions return -ENOMEM.
 */
#include "report/util/text_buffer.h"

#include <errno.h>
#include <stdlib.h>

int text_buffer_begin(struct text_buffer *words)
{
	*words = (struct text_buffer){ 0 };
	words->out = open_memstream(&words->text, &words->length);
	return words->out ? 0 : -ENOMEM;
}

int text_buffer_end(struct text_buffer *words)
{
	int failed = ferror(words->out);

	failed |= fclose(words->out) != 0;
	words->out = NULL;
	return failed || !words->text ? -ENOMEM : 0;
}

void text_buffer_finish(struct text_buffer *words)
{
	if (words->out)
		fclose(words->out);
	free(words->text);
	*words = (struct text_buffer){ 0 };
}
