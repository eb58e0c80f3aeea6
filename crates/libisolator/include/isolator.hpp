/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libisolator for C++17: what isolator.h has, held by objects that let go of it. Header only; link libisolator.
 *
 * Constructors throw isolator::error, whose what() says what failed, on what, why and what to do. What a loop calls
 * (pending, tick, post, poll, begin, mark, end) throws nothing and gives isolator.h's numbers. An exception of a function that is
 * passed to poll() or statistics() leaves through it.
 */
#ifndef ISOLATOR_HPP
#define ISOLATOR_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

#include "isolator.h"

namespace isolator {

/* A call that failed. */
class error : public std::runtime_error {
public:
	explicit error(int result) : std::runtime_error(isolator_last_error()), result_(result) {}

	/* The negative errno. */
	int result() const noexcept { return result_; }

private:
	int result_;
};

/* Gives a result that is none of failure; throws otherwise. */
inline int checked(int result)
{
	if (result < 0)
		throw error(result);
	return result;
}

namespace detail {

template <auto Close> struct closing {
	template <class T> void operator()(T *handle) const noexcept { static_cast<void>(Close(handle)); }
};

template <class T, auto Close> using handle = std::unique_ptr<T, closing<Close>>;

/* Calls make() with the place of a handle. */
template <class Handle, class Make> Handle made(Make make)
{
	typename Handle::pointer raw = nullptr;

	checked(make(&raw));
	return Handle(raw);
}

} // namespace detail

/* A configuration with the defaults. */
inline isolator_rt_config defaults() noexcept
{
	isolator_rt_config config;

	isolator_rt_defaults(&config);
	return config;
}

/* The set-up of the calling thread, undone by it at the end. Ended by another thread while that one runs, it stays. */
class setup {
public:
	explicit setup(const isolator_rt_config &config)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) { return isolator_rt_setup(&config, at); })) {}

private:
	detail::handle<isolator_rt, isolator_rt_undo> handle_;
};

/* The calling thread's CPU, isolated until the end. All by the same thread. */
class session {
public:
	/* mask: ISOLATOR_MASK_* of <linux/isolator.h>, 0 for the default. */
	explicit session(std::uint32_t mask = 0)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) { return isolator_session_start(mask, at); })) {}

	/* Whether deferred work waits: one load. */
	bool pending() const noexcept { return isolator_session_pending(handle_.get()) != 0; }

	/* Has it done: 0, or a negative errno. */
	int tick(std::uint32_t flags = 0) noexcept { return isolator_session_tick(handle_.get(), flags); }

	/* Calls each(name, value) with the CPU's counters. */
	template <class Each> void statistics(Each each) const
	{
		checked(isolator_cpu_statistics(-1, [](const char *name, std::uint64_t value, void *data) {
			(*static_cast<Each *>(data))(name, value);
		}, &each));
	}

private:
	detail::handle<isolator_session, isolator_session_stop> handle_;
};

/* A loop, recorded for another process to read. One thread at a time. */
class monitor {
public:
	monitor(const char *name, std::chrono::nanoseconds period)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) {
			  return isolator_monitor_create(name, static_cast<std::uint64_t>(period.count()), at);
		  })) {}

	/* A cycle, from its making to its end; due: CLOCK_MONOTONIC in nanoseconds, 0 where that is not known. */
	class cycle {
	public:
		cycle(monitor &of, std::uint64_t due_ns) noexcept : of_(of.handle_.get())
		{
			isolator_monitor_begin(of_, due_ns);
		}
		~cycle() { isolator_monitor_end(of_); }
		cycle(const cycle &) = delete;
		cycle &operator=(const cycle &) = delete;

		void mark() noexcept { isolator_monitor_mark(of_); }

	private:
		isolator_monitor *of_;
	};

	[[nodiscard]] cycle begin(std::uint64_t due_ns = 0) noexcept { return cycle(*this, due_ns); }

	int fd() const noexcept { return isolator_monitor_fd(handle_.get()); }

private:
	detail::handle<isolator_monitor, isolator_monitor_close> handle_;
};

/* Reads another program's loop. One call at a time: during a poll, another one gives -EBUSY. */
class reader {
public:
	explicit reader(std::uint32_t process, const char *name = nullptr)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) { return isolator_reader_attach(process, name, at); })) {}

	/* Calls each(const isolator_cycle &): how many, or a negative errno. If each throws, the rest waits for the next poll. */
	template <class Each> int poll(Each each)
	{
		return isolator_reader_poll(handle_.get(), [](const isolator_cycle *cycle, void *data) {
			(*static_cast<Each *>(data))(*cycle);
		}, &each);
	}

	std::uint64_t lost() const noexcept { return isolator_reader_lost(handle_.get()); }
	std::uint64_t period_ns() const noexcept { return isolator_reader_period_ns(handle_.get()); }

private:
	detail::handle<isolator_reader, isolator_reader_close> handle_;
};

/* A ring's memory, which several processes may have. */
class ring {
public:
	ring(std::uint32_t slots, std::size_t bytes)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) { return isolator_ring_create(slots, bytes, at); })) {}

	/* The ring of a descriptor that another process passed; it stays the caller's. */
	explicit ring(int fd)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) { return isolator_ring_attach(fd, at); })) {}

	int fd() const noexcept { return isolator_ring_fd(handle_.get()); }
	const isolator_ring *get() const noexcept { return handle_.get(); }

private:
	detail::handle<isolator_ring, isolator_ring_free> handle_;
};

/* The end of a ring that posts. One thread at a time. */
class sender {
public:
	explicit sender(const ring &of)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) { return isolator_sender_open(of.get(), at); })) {}

	/* 0, or a negative errno: -EAGAIN, -EPIPE, -EMSGSIZE, -EPROTO. */
	int post(const void *message, std::size_t bytes) noexcept { return isolator_sender_post(handle_.get(), message, bytes); }
	int post_and_wake(const void *message, std::size_t bytes) noexcept
	{
		return isolator_sender_post_and_wake(handle_.get(), message, bytes);
	}
	bool has_receiver() const noexcept { return isolator_sender_has_receiver(handle_.get()) != 0; }

private:
	detail::handle<isolator_sender, isolator_sender_close> handle_;
};

/* The end of a ring that takes. One call at a time: during a poll, another one gives -EBUSY, wait() and has_sender() false. */
class receiver {
public:
	explicit receiver(const ring &of)
		: handle_(detail::made<decltype(handle_)>([&](auto *at) { return isolator_receiver_open(of.get(), at); })) {}

	/* Calls each(const void *message, std::size_t bytes): how many, or a negative errno. If each throws, the rest waits. */
	template <class Each> int poll(std::uint32_t most, Each each)
	{
		return isolator_receiver_poll(handle_.get(), most, [](const void *message, std::size_t bytes, void *data) {
			(*static_cast<Each *>(data))(message, bytes);
		}, &each);
	}
	bool wait(std::chrono::nanoseconds timeout) noexcept
	{
		return isolator_receiver_wait(handle_.get(), static_cast<std::uint64_t>(timeout.count())) > 0;
	}
	bool has_sender() const noexcept { return isolator_receiver_has_sender(handle_.get()) > 0; }

private:
	detail::handle<isolator_receiver, isolator_receiver_close> handle_;
};

} // namespace isolator

#endif
