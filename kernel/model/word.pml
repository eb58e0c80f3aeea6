// SPDX-License-Identifier: GPL-2.0-only
/*
 * The deferral word of one nohz_full CPU, checked in every interleaving; docs/explanation/kernel.md has the argument in words.
 * Two senders on other CPUs work against it: one patches kernel text, one frees page tables.
 *
 *	here				in the kernel
 *	task()				syscall or interrupt of a thread: ct_kernel_enter(), ct_kernel_exit()
 *	nmi()				an NMI, and a machine check in it: ct_nmi_enter(), ct_nmi_exit()
 *	kernel_enter(), kernel_exit()	isolator_kernel_enter(), isolator_kernel_exit()
 *	nmi_enter(), nmi_exit()		isolator_nmi_enter(), isolator_nmi_exit()
 *	do_work()			isolator_do_work()
 *	arm()				isolator_user_enter()
 *	post()				isolator_post()
 *	patch_text()			text_poke_sync() on x86, kick_all_cpus_sync() on arm64
 *	free_table()			tlb_remove_table_sync_one()
 *	forbid()			isolator_take() with a mask that forbids it, or isolator_end(), which interrupts
 *	patchable(), walk()		any kernel code; a walk of page tables with interrupts off
 *
 * Spin is sequentially consistent. What hardware reorders is spelled out, in its worst case only, because what
 * happens sooner makes nothing fail:
 *  - a sender's store waits in its buffer (buf_*) for a barrier of that sender;
 *  - the CPU runs text as it was when the CPU last serialised (fetched), whatever interrupt came since;
 *  - the CPU sees tables as they were at its last full barrier (seen), and what it then reads, it may still be
 *    reading (walking) until its next one.
 * A context of a higher level may begin between any two steps of a lower one, and runs to its end. Where steps
 * are one here and several in the kernel, another context between them would find nothing that it looks at changed.
 *
 * Each of these breaks one rule, and has to be found (check runs them all):
 *	XCHG_FIRST	work is taken out of the word before it is done
 *	CLEAR_LATE	USER is cleared after RCU begins to watch
 *	SET_EARLY	USER is set before RCU stops watching
 *	SET_NOT_OR	the way out stores USER instead of adding it
 *	NO_POST_BARRIER	nothing orders a sender's stores with its post
 *	NO_CT_BARRIER	neither the word nor the change of RCU's state orders anything on the isolated CPU
 *	OPEN_DOOR	posts succeed while work is being done: a bit that is posted again is lost
 *	NO_NEST		an NMI on the way in lets senders defer again
 *	NEST_FIRST	an NMI on the way in finds nest 0 and leaves the work undone
 *	POST_BLIND	a sender looks at USER, and adds its bit later without looking again
 *	NO_SERIALISE	the hook trusts the exception to have serialised
 * And one that changes nothing, since the exchange is ordered itself:
 *	NO_SMP_MB	no barrier stands before the exchange
 */

#define USER	1
#define SYNC	2
#define ORDER	4

#ifndef POKES
#define POKES	2
#endif
#ifndef ENTRIES
#define ENTRIES	2
#endif
#ifndef NMIS
#define NMIS	2
#endif
#define NONIDLE	8	/* CT_NESTING_IRQ_NONIDLE */

byte word;
byte nest;
bool watching = true;		/* the RCU bit of ct->state */
bool allowed = true;		/* isolator_may_defer() */
byte nmi_nesting = NONIDLE;
byte level;			/* of the context that runs on the isolated CPU: 0 task, 1 NMI, 2 machine check */
bool ipi_text, ipi_table, ipi_end;	/* sent, and not yet handled */

byte text, buf_text, fetched;
byte synced;			/* the version that patch_text() was told every CPU runs */
bool unmapped, buf_unmapped, seen, walking, freed;

/* One step of the context of level L: no other runs on this CPU. */
#define STEP(L, what)	atomic { level == L -> what }

inline patchable() { assert(fetched >= synced) }

inline walk()
{
	if
	:: !seen -> assert(!freed); walking = true
	:: else
	fi
}

inline barrier() { seen = unmapped; walking = false }

#ifdef NO_CT_BARRIER
#define FULL_BARRIER	skip
#else
#define FULL_BARRIER	barrier()
#endif

#ifdef NO_SERIALISE
#define EXCEPTION	fetched = text
#define SERIALISE	skip
#else
#define EXCEPTION	skip
#define SERIALISE	if :: old & SYNC -> fetched = text :: else fi
#endif

inline do_work(L)
{
#if defined(XCHG_FIRST)
	STEP(L, old = word; word = 0; FULL_BARRIER);
	STEP(L, SERIALISE)
#elif defined(OPEN_DOOR)
	STEP(L, old = word);
	do
	:: STEP(L, SERIALISE);
		STEP(L, if :: word == old -> word = 0; FULL_BARRIER; break :: else -> old = word fi)
	od
#else
	STEP(L, old = word; word = word & ~USER; FULL_BARRIER);
	STEP(L, SERIALISE);
	STEP(L, if :: old & (SYNC | ORDER) -> word = 0 :: else fi)
#endif
}

#ifdef SET_NOT_OR
#define ALLOW_POSTS	word = USER
#else
#define ALLOW_POSTS	word = word | USER
#endif

inline kernel_enter()
{
	if
	:: atomic { level == 0 && nest == 0 }
	:: atomic { level == 0 && nest != 0 ->
#ifdef NEST_FIRST
			nest = 0
#elif !defined(NO_NEST)
			nest = 2
#endif
		};
		do_work(0);
		STEP(0, nest = 0)
	fi
}

inline kernel_exit() { STEP(0, if :: nest -> ALLOW_POSTS :: else fi) }

inline nmi_enter()
{
	if
	:: atomic { level == _pid && nest == 0 }
	:: atomic { level == _pid && nest != 0 ->
			nest++
		};
		do_work(_pid)
	fi
}

inline nmi_exit()
{
	if
	:: atomic { level == _pid && nest == 0 }
	:: atomic { level == _pid && nest != 0 -> nest-- };
#ifdef NO_NEST
		STEP(_pid, ALLOW_POSTS)
#else
		STEP(_pid, if :: nest == 1 -> ALLOW_POSTS :: else fi)
#endif
	fi
}

#define WATCH(L)	STEP(L, watching = true; FULL_BARRIER)
#define UNWATCH(L)	STEP(L, watching = false; FULL_BARRIER)

active proctype task()
{
	byte old, entries = ENTRIES;

kernel:
	STEP(0, patchable(); walk());
	if	/* interrupts on, for a moment or longer */
	:: STEP(0, fetched = text; barrier(); ipi_text = false; ipi_table = false; ipi_end = false)
	:: STEP(0, skip)
	fi;
	STEP(0, patchable(); walk(); nest = 1);	/* arm() */
	STEP(0, nmi_nesting = 0);
#ifdef SET_EARLY
	kernel_exit();
	UNWATCH(0);
#else
	UNWATCH(0);
	kernel_exit();
#endif
end:	/* user mode: for good, when nobody interrupts */
	if
	:: atomic { level == 0 && (ipi_text || ipi_table || ipi_end) -> EXCEPTION }
	:: atomic { level == 0 && entries > 0 -> entries--; EXCEPTION }
	fi;
#ifdef CLEAR_LATE
	WATCH(0);
	kernel_enter();
#else
	kernel_enter();
	WATCH(0);
#endif
	STEP(0, patchable(); nmi_nesting = NONIDLE);
	goto kernel
}

active [2] proctype nmi()	/* of level _pid */
{
	byte old, by, left = NMIS;

end:	atomic { level == _pid - 1 && left > 0 -> level = _pid; left--; EXCEPTION; by = (watching -> 2 : 1) };
	if
	:: by == 1 ->
#ifdef CLEAR_LATE
		WATCH(_pid);
		nmi_enter()
#else
		nmi_enter();
		WATCH(_pid)
#endif
	:: else
	fi;
	STEP(_pid, patchable(); walk(); nmi_nesting = nmi_nesting + by);
	STEP(_pid, patchable(); walk(); by = (nmi_nesting == 1 -> 1 : 2); nmi_nesting = nmi_nesting - by);
	if
	:: by == 1 ->
#ifdef SET_EARLY
		nmi_exit();
		UNWATCH(_pid)
#else
		UNWATCH(_pid);
		nmi_exit()
#endif
	:: else
	fi;
	STEP(_pid, level = _pid - 1);
	goto end
}

#ifdef NO_POST_BARRIER
#define BARRIER(buffered)	skip
#else
#define BARRIER(buffered)	buffered
#endif
#ifdef NO_SMP_MB
#define MB(buffered)	skip
#else
#define MB(buffered)	BARRIER(buffered)
#endif
#ifdef POST_BLIND
#define LOOKED	}; atomic { true
#else
#define LOOKED
#endif

/*
 * One step is the round of isolator_post() whose compare-and-exchange succeeds: those before changed nothing. It may
 * not be allowed any more by then. What is sent orders the stores before it in any case.
 */
#define POST(work, buffered, interrupt, done) \
	MB(buffered); \
	mine = allowed; \
	if \
	:: atomic { mine && (word & USER) LOOKED -> word = word | work; BARRIER(buffered); done } \
	:: atomic { !mine || !(word & USER) -> buffered; interrupt = true }; \
		atomic { !interrupt -> done } \
	fi

#ifdef TEXT
active proctype patch_text()
{
	byte version;
	bool mine;

	do
	:: version < POKES ->
		atomic { version++; buf_text = version };
		POST(SYNC, text = buf_text, ipi_text, synced = version)
	:: else -> break
	od
}
#endif

#ifdef TABLE
active proctype free_table()
{
	bool mine;

	buf_unmapped = true;
	POST(ORDER, unmapped = buf_unmapped, ipi_table, assert(!walking); freed = true)
}
#endif

#ifdef END
active proctype forbid()
{
	allowed = false;
	ipi_end = true
}
#endif
