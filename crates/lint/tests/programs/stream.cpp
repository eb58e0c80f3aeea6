// SPDX-License-Identifier: MIT OR Apache-2.0
// Each cycle prints a line to a stream.
#include <iostream>
#include "loop.h"

int main()
{
	be_real_time();
	for (;;) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		std::cout << state << std::endl; // FAULT printing
#endif
	}
}
