/* SPDX-License-Identifier: MIT
 *
 * The names of signals. A table, because sigabbrev_np() needs glibc 2.32.
 */
#include "report/util/signal_name.h"

#include <signal.h>
#include <stddef.h>

#define NAME(name) [SIG##name] = #name
static const char *const names[] = {
	NAME(HUP), NAME(INT), NAME(QUIT), NAME(ILL), NAME(TRAP), NAME(ABRT), NAME(BUS), NAME(FPE),
	NAME(KILL), NAME(USR1), NAME(SEGV), NAME(USR2), NAME(PIPE), NAME(ALRM), NAME(TERM),
	NAME(STKFLT), NAME(CHLD), NAME(CONT), NAME(STOP), NAME(TSTP), NAME(TTIN), NAME(TTOU),
	NAME(URG), NAME(XCPU), NAME(XFSZ), NAME(VTALRM), NAME(PROF), NAME(WINCH), NAME(POLL),
	NAME(PWR), NAME(SYS),
};

const char *signal_name(int signal)
{
	return signal > 0 && (size_t)signal < sizeof(names) / sizeof(names[0]) ? names[signal]
									       : NULL;
}
