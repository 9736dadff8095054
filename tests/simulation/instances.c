#include "instances.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bare_client.h"
#include "run.h"
#include "store/lease/lease_store.h"

#define LARGE (64u << 10)

/* One call of a user of an instance. Kept to the end of the run, so that one that ends twice is seen. */
struct ask {
    struct ask *next;
    struct cdl_call call;
    struct caudal_request request;
    struct cdl_question question;
    struct caudal_decision decision;
    unsigned char key[2];
    struct instance *instance;
    uint64_t epoch;
    int64_t asked_ns;
    bool has_ended;
};

/* ---- clocks ---- */

static int64_t scaled(int64_t value, int64_t drift)
{
    return (int64_t)((__int128)value * (1000000 + drift) / 1000000);
}

int64_t instance_monotonic(const struct instance *instance)
{
    const struct world *world = &instance->run->world;
    return instance->base_ns + scaled(world->now_ns - world->began_ns, instance->drift);
}

static int64_t read_monotonic(void *context)
{
    return instance_monotonic(context);
}

static int64_t read_realtime(void *context)
{
    const struct instance *instance = context;
    return instance->run->world.now_ns + instance->step_ns;
}

/* The first instant of the world at which the clock shows at least that. */
static int64_t when_shown(const struct instance *instance, int64_t monotonic_ns)
{
    const struct world *world = &instance->run->world;
    const int64_t shown_ns = monotonic_ns - instance->base_ns;
    if (shown_ns <= 0)
        return world->now_ns;
    const __int128 rate = 1000000 + instance->drift;
    return world->began_ns + (int64_t)(((__int128)shown_ns * 1000000 + rate - 1) / rate);
}

static void on_clock_step(void *subject, uint64_t detail)
{
    (void)detail;
    struct instance *instance = subject;
    struct world *world = &instance->run->world;
    instance->step_ns = (chance_is(world, 500) ? 1 : -1) * chance_magnitude(world, MILLISECOND, 3600 * SECOND);
    world_tell(world, "i%u: the real-time clock is set by %.3f ms", instance->number, (double)instance->step_ns / 1e6);
}

/* ---- the loop ---- */

static void on_alarm(void *subject, uint64_t detail)
{
    struct instance *instance = subject;
    if (!instance->is_up || detail != instance->alarms)
        return;
    world_tell(&instance->run->world, "i%u: alarm", instance->number);
    cdl_store_client_time(instance->client, instance_monotonic(instance));
    if (instance->is_up)
        cdl_store_client_flush(instance->client);
}

/* Loops are late, by up to a millisecond where anything may happen. */
static void set_alarm(void *context, int64_t at_ns)
{
    struct instance *instance = context;
    struct run *run = instance->run;
    instance->alarms++;
    if (at_ns == INT64_MAX)
        return;
    int64_t late_ns = 0;
    if (run->scenario.purpose != TO_BE_USED && run->scenario.purpose != TO_BE_EVEN)
        late_ns = chance_between(&run->world, 0, MILLISECOND);
    const int64_t due_ns = when_shown(instance, at_ns);
    world_plan(&run->world, (due_ns < run->world.now_ns ? run->world.now_ns : due_ns) + late_ns, on_alarm, instance,
               instance->alarms);
}

static void watch(void *context, struct cdl_socket *socket, unsigned events)
{
    (void)context, (void)socket, (void)events;
}

static void look_up(void *context, struct cdl_lookup_request *request)
{
    (void)context, (void)request;
}

/* ---- what an instance holds ---- */

static void drop_dead(struct holding *holding, int64_t now_ns)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < holding->count; i++)
        if (holding->lots[i].left > 0 && holding->lots[i].dies_ns >= now_ns)
            holding->lots[kept++] = holding->lots[i];
    holding->count = kept;
}

static uint64_t held(const struct holding *holding)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < holding->count; i++)
        sum += holding->lots[i].is_heard ? holding->lots[i].left : 0;
    return sum;
}

void instance_charged(struct instance *instance, unsigned key, int64_t asked_ns, uint64_t granted)
{
    struct run *run = instance->run;
    struct holding *holding = &instance->holdings[key];
    drop_dead(holding, instance_monotonic(instance));
    run->judges.biggest_batch = granted > run->judges.biggest_batch ? granted : run->judges.biggest_batch;
    if (run->scenario.limit.algorithm == CAUDAL_TOKEN_BUCKET) {
        run->judges.sat[STRANDED] = true;
        if (granted > scenario_refill(&run->scenario))
            judge_fails(&run->judges, STRANDED, &run->world,
                        "i%u: a batch of %llu tokens of key %u, where a ttl refills %llu", instance->number,
                        (unsigned long long)granted, key, (unsigned long long)scenario_refill(&run->scenario));
    }
    if (holding->count == LOTS_MAX) { /* the oldest one cannot matter any more */
        memmove(holding->lots, holding->lots + 1, (LOTS_MAX - 1) * sizeof holding->lots[0]);
        holding->count--;
    }
    holding->lots[holding->count++] = (struct lot){granted, asked_ns + run->scenario.lease.ttl_ns, run->world.now_ns,
                                                   false};
}

void instance_heard(struct instance *instance, unsigned key, int64_t charged_at_ns)
{
    struct run *run = instance->run;
    struct holding *holding = &instance->holdings[key];
    drop_dead(holding, instance_monotonic(instance));
    for (unsigned i = 0; i < holding->count; i++)
        holding->lots[i].is_heard |= holding->lots[i].charged_at_ns == charged_at_ns;
    if (run->scenario.limit.algorithm == CAUDAL_TOKEN_BUCKET && held(holding) > scenario_refill(&run->scenario))
        judge_fails(&run->judges, STRANDED, &run->world, "i%u holds %llu tokens of key %u, where a ttl refills %llu",
                    instance->number, (unsigned long long)held(holding), key,
                    (unsigned long long)scenario_refill(&run->scenario));
}

/* From one lot after the other. */
static uint64_t spend_of(struct lot *lot, uint64_t tokens)
{
    const uint64_t part = !lot->is_heard ? 0 : tokens < lot->left ? tokens : lot->left;
    lot->left -= part;
    return part;
}

/* From the oldest lot on. If the instance spends them in another order, what it holds is overrated here when one dies, and nothing is judged
 * wrongly. */
static bool spend(struct holding *holding, uint64_t tokens)
{
    for (unsigned i = 0; i < holding->count && tokens > 0; i++)
        tokens -= spend_of(&holding->lots[i], tokens);
    return tokens == 0;
}

/* From the lot that is named, and what it lacks from the others, of which more was spent than it seemed. */
void instance_gives_back(struct instance *instance, unsigned key, int64_t charged_at_ns, uint64_t tokens)
{
    struct run *run = instance->run;
    struct holding *holding = &instance->holdings[key];
    const uint64_t before = held(holding);
    uint64_t rest = tokens;
    for (unsigned i = 0; i < holding->count; i++)
        if (holding->lots[i].charged_at_ns == charged_at_ns)
            rest -= spend_of(&holding->lots[i], rest);
    if (!spend(holding, rest))
        judge_fails(&run->judges, HOLDINGS, &run->world, "i%u gives back %llu tokens of key %u and holds %llu",
                    instance->number, (unsigned long long)tokens, key, (unsigned long long)before);
}

/* ---- decisions ---- */

static void admit(struct ask *ask, int64_t at_ns, bool leased)
{
    judges_admit(&ask->instance->run->judges,
                 (struct admission){at_ns, ask->question.maximum, (uint16_t)key_index(ask->key),
                                    (uint16_t)ask->instance->number, leased});
}

static void hear_of_lease(struct ask *ask)
{
    struct instance *instance = ask->instance;
    struct run *run = instance->run;
    struct holding *holding = &instance->holdings[key_index(ask->key)];
    const struct caudal_decision *decision = &ask->decision;
    run->leased++;
    run->judges.sat[HOLDINGS] = run->judges.sat[REMAINING] = true;
    drop_dead(holding, instance_monotonic(instance));
    if (decision->verdict != CAUDAL_ALLOW || decision->granted != ask->question.maximum)
        judge_fails(&run->judges, HOLDINGS, &run->world, "i%u: a lease grants %llu of %llu", instance->number,
                    (unsigned long long)decision->granted, (unsigned long long)ask->question.maximum);
    const uint64_t before = held(holding);
    if (!spend(holding, decision->granted))
        judge_fails(&run->judges, HOLDINGS, &run->world, "i%u spends %llu tokens of key %u and holds %llu",
                    instance->number, (unsigned long long)decision->granted, key_index(ask->key),
                    (unsigned long long)before);
    if (decision->remaining > held(holding))
        judge_fails(&run->judges, REMAINING, &run->world, "i%u: %llu remain of key %u, where it holds %llu",
                    instance->number, (unsigned long long)decision->remaining, key_index(ask->key),
                    (unsigned long long)held(holding));
    admit(ask, run->world.now_ns, true);
}

static void hear_of_remembered(struct ask *ask)
{
    struct instance *instance = ask->instance;
    struct run *run = instance->run;
    const unsigned key = key_index(ask->key);
    const struct caudal_decision *decision = &ask->decision;
    run->refused++;
    if (instance->drift < 0 || run->store.given_back_at_ns[key] >= instance->holdings[key].refused_at_ns)
        return;
    run->judges.sat[REFUSALS] = true;
    const struct caudal_decision truth = far_store_peek(run, key, ask->question.maximum);
    const int64_t wait_ns = (int64_t)((__int128)decision->retry_after_ns * 1000000 / (1000000 + instance->drift));
    if (truth.verdict == CAUDAL_ALLOW || truth.verdict != decision->verdict)
        judge_fails(&run->judges, REFUSALS, &run->world, "i%u refuses %llu of key %u, and the store's verdict is %d",
                    instance->number, (unsigned long long)ask->question.maximum, key, (int)truth.verdict);
    else if (truth.verdict == CAUDAL_DENY && wait_ns > truth.retry_after_ns)
        judge_fails(&run->judges, REFUSALS, &run->world,
                    "i%u: a wait of %lld ns for key %u, and the store's is %lld ns", instance->number,
                    (long long)wait_ns, key, (long long)truth.retry_after_ns);
}

static void hear_of_store(struct ask *ask)
{
    struct run *run = ask->instance->run;
    const int64_t at_ns = ask->call.decided_at_ns;
    run->by_store++;
    if (at_ns < ask->asked_ns || at_ns > run->world.now_ns)
        judge_fails(&run->judges, ENDS, &run->world, "i%u: decided at %lld ns, asked at %lld ns", ask->instance->number,
                    (long long)(at_ns - run->world.began_ns), (long long)(ask->asked_ns - run->world.began_ns));
    if (ask->decision.verdict == CAUDAL_ALLOW)
        admit(ask, at_ns, false);
}

static void hear(struct ask *ask)
{
    struct run *run = ask->instance->run;
    run->judges.sat[ENDS] = true;
    if (ask->has_ended)
        judge_fails(&run->judges, ENDS, &run->world, "i%u: a call has ended twice", ask->instance->number);
    ask->has_ended = true;
    run->ended++;
    const struct caudal_decision *decision = &ask->decision;
    world_tell(&run->world, "i%u: key %u, %llu wanted: status %d, verdict %d, source %d, %llu remain, wait %lld ns",
               ask->instance->number, key_index(ask->key), (unsigned long long)ask->question.maximum, ask->call.status,
               (int)decision->verdict, (int)decision->source, (unsigned long long)decision->remaining,
               (long long)decision->retry_after_ns);
    if (ask->call.status != CAUDAL_OK)
        return;
    if (decision->source == CAUDAL_SOURCE_LEASE)
        hear_of_lease(ask);
    else if (decision->source == CAUDAL_SOURCE_DENY_CACHE)
        hear_of_remembered(ask);
    else
        hear_of_store(ask);
}

static void on_done(struct cdl_call *call)
{
    hear(call->context);
}

/* ---- demand ---- */

/* Key k is wanted 1/k as much as the first. */
static unsigned draw_key(struct run *run)
{
    const double u = (double)(chance(&run->world) >> 11) * 0x1p-53;
    double sum = 0, part = 0;
    for (unsigned key = 0; key < run->scenario.keys; key++)
        sum += 1.0 / (key + 1);
    for (unsigned key = 0; key < run->scenario.keys; key++) {
        part += 1.0 / (key + 1) / sum;
        if (u < part)
            return key;
    }
    return run->scenario.keys - 1;
}

static void want(struct instance *instance)
{
    struct run *run = instance->run;
    struct ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL)
        abort();
    ask->next = run->asks;
    run->asks = ask;
    ask->instance = instance;
    ask->epoch = instance->epoch;
    ask->asked_ns = run->world.now_ns;
    ask->key[0] = 'k';
    ask->key[1] = (unsigned char)(run->scenario.keys == 1 ? 0 : draw_key(run));
    uint64_t cost = 1;
    if (chance_is(&run->world, (unsigned)run->scenario.dear_per_mille))
        cost = 1 + chance_below(&run->world, run->scenario.dear_cost);
    ask->request = (struct caudal_request){instance->limit, ask->key, sizeof ask->key, cost};
    ask->question = cdl_question_take(cost);
    ask->call = (struct cdl_call){.requests = &ask->request,
                                  .questions = &ask->question,
                                  .decisions = &ask->decision,
                                  .count = 1,
                                  .done = on_done,
                                  .context = ask};
    run->asked++;
    if (cdl_store_ask(instance->store, instance->client, &ask->call))
        hear(ask);
}

static bool is_over(const struct run *run)
{
    return run->world.now_ns >= run->world.began_ns + run->scenario.length_ns;
}

static void on_demand(void *subject, uint64_t detail);

static void plan_demand(struct instance *instance, int64_t gap_ns)
{
    struct run *run = instance->run;
    world_plan(&run->world, run->world.now_ns + chance_between(&run->world, gap_ns / 2, gap_ns + gap_ns / 2), on_demand,
               instance, instance->demands);
}

/* A visit lasts a third of a ttl on average, the time to the next one is a ttl. */
static int64_t draw_visit(struct run *run, int64_t gap_ns)
{
    const int64_t ttl_ns = run->scenario.lease.ttl_ns;
    return chance_is(&run->world, (unsigned)(3000 * gap_ns / ttl_ns) + 1) ? ttl_ns : gap_ns;
}

static void on_demand(void *subject, uint64_t detail)
{
    struct instance *instance = subject;
    struct run *run = instance->run;
    if (detail != instance->demands || is_over(run))
        return;
    uint64_t requests = 1;
    int64_t gap_ns = instance->gap_ns;
    if (run->scenario.demand == BURSTS) {
        requests = 1 + chance_below(&run->world, 15);
        gap_ns *= (int64_t)requests;
    }
    if (run->scenario.demand == ON_OFF && chance_is(&run->world, 20))
        gap_ns = 20 * gap_ns + chance_between(&run->world, 0, 4 * run->scenario.lease.ttl_ns);
    if (run->scenario.demand == VISITS)
        gap_ns = draw_visit(run, gap_ns / 4);
    for (uint64_t i = 0; i < requests && instance->is_up; i++)
        want(instance);
    if (instance->is_up)
        cdl_store_client_flush(instance->client);
    plan_demand(instance, gap_ns);
}

/* This part in a million of all demand is the instance's. */
static void set_demand(struct instance *instance, int64_t part)
{
    instance->demands++;
    if (part <= 0)
        return;
    instance->gap_ns = (int64_t)((__int128)instance->run->scenario.gap_ns * 1000000 / part);
    plan_demand(instance, instance->gap_ns);
}

static void draw_demand(void *subject, uint64_t detail)
{
    (void)detail;
    struct run *run = subject;
    const struct scenario *scenario = &run->scenario;
    const int64_t each = 1000000 / scenario->instances;
    for (unsigned i = 0; i < scenario->instances; i++) {
        int64_t part = each;
        if (scenario->demand == GREEDY && scenario->instances > 1)
            part = i == 0 ? 800000 : 200000 / (int64_t)(scenario->instances - 1);
        if (scenario->demand == CHANGING)
            part = chance_between(&run->world, 0, 2 * each);
        set_demand(&run->instances[i], part);
    }
    if (scenario->demand == CHANGING && !is_over(run))
        world_plan(&run->world, run->world.now_ns + scenario->length_ns / 5, draw_demand, run, 0);
}

static void wake_second_half(void *subject, uint64_t detail)
{
    (void)detail;
    struct run *run = subject;
    for (unsigned i = (run->scenario.instances + 1) / 2; i < run->scenario.instances; i++)
        set_demand(&run->instances[i], 1000000 / run->scenario.instances);
}

/* ---- life ---- */

/* The library's own memory comes in huge pages, which are zeroed whole when they are first touched. Thousands of books that hold one key each
 * are better off without. */
static void *allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    void *memory;
    if (bytes >= LARGE) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return memory == MAP_FAILED ? NULL : memory;
    }
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) != 0)
        return NULL;
    return memset(memory, 0, bytes);
}

static void release(void *context, void *memory, size_t bytes)
{
    (void)context;
    if (bytes >= LARGE)
        munmap(memory, bytes);
    else
        free(memory);
}

static const struct caudal_allocator allocator = {sizeof allocator, NULL, allocate, release};

/* Without the lease store: what it would tell the store of the limit. */
static void start_bare(struct instance *instance, const struct cdl_loop_hooks *hooks)
{
    struct run *run = instance->run;
    struct caudal_limit limit = run->scenario.limit;
    if (run->scenario.lease.strict_bound && limit.algorithm == CAUDAL_TOKEN_BUCKET)
        limit.burst -= scenario_refill(&run->scenario);
    instance->store = &instance->link.head;
    instance->store->ops->add_limit(instance->store, "limit", &limit, &instance->limit, NULL);
    instance->client = bare_client_open(instance, hooks);
}

static void start_whole(struct instance *instance, const struct cdl_loop_hooks *hooks)
{
    struct run *run = instance->run;
    const struct caudal_store_options options = {.size = sizeof options,
                                                 .clock = &instance->clock,
                                                 .allocator = &allocator,
                                                 .secret = "simulated",
                                                 .secret_length = 9};
    struct caudal_problem problem = {.message = ""};
    if (cdl_lease_store_open(&instance->link.head, &options, &instance->store, &problem) != CAUDAL_OK ||
        caudal_add_limit(instance->store, "limit", &run->scenario.limit, &instance->limit, &problem) != CAUDAL_OK ||
        caudal_lease_limit(instance->store, instance->limit, &run->scenario.lease, &problem) != CAUDAL_OK)
        judge_fails(&run->judges, ENDS, &run->world, "i%u does not start: %s", instance->number, problem.message);
    instance->client = cdl_store_client_open(instance->store, hooks);
    if (instance->client == NULL)
        abort();
}

static void start(struct instance *instance)
{
    const struct cdl_loop_hooks hooks = {.context = instance, .watch = watch, .alarm = set_alarm, .look_up = look_up};
    instance->epoch++;
    instance->is_up = true;
    memset(instance->holdings, 0, instance->run->scenario.keys * sizeof instance->holdings[0]);
    if (instance->run->scenario.is_bare)
        start_bare(instance, &hooks);
    else
        start_whole(instance, &hooks);
}

static void stop(struct instance *instance)
{
    instance->is_up = false;
    instance->alarms++;
    cdl_store_client_close(instance->client);
    caudal_store_close(instance->store);
}

static void on_restart(void *subject, uint64_t detail)
{
    (void)detail;
    struct instance *instance = subject;
    world_tell(&instance->run->world, "i%u starts again", instance->number);
    start(instance);
    if (!is_over(instance->run)) {
        instance->demands++;
        plan_demand(instance, instance->gap_ns);
    }
}

static void on_crash(void *subject, uint64_t detail)
{
    (void)detail;
    struct run *run = subject;
    struct instance *instance = &run->instances[chance_below(&run->world, run->scenario.instances)];
    if (!instance->is_up || instance->gap_ns == 0)
        return;
    world_tell(&run->world, "i%u crashes", instance->number);
    instance->demands++;
    stop(instance);
    world_plan(&run->world, run->world.now_ns + chance_between(&run->world, 0, 2 * run->scenario.lease.ttl_ns),
               on_restart, instance, 0);
}

static void on_failover(void *subject, uint64_t detail)
{
    if (detail == 0)
        far_store_replicate(subject);
    else
        far_store_fail_over(subject);
}

static int64_t some_time(struct run *run)
{
    return run->world.now_ns + chance_between(&run->world, 0, run->scenario.length_ns);
}

static void plan_disasters(struct run *run)
{
    const struct scenario *scenario = &run->scenario;
    for (unsigned i = 0; i < scenario->crashes; i++)
        world_plan(&run->world, some_time(run), on_crash, run, 0);
    for (unsigned i = 0; i < scenario->failovers; i++) {
        world_plan(&run->world, some_time(run), on_failover, run, 1);
        if (chance_is(&run->world, 500))
            world_plan(&run->world, some_time(run), on_failover, run, 0);
    }
    for (unsigned i = 0; scenario->steps && i < scenario->instances; i++)
        world_plan(&run->world, some_time(run), on_clock_step, &run->instances[i], 0);
}

void instances_begin(struct run *run)
{
    const struct scenario *scenario = &run->scenario;
    for (unsigned i = 0; i < scenario->instances; i++) {
        struct instance *instance = &run->instances[i];
        memset(instance, 0, offsetof(struct instance, holdings));
        instance->run = run;
        instance->number = i;
        instance->clock = (struct caudal_clock){sizeof instance->clock, instance, read_monotonic, read_realtime};
        instance->base_ns = chance_magnitude(&run->world, SECOND, 1000000 * SECOND);
        instance->drift = chance_between(&run->world, scenario->drift_least, scenario->drift_most);
        link_begin(&instance->link, run, instance);
        start(instance);
    }
    plan_disasters(run);
    if (scenario->purpose != TO_BE_EVEN) {
        draw_demand(run, 0);
        return;
    }
    for (unsigned i = 0; i < (scenario->instances + 1) / 2; i++)
        set_demand(&run->instances[i], 1000000 / scenario->instances);
    world_plan(&run->world, run->world.now_ns + scenario->length_ns / 2, wake_second_half, run, 0);
}

void instances_end(struct run *run)
{
    for (unsigned i = 0; i < run->scenario.instances; i++)
        if (run->instances[i].is_up)
            stop(&run->instances[i]);
    for (struct ask *ask = run->asks, *next; ask != NULL; ask = next) {
        next = ask->next;
        if (!ask->has_ended)
            judge_fails(&run->judges, ENDS, &run->world, "i%u: a call of %.6f ms has never ended",
                        ask->instance->number, (double)(ask->asked_ns - run->world.began_ns) / 1e6);
        free(ask);
    }
    run->asks = NULL;
}

/* ---- threads ---- */

/* The lease store's keeper serves those who wait, of whom there are none here: without it a run is one thread, and the clock is read by
 * nobody else. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start_routine)(void *),
                          void *context);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start_routine)(void *),
                          void *context)
{
    (void)attributes, (void)start_routine, (void)context;
    *thread = 0;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    return 0;
}
