/* SPDX-License-Identifier: MIT
 *
 * Reads properties of a process from /proc, and the beginning of a file. Closes descriptors.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/util/text_buffer.h"

/* Returns the time in milliseconds that does not jump. */
long long clock_ms(void);

/* Returns when process PID started (field 22 of /proc/PID/stat). With the pid it identifies the
 * process. Returns 0 if the process does not exist. A zombie still exists. */
unsigned long long process_start_ticks(int pid);

/* Returns true if the process runs (a zombie does not). START_TICKS 0: any process with this pid.
 * */
bool process_runs(int pid, unsigned long long start_ticks);

/* Returns how many milliseconds ago process PID started; -1 if it does not exist. */
long long process_age_ms(int pid);

/* Returns true if process PID runs the same program file as this process. */
bool process_is_our_file(int pid);

/* Returns true if process PID runs the same program file as this process and its first argument is
 * WORD. */
bool process_is_our_command(int pid, const char *word);

/* Reads the beginning of the file at PATH into RET, which has SIZE bytes, and terminates it by 0.
 * Returns the number of bytes; 0 if the file cannot be read. */
size_t file_head(const char *path, char *ret, size_t size);

/* A line of /proc/PID/maps. */
struct maps_line {
	uint64_t start, end, offset;
	char rights[5];   /* as "r-xp" */
	const char *path; /* "" or the rest of the line */
};

/* Calls EACH for each mapping of process PID in PROC ("/proc"), until EACH returns false. */
void process_each_mapping(const char *proc, int pid, bool (*each)(const struct maps_line *, void *),
			  void *data);

/* For AT_END(): close what is open, NULL or a negative number if nothing is. */
void close_file(FILE **file);
void close_folder(DIR **folder);
void close_descriptor(const int *fd);

/* Closes all descriptors of this process except FD and the three standard ones. */
void close_others(int fd);
