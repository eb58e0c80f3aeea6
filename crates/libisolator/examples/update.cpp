/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A controller in the shape of ros2_control's: configured, activated, then update(time, period) from a real-time thread that reads
 * the hardware before and writes it after. The manager's thread sets itself up, isolates its CPU where it can, and is monitored.
 *
 *	c++ -std=c++17 update.cpp -lisolator -lpthread -o update && ./update [CYCLES] & isolator monitor $!
 */
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <thread>

#include <isolator.hpp>

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock; // CLOCK_MONOTONIC

enum class return_type { ok, error };

struct joint {
	double position = 0, velocity = 0, effort = 0;

	void read(double seconds) { position += (velocity += effort * seconds) * seconds; }
};

class controller {
public:
	explicit controller(joint &of) : joint_(of) {}
	void on_activate() { wanted_ = 1; }

	return_type update(clock_type::time_point, std::chrono::nanoseconds)
	{
		joint_.effort = 100 * (wanted_ - joint_.position) - 20 * joint_.velocity;
		return return_type::ok;
	}

private:
	joint &joint_;
	double wanted_ = 0;
};

static void control(joint &axis, controller &position, long cycles)
{
	constexpr std::chrono::nanoseconds period = 1ms;
	isolator_rt_config config = isolator::defaults();
	config.policy = ISOLATOR_POLICY_FIFO;
	isolator::monitor monitor("update", period);
	std::optional<isolator::setup> setup;
	std::optional<isolator::session> session;
	try {
		setup.emplace(config);
		session.emplace();
	} catch (const isolator::error &error) {
		std::cerr << "update: going on: " << error.what() << "\n";
	}
	for (auto due = clock_type::now() + period; cycles > 0; cycles--, due += period) {
		std::this_thread::sleep_until(due);
		{
			auto cycle = monitor.begin(static_cast<std::uint64_t>(due.time_since_epoch().count()));
			axis.read(std::chrono::duration<double>(period).count());
			cycle.mark();
			if (position.update(due, period) != return_type::ok)
				break;
		}
		if (session && session->pending())
			session->tick();
	}
}

int main(int argc, char **argv)
{
	joint axis;
	controller position(axis);
	position.on_activate();
	std::thread(control, std::ref(axis), std::ref(position), argc > 1 ? std::atol(argv[1]) : 1000).join();
	std::cout << "at " << axis.position << "\n";
	return 0;
}
