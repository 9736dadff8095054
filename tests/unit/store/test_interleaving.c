/* One call in the middle of another, at every place where that is possible in one thread: before each lock that a call
 * takes, and when it reads the clock, which is between reading the limit and looking for the key. What two threads do by
 * chance happens here each time.
 *
 * A scenario is run once for each such place, on a store of its own, until there are no more of them. */
#include "store/memory_store.h"

#include "../support.h"

/* ---- places ---- */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static struct {
    void (*meanwhile)(void); /* NULL: done, or not wanted */
    int places_before;       /* how many to let pass */
    int locks_held;          /* but for the registry's, which no decision takes */
} interruption;

static struct world world;

static void pass_a_place(void)
{
    if (interruption.meanwhile == NULL || interruption.locks_held > 0 || interruption.places_before-- > 0)
        return;
    void (*meanwhile)(void) = interruption.meanwhile;
    interruption.meanwhile = NULL;
    meanwhile();
}

static bool is_registry(const pthread_mutex_t *mutex)
{
    return world.store != NULL && mutex == &cdl_memory_store(world.store)->limits->lock;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!is_registry(mutex)) { /* nobody who changes a limit is interrupted by somebody who does */
        pass_a_place();
        interruption.locks_held++;
    }
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    interruption.locks_held -= !is_registry(mutex);
    return __real_pthread_mutex_unlock(mutex);
}

/* A clock of which reading is a place, too. */
static int64_t now_ns;

static int64_t read_clock(void *context)
{
    (void)context;
    const int64_t now = now_ns;
    pass_a_place();
    return now;
}

static void open_world(void)
{
    static const struct caudal_clock clock = {sizeof clock, NULL, read_clock, read_clock};
    const struct caudal_store_options options = {.size = sizeof options, .clock = &clock};
    now_ns = EPOCH;
    world = (struct world){0};
    assert_int_equal(caudal_store_open("memory:?keys=64&wide_keys=4&log_entries=1", &options, &world.store, NULL),
                     CAUDAL_OK);
}

struct scenario {
    void (*prepare)(void);
    void (*call)(void);
    void (*meanwhile)(void);
    void (*check)(void);
};

/* Returns at how many places the call was interrupted. */
static int run(const struct scenario *scenario)
{
    int places = 0;
    for (bool interrupted = true; interrupted; places++) {
        open_world();
        scenario->prepare();
        interruption.places_before = places;
        interruption.meanwhile = scenario->meanwhile;
        scenario->call();
        interrupted = interruption.meanwhile == NULL;
        interruption.meanwhile = NULL;
        if (interrupted)
            scenario->check();
        caudal_store_close(world.store);
        assert_true(places < 100);
    }
    return places - 1;
}

/* ---- what the scenarios share ---- */

static uint32_t a, b;
static struct caudal_decision decision;
static int status;

/* Entries and records that carry a state of `a`, by its present number or its previous one, or by none that is known. */
static uint64_t entries_in_use(void)
{
    const struct cdl_memory_store *store = cdl_memory_store(world.store);
    uint64_t used = 0;
    for (uint64_t i = 0; i < store->table.line_count * CDL_LINE_ENTRIES; i++)
        used += store->table.lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES].first != 0;
    for (uint32_t i = 1; i < store->wide.records_per_stripe; i++)
        used += store->wide.stripes[0].records[i].number != 0;
    return used;
}

static void call_take_a(void)
{
    status = caudal_take(world.store, a, "key", 3, 1, &decision);
}

static void call_peek_a(void)
{
    status = caudal_peek(world.store, a, "key", 3, 0, &decision);
}

static void call_refund_a(void)
{
    status = caudal_refund(world.store, a, "key", 3, 2, &decision);
}

static void call_take_nothing_from_a(void)
{
    status = caudal_take(world.store, a, "key", 3, 0, &decision);
}

static void add_a_bucket(void)
{
    a = world_add(&world, bucket_of(10, 10, HOUR));
}

static void add_a_bucket_that_has_spent_five(void)
{
    add_a_bucket();
    take(&world, a, "key", 5);
}

static void take_one_of_a(void)
{
    assert_int_equal(take(&world, a, "key", 1).verdict, CAUDAL_ALLOW);
}

/* Another rate that needs other units, so that the limit gets another number and its entries are converted. */
static void give_a_other_units(void)
{
    world_set(&world, a, bucket_of(10, 10, SECOND));
}

static void remove_a(void)
{
    assert_int_equal(caudal_remove_limit(world.store, a), CAUDAL_OK);
}

/* ---- one decision ---- */

static void check_both_are_charged_once(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(left(&world, a, "key"), 8);
    assert_int_equal(entries_in_use(), 1);
}

static void two_first_takes_of_one_key_share_an_entry(void **state)
{
    (void)state;
    const struct scenario scenario = {add_a_bucket, call_take_a, take_one_of_a, check_both_are_charged_once};
    assert_true(run(&scenario) >= 2);
}

static void add_a_wide_window(void)
{
    a = world_add(&world, limit_of(CAUDAL_FIXED_WINDOW, 1000000000, SECOND));
}

static void check_wide_is_charged_twice(void)
{
    assert_int_equal(left(&world, a, "key"), 1000000000 - 2);
    assert_int_equal(entries_in_use(), 1);
}

static void add_a_log(void)
{
    a = world_add(&world, limit_of(CAUDAL_SLIDING_LOG, 10, HOUR));
}

static void two_first_takes_of_a_wide_state_share_a_record(void **state)
{
    (void)state;
    const struct scenario window = {add_a_wide_window, call_take_a, take_one_of_a, check_wide_is_charged_twice};
    const struct scenario log = {add_a_log, call_take_a, take_one_of_a, check_both_are_charged_once};
    assert_true(run(&window) >= 2);
    assert_true(run(&log) >= 2);
}

static void check_take_met_other_units(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(left(&world, a, "key"), 9);
    assert_int_equal(entries_in_use(), 1);
}

static void check_take_met_five_spent(void)
{
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(decision.remaining, 4);
    assert_int_equal(left(&world, a, "key"), 4);
    assert_int_equal(entries_in_use(), 1);
}

static void a_take_is_charged_once_when_the_units_change_under_it(void **state)
{
    (void)state;
    const struct scenario first = {add_a_bucket, call_take_a, give_a_other_units, check_take_met_other_units};
    const struct scenario later = {add_a_bucket_that_has_spent_five, call_take_a, give_a_other_units,
                                   check_take_met_five_spent};
    assert_true(run(&first) >= 2);
    assert_true(run(&later) >= 1);
}

static void check_answer_is_five_left(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_int_equal(decision.remaining, 5);
    assert_int_equal(left(&world, a, "key"), 5);
}

static void a_peek_sees_what_was_spent_when_the_units_change_under_it(void **state)
{
    (void)state;
    const struct scenario peeks = {add_a_bucket_that_has_spent_five, call_peek_a, give_a_other_units,
                                   check_answer_is_five_left};
    const struct scenario takes = {add_a_bucket_that_has_spent_five, call_take_nothing_from_a, give_a_other_units,
                                   check_answer_is_five_left};
    assert_true(run(&peeks) >= 1);
    assert_true(run(&takes) >= 1);
}

static void check_two_are_refunded(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_int_equal(decision.remaining, 7);
    assert_int_equal(left(&world, a, "key"), 7);
}

static void a_refund_is_not_lost_when_the_units_change_under_it(void **state)
{
    (void)state;
    const struct scenario scenario = {add_a_bucket_that_has_spent_five, call_refund_a, give_a_other_units,
                                      check_two_are_refunded};
    assert_true(run(&scenario) >= 1);
}

/* A debt that the old limit could not have left: it was made under the new one, and is nobody's clock that was set. */
static void add_a_bucket_that_has_spent_all(void)
{
    add_a_bucket();
    take(&world, a, "key", 10);
}

static void raise_a_to_twenty_and_spend_them(void)
{
    world_set(&world, a, bucket_of(20, 20, HOUR));
    take(&world, a, "key", 10);
}

static void call_take_up_to_of_a(void)
{
    status = caudal_take_up_to(world.store, a, "key", 3, 1, 5, &decision);
}

static void check_all_twenty_are_spent(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_int_equal(left(&world, a, "key"), 0);
}

static void check_two_of_twenty_are_left(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_int_equal(left(&world, a, "key"), 2);
}

static void a_call_under_the_old_limit_forgives_no_debt_of_the_new(void **state)
{
    (void)state;
    void (*const calls[])(void) = {call_take_a, call_take_nothing_from_a, call_take_up_to_of_a, call_peek_a};
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        const struct scenario scenario = {add_a_bucket_that_has_spent_all, calls[i], raise_a_to_twenty_and_spend_them,
                                          check_all_twenty_are_spent};
        assert_true(run(&scenario) >= 1);
    }
    const struct scenario refunds = {add_a_bucket_that_has_spent_all, call_refund_a, raise_a_to_twenty_and_spend_them,
                                     check_two_of_twenty_are_left};
    assert_true(run(&refunds) >= 1);
}

static void add_a_window_that_has_spent_five(void)
{
    a = world_add(&world, limit_of(CAUDAL_FIXED_WINDOW, 10, SECOND));
    take(&world, a, "key", 5);
}

static void make_a_wide(void)
{
    world_set(&world, a, limit_of(CAUDAL_FIXED_WINDOW, 1000000000, SECOND));
}

/* Makes it wide and has the key moved over by a look at it. */
static void make_a_wide_and_move_the_key(void)
{
    make_a_wide();
    assert_int_equal(left(&world, a, "key"), 1000000000 - 5);
}

static void check_wide_has_spent_six(void)
{
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(left(&world, a, "key"), 1000000000 - 6);
    assert_int_equal(entries_in_use(), 1);
}

static void check_wide_has_spent_three(void)
{
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(left(&world, a, "key"), 1000000000 - 3);
    assert_int_equal(entries_in_use(), 1);
}

/* Before the change five are left, and after it all of the new count but the five that were spent. */
static void check_answer_is_true_before_or_after(void)
{
    assert_true(decision.remaining == 5 || decision.remaining == 1000000000 - 5);
}

static void a_window_that_becomes_wide_under_a_call_loses_nothing(void **state)
{
    (void)state;
    void (*const changes[])(void) = {make_a_wide, make_a_wide_and_move_the_key};
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        const struct scenario takes = {add_a_window_that_has_spent_five, call_take_a, changes[i],
                                       check_wide_has_spent_six};
        const struct scenario refunds = {add_a_window_that_has_spent_five, call_refund_a, changes[i],
                                         check_wide_has_spent_three};
        const struct scenario peeks = {add_a_window_that_has_spent_five, call_peek_a, changes[i],
                                       check_answer_is_true_before_or_after};
        assert_true(run(&takes) >= 1);
        assert_true(run(&refunds) >= 1);
        assert_true(run(&peeks) >= 1);
    }
}

static void check_removed_or_answered_before(void)
{
    if (status == CAUDAL_OK)
        assert_true(decision.remaining == 5 || decision.remaining == 4 || decision.remaining == 7);
    else
        assert_no_verdict(decision, CAUDAL_ERR_UNKNOWN);
    assert_int_equal(entries_in_use(), 0);
}

static void check_taken_before_or_unknown(void)
{
    if (status != CAUDAL_OK)
        assert_no_verdict(decision, CAUDAL_ERR_UNKNOWN);
    assert_int_equal(entries_in_use(), 0);
}

static void a_limit_that_is_removed_under_a_call_keeps_nothing(void **state)
{
    (void)state;
    void (*const calls[])(void) = {call_take_a, call_peek_a, call_refund_a, call_take_nothing_from_a};
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        const struct scenario later = {add_a_bucket_that_has_spent_five, calls[i], remove_a,
                                       check_removed_or_answered_before};
        const struct scenario first = {add_a_bucket, calls[i], remove_a, check_taken_before_or_unknown};
        const struct scenario wide = {add_a_wide_window, calls[i], remove_a, check_taken_before_or_unknown};
        const struct scenario log = {add_a_log, calls[i], remove_a, check_taken_before_or_unknown};
        assert_true(run(&later) >= 1);
        assert_true(run(&first) >= 1);
        assert_true(run(&wide) >= 1);
        assert_true(run(&log) >= 1);
    }
}

static void remove_a_and_add_b_in_its_slot(void)
{
    remove_a();
    b = world_add(&world, bucket_of(10, 10, HOUR));
    assert_int_equal(b & UINT16_MAX, a & UINT16_MAX);
}

static void check_b_is_untouched(void)
{
    assert_int_equal(left(&world, b, "key"), 10);
    assert_int_equal(entries_in_use(), 0);
}

static void a_new_limit_in_the_slot_of_an_old_one_is_not_charged_for_it(void **state)
{
    (void)state;
    const struct scenario later = {add_a_bucket_that_has_spent_five, call_take_a, remove_a_and_add_b_in_its_slot,
                                   check_b_is_untouched};
    const struct scenario first = {add_a_bucket, call_take_a, remove_a_and_add_b_in_its_slot, check_b_is_untouched};
    assert_true(run(&later) >= 1);
    assert_true(run(&first) >= 2);
}

static void call_batch(void)
{
    struct caudal_request requests[40];
    struct caudal_decision decisions[40];
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        requests[i] = (struct caudal_request){a, "key", 3, i % 8 == 0 ? 1 : 0};
    status = caudal_take_batch(world.store, requests, COUNT_OF(requests), decisions);
    decision = decisions[COUNT_OF(requests) - 1];
}

static void check_batch_has_spent_five(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_int_equal(decision.remaining, 5);
    assert_int_equal(left(&world, a, "key"), 5);
    assert_int_equal(entries_in_use(), 1);
}

static void a_batch_goes_on_when_the_units_change_under_it(void **state)
{
    (void)state;
    const struct scenario scenario = {add_a_bucket, call_batch, give_a_other_units, check_batch_has_spent_five};
    assert_true(run(&scenario) >= 2);
}

/* ---- a caller that is late ---- */

static size_t kind;

static void prepare_an_exhausted_key(void)
{
    a = world_add_kind(&world, &kinds[kind]);
    take(&world, a, "key", 10 * kinds[kind].unit);
}

/* Time goes by until the key is as one never seen, and other keys come in until its entry is one of theirs. */
static void let_the_key_recover_and_be_forgotten(void)
{
    now_ns += kinds[kind].horizon_ns;
    for (int i = 0; i < 2000; i++) {
        struct caudal_decision ignored;
        assert_int_equal(caudal_take(world.store, a, &i, sizeof i, kinds[kind].unit, &ignored), CAUDAL_OK);
    }
}

static void call_take_all_of_a(void)
{
    status = caudal_take(world.store, a, "key", 3, 10 * kinds[kind].unit, &decision);
}

/* What the late caller is given counts now, when the key has its whole quota, and not then, when it had none. */
static void check_the_quota_is_given_once(void)
{
    assert_int_equal(status, CAUDAL_OK);
    assert_true(decision.granted + left(&world, a, "key") <= 10 * kinds[kind].unit);
}

static void a_late_caller_of_a_forgotten_key_is_not_given_an_old_quota(void **state)
{
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        if (kinds[kind].layout != CDL_LAYOUT_BUCKET && kinds[kind].layout != CDL_LAYOUT_WINDOW)
            continue;
        const struct scenario scenario = {prepare_an_exhausted_key, call_take_all_of_a,
                                          let_the_key_recover_and_be_forgotten, check_the_quota_is_given_once};
        assert_true(run(&scenario) >= 1);
    }
}

static void a_late_caller_of_a_forgotten_wide_key_is_not_given_an_old_quota(void **state)
{
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        if (kinds[kind].layout != CDL_LAYOUT_WIDE_WINDOW && kinds[kind].layout != CDL_LAYOUT_LOG)
            continue;
        const struct scenario scenario = {prepare_an_exhausted_key, call_take_all_of_a,
                                          let_the_key_recover_and_be_forgotten, check_the_quota_is_given_once};
        assert_true(run(&scenario) >= 1);
    }
}

/* ---- all or nothing ---- */

/* `a` passes and is charged; then somebody empties `b`, a log of one, so that `b` refuses and `a` is given back. */
static struct caudal_decision overall;

static void call_take_all(void)
{
    const struct caudal_request requests[] = {{a, "key", 3, 5}, {b, "key", 3, 1}};
    struct caudal_decision each[2];
    status = caudal_take_all(world.store, requests, 2, each, &overall);
}

static void add_b(void)
{
    b = world_add(&world, limit_of(CAUDAL_SLIDING_LOG, 1, HOUR));
}

static void empty_b(void)
{
    assert_int_equal(take(&world, b, "key", 1).verdict, CAUDAL_ALLOW);
}

/* Ten units of every kind, of which three are spent beforehand. */

static void prepare_kind(void)
{
    a = world_add_kind(&world, &kinds[kind]);
    take(&world, a, "key", 3 * kinds[kind].unit);
    add_b();
}

static void check_a_is_given_back(void)
{
    assert_int_equal(status, CAUDAL_OK);
    if (overall.verdict == CAUDAL_ALLOW)
        fail(); /* `b` had one and somebody else took it */
    assert_int_equal(overall.verdict, CAUDAL_DENY);
    assert_int_equal(left(&world, a, "key"), 7 * kinds[kind].unit);
}

static void what_a_refused_request_was_charged_is_given_back(void **state)
{
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        const struct scenario scenario = {prepare_kind, call_take_all, empty_b, check_a_is_given_back};
        assert_true(run(&scenario) >= 3);
    }
}

static void remove_b(void)
{
    assert_int_equal(caudal_remove_limit(world.store, b), CAUDAL_OK);
}

static void check_unknown_and_given_back(void)
{
    assert_int_equal(status, CAUDAL_ERR_UNKNOWN);
    assert_no_verdict(overall, CAUDAL_ERR_UNKNOWN);
    assert_int_equal(left(&world, a, "key"), 7 * kinds[kind].unit);
}

static void what_was_charged_is_given_back_when_another_limit_is_removed(void **state)
{
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        const struct scenario scenario = {prepare_kind, call_take_all, remove_b, check_unknown_and_given_back};
        assert_true(run(&scenario) >= 3);
    }
}

static void prepare_bucket_and_b(void)
{
    kind = 0;
    prepare_kind();
}

static void empty_b_and_give_a_other_units(void)
{
    empty_b();
    give_a_other_units();
}

static void what_was_charged_is_given_back_although_the_units_change(void **state)
{
    (void)state;
    const struct scenario scenario = {prepare_bucket_and_b, call_take_all, empty_b_and_give_a_other_units,
                                      check_a_is_given_back};
    assert_true(run(&scenario) >= 3);
}

/* Others come in between with all that `a` has to give. However the charge is given back, they and what is left together
 * are never more than `a` may give out from that moment on. */
static uint64_t others;

static void add_a_fast_bucket_and_b(void)
{
    a = world_add(&world, bucket_of(10, 10, SECOND));
    take(&world, a, "key", 1); /* so that there is an entry */
    now_ns += SECOND;
    add_b();
}

static void wait_a_second_and_take_what_there_is(void)
{
    empty_b();
    now_ns += SECOND;
    others = take_up_to(&world, a, "key", 0, 10).granted;
}

static void check_others_and_rest_are_ten_at_most(void)
{
    assert_int_equal(overall.verdict, CAUDAL_DENY);
    assert_true(others + left(&world, a, "key") <= 10);
}

/* The charge has been refilled by the time that it is given back: once is enough. */
static void a_charge_that_was_refilled_meanwhile_is_not_given_back_as_well(void **state)
{
    (void)state;
    const struct scenario scenario = {add_a_fast_bucket_and_b, call_take_all, wait_a_second_and_take_what_there_is,
                                      check_others_and_rest_are_ten_at_most};
    assert_true(run(&scenario) >= 3);
}

static void add_a_window_and_b(void)
{
    a = world_add(&world, limit_of(kinds[kind].limit.algorithm, 10 * kinds[kind].unit, SECOND));
    assert_int_equal(layout_of(&world, a), kinds[kind].layout);
    now_ns = EPOCH + SECOND - 1; /* the end of a window */
    take(&world, a, "key", 1);
    add_b();
}

static void go_over_the_edge_and_take_what_there_is(void)
{
    empty_b();
    now_ns++;
    others = take_up_to(&world, a, "key", 0, 10 * kinds[kind].unit).granted;
}

static void check_the_new_window_gives_its_count_and_no_more(void)
{
    assert_int_equal(overall.verdict, CAUDAL_DENY);
    now_ns = EPOCH + 2 * SECOND - 1; /* to its end: what is left of the window before is next to nothing */
    assert_true(others + left(&world, a, "key") <= 10 * kinds[kind].unit);
}

/* A charge of the window before is not to be given back to this one, which somebody else has filled. */
static void a_charge_of_a_window_that_has_passed_is_not_given_to_the_next(void **state)
{
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        if (kinds[kind].layout != CDL_LAYOUT_WINDOW && kinds[kind].layout != CDL_LAYOUT_WIDE_WINDOW)
            continue;
        const struct scenario scenario = {add_a_window_and_b, call_take_all, go_over_the_edge_and_take_what_there_is,
                                          check_the_new_window_gives_its_count_and_no_more};
        assert_true(run(&scenario) >= 3);
    }
}

static void add_a_log_and_b(void)
{
    add_a_log();
    take(&world, a, "key", 3);
    now_ns += SECOND;
    add_b();
}

/* A caller whose clock was read a little earlier writes after us: what we wrote is dated back to its instant. */
static void let_one_who_is_behind_take_one(void)
{
    empty_b();
    struct caudal_decision ignored;
    assert_int_equal(caudal_take_at(world.store, a, "key", 3, 1, now_ns - 1, &ignored), CAUDAL_OK);
}

static void check_only_four_are_spent(void)
{
    assert_int_equal(overall.verdict, CAUDAL_DENY);
    assert_int_equal(left(&world, a, "key"), 6);
}

static void a_charge_that_was_dated_back_is_given_back_all_the_same(void **state)
{
    (void)state;
    const struct scenario scenario = {add_a_log_and_b, call_take_all, let_one_who_is_behind_take_one,
                                      check_only_four_are_spent};
    assert_true(run(&scenario) >= 3);
}

/* ---- a limit whose wide states are on their way out ---- */

/* All four records belong to `a`; another limit's key needs room just when `a` has changed and they are still there. */
static const struct cdl_log_pool *pool(void)
{
    return &cdl_memory_store(world.store)->wide.stripes[0].pool;
}

static uint32_t chunks_of_b;

static void fill_with_records_of_a(struct caudal_limit limit)
{
    now_ns = 5 * DAY; /* a window's number that could be taken for that of a chunk */
    b = world_add(&world, limit_of(CAUDAL_SLIDING_LOG, 100, 30 * DAY)); /* outlives all of `a` */
    a = world_add(&world, limit);
    for (int i = 0; i < 50; i++) {
        now_ns++;
        take(&world, b, "log", 1);
    }
    chunks_of_b = cdl_memory_store(world.store)->wide.chunks_per_stripe - 1 - pool()->free_count;
    for (int i = 0; i < 3; i++)
        take(&world, a, (const char[]){(char)('a' + i), '\0'}, 1);
}

static void fill_with_windows(void)
{
    fill_with_records_of_a(limit_of(CAUDAL_SLIDING_WINDOW, 1 << 30, DAY));
    assert_int_equal(layout_of(&world, a), CDL_LAYOUT_WIDE_WINDOW);
}

static void fill_with_logs(void)
{
    fill_with_records_of_a(limit_of(CAUDAL_SLIDING_LOG, 10, HOUR));
}

static void make_a_a_log(void)
{
    world_set(&world, a, limit_of(CAUDAL_SLIDING_LOG, 10, HOUR));
}

static void make_a_a_wide_window(void)
{
    world_set(&world, a, limit_of(CAUDAL_SLIDING_WINDOW, 1 << 30, DAY));
}

static void make_a_a_bucket(void)
{
    world_set(&world, a, bucket_of(10, 10, HOUR));
}

/* A key of `b` that needs a record, and so the place of one of `a`. It is a log of one entry. */
static void let_another_key_of_b_come_in(void)
{
    take(&world, b, "another", 1);
}

static void check_chunks_add_up(void)
{
    const uint32_t used = cdl_memory_store(world.store)->wide.chunks_per_stripe - 1 - pool()->free_count;
    uint32_t listed = 0;
    for (uint32_t chunk = pool()->free; chunk != 0 && listed <= pool()->count; chunk = pool()->chunks[chunk].newer)
        listed++;
    assert_int_equal(listed + pool()->count - pool()->untouched, pool()->free_count);
    assert_int_equal(used, chunks_of_b + 1);
    assert_int_equal(left(&world, b, "log"), 50);
    assert_int_equal(left(&world, b, "another"), 99);
}

static void room_is_made_properly_while_windows_become_logs(void **state)
{
    (void)state;
    const struct scenario scenario = {fill_with_windows, make_a_a_log, let_another_key_of_b_come_in,
                                      check_chunks_add_up};
    assert_true(run(&scenario) >= 1);
}

static void room_is_made_properly_while_logs_become_something_else(void **state)
{
    (void)state;
    void (*const changes[])(void) = {make_a_a_wide_window, make_a_a_bucket, remove_a};
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        const struct scenario scenario = {fill_with_logs, changes[i], let_another_key_of_b_come_in,
                                          check_chunks_add_up};
        assert_true(run(&scenario) >= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_first_takes_of_one_key_share_an_entry),
        cmocka_unit_test(two_first_takes_of_a_wide_state_share_a_record),
        cmocka_unit_test(a_take_is_charged_once_when_the_units_change_under_it),
        cmocka_unit_test(a_peek_sees_what_was_spent_when_the_units_change_under_it),
        cmocka_unit_test(a_refund_is_not_lost_when_the_units_change_under_it),
        cmocka_unit_test(a_call_under_the_old_limit_forgives_no_debt_of_the_new),
        cmocka_unit_test(a_window_that_becomes_wide_under_a_call_loses_nothing),
        cmocka_unit_test(a_limit_that_is_removed_under_a_call_keeps_nothing),
        cmocka_unit_test(a_new_limit_in_the_slot_of_an_old_one_is_not_charged_for_it),
        cmocka_unit_test(a_batch_goes_on_when_the_units_change_under_it),
        cmocka_unit_test(a_late_caller_of_a_forgotten_key_is_not_given_an_old_quota),
        cmocka_unit_test(a_late_caller_of_a_forgotten_wide_key_is_not_given_an_old_quota),
        cmocka_unit_test(what_a_refused_request_was_charged_is_given_back),
        cmocka_unit_test(what_was_charged_is_given_back_when_another_limit_is_removed),
        cmocka_unit_test(what_was_charged_is_given_back_although_the_units_change),
        cmocka_unit_test(a_charge_that_was_refilled_meanwhile_is_not_given_back_as_well),
        cmocka_unit_test(a_charge_of_a_window_that_has_passed_is_not_given_to_the_next),
        cmocka_unit_test(a_charge_that_was_dated_back_is_given_back_all_the_same),
        cmocka_unit_test(room_is_made_properly_while_windows_become_logs),
        cmocka_unit_test(room_is_made_properly_while_logs_become_something_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
