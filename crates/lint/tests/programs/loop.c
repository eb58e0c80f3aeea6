/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The same for programs in Rust, which are linked with this file. */
#include "loop.h"

void loop_set_up(void)
{
	be_real_time();
}

void loop_wait(void)
{
	wait_for_cycle();
}

void loop_work(void)
{
	work();
}
