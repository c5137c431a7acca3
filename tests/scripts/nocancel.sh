#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that the library calls none of libc's cancellation points: a thread that is cancelled
# inside gpuleak would leave it halfway. Argument: the library.
set -eu
# POSIX's cancellation points that glibc has. fflush is called once, where exit() calls it anyway.
points='accept aio_suspend clock_nanosleep close connect creat fcntl fdatasync fsync lockf mq_receive
	mq_send msgrcv msgsnd msync nanosleep open openat pause poll pread preadv pselect
	pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel putmsg pwrite pwritev
	read readv recv recvfrom recvmsg select sem_timedwait sem_wait send sendmsg sendto sigpause
	sigsuspend sigtimedwait sigwait sigwaitinfo sleep system tcdrain usleep wait waitid waitpid
	wait3 wait4 write writev fallocate posix_fallocate sync_file_range splice tee vmsplice
	epoll_wait ppoll fopen fclose fread fwrite fgets fputs printf fprintf vfprintf puts opendir
	readdir closedir getline syslog'
called=$(nm -D --undefined-only "$1" | sed 's/.* //; s/@.*//; s/64$//' | sort -u)
echo 1..1
for point in $points; do
	if echo "$called" | grep -qx "$point"; then
		echo "# $point is called; ledger/nocancel.h has what to call instead"
		bad=1
	fi
done
[ -n "$called" ] && [ -z "${bad:-}" ] || printf 'not '
echo "ok 1 - libgpuleak.so calls none of libc's cancellation points"
[ -n "$called" ] && [ -z "${bad:-}" ]
