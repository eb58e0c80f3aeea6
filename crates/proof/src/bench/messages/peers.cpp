// SPDX-License-Identifier: MIT OR Apache-2.0
// Rings in C++ for the table of messages: boost::lockfree::spsc_queue, and Lamport's queue with indices that each end caches. Does what
// ends.rs does. `peers ASKING-CPU ANSWERING-CPU WARM-UP TRIPS STREAM IN-A-ROW` prints a line `BYTES NAME` for each contender and an empty
// one. For each number of a contender that it reads, it then prints the ticks of the middle of IN-A-ROW round trips, the ticks that one
// round trip in a thousand exceeds, and the nanoseconds of a stream.
#include <algorithm>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t SLOTS = 256;
// As far apart as processors fetch: two lines.
constexpr size_t APART = 128;

template <size_t N> struct alignas(N < 56 ? 8 : 64) Message {
	unsigned char bytes[N];
};

template <size_t N> struct Boost {
	static constexpr const char *NAME = "boost (C++)";

	bool push(const Message<N> &message) { return queue.push(message); }
	bool pop(Message<N> &message) { return queue.pop(message); }

	boost::lockfree::spsc_queue<Message<N>, boost::lockfree::capacity<SLOTS>> queue;
};

template <size_t N> struct Lamport {
	static constexpr const char *NAME = "Lamport, indices cached (C++)";

	bool push(const Message<N> &message)
	{
		size_t at = tail.load(std::memory_order_relaxed);
		if (at - seen_head == SLOTS) {
			seen_head = head.load(std::memory_order_acquire);
			if (at - seen_head == SLOTS)
				return false;
		}
		slots[at % SLOTS] = message;
		tail.store(at + 1, std::memory_order_release);
		return true;
	}

	bool pop(Message<N> &message)
	{
		size_t at = head.load(std::memory_order_relaxed);
		if (at == seen_tail) {
			seen_tail = tail.load(std::memory_order_acquire);
			if (at == seen_tail)
				return false;
		}
		message = slots[at % SLOTS];
		head.store(at + 1, std::memory_order_release);
		return true;
	}

	alignas(APART) std::atomic<size_t> tail{0};
	size_t seen_head = 0;
	alignas(APART) std::atomic<size_t> head{0};
	size_t seen_tail = 0;
	alignas(APART) Message<N> slots[SLOTS];
};

uint64_t counter()
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t ticks;
	asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#endif
}

[[noreturn]] void fail(const char *what)
{
	fprintf(stderr, "peers: %s\n", what);
	exit(1);
}

template <size_t N, typename Queue> __attribute__((always_inline)) inline void post(Queue &queue, uint64_t n)
{
	Message<N> message = {};
	memcpy(message.bytes, &n, sizeof(n));
	while (!queue.push(message))
		;
}

template <size_t N, typename Queue> __attribute__((always_inline)) inline void take(Queue &queue, uint64_t n)
{
	Message<N> message;
	uint64_t number;
	while (!queue.pop(message))
		;
	// All of it is read.
	asm volatile("" : : "r"(&message) : "memory");
	memcpy(&number, message.bytes, sizeof(number));
	if (number != n)
		fail("a message out of order");
}

struct Contender {
	std::string name;
	size_t bytes;
	std::function<void(std::vector<uint64_t> &)> ask;
	std::function<void(uint64_t)> answer, pour, drain;
};

template <template <size_t> class Queue, size_t N> Contender contender()
{
	auto there = std::make_shared<Queue<N>>(), back = std::make_shared<Queue<N>>();
	return {
		Queue<N>::NAME, N,
		[=](std::vector<uint64_t> &ticks) {
			uint64_t began = counter(), n = 0;
			for (uint64_t &took : ticks) {
				post<N>(*there, n);
				take<N>(*back, n++);
				uint64_t now = counter();
				took = now - began;
				began = now;
			}
		},
		[=](uint64_t count) {
			for (uint64_t n = 0; n < count; n++) {
				take<N>(*there, n);
				post<N>(*back, n);
			}
		},
		[=](uint64_t count) {
			for (uint64_t n = 0; n < count; n++)
				post<N>(*there, n);
		},
		[=](uint64_t count) {
			for (uint64_t n = 0; n < count; n++)
				take<N>(*there, n);
		},
	};
}

// Before the rings in Rust, whose answering thread may wait on that CPU.
void be_on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	struct sched_param param = {};
	param.sched_priority = 81;
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		fail("cannot run on the CPU");
	// In real time where that is allowed, as the rings in Rust.
	int denied = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	if (denied && denied != EPERM)
		fail("cannot run at SCHED_FIFO");
}

std::atomic<uint64_t> meeting{0};

void meet()
{
	uint64_t before = meeting.fetch_add(1);
	// A new thread begins on the other one's CPU.
	while (meeting.load() < before / 2 * 2 + 2)
		sched_yield();
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 7)
		fail("usage: peers ASKING-CPU ANSWERING-CPU WARM-UP TRIPS STREAM IN-A-ROW");
	int asks = atoi(argv[1]), answers = atoi(argv[2]);
	size_t warm_up = strtoul(argv[3], nullptr, 10), trips = strtoul(argv[4], nullptr, 10);
	uint64_t stream = strtoull(argv[5], nullptr, 10);
	size_t in_a_row = strtoul(argv[6], nullptr, 10);
	std::vector<Contender> contenders = {
		contender<Boost, 8>(), contender<Boost, 56>(), contender<Boost, 64>(), contender<Boost, 256>(), contender<Boost, 1024>(),
		contender<Lamport, 8>(), contender<Lamport, 56>(), contender<Lamport, 64>(), contender<Lamport, 256>(),
		contender<Lamport, 1024>(),
	};
	for (const Contender &it : contenders)
		printf("%zu %s\n", it.bytes, it.name.c_str());
	puts("");
	fflush(stdout);
	be_on(asks);
	std::vector<uint64_t> ticks(warm_up + trips), together;
	size_t chosen;
	while (scanf("%zu", &chosen) == 1 && chosen < contenders.size()) {
		Contender &it = contenders[chosen];
		int64_t stream_ns = 0;
		std::thread other([&] {
			be_on(answers);
			meet();
			it.answer(ticks.size());
			meet();
			auto began = std::chrono::steady_clock::now();
			it.drain(stream);
			stream_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began).count();
		});
		meet();
		it.ask(ticks);
		meet();
		it.pour(stream);
		other.join();
		auto counted = ticks.begin() + warm_up;
		together.clear();
		for (auto at = counted; ticks.end() - at >= (ptrdiff_t)in_a_row; at += in_a_row) {
			uint64_t sum = 0;
			for (size_t n = 0; n < in_a_row; n++)
				sum += at[n];
			together.push_back(sum);
		}
		std::sort(together.begin(), together.end());
		std::sort(counted, ticks.end());
		printf("%llu %llu %lld\n", (unsigned long long)together[together.size() / 2],
		       (unsigned long long)counted[trips - trips / 1000], (long long)stream_ns);
		fflush(stdout);
	}
	return 0;
}
