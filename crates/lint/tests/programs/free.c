/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages of another thread are freed in the loop. */
#include "loop.h"

enum { MESSAGES = 200000 };

int main(void)
{
	char **messages = malloc(MESSAGES * sizeof(*messages));
	int n;

	for (n = 0; n < MESSAGES; n++)
		messages[n] = malloc(32);
	be_real_time();
	for (n = 0;; n = (n + 1) % MESSAGES) {
		wait_for_cycle();
		work();
		messages[n][0] = 1;
#ifdef SEEDED
		free(messages[n]); /* FAULT allocation */
		messages[n] = messages[MESSAGES - 1 - n];
#endif
	}
}
