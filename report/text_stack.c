/* SPDX-License-Identifier: MIT
 *
 * How the text report spells a frame, a stack, a number of bytes and a kind of memory.
 */
#include "text_stack.h"

#include <inttypes.h>
#include <string.h>

#include "escape.h"
#include "model.h"
#include "number.h"

/* "/abs/app.c:12", or "/abs/app+0x1234" where no line is known: addr2line takes that. */
static void print_source(FILE *out, const struct report_frame *frame)
{
	if (frame->file) {
		print_escaped(out, frame->file);
		if (frame->line)
			fprintf(out, ":%u", frame->line);
		return;
	}
	if (frame->module) {
		print_escaped(out, frame->module);
		fputc('+', out);
	}
	fprintf(out, "0x%" PRIx64, frame->offset);
}

static void print_function(FILE *out, const struct report_frame *frame)
{
	if (frame->function)
		print_escaped(out, frame->function);
	else
		fputs("???", out);
}

void text_stack(FILE *out, const struct report_stack *stack)
{
	if (stack->count == 0) {
		fputs("    (no stack was recorded)\n", out);
		return;
	}
	for (size_t i = 0; i < stack->count; i++) {
		const struct report_frame *frame = &stack->frames[i];

		fprintf(out, "    #%zu ", i);
		print_function(out, frame);
		fputs(frame->file ? " " : " (", out);
		print_source(out, frame);
		fputs(frame->file ? "\n" : ")\n", out);
	}
	if (stack->cut)
		fputs("    (outer frames were cut off: see GPULEAK_STACK_DEPTH)\n", out);
}

void text_place(FILE *out, const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	if (!frame) {
		fputs("an unknown place (no stack was recorded)", out);
		return;
	}
	print_function(out, frame);
	fputs(" (", out);
	print_source(out, frame);
	fputc(')', out);
}

void text_bytes(FILE *out, uint64_t bytes)
{
	char number[NUMBER_MAX], size[NUMBER_MAX];

	if (bytes < 1024)
		fputs(format_size(bytes, size), out);
	else
		fprintf(out, "%s bytes (%s)", format_number(bytes, number),
			format_size(bytes, size));
}

void text_kind(FILE *out, const char *kind)
{
	static const struct {
		const char *kind, *words;
	} table[] = {
		{ "device", "device memory" },
		{ "managed", "managed memory" },
		{ "pinned", "pinned host memory" },
		{ "registered", "registered host memory" },
		{ "stream-ordered", "stream-ordered memory" },
		{ "mempool", "memory pool" },
		{ "cl-buffer", "OpenCL buffer" },
		{ "cl-sub-buffer", "OpenCL sub-buffer" },
		{ "cl-image", "OpenCL image" },
		{ "cl-pipe", "OpenCL pipe" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(kind, table[i].kind) == 0) {
			fputs(table[i].words, out);
			return;
		}
	}
	print_escaped(out, kind);
}
