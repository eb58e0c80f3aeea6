// SPDX-License-Identifier: MIT OR Apache-2.0
// A condition variable's timeout, of the clock on the wall or of the steady one, releases the loop.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include "loop.h"

#ifdef SEEDED
using loop_clock = std::chrono::system_clock;
#else
using loop_clock = std::chrono::steady_clock;
#endif

int main()
{
	std::mutex mutex;
	std::condition_variable never;
	std::unique_lock<std::mutex> lock(mutex);
	be_real_time();
	auto at = loop_clock::now();
	for (;;) {
		at += std::chrono::milliseconds(2);
		never.wait_until(lock, at); // FAULT settable-clock
		work();
	}
}
