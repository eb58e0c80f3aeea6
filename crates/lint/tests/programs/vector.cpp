// SPDX-License-Identifier: MIT OR Apache-2.0
// Values are collected in a vector without room for them.
#include <vector>
#include "loop.h"

int main()
{
	std::vector<long> values;
	values.reserve(1 << 20);
	be_real_time();
	for (;;) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		std::vector<long> of_cycle;
		of_cycle.push_back(long(state)); // FAULT allocation
		values[0] = of_cycle[0];
#else
		values[0] = state;
#endif
	} // FAULT allocation
}
