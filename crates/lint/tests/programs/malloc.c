/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A message is made on the heap in each cycle. */
#include "loop.h"

int main(void)
{
	static char kept[64];
	char *message = kept;

	be_real_time();
	for (;;) {
		wait_for_cycle();
#ifdef SEEDED
		message = malloc(64); /* FAULT allocation */
#endif
		snprintf(message, 64, "cycle %ld", state);
		work();
#ifdef SEEDED
		free(message); /* FAULT allocation */
#endif
	}
}
