/* SPDX-License-Identifier: MIT
 *
 * Uses ANSI sequences: the alternate screen, no cursor, no line wrapping. Reads keys without
 * Enter. Keyboard signals (Ctrl-C) keep working.
 */
#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <termios.h>

#include "tools/launch/system.h"

static const char take[] = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
static const char give[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";

static volatile int taken;
static int has_keys; /* standard input is a terminal, and its settings were changed */
static struct termios before;

bool terminal_is(void)
{
	return isatty(STDOUT_FILENO);
}

struct terminal_size terminal_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
		return (struct terminal_size){ 24, 80 };
	return (struct terminal_size){ size.ws_row, size.ws_col };
}

static void terminal_write_all(const char *bytes, size_t length)
{
	while (length) {
		ssize_t n = write(STDOUT_FILENO, bytes, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		bytes += n;
		length -= (size_t)n;
	}
}

void terminal_take(void)
{
	struct termios keys;

	has_keys = tcgetattr(STDIN_FILENO, &before) == 0;
	if (has_keys) {
		keys = before;
		keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		keys.c_cc[VMIN] = 1;
		keys.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &keys);
	}
	taken = 1;
	terminal_write_all(take, sizeof(take) - 1);
}

void terminal_give_back(void)
{
	if (!taken)
		return;
	taken = 0;
	terminal_write_all(give, sizeof(give) - 1);
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* Writes the first COLUMNS characters of the LENGTH bytes at TEXT. Clears the rest of the row. */
static void draw_line(FILE *out, const char *text, size_t length, size_t columns,
		      void (*write_line)(const char *line, FILE *out))
{
	const size_t shown = utf8_prefix(text, columns);
	FREE_AT_END char *line = strndup(text, shown < length ? shown : length);

	if (write_line)
		write_line(line, out);
	else
		fputs(line, out);
	fputs("\x1b[K", out);
}

void terminal_draw(const char *text, const char *last,
		   void (*write_line)(const char *line, FILE *out))
{
	const struct terminal_size size = terminal_size();
	const size_t rows = *last && size.rows > 1 ? size.rows - 1 : size.rows;
	struct text_buffer frame;
	FILE *out;

	text_buffer_begin(&frame);
	out = frame.out;
	fputs("\x1b[H", out);
	for (size_t row = 0; row < rows && *text; row++) {
		const size_t length = strcspn(text, "\n");

		draw_line(out, text, length, size.columns, write_line);
		if (row + 1 < rows && text[length] && text[length + 1])
			fputs("\r\n", out);
		text += length + (text[length] == '\n');
	}
	fputs("\x1b[J", out);
	if (rows < size.rows) {
		fprintf(out, "\x1b[%zu;1H", size.rows);
		draw_line(out, last, strlen(last), size.columns, write_line);
	}
	text_buffer_end(&frame);
	terminal_write_all(frame.text, frame.length);
	text_buffer_finish(&frame);
}
