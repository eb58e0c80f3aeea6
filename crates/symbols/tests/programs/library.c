/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that is loaded when it is needed, and calls back. */
void library_calls(void (*back)(void));

static volatile int calls;

void library_calls(void (*back)(void))
{
	back();
	calls = calls + 1;
}
