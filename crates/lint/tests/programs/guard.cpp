// SPDX-License-Identifier: MIT OR Apache-2.0
// The state is shared with a thread that logs it: under a mutex, or else as an atomic.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include "loop.h"

static std::mutex mutex;
static std::atomic<long> shared;

int main()
{
	std::thread logs([] {
		for (;;) {
			{
				std::lock_guard<std::mutex> guard(mutex);
				shared += 1;
			}
			std::this_thread::sleep_for(std::chrono::milliseconds(5));
		}
	});
	be_real_time();
	for (;;) {
		wait_for_cycle();
#ifdef SEEDED
		std::lock_guard<std::mutex> guard(mutex); // FAULT lock-without-inheritance
#endif
		shared += state;
		work();
	}
}
