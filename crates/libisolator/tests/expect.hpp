/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a test of the library expects: prints the line of what is not so, and keeps for the end whether anything was wrong. */
#include <iostream>

static int wrong;

static void expect(bool is, int line, const char *what)
{
	if (!is)
		std::cout << "line " << line << ": not " << what << "\n";
	wrong |= !is;
}

#define EXPECT(what) expect(what, __LINE__, #what)
