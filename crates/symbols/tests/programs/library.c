/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that the program loads while it runs, and that calls back. */
void library_calls(void (*back)(void));

static volatile int calls;

void library_calls(void (*back)(void))
{
	back();
	calls = calls + 1;
}
