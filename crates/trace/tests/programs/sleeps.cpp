// SPDX-License-Identifier: MIT OR Apache-2.0
// Loops of the C++ library that stamp their own cycles: sleeps STYLE PERIOD_US CYCLES FILE
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "stamps.h"

using Clock = std::chrono::steady_clock;

static uint64_t ns_of(Clock::time_point time)
{
	return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

int main(int count, char **word)
{
	if (count < 5)
		return 1;
	const std::string style = word[1];
	const std::chrono::microseconds period{ atoll(word[2]) };
	const size_t cycles = atoll(word[3]);
	stamps stamps;
	std::mutex mutex;
	std::condition_variable condition;

	stamps_make(&stamps, cycles);
	stamps_name(&stamps, "loop");
	puts("started");
	fflush(stdout);
	auto next = Clock::now() + period;
	auto wait = [&]() -> uint64_t {
		auto due = next;
		next += period;
		if (style == "sleep-until") {
			std::this_thread::sleep_until(due);
		} else if (style == "condition-until") {
			std::unique_lock<std::mutex> lock(mutex);
			condition.wait_until(lock, due, [] { return false; });
		} else {
			std::this_thread::sleep_for(period - std::chrono::microseconds(50));
			return 0;
		}
		return ns_of(due);
	};
	while (stamps.cycles < cycles) {
		const cycle *cycle = stamps_begin(&stamps, wait());
		while (now_ns() - cycle->begin < 50000)
			;
		stamps_end(&stamps);
	}
	wait();
	FILE *file = fopen(word[4], "w");
	need(file != nullptr, word[4]);
	stamps_write(&stamps, file);
	return fclose(file) ? 1 : 0;
}
