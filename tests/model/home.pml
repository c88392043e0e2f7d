/* One key from its first claim to its second life: two producers that retry for ever, retirers, the sweeper, lanes that
 * close, a home that fails over, and time.
 *
 * A lane is one step here, "what is queued is paid, once", which is what lane.pml establishes. Time is ticks of one
 * append limit: a claim is stale from its second tick on, a tombstone lives for three, a recordless claim is swept from
 * the fourth, an answer is kept for four. Every age stops growing there, so time may go on for ever.
 *
 * Scenes:   -DRETIRERS=n  how many race    -DSWEEP  a sweeper    -DCLOSE  lane 0 drains and closes    -DLANES=n
 *           -DFAILOVER  the home's server loses, once, what was not waited for
 *           -DONE_STEP  homes and lanes share a server: producers may accept at once, an owner may end at once, and a
 *                       failover loses both together
 * Variants (one rule taken away): see RULES in rules.py; each is an #ifdef below.
 */

#ifndef LANES
#define LANES 2
#endif
#ifndef RETIRERS
#define RETIRERS 1
#endif
#define LIVES 2          /* a third life is one too many to look at */

#define NONE 0           /* a record's states */
#define QUEUED 1
#define DONE 2
#define RETIRED 3
#define LANDED 4         /* paid, and not ended yet: only where its end can be lost with its home */

#define ABSENT 0         /* a home's states */
#define OPEN 1
#define FINAL 2

#define ACTIVE 0         /* a lane's states */
#define DRAINING 1
#define CLOSED 2

#define STALE 2          /* ages, in ticks */
#ifdef TOMBSTONE_TOO_SHORT
#define BURIED 1
#else
#define BURIED 3
#endif
#ifdef SWEPT_TOO_EARLY
#define SWEPT 0
#else
#define SWEPT 4
#endif
#ifdef HOME_KEPT_FOR_SHORT
#define KEPT 1
#else
#define KEPT 4
#endif

/* ---- the home, and what its replica still has */
byte home, life, lane, age;
byte r_home, r_life, r_lane;
bit durable = 1, gen, renewed;

/* ---- the lanes */
byte st[LANES], rlife[LANES], rage[LANES], state[LANES];

/* ---- what producers hold: here, because it ages too */
byte p_life[2], p_lane[2], p_age[2];
#ifdef ONE_STEP
bit asked[2];                        /* an accept is on its way */
byte fresh;                          /* the lane + 1 of an accept that no replica has */
byte ended, ended_life;              /* the same of an end at once */
#endif

/* ---- what only the checker knows */
byte lives, current, accepted;       /* lives begun; the one whose answers count, until they expire */
bit paid;
#ifdef ONE_STEP
bit outrun[2];                       /* its key was answered while the accept was on its way */
#define OUTRUN outrun[0] = outrun[0] || asked[0]; outrun[1] = outrun[1] || asked[1]
#else
#define OUTRUN skip
#endif

#ifdef FAILOVER
#define UNLESS_IT_CAN_BE_LOST skip
#else
#define UNLESS_IT_CAN_BE_LOST durable = 1; r_home = 0; r_life = 0; r_lane = 0
#endif
inline write_home(h, l, n) {
  if
  :: durable -> r_home = home; r_life = life; r_lane = lane; durable = 0
  :: else
  fi;
  home = h; life = l; lane = n; age = 0; renewed = 1;
  UNLESS_IT_CAN_BE_LOST
}
#ifdef ONE_STEP
inline wait() { durable = 1; r_home = 0; r_life = 0; r_lane = 0; fresh = 0; ended = 0; ended_life = 0 }
#else
inline wait() { durable = 1; r_home = 0; r_life = 0; r_lane = 0 }
#endif

/* ---- producers */

#define ROUTE(n) state[n] == ACTIVE -> p_lane[p] = n

inline drop() { p_life[p] = 0; p_lane[p] = 0; p_age[p] = 0; g = 0 }

proctype producer(bit p) {
  bit g;
end:
  do
  :: atomic {                                                 /* route by what was read a while ago, then claim */
       if
       :: ROUTE(0)
       :: ROUTE(1)
#if LANES > 2
       :: ROUTE(2)
#endif
       fi;
     };
#ifdef ONE_STEP
     if
     :: atomic { true -> asked[p] = 1; p_age[p] = 0 };
        atomic {                                              /* accept: all of it or nothing */
          asked[p] = 0;
          if
#ifndef ACCEPT_IGNORES_HOME
          :: home != ABSENT -> outrun[p] = 0; p_age[p] = 0; goto known
#endif
#ifndef ACCEPT_WITHOUT_LIMIT
          :: home == ABSENT && p_age[p] >= STALE -> outrun[p] = 0; drop(); goto end
#endif
          :: else
          fi;
          if
          :: lives == LIVES || state[p_lane[p]] == CLOSED || (st[p_lane[p]] != NONE && st[p_lane[p]] != RETIRED) ->
             outrun[p] = 0; drop(); goto end
          :: else
          fi;
          assert(!outrun[p]);                                 /* late, it would begin a life that nobody asked for */
          lives++; current = lives;
#ifndef ACCEPT_WITHOUT_CLAIM
          write_home(OPEN, lives, p_lane[p]);
#endif
          accepted = lives;
          st[p_lane[p]] = QUEUED; rlife[p_lane[p]] = lives; rage[p_lane[p]] = 0;
#ifdef FAILOVER
          fresh = p_lane[p] + 1; g = gen
#else
          drop(); goto end
#endif
        };
#ifdef FAILOVER
        atomic {                                              /* WAIT */
          if
          :: gen == g -> wait()
          :: else                                             /* unknown: the same key again finds out */
          fi;
          drop(); goto end
        }
#endif
     :: skip                                                  /* the long way, as an older release or a known key goes */
     fi;
known:
#endif
     atomic {
       if
       :: home == FINAL ->
          assert(current == 0 || life == current);                            /* the answer of this life, not of one before */
          drop(); goto end
       :: home == ABSENT && lives == LIVES -> drop(); goto end
       :: home == ABSENT && lives < LIVES ->
          lives++; current = lives; write_home(OPEN, lives, p_lane[p])
       :: home == OPEN ->
#ifdef CLAIM_STARTS_ANOTHER_LIFE
          if
          :: lives < LIVES -> lives++; write_home(OPEN, lives, lane)
          :: else -> write_home(OPEN, life, lane)
          fi;
          p_lane[p] = lane
#elif defined(ROUTER_CONSULTED_ON_RETRY)
          write_home(OPEN, life, p_lane[p])
#else
          write_home(OPEN, life, lane); p_lane[p] = lane      /* the choice is made once */
#endif
       fi;
       p_life[p] = life; p_age[p] = 0; g = gen
     };
#ifdef FAILOVER
     atomic {                                                 /* WAIT */
#ifndef CLAIM_NOT_DURABLE
       if
       :: gen != g -> drop(); goto end
       :: else -> wait(); g = 0
       fi
#else
       g = 0
#endif
     };
#endif
#ifdef MOVED_WHEN_NOT_ACTIVE
     if
     :: atomic { state[p_lane[p]] != ACTIVE -> goto moving }
     :: else
     fi;
#endif
     atomic {                                                 /* append */
       if
       :: st[p_lane[p]] == RETIRED && rlife[p_lane[p]] == p_life[p] -> drop(); goto end
       :: st[p_lane[p]] != NONE && st[p_lane[p]] != RETIRED -> drop(); goto end  /* exists, or another life is there */
#if defined(ONE_STEP) && !defined(APPEND_IGNORES_HOME)
       :: st[p_lane[p]] == NONE && home == FINAL && life == p_life[p] -> drop(); goto end  /* it ended: no tombstone says so */
#endif
#ifndef NO_BORN_LIMIT
       :: (st[p_lane[p]] == NONE || (st[p_lane[p]] == RETIRED && rlife[p_lane[p]] != p_life[p])) &&
          p_age[p] >= STALE -> drop(); goto end               /* claim again */
#endif
       :: else
       fi;
       if
       :: state[p_lane[p]] == CLOSED -> goto moving
       :: else
       fi;
       assert(accepted != p_life[p]);                          /* what was accepted is not lost and made anew */
       accepted = p_life[p];
       st[p_lane[p]] = QUEUED; rlife[p_lane[p]] = p_life[p]; rage[p_lane[p]] = 0;
       drop();
       goto end
     };
moving:
     atomic {                                                 /* the lane is closed and has nothing of this intent */
       if
#ifdef MOVED_BLINDLY
       :: home == OPEN ->
#else
       :: home == OPEN && life == p_life[p] && lane == p_lane[p] ->
#endif
          if
          :: state[0] == ACTIVE -> write_home(OPEN, life, 0)
          :: state[1] == ACTIVE -> write_home(OPEN, life, 1)
#if LANES > 2
          :: state[2] == ACTIVE -> write_home(OPEN, life, 2)
#endif
          :: else
          fi
       :: else
       fi;
       drop()
     }
  od
}

/* ---- lanes: what is queued is paid, once; see lane.pml */

inline pay(n) {
  assert(!paid);                                              /* at most one effect per key, until its answer expired */
#ifdef ONE_STEP
  wait();                                                     /* the write-ahead waits for all that stands before it */
  paid = 1; st[n] = LANDED
#else
  paid = 1; st[n] = DONE
#endif
}
#ifdef ONE_STEP
inline end_at_once(n) {                                       /* settle and home, in one step; nobody waits for a replica */
#ifdef FAILOVER
  ended = n + 1; ended_life = rlife[n];
#endif
#ifdef END_WITHOUT_HOME
  st[n] = RETIRED;
#else
  if
  :: home == ABSENT || (home == OPEN && life == rlife[n]) ->
     write_home(FINAL, rlife[n], n); OUTRUN;
     if
     :: st[n] = RETIRED                                       /* a lane of schema 1 */
     :: st[n] = NONE; rlife[n] = 0                            /* the home says as much to an append */
     fi
  :: else -> st[n] = RETIRED                                  /* the key lives again: its home says nothing of this life */
  fi;
#endif
  rage[n] = 0
}
#endif
proctype owner() {
end:
  do
  :: atomic { st[0] == QUEUED -> pay(0) }
  :: atomic { st[1] == QUEUED -> pay(1) }
#if LANES > 2
  :: atomic { st[2] == QUEUED -> pay(2) }
#endif
#ifdef ONE_STEP
  :: atomic { st[0] == LANDED -> st[0] = DONE }               /* an archive waits, or an older release owns the lane */
  :: atomic { st[1] == LANDED -> st[1] = DONE }
  :: atomic { st[0] == LANDED -> end_at_once(0) }
  :: atomic { st[1] == LANDED -> end_at_once(1) }
#endif
  od
}

/* ---- final records: home, then tombstone. A crash is a jump back to the start */

proctype retirer() {
  byte n, l;
  bit g;
end:
  do
  :: atomic {
       if
       :: st[0] == DONE -> n = 0
       :: st[1] == DONE -> n = 1
#if LANES > 2
       :: st[2] == DONE -> n = 2
#endif
       fi;
       l = rlife[n]
     };
#ifdef BURIED_BEFORE_HOME
     atomic { if :: st[n] == DONE && rlife[n] == l -> st[n] = RETIRED; rage[n] = 0 :: else fi };
     if :: atomic { true -> n = 0; l = 0; goto end } :: skip fi;
#endif
     atomic {
       if
#ifdef RETIRE_IGNORES_LIFE
       :: home != FINAL || life != l -> write_home(FINAL, l, n)
#else
       :: home == ABSENT || (home == OPEN && life == l) ->
          write_home(FINAL, l, n);
          OUTRUN
#endif
       :: else
       fi;
       g = gen
     };
#if defined(FAILOVER) && !defined(RETIRE_NOT_DURABLE)
     atomic {                                                 /* WAIT */
       if
       :: gen != g -> n = 0; l = 0; g = 0; goto end
       :: else -> wait()
       fi
     };
#endif
     atomic {                                                 /* bury */
       if
#ifdef BURY_IGNORES_LIFE
       :: st[n] == DONE ->
#else
       :: st[n] == DONE && rlife[n] == l ->
#endif
#ifdef NO_TOMBSTONE
          st[n] = NONE; rlife[n] = 0; rage[n] = 0
#else
          st[n] = RETIRED; rlife[n] = l; rage[n] = 0
#endif
       :: else
       fi;
       n = 0; l = 0; g = 0
     }
  od
}

/* ---- claims that never got a record */

#ifdef SWEEP
proctype sweeper() {
  byte n, l;
end:
  do
  :: atomic { home == OPEN && age >= SWEPT -> n = lane; l = life; renewed = 0 };
#ifndef SWEPT_WITHOUT_READING
     atomic {
       if
       :: st[n] != NONE && st[n] != RETIRED && rlife[n] == l -> n = 0; l = 0; goto end   /* the retirer's */
       :: else
       fi
     };
#endif
     atomic {                                                 /* forget */
       if
#ifdef SWEPT_WITHOUT_COMPARING
       :: home == OPEN ->
#else
       :: home == OPEN && life == l && !renewed ->
#endif
          home = ABSENT; life = 0; lane = 0; age = 0; current = 0
       :: else
       fi;
       n = 0; l = 0
     }
  od
}
#endif

/* ---- an operator drains lane 0, then closes it when it holds no record at all */

#ifdef CLOSE
proctype operator() {
  atomic { true -> state[0] = DRAINING };
end:
  atomic {
#ifdef CLOSED_WITH_FINALS
    st[0] != QUEUED
#else
    st[0] == NONE || st[0] == RETIRED
#endif
    -> state[0] = CLOSED;
#ifdef CLOSED_WITH_FINALS
    st[0] = NONE; rlife[0] = 0                                /* what a closed lane still has is read by nobody */
#endif
  }
}
#endif

#ifdef FAILOVER
proctype failover() {
  atomic {
    true ->
    gen = 1;
    if
    :: !durable ->
#ifdef ONE_STEP
       if
       :: fresh > 0 && st[fresh - 1] == QUEUED -> st[fresh - 1] = NONE; rlife[fresh - 1] = 0; accepted = 0
       :: else
       fi;
       if                                                     /* the chain shows it again: it ends once more */
       :: ended > 0 -> st[ended - 1] = LANDED; rlife[ended - 1] = ended_life; rage[ended - 1] = 0; accepted = ended_life
       :: else
       fi;
#endif
       home = r_home; life = r_life; lane = r_lane; current = life; wait()
    :: else
    fi
  }
}
#endif

/* ---- time */

#ifdef ONE_STEP
#define HELD(p) (p_life[p] != 0 || asked[p])
#else
#define HELD(p) (p_life[p] != 0)
#endif
inline older(n) {
  if
  :: st[n] == RETIRED && rage[n] + 1 >= BURIED -> st[n] = NONE; rlife[n] = 0; rage[n] = 0
  :: st[n] == RETIRED && rage[n] + 1 < BURIED -> rage[n]++
  :: else
  fi
}
inline held_longer(p) {
  if
  :: HELD(p) && p_age[p] < STALE -> p_age[p]++
  :: else
  fi
}
proctype clock() {
end:
  do
  :: atomic {
       (home != ABSENT && age < KEPT) || home == FINAL || st[0] == RETIRED || st[1] == RETIRED ||
       (HELD(0) && p_age[0] < STALE) || (HELD(1) && p_age[1] < STALE) ->
       older(0); older(1);
#if LANES > 2
       older(2);
#endif
       held_longer(0); held_longer(1);
       if
       :: home == FINAL && age + 1 >= KEPT -> home = ABSENT; life = 0; lane = 0; age = 0; paid = 0; current = 0
       :: home == OPEN && age < KEPT || home == FINAL && age + 1 < KEPT -> age++
       :: else
       fi
     }
  od
}

init {
  atomic {
    run producer(0); run producer(1); run owner(); run retirer();
#if RETIRERS > 1
    run retirer();
#endif
#ifdef SWEEP
    run sweeper();
#endif
#ifdef CLOSE
    run operator();
#endif
#ifdef FAILOVER
    run failover();
#endif
    run clock()
  }
}
