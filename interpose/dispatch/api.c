/* SPDX-License-Identifier: MIT
 *
 * Calls the operations of every API, and finds the API that a function name belongs to.
 */
#include "interpose/dispatch/api.h"

#include <string.h>

const struct api_ops *const apis[API_COUNT] = {
#define API_BEGIN(api) [API_##api] = &api_ops_##api,
#include "interpose/dispatch/hooks.def"
};

enum api api_of(const char *name)
{
	for (int i = 0; i < API_COUNT; i++) {
		size_t length = strlen(apis[i]->prefix);

		if (strncmp(name, apis[i]->prefix, length) == 0 && name[length] >= 'A' &&
		    name[length] <= 'Z')
			return (enum api)i;
	}
	return API_COUNT;
}

uint64_t apis_give_back(void)
{
	uint64_t bytes = 0;

	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->give_back)
			bytes += apis[i]->give_back();
	return bytes;
}

void apis_library_gone(void)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->library_gone)
			apis[i]->library_gone();
}

void apis_saw_unknown(const char *name)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->saw_unknown)
			apis[i]->saw_unknown(name);
}
