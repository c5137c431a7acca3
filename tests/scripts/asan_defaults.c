/* SPDX-License-Identifier: MIT
 *
 * How the sanitized command of tools/test.sh behaves, whatever the environment: a finding
 * goes into a file, and its exit status is none that gpuleak has (LeakSanitizer's own would
 * be 23). intercept_tls_get_addr: what LeakSanitizer of gcc 12 makes of glibc's thread-local
 * storage lets it crash after dlopen().
 */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

#define VISIBLE __attribute__((visibility("default"), used))

VISIBLE const char *__asan_default_options(void)
{
	return "exitcode=99:intercept_tls_get_addr=0:log_path=" LOG_PATH;
}

VISIBLE const char *__ubsan_default_options(void)
{
	return "exitcode=99:print_stacktrace=1:log_path=" LOG_PATH;
}
