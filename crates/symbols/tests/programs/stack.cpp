// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls capture() through functions of C++: a method, a template, a lambda in the library's sort.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "capture.h"

static int times;

namespace servo {

template <typename Number> struct Loop {
	std::vector<Number> numbers;

	__attribute__((noinline)) void step(const std::string &name)
	{
		if (!times++) {
			capture();
			printf("data times %lx\n", (long)&times);
		}
		numbers.push_back(static_cast<Number>(name.size()));
	}
};

} // namespace servo

__attribute__((noinline)) static void sort(std::vector<int> &numbers, const std::function<void()> &each)
{
	std::sort(numbers.begin(), numbers.end(), [&each](int first, int second) {
		each();
		return first < second;
	});
}

int main()
{
	servo::Loop<double> loop;
	std::vector<int> numbers{ 3, 1, 2 };

	wait_for_line("started");
	sort(numbers, [&loop] { loop.step("sorted"); });
	wait_for_line("ready");
	return loop.numbers.empty();
}
