/* SPDX-License-Identifier: MIT
 *
 * The functions with which a traced process uses the roster. No allocation, no lock.
 */
#include "ledger/roster.h"
#include "ledger/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>

struct roster *roster_join(const char *text)
{
	struct shmid_ds segment;
	unsigned long long key;
	struct roster *roster;
	char *end;
	long id;

	if (!text)
		return NULL;
	id = strtol(text, &end, 10);
	if (end == text || *end != ':')
		return NULL;
	key = strtoull(end + 1, NULL, 16);
	if (shmctl((int)id, IPC_STAT, &segment) < 0 || segment.shm_segsz != sizeof(*roster))
		return NULL;
	roster = shmat((int)id, NULL, 0);
	if (roster == (void *)-1)
		return NULL;
	if (roster->key == key)
		return roster;
	shmdt(roster);
	return NULL;
}

struct roster_slot *roster_enter(struct roster *roster, int pid, uint64_t start_ticks,
				 const char *name)
{
	struct roster_slot *slot;
	uint32_t number;

	if (!roster)
		return NULL;
	number = shared_add_ordered(roster->begun, 1);
	if (number >= ROSTER_SLOTS)
		return NULL;
	slot = &roster->slots[number];
	slot->pid = pid;
	slot->start_ticks = start_ticks;
	strncpy(slot->name, name, sizeof(slot->name) - 1);
	shared_publish(slot->state, ROSTER_STARTING);
	return slot;
}

void roster_note(struct roster_slot *slot, int error)
{
	if (!slot)
		return;
	slot->error = error;
	shared_publish(slot->state, error ? ROSTER_FAILED : ROSTER_RECORDING);
}

void roster_bypass(struct roster *roster, int pid, const char *name, const char *kind,
		   const char *module)
{
	uint32_t number = shared_add_ordered(roster->bypassed, 1);
	struct roster_bypass *bypass = &roster->bypasses[number];

	if (number >= ROSTER_BYPASSES)
		return;
	bypass->pid = pid;
	strncpy(bypass->kind, kind, sizeof(bypass->kind) - 1);
	strncpy(bypass->name, name, sizeof(bypass->name) - 1);
	strncpy(bypass->module, module, sizeof(bypass->module) - 1);
	shared_publish(bypass->ready, 1);
}

const char *roster_advice(int error)
{
	switch (error) {
	case EACCES:
	case ENOENT:
	case EPERM:
	case EROFS:
		return "; have it make a GPU call before it changes its user, its root directory "
		       "or what is mounted";
	case EDQUOT:
	case ENOSPC:
		return "; set XDG_RUNTIME_DIR to a directory of your own with free space";
	case EFBIG:
		return "; raise its limit on file sizes (ulimit -f)";
	case EMFILE:
		return "; raise its limit on open files (ulimit -n)";
	case ENOMEM:
		return "; raise its limit on address space (ulimit -v)";
	}
	return "";
}
