/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Some cycles load a library. */
#include "loop.h"
#include <dlfcn.h>

int main(void)
{
	void *library = dlopen("libm.so.6", RTLD_NOW);
	long n;

	check(library != NULL, "dlopen");
	be_real_time();
	for (n = 1;; n++) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		if (n % 16 == 0)
			library = dlopen("libm.so.6", RTLD_NOW); /* FAULT dlopen */
#endif
	}
}
