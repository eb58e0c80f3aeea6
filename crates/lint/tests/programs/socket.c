/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Within the cycle, the loop waits for another thread's answer; without the fault it takes the answer of the cycle before. */
#include "loop.h"
#include <sys/socket.h>

static int ends[2];

static void *answers(void *unused)
{
	char c;

	while (recv(ends[1], &c, 1, 0) == 1) {
		work();
		send(ends[1], &c, 1, 0);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	char c = 0;

	check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
	check(pthread_create(&thread, NULL, answers, NULL) == 0, "pthread_create");
	be_real_time();
	for (;;) {
		wait_for_cycle();
		work();
		send(ends[0], &c, 1, MSG_DONTWAIT);
		recv(ends[0], &c, 1, IS_SEEDED ? 0 : MSG_DONTWAIT); /* FAULT blocking-call */
	}
}
