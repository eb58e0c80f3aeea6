// SPDX-License-Identifier: MIT OR Apache-2.0
// The loop sleeps for a time.
#include <chrono>
#include <thread>
#include "loop.h"

int main()
{
	be_real_time();
	for (;;) {
#ifdef SEEDED
		std::this_thread::sleep_for(std::chrono::milliseconds(2)); // FAULT relative-sleep
#else
		wait_for_cycle();
#endif
		work();
	}
}
