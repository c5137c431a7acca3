/* SPDX-License-Identifier: MIT
 *
 * The operations of an API that code outside the API's own folder needs: one struct api_ops for
 * each line of apis.def. The API's folder defines it as api_ops_NAME.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "interpose/dispatch/hooks.h"
#include "ledger/format.h"

/* ---- functions that have no row, from the tables of names: classify.c. It allocates nothing and
 * takes no lock, so it is safe in lookups. ---- */

enum class {
	CLASS_UNKNOWN,   /* in no table: probably a newer driver's function */
	CLASS_NO_MEMORY,
	CLASS_GAP,       /* allocates or frees memory that gpuleak does not track */
	CLASS_DRIVER,    /* affects only the driver's own memory */
	/* returns memory that is already recorded as a block, or that belongs to another API */
	CLASS_ALIAS,
	CLASS_OBJECT,    /* an object that is not memory itself */
};

/* Returns the class of the function NAME, which must not have a hook. If an API's table `ignored`
 * has a row for NAME, stores that row's reason in *RET_REASON. Otherwise stores NULL. */
enum class class_of(const char *name, const char **ret_reason);

/* Returns true if NAME, which has no hook, submits work that uses memory. Also true if NAME is in
 * no table and the API's unknown functions may do so. */
bool class_submits(const char *name);

/* A function of the API that has to do with memory but has no row in hooks.def. The arrays have
 * fixed sizes, here and below, so that they need no relocations, which would cost time also in a
 * process without a GPU. */
#define API_NAME_BYTES 56
#define API_REASON_BYTES 96
struct api_ignored {
	char name[API_NAME_BYTES];
	char reason[API_REASON_BYTES];
	enum class class;
};

struct api_ops {
	const char *title;  /* name of the API in reports and in the ledger */
	const char *prefix; /* prefix of all function names; a capital letter follows it */
	/* The file name of the driver or of its loaders begins with one of these. The first is the
	 * name to open. Empty: the API has no driver. */
	const char *libraries[4];
	/* Libraries whose file name begins with this call the driver on the driver's behalf. NULL:
	 * none. */
	const char *internal;
	/* Symbol that an implementation exports and a loader does not. NULL: the API has no
	 * loaders. */
	const char *vendor_symbol;
	/* Symbol that each implementation and each loader exports, whatever its file name is. NULL:
	 * drivers are found by their file names only. */
	const char *driver_symbol;
	/* Class of the memory of a block whose kind does not determine it. */
	enum ledger_memory memory;
	/* The driver may reuse a handle at once for an object of another kind. */
	bool reuses_handles;
	/* Functions without a row: `ignored` have to do with memory, `other` have not (sorted by
	 * strcmp()), `unseen` submit work that the pool cannot observe. */
	const struct api_ignored *ignored;
	const char (*other)[API_NAME_BYTES];
	const char (*unseen)[API_NAME_BYTES];
	size_t ignored_count, other_count, unseen_count;
	bool unknown_submits; /* functions in no table may submit such work too */
	/* The wrapper that a lookup returns for each row, from HOOK_FIRST_name on. */
	void *const *wrappers;
	/* The same for guarded wrappers. NULL: none. */
	const struct guarded_wrapper *guarded;
	/* Returns the device on which an allocation of the calling thread would lie, or -1 if the
	 * thread has no current device. limits_refuse() calls this function for a wrapper that
	 * passes LIMITS_CURRENT. NULL: no wrapper of the API passes LIMITS_CURRENT. */
	int (*current_device)(void);
	/* Returns the memory size of DEVICE (the API's device number) in bytes, or 0 if not
	 * known. */
	uint64_t (*device_total)(int device);
	/* Stores how many bytes of DEVICE's memory are free, and its size. Returns false if the
	 * driver does not report that, or if it must not be called now: for example if DEVICE is
	 * not the current one, or while a stream is captured. NULL: the API has no such call. */
	bool (*memory_left)(int device, uint64_t *ret_free, uint64_t *ret_total);
	/* Reads what the driver's memory pools have reserved, and records it for the moment WHEN,
	 * of the refused request REFUSAL. May do nothing, for example while a stream is captured.
	 * NULL: the API has no such pools. */
	void (*read_pools)(enum ledger_parked_when when, uint64_t refusal);
	/* Gives the memory that the API's pool has cached back to the driver. Returns the number of
	 * these bytes. NULL: the API has no pool. */
	uint64_t (*give_back)(void);
	/* Adds what the pool's threads have counted to the ledger. NULL: its counters are there. */
	void (*publish_pool)(void);
	/* Called when a dlclose() of the application has returned. NULL: nothing to do. */
	void (*after_dlclose)(void);
	/* Called after libraries were loaded or unloaded, on a thread that may call the loader.
	 * NULL: nothing to do. */
	void (*libraries_changed)(void);
	/* Called after a lookup returned NAME, a function without a row. NULL: nothing to do. */
	void (*saw_unknown)(const char *name);
};

#define API_BEGIN(api)                                                                       \
	extern const struct api_ops api_ops_##api __attribute__((visibility("hidden")));
#include "interpose/dispatch/hooks.def"

extern const struct api_ops *const apis[API_COUNT] __attribute__((visibility("hidden")));

/* Returns the API whose device numbers API uses. An API without a driver of its own uses those of
 * the first API. */
static inline enum api api_of_devices(enum api api)
{
	return apis[api]->libraries[0] ? api : 0;
}

/* Returns the API whose prefix NAME has, or API_COUNT. Takes no lock, so it is safe in lookups. */
enum api api_of(const char *name);

/* Each calls the function of this name in every struct api_ops that has it. */
uint64_t apis_give_back(void);
void apis_publish_pool(void);
void apis_read_pools(enum ledger_parked_when when, uint64_t refusal);
void apis_after_dlclose(void);
void apis_saw_unknown(const char *name);
/* Called at the places where the application itself calls the loader, before the function below
 * looks for changes. NULL: not attached. */
extern _Atomic(void (*)(void)) apis_attached_hook;
/* The same for libraries_changed, if the loader's list of modules changed. Only for places where
 * the application itself calls the loader. */
void apis_libraries_changed(void);
