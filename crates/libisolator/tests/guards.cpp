/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each object of isolator.hpp, made, used and gone; what cannot be made throws its line. Silent where all is as expected. */
#include <cerrno>
#include <cstring>
#include <optional>

#include <unistd.h>

#include <isolator.hpp>

#include "expect.hpp"

template <class Make> static void refuses(Make make, int result, const char *text, int line)
{
	try {
		make();
		expect(false, line, "refused");
	} catch (const isolator::error &error) {
		expect(error.result() == result && std::strstr(error.what(), text), line, error.what());
	}
}

int main()
{
	using namespace std::chrono_literals;
	isolator_rt_config config = isolator::defaults();
	config.flags = ISOLATOR_RT_NO_LOCK;
	{
		isolator::setup setup(config);
	}
	refuses([] { isolator::ring(3, 8); }, -EINVAL, "give a power of two", __LINE__);
	refuses([] { isolator::monitor("", 1ms); }, -EINVAL, "give 1 to 32 letters", __LINE__);
	refuses([] { isolator::reader(static_cast<std::uint32_t>(getpid())); }, -ENOENT, "it has no monitored loop", __LINE__);
	if (access("/dev/isolator", F_OK))
		refuses([] { isolator::session(); }, -ENOSYS, "boot a kernel with the kernel part", __LINE__);

	isolator::ring ring(4, 8), same(ring.fd());
	{
		isolator::sender sender(ring);
		isolator::receiver receiver(same);
		char taken = 0;
		refuses([&] { isolator::sender another(same); }, -EBUSY, "some process has it", __LINE__);
		EXPECT(sender.has_receiver() && receiver.has_sender() && !receiver.wait(0ns));
		EXPECT(sender.post("m", 1) == 0 && sender.post_and_wake("123456789", 9) == -EMSGSIZE);
		EXPECT(receiver.poll(9, [&](const void *message, std::size_t) { taken = *static_cast<const char *>(message); }) == 1);
		EXPECT(taken == 'm');
		isolator::sender moved = std::move(sender);
		EXPECT(moved.post("n", 1) == 0);
	}
	isolator::sender again(ring);

	std::optional<isolator::monitor> monitor(std::in_place, "guards", 1ms);
	isolator::reader reader(static_cast<std::uint32_t>(getpid()), "guards");
	monitor->begin().mark();
	std::uint64_t marks = 0;
	EXPECT(reader.poll([&](const isolator_cycle &cycle) { marks += cycle.marks_ns[0] >= cycle.began_ns; }) == 1);
	EXPECT(marks == 1 && reader.lost() == 0 && reader.period_ns() == 1000000 && monitor->fd() >= 0);
	monitor.reset();
	EXPECT(reader.poll([](const isolator_cycle &) {}) == -EPIPE);
	return wrong;
}
