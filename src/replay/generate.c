/* No pattern needs to remember where each of its clients is.
 *
 * Where all clients send at even distances, they do so in the same order round after round: a round is cut into one slot a client, and
 * walking over the slots again and again gives all requests in order. Which client a slot belongs to, and where in it the client's instant
 * lies, are functions of the slot's number and the seed.
 *
 * Independent Poisson processes together are one, of the sum of their rates, in which each event is as likely any client's as any
 * other's. So the random patterns draw the time to the next request of all, then whose it is. At the moment that clients come or go the
 * draw begins anew, which it may: the time that remains does not depend on the time that has passed.
 *
 * The same everywhere: times are integers, in parts of 2^-32 ns (100 years are below 2^94 of them). The only floating point is one
 * product and one quotient for each number that a rate is turned into, which IEEE 754 rounds the same on all machines (and no
 * sum, which a compiler could fuse with a product). Logarithms of C libraries differ in the last bit, so exponential times are drawn by
 * comparisons: J. von Neumann, "Various techniques used in connection with random digits", 1951. Random numbers: xoshiro256++ of
 * D. Blackman and S. Vigna (2019), which SplitMix64 of G. Steele, D. Lea and C. Flood (2014) seeds. */
#include "replay/generate.h"

#include "base/arith.h"
#include "base/memory.h"
#include "base/problem.h"

#define FRACTION_BITS 32
#define ONE_NS ((cdl_u128)1 << FRACTION_BITS)
#define SECOND_PARTS 4294967296e9 /* of 2^-32 ns, in a second */
#define SPREAD_MAX_NS INT64_C(5000000)
#define DURATION_MAX_NS ((int64_t)CAUDAL_REFILL_MAX_NS)
#define REGULARS_OF 10u
#define STAGES 3u
#define PLACEHOLDER CDL_SLICE("{client}")

/* Neither an address nor a number is longer than what it stands in. */
#define ADDRESS_BYTES_MAX sizeof "10.255.255.255"
_Static_assert(CDL_TRAFFIC_CLIENTS_MAX < 1u << 24, "each client has an address of its own in 10.0.0.0/8");
_Static_assert(CDL_TRAFFIC_CLIENTS_MAX <= 99999999, "a client's number is not longer than its placeholder");

/* A round in slots. `width` is rounded down, and what is missing is handed out where it adds up to a part. */
struct turns {
    cdl_u128 at, width;
    uint64_t remainder, carry; /* in parts of one over the number of clients */
    uint64_t slot;
    uint64_t client; /* from 0, of the slot */
};

struct cdl_generator {
    struct cdl_traffic traffic;
    bool (*find_next)(struct cdl_generator *generator);
    bool ended;
    uint64_t random[4];
    uint64_t salt;   /* of slots */
    uint64_t stride; /* from one slot's client to the next; has no factor in common with the number of clients */
    cdl_u128 end;    /* all times since begin_ns */
    cdl_u128 at;     /* of the request that was found */
    uint64_t client; /* its, from 0 */

    struct turns turns;
    uint64_t left; /* requests of this slot; of an edge: of this side */

    cdl_u128 spread, first_edge, edge;
    cdl_u128 stride_of_edges; /* in periods, with FRACTION_BITS of fraction */
    uint64_t edges;           /* that were begun */
    bool is_past_edge;

    unsigned stage; /* of the random patterns */
    cdl_u128 stage_end, mean;
    uint64_t present; /* clients */

    char address[ADDRESS_BYTES_MAX];
    char *values; /* of headers with placeholders */
    size_t value_bytes;
};

/* ---- random numbers ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

/* The n-th number of SplitMix64 from that state. */
static uint64_t split(uint64_t state, uint64_t n)
{
    return mix(state + (n + 1) * GOLDEN);
}

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t draw(uint64_t s[4])
{
    const uint64_t result = rotate(s[0] + s[3], 23) + s[0], shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

/* 0 to n - 1. None is likelier than another by more than n/2^64. */
static uint64_t draw_below(uint64_t s[4], uint64_t n)
{
    return (uint64_t)((cdl_u128)draw(s) * n >> 64);
}

/* An exponential time in parts of the mean, `whole` and 2^-64. Numbers are drawn while each is below the one before it. The run has an odd
 * length with a probability of e^-first: then `first` is the fraction. Otherwise a whole mean has passed. */
static cdl_u128 draw_exponential(uint64_t s[4])
{
    for (uint64_t whole = 0;; whole++) {
        const uint64_t first = draw(s);
        bool is_odd = true;
        for (uint64_t last = first, next; (next = draw(s)) < last; last = next)
            is_odd = !is_odd;
        if (is_odd)
            return (cdl_u128)whole << 64 | first;
    }
}

/* ---- in turn ---- */

static void begin_round(struct cdl_generator *generator, cdl_u128 at, cdl_u128 round)
{
    struct turns *turns = &generator->turns;
    const uint64_t clients = generator->traffic.clients;
    turns->at = at;
    turns->width = round / clients;
    turns->remainder = (uint64_t)(round % clients);
    turns->carry = 0;
}

static void find_in_slot(struct cdl_generator *generator)
{
    const struct turns *turns = &generator->turns;
    const uint64_t where = split(generator->salt, turns->slot) >> 32;
    generator->at = turns->at + (turns->width * where >> 32);
    generator->client = turns->client;
}

static void next_slot(struct cdl_generator *generator)
{
    struct turns *turns = &generator->turns;
    const uint64_t clients = generator->traffic.clients;
    turns->at += turns->width;
    turns->carry += turns->remainder;
    if (turns->carry >= clients) {
        turns->carry -= clients;
        turns->at++;
    }
    turns->slot = turns->slot + 1 < clients ? turns->slot + 1 : 0;
    turns->client += generator->stride;
    if (turns->client >= clients)
        turns->client -= clients;
}

static uint64_t burst_of(const struct cdl_traffic *traffic)
{
    return traffic->pattern == CDL_TRAFFIC_BURST ? traffic->burst : 1;
}

static bool find_in_turn(struct cdl_generator *generator)
{
    if (generator->left == 0) {
        next_slot(generator);
        generator->left = burst_of(&generator->traffic);
    }
    generator->left--;
    find_in_slot(generator);
    return generator->at < generator->end;
}

static void prepare_turns(struct cdl_generator *generator)
{
    const struct cdl_traffic *traffic = &generator->traffic;
    generator->left = burst_of(traffic);
    begin_round(generator, 0, (cdl_u128)(SECOND_PARTS * (double)generator->left / traffic->rate));
    generator->find_next = find_in_turn;
}

/* ---- at edges ---- */

/* Of the requests before the next edge, or of those after this one. */
static bool begin_side(struct cdl_generator *generator)
{
    const struct cdl_traffic *traffic = &generator->traffic;
    generator->is_past_edge = !generator->is_past_edge;
    if (!generator->is_past_edge) {
        const cdl_u128 periods = generator->edges++ * generator->stride_of_edges >> FRACTION_BITS;
        if (periods > (uint64_t)(traffic->duration_ns / traffic->period_ns))
            return false;
        generator->edge = generator->first_edge + periods * (uint64_t)traffic->period_ns * ONE_NS;
    }
    if (generator->edge + generator->spread > generator->end)
        return false;
    generator->left = traffic->quota * traffic->clients;
    const cdl_u128 begin = generator->is_past_edge ? generator->edge : generator->edge - generator->spread;
    begin_round(generator, begin, generator->spread / traffic->quota);
    return true;
}

static bool find_at_edge(struct cdl_generator *generator)
{
    if (generator->left == 0 && !begin_side(generator))
        return false;
    generator->left--;
    find_in_slot(generator);
    next_slot(generator);
    return true;
}

static int prepare_edges(struct cdl_generator *generator, struct caudal_problem *problem)
{
    const struct cdl_traffic *traffic = &generator->traffic;
    const int64_t quarter_ns = traffic->period_ns / 4;
    const int64_t spread_ns = quarter_ns < SPREAD_MAX_NS ? quarter_ns : SPREAD_MAX_NS;
    const cdl_i128 to_ns = (cdl_i128)traffic->begin_ns + spread_ns, period_ns = traffic->period_ns;
    const cdl_i128 first_ns = -cdl_floor_div(-to_ns, period_ns) * period_ns - traffic->begin_ns;
    if (first_ns + spread_ns > traffic->duration_ns)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0,
                           "no edge of the period lies within the time; simulate a longer one");
    /* Twice the quota each time. In 2^-32, so that a rate of quota/period comes out as 2 however it was rounded. */
    const double stride = 2 * SECOND_PARTS * (double)traffic->quota / (traffic->rate * (double)period_ns);
    generator->stride_of_edges = (cdl_u128)(stride + 0.5);
    if (generator->stride_of_edges < (cdl_u128)2 << FRACTION_BITS)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0,
                           "the rate is more than the quota in each period; lower the one or raise the other");
    generator->spread = (cdl_u128)spread_ns * ONE_NS;
    generator->first_edge = (cdl_u128)first_ns * ONE_NS;
    generator->is_past_edge = true;
    generator->find_next = find_at_edge;
    return CAUDAL_OK;
}

/* ---- at random ---- */

static void begin_stage(struct cdl_generator *generator, unsigned stage)
{
    const struct cdl_traffic *traffic = &generator->traffic;
    const bool is_crowd = traffic->pattern == CDL_TRAFFIC_FLASH_CROWD;
    generator->stage = is_crowd ? stage : STAGES - 1;
    generator->stage_end = generator->end * (generator->stage + 1) / STAGES;
    generator->present = traffic->clients;
    if (is_crowd && stage != 1)
        generator->present = (traffic->clients + REGULARS_OF - 1) / REGULARS_OF;
    generator->mean = (cdl_u128)(SECOND_PARTS / (traffic->rate * (double)generator->present));
}

static bool find_at_random(struct cdl_generator *generator)
{
    for (;;) {
        const cdl_u128 times = draw_exponential(generator->random) >> 32;
        generator->at += times * generator->mean >> 32;
        if (generator->at < generator->stage_end)
            break;
        if (generator->stage == STAGES - 1)
            return false;
        generator->at = generator->stage_end;
        begin_stage(generator, generator->stage + 1);
    }
    generator->client = draw_below(generator->random, generator->present);
    return true;
}

static void prepare_stages(struct cdl_generator *generator)
{
    begin_stage(generator, 0);
    generator->find_next = find_at_random;
}

/* ---- records ---- */

static char *put_number(char *at, uint64_t number)
{
    char digits[20];
    size_t length = 0;
    do
        digits[length++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (length > 0)
        *at++ = digits[--length];
    return at;
}

static struct cdl_slice put_address(struct cdl_generator *generator, uint64_t number)
{
    char *at = put_number(generator->address, 10);
    for (unsigned shift = 24; shift > 0;) {
        shift -= 8;
        *at++ = '.';
        at = put_number(at, number >> shift & 0xff);
    }
    return (struct cdl_slice){generator->address, (size_t)(at - generator->address)};
}

static char *put_bytes(char *at, const char *bytes, size_t length)
{
    if (length > 0)
        memcpy(at, bytes, length);
    return at + length;
}

/* The value with the number in each of its placeholders, at `*at`, which moves on. */
static struct cdl_slice put_value(char **at, struct cdl_slice value, uint64_t number)
{
    char *const begin = *at;
    for (const char *found; value.length > 0 && (found = memmem(value.bytes, value.length, PLACEHOLDER.bytes,
                                                                PLACEHOLDER.length)) != NULL;) {
        const size_t before = (size_t)(found - value.bytes);
        *at = put_number(put_bytes(*at, value.bytes, before), number);
        value = cdl_slice_from(value, before + PLACEHOLDER.length);
    }
    *at = put_bytes(*at, value.bytes, value.length);
    return (struct cdl_slice){begin, (size_t)(*at - begin)};
}

static void fill_in(struct cdl_generator *generator, struct cdl_access_record *record)
{
    const struct cdl_traffic *traffic = &generator->traffic;
    const uint64_t number = generator->client + 1;
    char *at = generator->values;
    record->instant_ns = traffic->begin_ns + (int64_t)(generator->at >> FRACTION_BITS);
    record->resolution_ns = 1;
    record->duration_ns = record->bytes = -1;
    record->client = put_address(generator, number);
    record->method = traffic->method;
    record->target = traffic->target;
    record->host = traffic->host;
    record->user = (struct cdl_slice){"", 0};
    record->status = 0;
    record->header_count = traffic->header_count;
    for (size_t i = 0; i < traffic->header_count; i++)
        record->headers[i] = (struct cdl_field){traffic->headers[i].name,
                                                put_value(&at, traffic->headers[i].value, number)};
}

bool cdl_generator_next(struct cdl_generator *generator, struct cdl_access_record *record)
{
    generator->ended = generator->ended || !generator->find_next(generator);
    if (!generator->ended)
        fill_in(generator, record);
    return !generator->ended;
}

/* ---- open and close ---- */

static const char *find_fault(const struct cdl_traffic *traffic)
{
    const bool is_edge = traffic->pattern == CDL_TRAFFIC_EDGE, is_burst = traffic->pattern == CDL_TRAFFIC_BURST;
    if ((unsigned)traffic->pattern > CDL_TRAFFIC_FLASH_CROWD)
        return "there is no such pattern";
    if (traffic->clients < 1 || traffic->clients > CDL_TRAFFIC_CLIENTS_MAX)
        return "the number of clients is not 1 to 10000000";
    if (!(traffic->rate >= CDL_TRAFFIC_RATE_MIN && traffic->rate <= CDL_TRAFFIC_RATE_MAX)) /* nor NaN */
        return "the rate of a client is not 0.000001 to 1000000 requests a second";
    if (traffic->duration_ns < 1 || traffic->duration_ns > DURATION_MAX_NS)
        return "the time is not above 0, or above 100 years";
    if (traffic->begin_ns < 0 || traffic->begin_ns > INT64_MAX - traffic->duration_ns)
        return "the beginning is before 1970, or the end too late for 64 bits of nanoseconds";
    if (is_burst && (traffic->burst < 1 || traffic->burst > CDL_TRAFFIC_COUNT_MAX))
        return "the burst is not 1 to 4294967295";
    if (is_burst && (double)traffic->burst / traffic->rate > (double)DURATION_MAX_NS / 1e9)
        return "the bursts of a client are more than 100 years apart";
    if (is_edge && (traffic->quota < 1 || traffic->quota > CDL_TRAFFIC_COUNT_MAX))
        return "the quota is not 1 to 4294967295";
    if (is_edge && (traffic->period_ns < CDL_TRAFFIC_PERIOD_MIN_NS || traffic->period_ns > DURATION_MAX_NS))
        return "the period is not 1 ms to 100 years";
    if (traffic->header_count > CDL_ACCESS_HEADERS_MAX)
        return "a request has more than 64 headers";
    return NULL;
}

static uint64_t common_factor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void seed(struct cdl_generator *generator)
{
    const uint64_t clients = generator->traffic.clients;
    for (unsigned i = 0; i < 4; i++)
        generator->random[i] = split(generator->traffic.seed, i);
    generator->salt = draw(generator->random);
    generator->turns.client = draw_below(generator->random, clients);
    do
        generator->stride = 1 + draw_below(generator->random, clients);
    while (common_factor(generator->stride, clients) != 1);
}

static int prepare(struct cdl_generator *generator, struct caudal_problem *problem)
{
    generator->end = (cdl_u128)generator->traffic.duration_ns * ONE_NS;
    seed(generator);
    switch (generator->traffic.pattern) {
    case CDL_TRAFFIC_STEADY:
    case CDL_TRAFFIC_BURST:
        prepare_turns(generator);
        return CAUDAL_OK;
    case CDL_TRAFFIC_EDGE:
        return prepare_edges(generator, problem);
    case CDL_TRAFFIC_POISSON:
    case CDL_TRAFFIC_FLASH_CROWD:
        break;
    }
    prepare_stages(generator);
    return CAUDAL_OK;
}

/* Room for all values: none becomes longer. */
static bool make_room(struct cdl_generator *generator)
{
    const struct cdl_traffic *traffic = &generator->traffic;
    generator->value_bytes = 1;
    for (size_t i = 0; i < traffic->header_count; i++)
        generator->value_bytes += traffic->headers[i].value.length;
    generator->values = cdl_allocate(cdl_allocator_default(), generator->value_bytes, 1, 1);
    return generator->values != NULL;
}

int cdl_generator_open(const struct cdl_traffic *traffic, struct cdl_generator **generator,
                       struct caudal_problem *problem)
{
    const char *fault = find_fault(traffic);
    if (fault != NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%s", fault);
    struct cdl_generator *made = cdl_allocate(cdl_allocator_default(), 1, sizeof *made, 64);
    if (made != NULL)
        made->traffic = *traffic;
    if (made == NULL || !make_room(made)) {
        cdl_generator_close(made);
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "memory is short");
    }
    const int status = prepare(made, problem);
    if (status == CAUDAL_OK)
        *generator = made;
    else
        cdl_generator_close(made);
    return status;
}

void cdl_generator_close(struct cdl_generator *generator)
{
    if (generator == NULL)
        return;
    cdl_release(cdl_allocator_default(), generator->values, generator->value_bytes, 1);
    cdl_release(cdl_allocator_default(), generator, 1, sizeof *generator);
}
