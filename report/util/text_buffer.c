/* SPDX-License-Identifier: MIT
 *
 * Wraps open_memstream().
 */
#include "report/util/text_buffer.h"

#include <stdlib.h>
#include <string.h>

void text_buffer_begin(struct text_buffer *words)
{
	*words = (struct text_buffer){ 0 };
	words->out = open_memstream(&words->text, &words->length);
}

void text_buffer_end(struct text_buffer *words)
{
	fclose(words->out);
	words->out = NULL;
}

void text_buffer_finish(struct text_buffer *words)
{
	free(words->text);
	*words = (struct text_buffer){ 0 };
}

void text_free(void *pointer)
{
	void *text;

	memcpy(&text, pointer, sizeof(text));
	free(text);
}
