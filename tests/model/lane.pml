/* One lane from claim to tombstone: two keys, three owners one after the other, two producers, one roll-back, NEAR.
 *
 * Each atomic block is one Lua script, one call to a node, or one look at what was read; between two of them anything
 * may happen, so every process can pause anywhere for as long as it likes. Each owner may crash at every step, but for
 * the last. A lease can run out at any moment: nothing here relies on clocks, except where a comment says so.
 *
 * Scenes (what may happen):   -DROLLBACK   the ledger falls back once to an earlier state, nobody vouches for it
 *                             -DREPLICAS   the same, but callers wait for the replica and owners go on by themselves
 *                             -DCANCEL     a caller cancels key A    -DDROPS=n  the pool loses n transactions
 *                             -DONE_KEY    key A only                -DLOST_REPLIES  calls are made again
 *                             -DSLOW       owners also pause between a look at the chain and the call it leads to. Without
 *                                          it the two are one step, which loses nothing while the fence holds: the call
 *                                          happens now, or later by the owner still, or not at all
 * Variants (one rule taken away): see RULES in rules.py; each is an #ifdef below.
 */

#define A 0
#define B 1
#define KEYS 2
/* transactions that can be signed; the model asserts that it needs no more */
#ifdef REPLICAS
#define TXS 5
#define EACH(f) f(0); f(1); f(2); f(3); f(4)
#define ANY(f) (f(0) || f(1) || f(2) || f(3) || f(4))
#define ANY_OF(f, x) (f(0, x) || f(1, x) || f(2, x) || f(3, x) || f(4, x))
#define MASK(f) (f(0) | f(1) << 1 | f(2) << 2 | f(3) << 3 | f(4) << 4)
#else
#define TXS 4
#define EACH(f) f(0); f(1); f(2); f(3)
#define ANY(f) (f(0) || f(1) || f(2) || f(3))
#define ANY_OF(f, x) (f(0, x) || f(1, x) || f(2, x) || f(3, x))
#define MASK(f) (f(0) | f(1) << 1 | f(2) << 2 | f(3) << 3)
#endif
#ifdef TWO_OWNERS
#define LAST 1
#else
#define LAST 2       /* the last owner: it does not crash */
#endif
#ifndef DROPS
#define DROPS 0
#endif
#if defined(LOST_REPLIES) && !defined(SLOW)
#define SLOW
#endif

/* states of a record */
#define NONE 0
#define QUEUED 1
#define INFLIGHT 2
#define DONE 3
#define CANCELLED 4
#define RETIRED 5
/* states of a home */
#define ABSENT 0
#define OPEN 1
#define FINAL 2
/* what became of signed bytes */
#define NEVER 0      /* sent */
#define POOL 1
#define LOST 2
#define ONCHAIN 3

#define WITHDRAWN 9  /* the outcome of a cancelled key; that of a done one is its transaction's number + 1 */
#define NO_TX TXS

/* ---- the ledger: what a roll-back takes back together */
byte epoch, token, cursor = 1, landed;
bit replid, quarantined;
byte st[KEYS], sid[KEYS], outcome[KEYS];
bit asked[KEYS];                        /* cancel_requested */
bit recorded[TXS], dead[TXS];           /* written ahead; proven dead */
#if defined(TAKE_ANSWERS_ONLY_NEW) || defined(CONSUMER_PER_OWNER)
byte given[KEYS];                       /* who read the entry last */
#define GIVE(k, w) given[k] = w + 1
#else
#define GIVE(k, w) skip
#endif

/* ---- homes: another slot, whose writes are durable here (home.pml looks at those that are not) */
byte home[KEYS], answer[KEYS];

/* ---- signed bytes, and the chain */
byte nonce[TXS], key[TXS], tx[TXS];
bit noop[TXS];
byte top;                               /* the access key's nonce */
byte drops = DROPS;

/* ---- what only the checker knows */
byte turn;                              /* leases so far; owner w holds the w-th */
byte owner, effects[KEYS], said[KEYS];
bit gen, rolled, accepted[KEYS];

/* ---- the replica, or an older copy on disk */
#if defined(ROLLBACK) || defined(REPLICAS)
byte r_epoch, r_token, r_cursor = 1, r_landed;
bit r_replid, r_quarantined;
byte r_st[KEYS], r_sid[KEYS], r_outcome[KEYS];
bit r_asked[KEYS], r_recorded[TXS], r_dead[TXS];

inline copy_key(k) { r_st[k] = st[k]; r_sid[k] = sid[k]; r_outcome[k] = outcome[k]; r_asked[k] = asked[k] }
inline copy_tx(s) { r_recorded[s] = recorded[s]; r_dead[s] = dead[s] }
inline copy() {
  r_epoch = epoch; r_token = token; r_cursor = cursor; r_landed = landed;
  r_replid = replid; r_quarantined = quarantined;
  copy_key(A); copy_key(B); EACH(copy_tx)
}
inline back_key(k) {
  st[k] = r_st[k]; sid[k] = r_sid[k]; outcome[k] = r_outcome[k]; asked[k] = r_asked[k];
  r_st[k] = 0; r_sid[k] = 0; r_outcome[k] = 0; r_asked[k] = 0
}
inline back_tx(s) { recorded[s] = r_recorded[s]; dead[s] = r_dead[s]; r_recorded[s] = 0; r_dead[s] = 0 }
inline fall_back() {
  epoch = r_epoch; token = r_token; cursor = r_cursor; landed = r_landed;
  replid = r_replid; quarantined = r_quarantined;
  r_epoch = 0; r_token = 0; r_cursor = 0; r_landed = 0; r_replid = 0; r_quarantined = 0;
  back_key(A); back_key(B); EACH(back_tx);
  owner = token; rolled = 1; gen = 1
}
#endif

/* ---- rules a variant takes away */
#ifdef FENCE_BY_EPOCH_ALONE
#define FENCE (epoch == ep)
#else
#define FENCE (epoch == ep && token == w + 1)
#endif
#ifdef NO_FENCE_IN_TAKE
#define TAKE_FENCE true
#else
#define TAKE_FENCE FENCE
#endif
#ifdef NO_FENCE_IN_RECORD
#define RECORD_FENCE true
#else
#define RECORD_FENCE FENCE
#endif
#ifdef NO_FENCE_IN_SETTLE
#define SETTLE_FENCE true
#else
#define SETTLE_FENCE FENCE
#endif
#ifdef RECORD_IGNORES_REPLICATION_ID
#define SAME_HISTORY true
#else
#define SAME_HISTORY (replid == gen)
#endif
/* "nothing of it landed" is only known of a history that is whole */
#ifdef CANCELLED_AFTER_A_ROLLBACK
#define ENDS_WITHOUT_EFFECT true
#else
#define ENDS_WITHOUT_EFFECT (replid == gen)
#endif
#ifdef SIGNS_AGAIN_IN_QUARANTINE
#define REFUSES false
#else
#define REFUSES quarantined
#endif
#ifdef FORMER_OWNER_VOUCHES
#define LAPSED false
#else
#define LAPSED (turn != w + 1)   /* its own clock says so: a lease is only taken over after its local stop time */
#endif

#define CARRIED_OUT_FOR_OWNER assert(owner == w + 1)

/* an attempt that may still land, of an intent that has not ended */
#define LIVE(s) (recorded[s] && !dead[s] && nonce[s] > top && st[key[s]] == INFLIGHT)
#define ENDED(k) (st[k] == DONE || st[k] == CANCELLED || st[k] == RETIRED)
#define OVERTAKES(s, k) (LIVE(s) && key[s] != k)
#ifdef RESIGN_OVERTAKES
#define CLEAR(k) true
#else
#define CLEAR(k) (!ANY_OF(OVERTAKES, k))
#endif
#define NOOP_OF(s, k) (recorded[s] && noop[s] && key[s] == k)
#define KILLED(k) (NOOP_OF(1, k) || NOOP_OF(2, k) || NOOP_OF(3, k) || NOOP_OF(TXS - 1, k))
#ifdef RESEND_WHAT_A_NOOP_KILLS
#define SENDABLE(s) LIVE(s)
#else
#define SENDABLE(s) (LIVE(s) && (noop[s] || !KILLED(key[s])))
#endif
/* all bytes of k are proven dead, those of s by the proof in hand */
#define ALIVE(i, k) (recorded[i] && key[i] == k && !noop[i] && !dead[i] && i != s)
#define ALL_DEAD(k) (!ANY_OF(ALIVE, k))
#define OURS_AT(s, n) (recorded[s] && nonce[s] == n && st[key[s]] == INFLIGHT)
#define OURS(n) ANY_OF(OURS_AT, n)
#define SEEN_AT(s, n) (OURS_AT(s, n) && tx[s] == ONCHAIN)
#define SEEN(n) ANY_OF(SEEN_AT, n)
#ifdef DEATH_WITHOUT_ASKING_WHOSE
#define FOREIGN(n) false
#else
#define FOREIGN(n) (n >= cur || (OURS(n) && !SEEN(n)))
#endif
#ifdef NO_CHAIN_CHECK_AT_TAKE_OVER
#define UNEXPLAINED false
#else
#define UNEXPLAINED (top >= cursor || (top > landed && !OURS(top)))
#endif

/* ---- scripts */

inline finish(k, final, what) {
  assert(st[k] == QUEUED || st[k] == INFLIGHT);               /* an outcome and its event come once */
  assert(said[k] == 0 || said[k] == what);                    /* every answer is the same */
  assert(what != WITHDRAWN || effects[k] == 0);               /* cancelled means no effect */
  st[k] = final; outcome[k] = what; said[k] = what; sid[k] = 0; asked[k] = 0
}

/* bytes for key k at nonce n get the lowest free number, which stands for their hash */
inline sign(s, k, n, kill) {
  s = 0;
  do
  :: s < TXS && nonce[s] != 0 -> s++
  :: else -> break
  od;
  assert(s < TXS);
  nonce[s] = n; key[s] = k; noop[s] = kill
}

inline write_ahead(s) {
  assert(rolled || !OURS(nonce[s]));                          /* a nonce is never handed to another intent */
  recorded[s] = 1; cursor = nonce[s] + 1
}

inline land(s) {
  tx[s] = ONCHAIN; top = nonce[s];
  if
  :: noop[s]
  :: else ->
     effects[key[s]]++;
     assert(effects[key[s]] <= 1);                            /* at most one effect per key */
     assert(said[key[s]] != WITHDRAWN)
  fi
}

/* the highest nonce of ours that is final, or (a no-op) may become so */
inline note_landed(s) { if :: landed < nonce[s] -> landed = nonce[s] :: else fi }
#ifdef LANDED_FORGETS_NOOPS
#define note_noops(k) skip
#else
#define NEWER_NOOP(s, k) (NOOP_OF(s, k) && landed < nonce[s])
inline note_noops(k) {
  if :: NEWER_NOOP(1, k) -> landed = nonce[1] :: else fi;     /* the first transaction is never a no-op */
  if :: NEWER_NOOP(2, k) -> landed = nonce[2] :: else fi;
  if :: NEWER_NOOP(3, k) -> landed = nonce[3] :: else fi
}
#endif

/* first sends come in the order of nonces; what a no-op kills need not be sent any more */
#define SKIPPED(r, s) (recorded[r] && nonce[r] < nonce[s] && nonce[r] > top && tx[r] == NEVER && !KILLED(key[r]))
inline send(s) {
  assert(rolled || !ANY_OF(SKIPPED, s));
  if
  :: tx[s] == NEVER || tx[s] == LOST -> tx[s] = POOL
  :: else
  fi
}

inline quarantine() {
  assert(rolled);                                             /* never without a cause */
#ifdef REPLICAS
  assert(false);                                              /* and never when the mode vouches */
#endif
  quarantined = 1
}

/* ---- producers */

inline hear(k) { assert(said[k] != 0 && answer[k] == said[k]) }  /* the stored result, whoever asks */

proctype producer(byte k; bit retry) {
#ifdef REPLICAS
  bit g;
#endif
  atomic {                                                    /* claim */
    !retry || home[k] != ABSENT ->                            /* the one who claims first is the first */
    if
    :: home[k] == FINAL -> hear(k); goto answered
    :: else -> home[k] = OPEN
    fi;
    if :: k == B -> goto again :: else fi                     /* nobody else claims B: a pause here is a later start */
  };
again:
  atomic {                                                    /* append */
    if
    :: st[k] == NONE -> st[k] = QUEUED; sid[k] = sid[1 - k] + 1
    :: st[k] == RETIRED -> assert(home[k] == FINAL); hear(k); goto answered
#ifdef APPEND_TWICE
    :: st[k] == DONE -> st[k] = QUEUED; sid[k] = sid[1 - k] + 1
#endif
    :: else
    fi;
#ifdef REPLICAS
    g = gen
  };
  atomic {                                                    /* WAIT */
#ifndef APPEND_NOT_DURABLE
    if
    :: gen != g -> goto again                                 /* the connection broke: unknown, so once more */
    :: gen == g && gen == 0 -> copy()
    :: else
    fi;
#endif
    g = 0;
#endif
    accepted[k] = 1
  };
answered:
  skip
}

#ifdef CANCEL
proctype canceller() {
  if
  :: atomic { st[A] == QUEUED && ENDS_WITHOUT_EFFECT -> finish(A, CANCELLED, WITHDRAWN) }
  :: atomic { st[A] == INFLIGHT ->
#ifdef CANCEL_RACES_THE_WRITE_AHEAD
       finish(A, CANCELLED, WITHDRAWN)
#else
       asked[A] = 1
#endif
     }
  :: skip
  fi
}
#endif

/* ---- final records go home, then leave a tombstone; its own crash is a jump back to the start */

proctype retirer() {
  byte what;
#define k A             /* nobody asks for B again, so its home and its tombstone are left out */
end:
  do
  :: atomic { st[A] == DONE || st[A] == CANCELLED -> what = outcome[A] }; goto keep
  od;
keep:
#ifdef BURY_BEFORE_HOME
  goto bury;
#endif
  atomic {
    if
    :: home[k] != FINAL -> home[k] = FINAL; answer[k] = what
    :: else
    fi
  };
bury:
  atomic {
    if
    :: (st[k] == DONE || st[k] == CANCELLED) && outcome[k] == what ->
#ifdef NO_TOMBSTONE
       st[k] = NONE; outcome[k] = 0
#else
       st[k] = RETIRED; outcome[k] = 0
#endif
    :: else
    fi;
    what = 0
  };
  goto end
#undef k
}

/* ---- owners */

#define RESENDABLE MASK(SENDABLE)
#define UNTAKEN(s) (SENDABLE(s) && tx[s] != POOL)
#define LANDED(s) (recorded[s] && !noop[s] && tx[s] == ONCHAIN && st[key[s]] == INFLIGHT)
#define UNDECIDED(s) (recorded[s] && !noop[s] && !dead[s] && st[key[s]] == INFLIGHT)
/* the two halves of a proof of death, in their order: final nonce, then status */
#if defined(STATUS_BEFORE_NONCE)
#define FIRST_HALF(s) (UNDECIDED(s) && tx[s] != ONCHAIN)
#define SECOND_HALF(s) (top >= nonce[s])
#elif defined(UNKNOWN_IS_DEAD)
#define FIRST_HALF(s) UNDECIDED(s)
#define SECOND_HALF(s) (tx[s] != ONCHAIN)
#else
#define FIRST_HALF(s) (UNDECIDED(s) && top >= nonce[s])
#define SECOND_HALF(s) (tx[s] != ONCHAIN)
#endif
#if defined(TAKE_ANSWERS_ONLY_NEW)
#define TAKEABLE(i) (st[i] == QUEUED && given[i] == 0)
#elif defined(CONSUMER_PER_OWNER)
#define TAKEABLE(i) (st[i] == QUEUED && (given[i] == 0 || given[i] == w + 1))
#else
#define TAKEABLE(i) (st[i] == QUEUED)
#endif
#ifdef NOOP_OVERTAKES
#define IDLE(k) true
#else
#define IDLE(k) (CLEAR(k) && st[1 - k] != QUEUED)
#endif
inline forget() { k = 0; k2 = KEYS; s = NO_TX; s2 = NO_TX; n = 0; kill = 0 }
inline leave() { forget(); ep = 0; cur = 0; unsent = 0; solo = NO_TX }

/* another history: go on only if nothing of ours can be missing in it */
inline doubt(known) {
#if defined(REPLICAS) || defined(ROLLBACK_IS_TRUSTED)
  replid = gen; cur = cursor
#else
  if
  :: known -> replid = gen
  :: else -> quarantine()
  fi
#endif
}

inline settle() {
  k = key[s];
  if
  :: !(SETTLE_FENCE) -> leave(); goto end_left
  :: else
  fi;
  if
#ifdef SETTLE_TWICE
  :: st[k] != NONE ->
#else
  :: st[k] == INFLIGHT && recorded[s] ->
#endif
     CARRIED_OUT_FOR_OWNER; finish(k, DONE, s + 1)
  :: else                                                     /* already, or gone */
  fi;
  note_landed(s); note_noops(k)
}

/* it was asked to end, and no bytes of it can land any more */
inline withdraw() {
  if
  :: !(SETTLE_FENCE) -> leave(); goto end_left
  :: else
  fi;
  if
#ifdef WITHDRAWN_WITHOUT_PROOF
  :: st[k] == INFLIGHT ->
#else
  :: st[k] == INFLIGHT && ALL_DEAD(k) && ENDS_WITHOUT_EFFECT ->
#endif
     CARRIED_OUT_FOR_OWNER; finish(k, CANCELLED, WITHDRAWN);
     if :: s != NO_TX -> dead[s] = 1 :: else fi
  :: else
  fi;
  note_noops(k)
}

/* write ahead a re-sign, or the no-op that kills: alone on the lane */
inline sign_again() {
  if
  :: !(RECORD_FENCE) -> leave(); goto end_left
  :: else
  fi;
  if
  :: s2 != NO_TX && recorded[s2]                              /* already: the reply was lost */
  :: else ->
     if
     :: !SAME_HISTORY || REFUSES || st[k] != INFLIGHT || (!kill && !ALL_DEAD(k)) -> forget(); goto end_loop
     :: else
     fi;
     if
     :: cursor != cur -> quarantine(); forget(); goto end_loop
     :: else
     fi;
     CARRIED_OUT_FOR_OWNER;
     if :: s2 == NO_TX -> sign(s2, k, cur, kill) :: else fi;
     /* it overtakes nobody who could still land */
     assert(!ANY_OF(OVERTAKES, k));
     write_ahead(s2);
     if :: s != NO_TX -> dead[s] = 1 :: else fi
  fi
}
inline send_again() { cur = cursor; unsent = unsent | 1 << s2; solo = s2; forget() }

proctype worker(byte w) {
  byte ep, cur;        /* the fence's epoch, and the cursor as this owner knows it */
  byte unsent;         /* a bit for each recorded attempt that no node took yet */
  byte k, k2 = KEYS;   /* what was taken, or is to be settled or signed again */
  byte s = NO_TX, s2 = NO_TX, n;
  byte solo = NO_TX;   /* a re-sign or a no-op that nothing may follow yet */
  bit kill;
#ifdef REPLICAS
  bit g;
#endif

end_left:
  atomic {                                                    /* lease: whoever had it was silent for too long */
    turn == w || (w == LAST && turn > LAST) ->                /* or a roll-back forgot our own */
    if :: turn == w -> turn++ :: else fi;
    epoch++; token = w + 1; owner = token; ep = epoch;
#ifdef CURSOR_FROM_CHAIN
    cursor = top + 1;
#endif
#ifdef LEASE_OVERWRITES_REPLICATION_ID
    replid = gen;
#endif
    cur = cursor;
    if
    :: replid != gen && !quarantined -> doubt(false)
    :: else
    fi;
    if                                                        /* recover: look everything up once, then send it again */
    :: !quarantined && UNEXPLAINED -> quarantine()
    :: else
    fi;
#ifndef NO_RECOVERY
    unsent = RESENDABLE;
#endif
#ifdef REPLICAS
    g = gen
  };
reading:
  atomic {                                                    /* WAIT: what is sent again must be durable as well */
#ifndef RECOVERY_NOT_DURABLE
    if
    :: unsent != 0 && gen != g && FENCE -> unsent = RESENDABLE; g = gen; goto reading
    :: unsent != 0 && gen != g && !FENCE -> leave(); g = 0; goto end_left
    :: unsent != 0 && gen == g && gen == 0 -> copy()
    :: else
    fi;
#endif
    g = 0
#endif
  };

end_loop:
  do
  :: atomic { w < LAST -> leave(); goto end_left }            /* crash; or the next call says that another owns it */
  :: atomic { w == LAST && !FENCE && unsent == 0 -> leave(); goto end_left }

  /* send: the lowest first, and nothing higher until a node took it */
  :: atomic { unsent != 0 ->
       s = NO_TX; s2 = 0;
       do
       :: s2 < TXS ->
          if
          :: (unsent >> s2) & 1 && (s == NO_TX || nonce[s2] < nonce[s]) -> s = s2
          :: else
          fi;
          s2++
       :: else -> break
       od;
#ifdef HIGHER_AFTER_A_LOST_SEND
       if
       :: send(s)
       :: skip
       fi;
       unsent = unsent & ~(1 << s);
#else
       send(s);
       if
       :: unsent = unsent & ~(1 << s)
#ifdef SIGNED_AGAIN_ON_TIMEOUT
       :: unsent == 1 << s -> unsent = 0; k = key[s]; s2 = NO_TX; goto signing_again
#endif
#ifdef LOST_REPLIES
       :: skip                                                /* maybe sent */
#endif
       fi;
#endif
       s = NO_TX; s2 = NO_TX
     }
#if DROPS > 0
  /* not included in time: the same bytes again, all in order */
  :: atomic { FENCE && unsent == 0 && ANY(UNTAKEN) -> unsent = RESENDABLE }
#endif

  /* look up, and settle what landed */
  :: atomic { FENCE && ANY(LANDED) ->
       if
       :: LANDED(0) -> s = 0
       :: LANDED(1) -> s = 1
       :: LANDED(2) -> s = 2
       :: LANDED(3) -> s = 3
#if TXS == 5
       :: LANDED(4) -> s = 4
#endif
       fi;
#ifdef SLOW
     };
settling:
     atomic {
#endif
       settle();
#ifdef LOST_REPLIES
       if :: goto settling :: skip fi;                        /* call again */
#endif
       forget()
     }

  /* prove dead, then sign again, or end what was cancelled */
  :: atomic { FENCE && unsent == 0 && ANY(FIRST_HALF) ->
       if
       :: FIRST_HALF(0) -> s = 0
       :: FIRST_HALF(1) -> s = 1
       :: FIRST_HALF(2) -> s = 2
       :: FIRST_HALF(3) -> s = 3
#if TXS == 5
       :: FIRST_HALF(4) -> s = 4
#endif
       fi;
       n = top;
#ifdef SLOW
     };
     atomic {
#endif
       k = key[s];
       if
       :: !(SECOND_HALF(s)) -> forget(); goto end_loop
       :: SECOND_HALF(s) && !FENCE -> leave(); goto end_left
       :: SECOND_HALF(s) && FENCE && FOREIGN(n) ->
          if :: !quarantined -> quarantine() :: else fi;
          forget(); goto end_loop
       :: else
       fi;
       n = 0;
       if
       :: asked[k] || KILLED(k) -> withdraw(); forget(); goto end_loop
       :: !(asked[k] || KILLED(k)) && (!CLEAR(k) || REFUSES) -> forget(); goto end_loop
       :: else
       fi;
#if defined(SLOW) || defined(REPLICAS)
     };
signing_again:
     atomic {
#endif
       sign_again();
#ifdef LOST_REPLIES
       if :: goto signing_again :: skip fi;                   /* call again */
#endif
#ifdef REPLICAS
       g = gen
     };
     atomic {                                                 /* WAIT */
       if
       :: gen != g -> g = 0; goto signing_again
       :: gen == g && gen == 0 -> copy()
       :: else
       fi;
       g = 0;
#endif
       send_again()
     }

#ifdef CANCEL
  /* cancelled in flight: a no-op makes its death provable */
  :: atomic { FENCE && unsent == 0 && asked[A] && st[A] == INFLIGHT && !KILLED(A) && !quarantined && IDLE(A) &&
              !ALL_DEAD(A) -> k = A; kill = 1;
#ifdef SLOW
     };
     goto signing_again
#else
       sign_again(); send_again()
     }
#endif
#ifdef WITHDRAWN_WITHOUT_PROOF
  :: atomic { FENCE && KILLED(A) && st[A] == INFLIGHT -> k = A; withdraw(); forget() }
#endif
#endif

  /* take: fenced, in order, the same again after a crash */
  :: atomic { TAKE_FENCE && unsent == 0 && !quarantined && (TAKEABLE(A) || TAKEABLE(B)) &&
              (solo == NO_TX || !LIVE(solo)) ->
       solo = NO_TX;
       if
       :: TAKEABLE(A) && TAKEABLE(B) -> k = (sid[A] < sid[B] -> A : B); k2 = 1 - k
       :: TAKEABLE(A) && !TAKEABLE(B) -> k = A
       :: !TAKEABLE(A) && TAKEABLE(B) -> k = B
       fi;
       CARRIED_OUT_FOR_OWNER;
       GIVE(k, w);
       if :: k2 != KEYS -> GIVE(k2, w) :: else fi
#ifdef SENT_BEFORE_WRITE_AHEAD
       ;
       sign(s, k, cur, 0); tx[s] = POOL;
       if :: k2 != KEYS -> sign(s2, k2, cur + 1, 0); tx[s2] = POOL :: else fi
#endif
     };
     goto recording

  /* renew: the server writes another history. An owner whose lease lapsed by its own clock has stopped */
  :: atomic { FENCE && replid != gen && !quarantined && !LAPSED -> doubt(cur == cursor) }
  od;

recording:                                                    /* write ahead first attempts, all or nothing */
  atomic {
    if
    :: !(RECORD_FENCE) -> leave(); goto end_left
    :: else
    fi;
    if
    :: s != NO_TX && recorded[s]                              /* already: the reply was lost */
    :: else ->
       if
       :: !SAME_HISTORY || quarantined -> forget(); goto end_loop
       :: else
       fi;
       if
       :: cursor != cur -> quarantine(); forget(); goto end_loop      /* nobody but the owner moves it */
       :: else
       fi;
       if
       :: st[k] != QUEUED || (k2 != KEYS && st[k2] != QUEUED) -> forget(); goto end_loop
#ifndef NOT_THE_OLDEST
       :: k2 == KEYS && st[k] == QUEUED && st[1 - k] == QUEUED && sid[1 - k] < sid[k] -> forget(); goto end_loop
#endif
       :: else
       fi;
       CARRIED_OUT_FOR_OWNER;
       assert(k2 != KEYS || st[1 - k] != QUEUED || sid[1 - k] > sid[k]);   /* in the order of acceptance */
       if :: s == NO_TX -> sign(s, k, cur, 0) :: else fi;
       write_ahead(s); st[k] = INFLIGHT; sid[k] = 0;
       if
       :: k2 != KEYS ->
          if :: s2 == NO_TX -> sign(s2, k2, cur + 1, 0) :: else fi;
          write_ahead(s2); st[k2] = INFLIGHT; sid[k2] = 0
       :: else
       fi
    fi;
#ifdef LOST_REPLIES
    if :: goto recording :: skip fi;                          /* call again */
#endif
#ifdef REPLICAS
    g = gen
  };
  atomic {                                                    /* WAIT */
#ifndef RECORD_NOT_DURABLE
    if
    :: gen != g -> g = 0; goto recording
    :: gen == g && gen == 0 -> copy()
    :: else
    fi;
#endif
    g = 0;
#endif
    cur = cursor; unsent = unsent | 1 << s;
    if :: s2 != NO_TX -> unsent = unsent | 1 << s2 :: else fi;
    forget()
  };
  goto end_loop
}

/* ---- the chain: gaps are harmless, overtaking kills */

#define LANDS(s) (tx[s] == POOL && nonce[s] > top)
proctype chain() {
end:
  do
  :: atomic { LANDS(0) -> land(0) }
  :: atomic { LANDS(1) -> land(1) }
  :: atomic { LANDS(2) -> land(2) }
  :: atomic { LANDS(3) -> land(3) }
#if TXS == 5
  :: atomic { LANDS(4) -> land(4) }
#endif
#if DROPS > 0
  :: atomic { drops > 0 && LANDS(0) -> tx[0] = LOST; drops-- }
  :: atomic { drops > 0 && LANDS(1) -> tx[1] = LOST; drops-- }
  :: atomic { drops > 0 && LANDS(2) -> tx[2] = LOST; drops-- }
#endif
  od
}

#if defined(ROLLBACK) || defined(REPLICAS)
proctype failover() {
#ifdef ROLLBACK
  atomic { true -> copy() };                                  /* the moment it will fall back to */
#endif
end_spared:
  atomic {
    if
#if defined(CANCEL) && !defined(CANCEL_NOT_DURABLE)
    :: said[A] != WITHDRAWN || r_st[A] == CANCELLED || r_st[A] == RETIRED ->     /* a cancel is durable before it is told */
#else
    :: true ->
#endif
#ifdef ROLLBACK
       if :: accepted[A] && r_st[A] == NONE -> accepted[A] = 0 :: else fi;   /* said to be at risk in this mode */
       if :: accepted[B] && r_st[B] == NONE -> accepted[B] = 0 :: else fi;
#endif
       fall_back()
    fi
  }
}
#endif

#define KEPT(k) (!accepted[k] || ENDED(k) || quarantined)
init {
  atomic {
    run worker(0); run worker(1);
#if LAST == 2
    run worker(2);
#endif
    run producer(A, 0); run producer(A, 1);
#ifndef ONE_KEY
    run producer(B, 0);
#endif
    run retirer(); run chain();
#ifdef CANCEL
    run canceller();
#endif
#if defined(ROLLBACK) || defined(REPLICAS)
    run failover();
#endif
  };
  timeout -> assert(KEPT(A) && KEPT(B))                       /* no accepted intent is lost */
}
