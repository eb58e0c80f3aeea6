// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reschedules, stop work, the watchdog and the end of an isolation, checked in every interleaving; word.pml has the
 * word itself, and says what levels and steps are.
 *
 *	here				in the kernel
 *	task()				the owner: system calls, interrupts, exit_to_user_mode_prepare(), schedule()
 *	nmi()				an NMI from user mode or from anywhere in the kernel; no exit work on its return
 *	do_work()			isolator_do_work(), with what it keeps for a way out that has exit work
 *	user_exit()			__isolator_user_exit(): flags the owner, opens the clock gate where a timer is due
 *					soon or the owner is none any more
 *	arm()				__isolator_user_arm(): closes the gate; opens it for who was deprived meanwhile
 *	armed				isolator_entry.flags has OWNER. USER, which each thread sets, matters to no work here
 *	schedule()			the switch to another task opens the gate
 *	resched_curr()			resched_curr(), __isolator_defer_resched(), __isolator_resched_again()
 *	wake()				a caller that may wait, resched_curr_deferrable(): a wakeup of an ordinary task
 *	stop()				one that may not, as all others: stop_one_cpu(), preemption by a higher class or
 *					priority, core scheduling, sched_ext's kicks
 *	end()				isolator_end() from another CPU: exit, last close, watchdog
 *	watchdog()			look_at(), somebody_waits(), break_isolation()
 *
 * All that passes between CPUs here are atomic operations or lies under the runqueue's lock, so nothing is reordered.
 *
 * What must hold, where nothing moves any more (the owner is in user mode for good):
 *  - who may not wait has been served, without help of the watchdog, which comes too late for it;
 *  - the watchdog has seen every reschedule, and sees none that has been served;
 *  - a CPU without an owner has its gate open, its flags served, and takes no posts.
 *
 * Each of these breaks one rule, and has to be found:
 *	ALL_WAIT	who may not wait is deferred as well
 *	STOP_RETURNS	resched_curr() returns when the flag is set, as without an isolator
 *	STOP_IF_OWNER	who may not wait sends its interrupt only where OWNER is set, which an NMI clears for a while
 *	NMI_EATS	an NMI clears RESCHED, and its return serves nothing
 *	LEFT_BEHIND	an entry whose work an NMI has done leaves what the NMI kept
 *	END_IF_OWNER	who ends an isolation interrupts only a CPU whose OWNER is set
 *	LEFT_CLOSED	who was deprived in the kernel leaves the gate as it is
 *	SWITCH_CLOSED	a switch to another task leaves the gate as it is
 */
#define OWNER	1
#define RESCHED	2

#ifndef ENTRIES
#define ENTRIES	2
#endif
#ifndef NMIS
#define NMIS	2
#endif

byte word, nest, level;
bool watching = true, owner = true, gated, armed;
bool flag;			/* TIF_NEED_RESCHED */
bool mark;			/* TIF_ISOLATOR */
bool ipi, locked;		/* the runqueue's lock */
bool stop_queued, stop_ran;

#define STEP(L, what)	atomic { level == L -> what }

#ifdef NMI_EATS
#define KEEP(L)	0
#else
#define KEEP(L)	(L -> RESCHED : 0)
#endif

inline do_work(L)
{
#ifdef LEFT_BEHIND
	STEP(L, if :: word & OWNER -> word = word & KEEP(L) :: else fi)
#else
	STEP(L, word = word & ~OWNER);
	STEP(L, word = word & KEEP(L))
#endif
}

inline lock() { atomic { !locked -> locked = true } }

inline resched_curr(may_wait)
{
	if
	:: atomic { flag ->
#ifndef STOP_RETURNS
			if
#ifdef STOP_IF_OWNER
			:: !may_wait && owner && (word & OWNER) -> ipi = true
#else
			:: !may_wait && owner && (word & RESCHED) -> ipi = true
#endif
			:: else
			fi
#endif
		}
	:: atomic { !flag -> flag = true };
		mine = owner;
		if
#ifdef ALL_WAIT
		:: atomic { mine && (word & OWNER) -> word = word | RESCHED }
		:: atomic { !mine || !(word & OWNER) -> ipi = true }
#else
		:: atomic { may_wait && mine && (word & OWNER) -> word = word | RESCHED }
		:: atomic { !may_wait || !mine || !(word & OWNER) -> ipi = true }
#endif
		fi
	fi
}

active proctype task()
{
	byte entries = ENTRIES;

	do
	::	if	/* interrupts on, for a moment or longer */
		:: STEP(0, ipi = false)
		:: STEP(0, skip)
		fi;
		do	/* off: the last look at flags */
		:: atomic { level == 0 && !flag -> break }
		:: atomic { level == 0 && flag && !locked -> locked = true };
#ifndef SWITCH_CLOSED
			STEP(0, gated = false);
#endif
			/* schedule(), and those that it lets run */
			STEP(0, assert(!gated); flag = false; stop_ran = stop_queued; locked = false)
		od;
		STEP(0,	/* arm(), which only who is flagged passes */
			if
			:: mark && owner -> gated = true; armed = true
#ifndef LEFT_CLOSED
			:: mark && !owner -> gated = false
#endif
			:: else
			fi;
			mark = false);
		STEP(0, nest = 1);
		STEP(0, watching = false);
		STEP(0, if :: armed -> word = word | OWNER :: else fi);
end:		if	/* user mode */
		:: atomic { level == 0 && ipi -> ipi = false }
		:: atomic { level == 0 && entries > 0 -> entries-- }
		fi;
		if
		:: atomic { level == 0 && nest == 0 }
		:: atomic { level == 0 && nest != 0 -> nest = 2 };
			do_work(0);
			STEP(0, nest = 0)
		fi;
		STEP(0, watching = true);
		STEP(0,	/* user_exit() */
			if
			:: armed -> armed = false; mark = owner;
				if
				:: gated = false
				:: owner	/* no timer is due soon */
				fi
			:: else
			fi);
		if
		:: STEP(0, owner = true; mark = true)	/* a system call: START */
		:: STEP(0, skip)
		fi
	od
}

active proctype nmi()
{
	byte left = NMIS;
	bool entered;

end:	atomic { level == 0 && left > 0 -> level = 1; left--; entered = !watching };
	if
	:: entered ->
		if
		:: nest == 0
		:: nest != 0 -> nest++; do_work(1)
		fi;
		watching = true;	/* the handler */
		watching = false;
		if
		:: nest == 0
		:: nest != 0 -> nest--;
			if
			:: nest == 1 && armed -> word = word | OWNER
			:: else
			fi
		fi
	:: else
	fi;
	level = 0;
	goto end
}

#ifdef WAKE
active proctype wake()
{
	bool mine;

	lock();
	resched_curr(true);
	locked = false
}
#endif

#ifdef STOP
active proctype stop()
{
	bool mine;

	lock();
	stop_queued = true;
	resched_curr(false);
	locked = false;
	stop_ran
}
#endif

#ifdef END
active proctype end_isolation()
{
	atomic { owner -> owner = false };
#ifdef END_IF_OWNER
	if
	:: atomic { word & OWNER -> ipi = true }
	:: atomic { !(word & OWNER) }
	fi
#else
	ipi = true
#endif
}
#endif

/* Its bound is long: by then all else has come to rest. */
active proctype watchdog()
{
	do
	:: atomic { timeout ->
#ifdef STOP
			assert(stop_ran);
#endif
			assert(flag || !(word & RESCHED));
			if
			:: owner && (flag || (word & RESCHED)) -> ipi = true
			:: else -> break
			fi
		}
	od;
	assert(!flag);
	assert(owner || (!gated && !(word & OWNER)))
}
