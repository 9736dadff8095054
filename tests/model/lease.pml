/* The protocol of leases, as a Spin model.
 *
 * Instances withdraw batches of tokens from a store, spend them by themselves, give back what they do not want, and are
 * answered by a network that loses, repeats and delays (src/store/lease/book.h). This model is that protocol and nothing
 * else: one key, costs of one token, no demand. What an instance wants is left to chance, so every policy of asking,
 * spending and giving back is among the runs. run.sh explores every interleaving of a few instances and errands.
 *
 * What is abstracted
 *   Time is a count of ticks, and a tick refills one token. All clocks are the same; drift is for tests/simulation.
 *   A lease lives TAU ticks after the tick in which it was asked for, by the instance that asked. It may be spent at that age and
 *   not later.
 *   The store is a bucket of capacity CAP: `full_at`, as in the table. It answers a withdrawal with what it has, at most what
 *   was asked for.
 *   An errand is a withdrawal. Its request is executed at some time after it was sent, or never: that is a loss. Its reply,
 *   once there is one, is delivered at any time, any number of times, or never. Giving back is a message of the same kind, executed at most
 *   once.
 *   An instance gives up an errand when it likes (its deadline). A crash takes all it knows.
 *   A failover makes the store's bucket full again: the most that a replica can have missed.
 *
 * What is asserted
 *   the bound   whenever a token is spent: in every interval that ends now, what was admitted is at most CAP + t + TAU, and
 *               CAP more for each failover. `surplus` is the greatest, over all beginnings, of what was admitted since
 *               less the ticks since: one number, that falls by one a tick and never below zero.
 *   strict      with STRICT the store's capacity is lowered by TAU, and the bound is CAP + t.
 *   refusals    a refusal that is remembered is repeated only while the store would refuse. Not where others give back, or a
 *               failover does: then it may hold a little too long, which is on the safe side.
 *
 * Parameters (-D): INSTANCES, CAP, TAU, BATCH, ERRANDS (withdrawals, all instances together), TICKS, CRASHES, FAILOVERS, GIVE_BACK,
 * STRICT, REPEATED_REQUESTS (a withdrawal may be executed twice: it charges more and admits no more). -DMUTANT_x breaks the protocol in one
 * place; run.sh names them.
 */

#ifndef INSTANCES
#define INSTANCES 2
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef TAU
#define TAU 2
#endif
#ifndef BATCH
#define BATCH TAU
#endif
#ifndef ERRANDS
#define ERRANDS 3
#endif
#ifndef TICKS
#define TICKS 4
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif

#ifdef STRICT
#define ALLOWANCE 0
#ifdef MUTANT_NOT_LOWERED
#define CAPACITY CAP
#else
#define CAPACITY (CAP - TAU)
#endif
#else
#define ALLOWANCE TAU
#define CAPACITY CAP
#endif
#ifdef MUTANT_NO_ALLOWANCE
#define BOUND (CAP + failovers * CAP)
#elif defined(MUTANT_FAILOVER_UNCOUNTED)
#define BOUND (CAP + ALLOWANCE)
#else
#define BOUND (CAP + ALLOWANCE + failovers * CAP)
#endif

#define NONE 255

byte now = 0;

/* The store. */
byte full_at = 0;
byte failovers = 0, crashes = 0;

/* Errands. `number` is what requests and replies carry: (instance, epoch, number) of the protocol, which never comes twice. */
byte errands = 0;
byte owner[ERRANDS], number[ERRANDS], wanted[ERRANDS];
bool sent[ERRANDS];           /* the request is on its way, or was lost */
bool answered[ERRANDS];       /* the reply is on its way, for ever */
bool repeated[ERRANDS];       /* was executed twice */
byte granted[ERRANDS], charged_at[ERRANDS], retry_at[ERRANDS];
byte back[ERRANDS];           /* tokens that a giving back is on its way with */

/* Instances: the errand that is waited for, two lots (one that is spent, one fetched ahead), a refusal. */
byte waits_for[INSTANCES], numbers[INSTANCES];
byte asked_now[INSTANCES];    /* when, of the errand that is waited for: all that the instance knows of it */
byte tokens[2 * INSTANCES], dies_after[2 * INSTANCES];
byte lot_of[2 * INSTANCES];   /* the errand it came with */
byte denied_until[INSTANCES];

/* The judge. */
byte surplus = 0;

#define LEVEL (full_at > now -> CAPACITY - (full_at - now) : CAPACITY)
#define LEFT_OF(count, since) ((count) > now - (since) -> (count) - (now - (since)) : 0)

inline admit() {
    surplus++;
    assert(surplus <= BOUND)
}

/* At most what is there. */
inline charge(count) {
    full_at = (full_at > now -> full_at : now) + count
}

inline forget_lot(lot) {
    tokens[lot] = 0; dies_after[lot] = 0; lot_of[lot] = 0
}

#define MAY_ASK (errands < ERRANDS && waits_for[me] == NONE && (tokens[2 * me] == 0 || tokens[2 * me + 1] == 0))

inline ask(count) {
    owner[errands] = me;
    numbers[me]++;
    number[errands] = numbers[me];
    waits_for[me] = numbers[me];
    asked_now[me] = now;
    wanted[errands] = count;
    sent[errands] = true;
    errands++
}

inline spend(lot) {
    tokens[lot]--;
    admit();
    if
    :: tokens[lot] == 0 -> forget_lot(lot)
    :: else
    fi
}

inline give_back(lot) {
    back[lot_of[lot]] = tokens[lot];
#ifndef MUTANT_SPENT_AND_GIVEN
    forget_lot(lot)
#endif
}

proctype Instance(byte me) {
end:
    do
    :: d_step { MAY_ASK -> ask(BATCH) }
    :: d_step { MAY_ASK && BATCH > 1 -> ask(1) }
    :: d_step { tokens[2 * me] > 0 -> spend(2 * me) }
    :: d_step { tokens[2 * me + 1] > 0 -> spend(2 * me + 1) }
#ifdef GIVE_BACK
    :: d_step { tokens[2 * me] > 0 && back[lot_of[2 * me]] == 0 -> give_back(2 * me) }
#endif
    /* A key that is cold: the store decides on one token. */
    :: d_step { LEVEL >= 1 -> charge(1); admit() }
    :: d_step { waits_for[me] != NONE -> waits_for[me] = NONE; asked_now[me] = 0 }
    /* A refusal that is remembered. */
    :: d_step { denied_until[me] > now ->
#if !defined(GIVE_BACK) && FAILOVERS == 0
        assert(LEVEL < 1);
#endif
        denied_until[me] = 0 }
#if CRASHES > 0
    :: d_step { crashes < CRASHES ->
        crashes++;
        forget_lot(2 * me);
        forget_lot(2 * me + 1);
        waits_for[me] = NONE;
        asked_now[me] = 0;
        denied_until[me] = 0;
#ifdef MUTANT_NUMBERS_AGAIN
        numbers[me] = 0                                 /* no epoch: what was sent to its forerunner is for it */
#endif
        }
#endif
    od
}

/* The store's side of one withdrawal. */
inline execute(e) {
    granted[e] = (LEVEL < wanted[e] -> LEVEL : wanted[e]);
    charge(granted[e]);
    charged_at[e] = now;
    /* The tick at which there is one token again. */
    retry_at[e] = (granted[e] == 0 -> full_at - (CAPACITY - 1) - now : 0)
}

/* The instance's side of a reply. */
inline hear(e, lot) {
    tokens[lot] = granted[e];
    lot_of[lot] = e;
#ifdef MUTANT_TTL_FROM_REPLY
    dies_after[lot] = now + TAU;
#else
    dies_after[lot] = asked_now[owner[e]] + TAU;
#endif
    if
    :: granted[e] == 0 ->
#ifdef MUTANT_DENIAL_FROM_REPLY
        denied_until[owner[e]] = now + retry_at[e];
#else
        denied_until[owner[e]] = asked_now[owner[e]] + retry_at[e];
#endif
        if
        :: denied_until[owner[e]] <= now -> denied_until[owner[e]] = 0
        :: else
        fi
    :: else
    fi;
    if
    :: granted[e] == 0 || dies_after[lot] < now -> forget_lot(lot)
    :: else
    fi;
    waits_for[owner[e]] = NONE;
    asked_now[owner[e]] = 0
}

#ifdef MUTANT_LATE_REPLY_COUNTS
#define AWAITED(e) (tokens[2 * owner[e]] == 0 || tokens[2 * owner[e] + 1] == 0)
#else
#define AWAITED(e) (waits_for[owner[e]] == number[e])
#endif

/* The messages of one errand. */
proctype Messages(byte e) {
end:
    do
    :: d_step { sent[e] -> sent[e] = false; execute(e); answered[e] = true }
#ifdef REPEATED_REQUESTS
    :: d_step { answered[e] && !repeated[e] -> repeated[e] = true; execute(e) }
#endif
    :: d_step { answered[e] && AWAITED(e) ->
        if
        :: tokens[2 * owner[e]] == 0 -> hear(e, 2 * owner[e])
        :: else -> hear(e, 2 * owner[e] + 1)
        fi }
#ifdef GIVE_BACK
    :: d_step { back[e] > 0 && back[e] != NONE ->
#ifdef MUTANT_PLAIN_REFUND
        full_at = (full_at > now + back[e] -> full_at - back[e] : now);
#else
        full_at = (full_at > now + LEFT_OF(back[e], charged_at[e]) -> full_at - LEFT_OF(back[e], charged_at[e])
                                                                  : (full_at > now -> now : full_at));
#endif
#ifdef MUTANT_GIVEN_BACK_TWICE
        back[e] = (repeated[e] -> NONE : back[e]);
        repeated[e] = true
#else
        back[e] = NONE
#endif
        }
#endif
    od
}

#if FAILOVERS > 0
proctype Failover() {
    do
    :: d_step { failovers < FAILOVERS -> failovers++; full_at = now }
    :: break
    od
}
#endif

/* A tick: what is too old dies in it, before anybody can spend it. */
proctype Time() {
    byte lot = 0;
    do
    :: d_step { now < TICKS ->
        now++;
        surplus = (surplus > 0 -> surplus - 1 : 0);
        lot = 0;
        do
        :: lot < 2 * INSTANCES ->
            if
#ifndef MUTANT_LIVES_ON
            :: tokens[lot] > 0 && dies_after[lot] < now -> forget_lot(lot)
#endif
            :: denied_until[lot / 2] <= now -> denied_until[lot / 2] = 0
            :: else
            fi;
            lot++
        :: else -> break
        od;
        lot = 0 }
    :: now == TICKS -> break
    od
}

init {
    byte i = 0;
    atomic {
        do
        :: i < INSTANCES -> waits_for[i] = NONE; run Instance(i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < ERRANDS -> run Messages(i); i++
        :: else -> break
        od;
#if FAILOVERS > 0
        run Failover();
#endif
        run Time();
        i = 0
    }
}
