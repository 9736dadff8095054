/* Generated traffic: in order, as much as was asked for, of the shape that generate.h describes, and the same on every machine. */
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../support.h"
#include "identity/address.h"
#include "replay/generate.h"

static struct cdl_generator *generator;
static struct cdl_access_record record;
static struct caudal_problem problem;

static const struct cdl_traffic usual = {
    .pattern = CDL_TRAFFIC_STEADY,
    .clients = 50,
    .rate = 2,
    .duration_ns = 60 * SECOND,
    .begin_ns = EPOCH + 1,
    .seed = 1,
    .burst = 10,
    .quota = 30,
    .period_ns = 10 * SECOND,
    .method = {"GET", 3},
    .target = {"/a?b", 4},
    .host = {"example.com", 11},
};

static struct cdl_traffic traffic_of(enum cdl_traffic_pattern pattern)
{
    struct cdl_traffic traffic = usual;
    traffic.pattern = pattern;
    return traffic;
}

static void open_traffic(const struct cdl_traffic *traffic)
{
    assert_int_equal(cdl_generator_open(traffic, &generator, &problem), CAUDAL_OK);
}

static bool next(void)
{
    return cdl_generator_next(generator, &record);
}

static uint32_t number_of(struct cdl_slice client)
{
    struct cdl_address address;
    assert_true(cdl_address_parse(client, &address));
    assert_int_equal(address.family, 4);
    assert_int_equal(address.bytes[0], 10);
    return (uint32_t)address.bytes[1] << 16 | (uint32_t)address.bytes[2] << 8 | address.bytes[3];
}

/* All that a pattern sends, by client: each in order, none outside of the time. */
struct arrivals {
    size_t count;
    struct arrival {
        int64_t at_ns; /* since the beginning */
        uint32_t client;
    } * items;
};

static struct arrivals collect(const struct cdl_traffic *traffic)
{
    struct arrivals all = {0, NULL};
    size_t room = 0;
    int64_t last_ns = traffic->begin_ns;
    for (open_traffic(traffic); next(); last_ns = record.instant_ns) {
        if (all.count == room)
            all.items = realloc(all.items, (room = 2 * room + 1024) * sizeof *all.items);
        assert_non_null(all.items);
        assert_true(record.instant_ns >= last_ns && record.instant_ns - traffic->begin_ns < traffic->duration_ns);
        const uint32_t client = number_of(record.client);
        assert_true(client >= 1 && client <= traffic->clients);
        all.items[all.count++] = (struct arrival){record.instant_ns - traffic->begin_ns, client};
    }
    assert_false(next()); /* the end stays the end */
    cdl_generator_close(generator);
    return all;
}

static size_t count_of(const struct arrivals *all, uint32_t client, int64_t from_ns, int64_t to_ns)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += (client == 0 || all->items[i].client == client) && all->items[i].at_ns >= from_ns &&
                 all->items[i].at_ns < to_ns;
    return count;
}

/* ---- what a request has ---- */

static void a_record_has_all_that_was_asked_for(void **state)
{
    (void)state;
    const struct cdl_field headers[] = {{CDL_SLICE("x-api-key"), CDL_SLICE("key-{client}-{client}!")},
                                        {CDL_SLICE("x-empty"), {NULL, 0}},
                                        {CDL_SLICE("x-plain"), CDL_SLICE("{client")},
                                        {CDL_SLICE("x-number"), CDL_SLICE("{client}")}};
    struct cdl_traffic traffic = usual;
    traffic.headers = headers;
    traffic.header_count = COUNT_OF(headers);
    traffic.clients = CDL_TRAFFIC_CLIENTS_MAX;
    char want[64];
    open_traffic(&traffic);
    for (int i = 0; i < 10000; i++) {
        assert_true(next());
        const uint32_t number = number_of(record.client);
        assert_int_equal(record.header_count, COUNT_OF(headers));
        snprintf(want, sizeof want, "key-%u-%u!", number, number);
        assert_true(cdl_slice_equal(record.headers[0].value, cdl_slice_of(want)));
        assert_int_equal(record.headers[1].value.length, 0);
        assert_true(cdl_slice_equal(record.headers[2].value, CDL_SLICE("{client")));
        snprintf(want, sizeof want, "%u", number);
        assert_true(cdl_slice_equal(record.headers[3].value, cdl_slice_of(want)));
        assert_true(cdl_slice_equal(record.headers[3].name, CDL_SLICE("x-number")));
    }
    assert_true(cdl_slice_equal(record.method, CDL_SLICE("GET")));
    assert_true(cdl_slice_equal(record.target, CDL_SLICE("/a?b")));
    assert_true(cdl_slice_equal(record.host, CDL_SLICE("example.com")));
    assert_int_equal(record.resolution_ns, 1);
    assert_int_equal(record.duration_ns, -1);
    assert_int_equal(record.bytes, -1);
    assert_int_equal(record.status, 0);
    assert_int_equal(record.user.length, 0);
    cdl_generator_close(generator);
}

static void each_client_has_an_address_of_its_own(void **state)
{
    (void)state;
    struct cdl_traffic traffic = usual;
    traffic.clients = scaled(CDL_TRAFFIC_CLIENTS_MAX);
    traffic.rate = 1;
    unsigned char *seen = calloc(traffic.clients + 1, 1);
    assert_non_null(seen);
    open_traffic(&traffic);
    for (uint64_t i = 0; i < traffic.clients; i++) {
        assert_true(next());
        const uint32_t number = number_of(record.client);
        assert_true(number >= 1 && number <= traffic.clients);
        assert_int_equal(seen[number]++, 0);
    }
    free(seen);
    cdl_generator_close(generator);
}

/* ---- the patterns ---- */

/* In every whole second each of 50 clients sends 2 at a distance of 500 ms, and all together 100 that lie evenly. */
static void steady_clients_send_at_even_distances(void **state)
{
    (void)state;
    const struct cdl_traffic traffic = traffic_of(CDL_TRAFFIC_STEADY);
    struct arrivals all = collect(&traffic);
    assert_int_equal(all.count, 50 * 2 * 60);
    int64_t last_ns[51] = {0};
    bool alike = true;
    for (size_t i = 0; i < all.count; i++) {
        const struct arrival *arrival = &all.items[i];
        if (i >= 50)
            assert_in_range(arrival->at_ns - last_ns[arrival->client], 500 * MILLISECOND - 1, 500 * MILLISECOND + 1);
        assert_in_range(arrival->at_ns / (10 * MILLISECOND), i, i); /* one in each slot */
        alike = alike && arrival->client == all.items[i % 50].client && arrival->client == i % 50 + 1;
        last_ns[arrival->client] = arrival->at_ns;
    }
    assert_false(alike); /* the seed decides who comes first */
    free(all.items);
}

/* A rate whose distance is no whole number of nanoseconds drifts by less than one in a year. */
static void distances_do_not_add_up_errors(void **state)
{
    (void)state;
    struct cdl_traffic traffic = usual;
    traffic.clients = 7;
    traffic.rate = 3.0 / 7;
    traffic.duration_ns = 700000 * SECOND;
    struct arrivals all = collect(&traffic);
    assert_int_equal(all.count, 2100000);
    for (size_t i = 0; i < all.count; i += 7) {
        const int64_t exact_ns = (int64_t)(i / 7) * 7 * SECOND / 3;
        assert_in_range(all.items[i].at_ns - all.items[0].at_ns - exact_ns + 1, 0, 2);
    }
    free(all.items);
}

static void bursts_come_at_one_instant(void **state)
{
    (void)state;
    const struct cdl_traffic traffic = traffic_of(CDL_TRAFFIC_BURST);
    struct arrivals all = collect(&traffic);
    assert_int_equal(all.count, 50 * 2 * 60);
    int64_t last_ns[51] = {0};
    for (size_t i = 0; i < all.count; i += 10) {
        for (size_t j = 1; j < 10; j++)
            assert_memory_equal(&all.items[i], &all.items[i + j], sizeof all.items[i].at_ns);
        const uint32_t client = all.items[i].client;
        assert_int_equal(count_of(&all, client, all.items[i].at_ns, all.items[i].at_ns + 1), 10);
        if (i >= 500)
            assert_in_range(all.items[i].at_ns - last_ns[client], 5 * SECOND - 1, 5 * SECOND + 1);
        last_ns[client] = all.items[i].at_ns;
    }
    free(all.items);
}

/* The beginning is a nanosecond after an edge, so edges are at 10 s - 1 ns, 20 s - 1 ns, and so on. */
static void edge_clients_spend_their_quota_on_both_sides(void **state)
{
    (void)state;
    struct cdl_traffic traffic = traffic_of(CDL_TRAFFIC_EDGE);
    traffic.rate = 3; /* the quota in each period: every second edge */
    traffic.duration_ns = 100 * SECOND;
    struct arrivals all = collect(&traffic);
    assert_int_equal(all.count, 5 * 50 * 60); /* at 10, 30, 50, 70, 90 s */
    for (int64_t edge_ns = 10 * SECOND - 1; edge_ns < traffic.duration_ns; edge_ns += 20 * SECOND)
        for (uint32_t client = 1; client <= 50; client++) {
            assert_int_equal(count_of(&all, client, edge_ns - 5 * MILLISECOND, edge_ns), 30);
            assert_int_equal(count_of(&all, client, edge_ns, edge_ns + 5 * MILLISECOND), 30);
        }
    for (int64_t window = 0; window < 10; window++)
        assert_true(count_of(&all, 1, window * 10 * SECOND - 1, (window + 1) * 10 * SECOND - 1) <= 30);
    free(all.items);
}

/* 60 requests at each edge that is taken: at 0.7 a second that is one edge in 85.7 s, of those that are 10 s apart. */
static void edges_are_taken_as_often_as_the_rate_says(void **state)
{
    (void)state;
    struct cdl_traffic traffic = traffic_of(CDL_TRAFFIC_EDGE);
    traffic.clients = 3;
    traffic.rate = 0.7;
    traffic.duration_ns = 60000 * SECOND;
    struct arrivals all = collect(&traffic);
    assert_int_equal(all.count, 700 * 3 * 60);
    int64_t last_ns = -1;
    for (size_t i = 0; i < all.count; i += 180) {
        const int64_t edge = (all.items[i].at_ns + SECOND) / (10 * SECOND);
        if (last_ns >= 0)
            assert_in_range(edge - last_ns, 8, 9);
        last_ns = edge;
    }
    free(all.items);

    traffic.period_ns = 8 * MILLISECOND; /* a quarter of it on either side */
    traffic.rate = 30;
    traffic.duration_ns = 20 * SECOND;
    all = collect(&traffic);
    assert_int_equal(all.count, 10 * 3 * 60);
    for (size_t i = 0; i < all.count; i++) {
        const int64_t phase_ns = (all.items[i].at_ns + 1) % (8 * MILLISECOND);
        assert_true(phase_ns < 2 * MILLISECOND || phase_ns >= 6 * MILLISECOND);
    }
    free(all.items);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The Kolmogorov-Smirnov statistic of `gaps` against an exponential distribution of that mean, times the root of their number. */
static double distance_from_exponential(double *gaps, size_t count, double mean)
{
    double most = 0;
    qsort(gaps, count, sizeof *gaps, compare_doubles);
    for (size_t i = 0; i < count; i++) {
        const double p = 1 - exp(-gaps[i] / mean);
        most = fmax(most, fmax((double)(i + 1) / (double)count - p, p - (double)i / (double)count));
    }
    return most * sqrt((double)count);
}

/* The distances between the requests of one client, or of all (0). */
static size_t gaps_of(const struct arrivals *all, uint32_t client, double *gaps)
{
    size_t count = 0;
    int64_t last_ns = 0;
    for (size_t i = 0; i < all->count; i++)
        if (client == 0 || all->items[i].client == client) {
            gaps[count++] = (double)(all->items[i].at_ns - last_ns);
            last_ns = all->items[i].at_ns;
        }
    return count;
}

#define ONE_PER_CENT 1.628 /* the statistic is larger than this in one of a hundred samples */

static void poisson_gaps_are_exponential(void **state)
{
    (void)state;
    struct cdl_traffic traffic = traffic_of(CDL_TRAFFIC_POISSON);
    traffic.clients = 20;
    traffic.duration_ns = 5000 * SECOND;
    struct arrivals all = collect(&traffic);
    double *gaps = malloc(250000 * sizeof *gaps);
    assert_non_null(gaps);
    assert_true(fabs((double)all.count - 200000) < 4 * sqrt(200000));
    assert_true(distance_from_exponential(gaps, gaps_of(&all, 0, gaps), 1e9 / 40) < ONE_PER_CENT);
    for (uint32_t client = 1; client <= 20; client += 5) {
        const size_t count = gaps_of(&all, client, gaps);
        assert_true(fabs((double)count - 10000) < 4 * sqrt(10000));
        assert_true(distance_from_exponential(gaps, count, 1e9 / 2) < ONE_PER_CENT);
    }
    /* The check can tell: of steady traffic, and of a mean that is 2 % off. */
    assert_true(distance_from_exponential(gaps, gaps_of(&all, 0, gaps), 1.02e9 / 40) > ONE_PER_CENT);
    free(all.items);
    traffic.pattern = CDL_TRAFFIC_STEADY;
    all = collect(&traffic);
    assert_true(distance_from_exponential(gaps, gaps_of(&all, 0, gaps), 1e9 / 40) > ONE_PER_CENT);
    free(all.items);
    free(gaps);
}

static void a_flash_crowd_comes_and_goes(void **state)
{
    (void)state;
    struct cdl_traffic traffic = traffic_of(CDL_TRAFFIC_FLASH_CROWD);
    traffic.clients = 95;
    traffic.duration_ns = 900 * SECOND;
    struct arrivals all = collect(&traffic);
    const int64_t third_ns = 300 * SECOND;
    double last_count = 0;
    for (int third = 0; third < 3; third++) {
        const double count = (double)count_of(&all, 0, third * third_ns, (third + 1) * third_ns);
        const double expected = (third == 1 ? 95 : 10) * 2 * 300;
        assert_true(fabs(count - expected) < 4 * sqrt(expected));
        assert_true(count != last_count);
        last_count = count;
    }
    for (uint32_t client = 11; client <= 95; client++) {
        assert_int_equal(count_of(&all, client, 0, third_ns) + count_of(&all, client, 2 * third_ns, 3 * third_ns), 0);
        assert_true(count_of(&all, client, third_ns, 2 * third_ns) > 500);
    }
    free(all.items);
}

/* ---- the same on every machine ---- */

/* FNV-1a of G. Fowler, L. C. Noll and P. Vo, over times and clients. */
static uint64_t hash_of(const struct cdl_traffic *traffic, uint64_t *count)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    *count = 0;
    for (open_traffic(traffic); next(); ++*count) {
        const uint64_t words[] = {(uint64_t)record.instant_ns, number_of(record.client)};
        for (size_t i = 0; i < 8 * COUNT_OF(words); i++)
            hash = (hash ^ (words[i / 8] >> i % 8 * 8 & 0xff)) * UINT64_C(1099511628211);
    }
    cdl_generator_close(generator);
    return hash;
}

/* Numbers that are inconvenient on purpose: what rounds differently somewhere shows here. */
static struct cdl_traffic odd_traffic(enum cdl_traffic_pattern pattern)
{
    struct cdl_traffic traffic = traffic_of(pattern);
    traffic.clients = 997;
    traffic.rate = 0.1;
    traffic.duration_ns = INT64_C(123456789012);
    traffic.period_ns = INT64_C(7777777777);
    traffic.quota = 3;
    traffic.seed = UINT64_C(0xfedcba9876543210);
    return traffic;
}

static void the_same_seed_gives_the_same_requests(void **state)
{
    (void)state;
    static const struct {
        enum cdl_traffic_pattern pattern;
        uint64_t count, hash;
    } cases[] = {
        {CDL_TRAFFIC_STEADY, 12309, UINT64_C(0xe806675513cac3fb)},
        {CDL_TRAFFIC_BURST, 12310, UINT64_C(0x2becb42aebce3b6d)},
        {CDL_TRAFFIC_EDGE, 17946, UINT64_C(0x7260a3128ece272c)},
        {CDL_TRAFFIC_POISSON, 12337, UINT64_C(0x1aab0d81ef4f3be3)},
        {CDL_TRAFFIC_FLASH_CROWD, 4944, UINT64_C(0x8d8133718b9299e0)},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cdl_traffic traffic = odd_traffic(cases[i].pattern);
        uint64_t count;
        const uint64_t hash = hash_of(&traffic, &count);
        if (hash != cases[i].hash || count != cases[i].count)
            print_error("pattern %d: %llu requests, hash 0x%016llx\n", (int)i, (unsigned long long)count,
                        (unsigned long long)hash);
        traffic.seed++;
        assert_int_not_equal(hash_of(&traffic, &count), hash);
        assert_int_equal(hash, cases[i].hash);
    }
}

/* ---- bounds ---- */

static void assert_refused(const struct cdl_traffic *traffic, const char *part)
{
    problem = (struct caudal_problem){.code = CAUDAL_OK};
    assert_int_equal(cdl_generator_open(traffic, &generator, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(problem.code, CAUDAL_ERR_ARGUMENT);
    if (strstr(problem.message, part) == NULL)
        fail_msg("'%s' does not say '%s'", problem.message, part);
}

#define REFUSED(member, value, part)                                                                                   \
    do {                                                                                                               \
        struct cdl_traffic wrong = traffic;                                                                            \
        wrong.member = (value);                                                                                        \
        assert_refused(&wrong, part);                                                                                  \
    } while (0)

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    struct cdl_traffic traffic = traffic_of(CDL_TRAFFIC_STEADY);
    REFUSED(pattern, (enum cdl_traffic_pattern)5, "pattern");
    REFUSED(clients, 0, "clients");
    REFUSED(clients, CDL_TRAFFIC_CLIENTS_MAX + 1, "clients");
    REFUSED(rate, 0, "rate");
    REFUSED(rate, -1, "rate");
    REFUSED(rate, (double)NAN, "rate");
    REFUSED(rate, (double)INFINITY, "rate");
    REFUSED(duration_ns, 0, "time");
    REFUSED(duration_ns, INT64_MAX, "time");
    REFUSED(begin_ns, -1, "beginning");
    REFUSED(begin_ns, INT64_MAX, "end");
    REFUSED(header_count, CDL_ACCESS_HEADERS_MAX + 1, "headers");
    traffic.pattern = CDL_TRAFFIC_BURST;
    REFUSED(burst, 0, "burst");
    REFUSED(burst, UINT64_MAX, "burst");
    traffic.burst = UINT32_MAX;
    REFUSED(rate, 1e-6, "100 years");
    traffic = traffic_of(CDL_TRAFFIC_EDGE);
    REFUSED(quota, 0, "quota");
    REFUSED(quota, UINT64_MAX, "quota");
    REFUSED(period_ns, 999999, "period");
    REFUSED(period_ns, INT64_MAX, "period");
    REFUSED(period_ns, HOUR, "no edge");
    REFUSED(duration_ns, 10 * SECOND, "no edge");
    REFUSED(rate, 3.0000001, "the quota in each period");
    traffic.rate = 3;
    open_traffic(&traffic);
    cdl_generator_close(generator);
    cdl_generator_close(NULL);
}

/* The largest and the smallest of everything, so that a sum which does not fit shows (in a build that watches). */
static void extremes_stay_in_order(void **state)
{
    (void)state;
    struct rng rng = {7};
    for (int round = 0; round < 2000; round++) {
        struct cdl_traffic traffic = traffic_of((enum cdl_traffic_pattern)rng_below(&rng, 5));
        traffic.clients = rng_magnitude(&rng, CDL_TRAFFIC_CLIENTS_MAX);
        traffic.rate = (double)rng_magnitude(&rng, UINT64_C(1000000000000)) / 1e6;
        traffic.duration_ns = (int64_t)rng_magnitude(&rng, CAUDAL_REFILL_MAX_NS);
        traffic.begin_ns = (int64_t)rng_magnitude(&rng, CAUDAL_REFILL_MAX_NS);
        traffic.burst = rng_magnitude(&rng, UINT32_MAX);
        traffic.quota = rng_magnitude(&rng, UINT32_MAX);
        traffic.period_ns = (int64_t)rng_magnitude(&rng, CAUDAL_REFILL_MAX_NS);
        traffic.seed = rng_next(&rng);
        if (cdl_generator_open(&traffic, &generator, &problem) != CAUDAL_OK)
            continue;
        int64_t last_ns = traffic.begin_ns;
        for (int i = 0; i < 200 && next(); i++) {
            assert_true(record.instant_ns >= last_ns && record.instant_ns - traffic.begin_ns < traffic.duration_ns);
            last_ns = record.instant_ns;
        }
        cdl_generator_close(generator);
    }
}

static long resident_pages(void)
{
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void memory_does_not_grow_with_clients_or_requests(void **state)
{
    (void)state;
    for (int pattern = 0; pattern <= CDL_TRAFFIC_FLASH_CROWD; pattern++) {
        struct cdl_traffic traffic = traffic_of((enum cdl_traffic_pattern)pattern);
        traffic.clients = CDL_TRAFFIC_CLIENTS_MAX;
        const long before = resident_pages();
        open_traffic(&traffic);
        for (uint64_t i = scaled(1000000); i > 0; i--)
            assert_true(next());
        assert_true((resident_pages() - before) * sysconf(_SC_PAGESIZE) < 1 << 20);
        cdl_generator_close(generator);
    }
}

/* Three million a second of processor time; a tenth of it where builds are slow. */
static void it_is_fast(void **state)
{
    (void)state;
    for (int pattern = 0; pattern <= CDL_TRAFFIC_FLASH_CROWD; pattern++) {
        struct cdl_traffic traffic = traffic_of((enum cdl_traffic_pattern)pattern);
        traffic.clients = CDL_TRAFFIC_CLIENTS_MAX;
        open_traffic(&traffic);
        const clock_t begin = clock();
        const uint64_t count = scaled(3000000);
        for (uint64_t i = count; i > 0; i--)
            assert_true(next());
        const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        print_message("pattern %d: %.1f million requests a second\n", pattern, (double)count / 1e6 / seconds);
        assert_true(seconds < 1);
        cdl_generator_close(generator);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_all_that_was_asked_for),
        cmocka_unit_test(each_client_has_an_address_of_its_own),
        cmocka_unit_test(steady_clients_send_at_even_distances),
        cmocka_unit_test(distances_do_not_add_up_errors),
        cmocka_unit_test(bursts_come_at_one_instant),
        cmocka_unit_test(edge_clients_spend_their_quota_on_both_sides),
        cmocka_unit_test(edges_are_taken_as_often_as_the_rate_says),
        cmocka_unit_test(poisson_gaps_are_exponential),
        cmocka_unit_test(a_flash_crowd_comes_and_goes),
        cmocka_unit_test(the_same_seed_gives_the_same_requests),
        cmocka_unit_test(what_is_out_of_range_is_refused),
        cmocka_unit_test(extremes_stay_in_order),
        cmocka_unit_test(memory_does_not_grow_with_clients_or_requests),
        cmocka_unit_test(it_is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
