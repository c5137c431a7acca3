/* SPDX-License-Identifier: MIT
 *
 * Formats numbers, the same in every locale, because programs compare reports.
 */
#include "report/util/number.h"

#include <stdio.h>

char *format_number(uint64_t number, char ret[NUMBER_MAX])
{
	char digits[NUMBER_MAX];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	char *to = ret;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return ret;
}

char *format_percent(uint64_t part, uint64_t all, char ret[NUMBER_MAX])
{
	double percent = all ? 100.0 * (double)part / (double)all : 0;

	if (part < all && percent > 99.9)
		percent = 99.9;
	snprintf(ret, NUMBER_MAX, "%.1f%%", percent);
	return ret;
}

char *format_size(uint64_t bytes, char ret[NUMBER_MAX])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int unit = 0;
	uint64_t whole = bytes, rest;

	if (bytes < 1024) {
		snprintf(ret, NUMBER_MAX, "%llu byte%s", (unsigned long long)bytes, plural(bytes));
		return ret;
	}
	while (whole >= (uint64_t)1024 * 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		whole >>= 10;
		unit++;
	}
	/* Rounds down: 1023.99 KiB must not be printed as 1024.0 KiB. */
	rest = (whole & 1023) * 10 / 1024;
	snprintf(ret, NUMBER_MAX, "%llu.%llu %s", (unsigned long long)(whole >> 10),
		 (unsigned long long)rest, units[unit]);
	return ret;
}

char *format_seconds(uint64_t ns, char ret[NUMBER_MAX])
{
	const double seconds = (double)ns / 1e9;

	if (seconds < 600)
		snprintf(ret, NUMBER_MAX, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
	else
		snprintf(ret, NUMBER_MAX, "%.0f min", seconds / 60);
	return ret;
}
