/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions of the program that throw: the exception leaves through the library, which loses nothing. Silent where that is so. */
#include <cstdint>
#include <stdexcept>
#include <string>

#include <sys/types.h>
#include <unistd.h>

#include <isolator.hpp>

#include "expect.hpp"

template <class Call> static bool throws(Call call)
{
	try {
		call();
	} catch (const std::runtime_error &error) {
		return error.what() == std::string("thrown");
	}
	return false;
}

int main()
{
	using namespace std::chrono_literals;
	isolator::ring ring(64, 8);
	isolator::sender sender(ring);
	isolator::receiver receiver(ring);
	int taken = 0;

	for (int n = 0; n < 3; n++)
		EXPECT(sender.post("m", 1) == 0);
	EXPECT(throws([&] {
		receiver.poll(9, [&](const void *, std::size_t) {
			if (++taken == 2)
				throw std::runtime_error("thrown");
		});
	}));
	/* The third waits, and the receiver is free. */
	EXPECT(receiver.poll(9, [&](const void *, std::size_t) { taken++; }) == 1);
	EXPECT(taken == 3);

	isolator::monitor monitor("throwing", 1ms);
	isolator::reader reader(static_cast<std::uint32_t>(getpid()), "throwing");
	std::uint64_t last = 0;

	for (int n = 0; n < 3; n++)
		static_cast<void>(monitor.begin());
	EXPECT(throws([&] {
		reader.poll([&](const isolator_cycle &cycle) {
			last = cycle.number;
			if (last == 2)
				throw std::runtime_error("thrown");
		});
	}));
	EXPECT(last == 2);
	EXPECT(reader.poll([&](const isolator_cycle &cycle) { last = cycle.number; }) == 1);
	EXPECT(last == 3 && reader.lost() == 0);

	isolator_rt_config config = isolator::defaults();
	config.report = [](const char *, int, const char *, void *) { throw std::runtime_error("thrown"); };
	EXPECT(throws([&] { isolator::setup setup(config); }));
	return wrong;
}
