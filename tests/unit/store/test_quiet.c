/* Deciding allocates nothing and makes no system call.
 *
 * Allocation: the linker sends every call of the library to malloc and its like through the counters below. System calls:
 * a child forbids itself all but a few, on pain of death, and then decides. Neither works under a sanitizer, which has an
 * allocator and system calls of its own, nor the second under emulation: see meson.build. */
#include "store/memory_store.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../later_store.h"
#include "store/lease/lease_store.h"

/* ---- counting ---- */

static struct {
    unsigned allocated; /* by the C library's allocator, in any way */
    unsigned freed;
    unsigned mapped;
} calls;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void __real_free(void *memory);
void *__real_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset);
void *__real_mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
void __wrap_free(void *memory);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t size)
{
    calls.allocated++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    calls.allocated++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    calls.allocated++;
    return __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    calls.allocated++;
    return __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    calls.allocated++;
    return __real_posix_memalign(memory, alignment, size);
}

void __wrap_free(void *memory)
{
    calls.freed++;
    __real_free(memory);
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    calls.mapped++;
    return __real_mmap(address, length, protection, flags, file, offset);
}

/* The name of mmap where files may be large. */
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    calls.mapped++;
    return __real_mmap64(address, length, protection, flags, file, offset);
}

/* ---- deciding ---- */

/* A store on the system's clocks, too small for the keys that come: new ones, and evictions, never end. */
struct traffic {
    struct caudal_store *store;
    uint32_t limits[KINDS + 1];
    uint32_t per_call; /* whose limits come with each call */
    unsigned failures; /* counted, for an assertion could allocate or write */
};

static struct traffic open_traffic(void)
{
    struct traffic traffic = {0};
    assert_int_equal(caudal_store_open("memory:?keys=2000&wide_keys=200&log_entries=1", NULL, &traffic.store, NULL),
                     CAUDAL_OK);
    for (size_t k = 0; k < KINDS; k++)
        assert_int_equal(caudal_add_limit(traffic.store, kinds[k].name, &kinds[k].limit, &traffic.limits[k], NULL),
                         CAUDAL_OK);
    const struct caudal_limit unlimited = limit_of(CAUDAL_UNLIMITED, 0, 0);
    assert_int_equal(caudal_add_limit(traffic.store, "unlimited", &unlimited, &traffic.limits[KINDS], NULL), CAUDAL_OK);
    assert_int_equal(cdl_add_per_call_limit(traffic.store, "per call", &traffic.per_call, NULL), CAUDAL_OK);
    return traffic;
}

/* By buckets and windows in turn, of which none is like another; alone, and together with a named limit. */
static void decide_per_call(struct traffic *traffic, uint64_t key, uint64_t round)
{
    const struct caudal_limit limit = round % 4 == 0
                                          ? limit_of(CAUDAL_FIXED_WINDOW, 1 + round % 10, HOUR + (int64_t)round)
                                          : bucket_of(10, 10, HOUR + (int64_t)round);
    const struct caudal_request requests[] = {{traffic->per_call, &key, sizeof key, 0},
                                              {traffic->limits[0], &key, sizeof key, 0}};
    for (int operation = CDL_TAKE; operation <= CDL_RESET; operation++) {
        const struct cdl_question question = {
            .operation = (enum cdl_operation)operation, .minimum = 1, .maximum = 1, .limit = &limit};
        const struct cdl_question questions[] = {question, question};
        struct caudal_decision decisions[2];
        struct cdl_call call = {.requests = requests,
                                .questions = questions,
                                .decisions = decisions,
                                .count = 2,
                                .together = operation <= CDL_PEEK};
        traffic->failures += !cdl_store_ask(traffic->store, NULL, &call) || call.status != CAUDAL_OK;
    }
}

/* Every function that decides, for every kind of limit, on a key that is new, known or forgotten as it comes. */
static void decide(struct traffic *traffic, uint64_t round)
{
    struct caudal_store *store = traffic->store;
    const uint64_t key = round % 3 == 0 ? round : round % 100;
    struct caudal_decision decision, each[KINDS + 1], overall;
    struct caudal_request requests[KINDS + 1];
    for (size_t k = 0; k <= KINDS; k++) {
        const uint32_t limit = traffic->limits[k];
        const uint64_t cost = k < KINDS ? kinds[k].unit : 1;
        requests[k] = (struct caudal_request){limit, &key, sizeof key, cost};
        traffic->failures += caudal_take(store, limit, &key, sizeof key, cost, &decision) != CAUDAL_OK;
        traffic->failures += caudal_take_up_to(store, limit, &key, sizeof key, 0, 2 * cost, &decision) != CAUDAL_OK;
        traffic->failures += caudal_peek(store, limit, &key, sizeof key, cost, &decision) != CAUDAL_OK;
        traffic->failures += caudal_refund(store, limit, &key, sizeof key, cost, NULL) != CAUDAL_OK;
        if (round % 7 == 0)
            traffic->failures += caudal_reset(store, limit, &key, sizeof key) != CAUDAL_OK;
    }
    traffic->failures += caudal_take_all(store, requests, KINDS + 1, each, &overall) != CAUDAL_OK;
    traffic->failures += caudal_peek_all(store, requests, KINDS + 1, each, &overall) != CAUDAL_OK;
    traffic->failures += caudal_take_batch(store, requests, KINDS + 1, each) != CAUDAL_OK;
    decide_per_call(traffic, key, round);
}

static void assert_busy(struct traffic *traffic)
{
    struct caudal_store_stats stats = {.size = sizeof stats};
    assert_int_equal(caudal_store_stats(traffic->store, &stats), CAUDAL_OK);
    assert_true(stats.live_evictions > 1000);
    assert_true(stats.inserted > 10000);
}

/* ---- no allocation ---- */

static void the_counters_see_what_opening_allocates(void **state)
{
    (void)state;
    memset(&calls, 0, sizeof calls);
    struct caudal_store *store;
    assert_int_equal(caudal_store_open("memory:?keys=200000", NULL, &store, NULL), CAUDAL_OK);
    assert_true(calls.allocated > 0);
    assert_true(calls.mapped > 0);
    assert_int_equal(calls.freed, 0);
    caudal_store_close(store);
    assert_true(calls.freed > 0);
}

static void deciding_allocates_nothing(void **state)
{
    (void)state;
    struct traffic traffic = open_traffic();
    memset(&calls, 0, sizeof calls);
    for (uint64_t round = 0; round < 20000; round++)
        decide(&traffic, round);
    assert_int_equal(calls.allocated, 0);
    assert_int_equal(calls.freed, 0);
    assert_int_equal(calls.mapped, 0);
    assert_int_equal(traffic.failures, 0);
    assert_busy(&traffic);
    caudal_store_close(traffic.store);
}

/* Leaps that move the window of a bucket's clock, and keys that move over to the wide table. */
static void deciding_at_any_time_and_after_any_change_allocates_nothing(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, "memory:?keys=2000&wide_keys=200&log_entries=1");
    const uint32_t bucket = world_add(&world, bucket_of(10, 10, SECOND));
    const uint32_t window = world_add(&world, limit_of(CAUDAL_FIXED_WINDOW, 1000, SECOND));
    struct caudal_decision decision;
    for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(caudal_take(world.store, window, &key, sizeof key, 1, &decision), CAUDAL_OK);
    world_set(&world, window, limit_of(CAUDAL_FIXED_WINDOW, 1000000000, SECOND));
    memset(&calls, 0, sizeof calls);
    int status = CAUDAL_OK;
    for (uint64_t key = 0; key < 100; key++)
        status |= caudal_take(world.store, window, &key, sizeof key, 1, &decision);
    for (int64_t years = -280; years <= 280; years += 7)
        status |= caudal_take_at(world.store, bucket, &years, sizeof years, 1, years * YEAR, &decision);
    assert_int_equal(calls.allocated + calls.freed + calls.mapped, 0);
    assert_int_equal(status, CAUDAL_OK);
    world_close(&world);
}

static void no_alarm(void *context, int64_t at_ns)
{
    (void)context, (void)at_ns;
}

static void no_matter(struct cdl_call *call)
{
    (void)call;
}

/* What a loop can decide by itself, from leases and refusals that hold; what it cannot is answered aside. */
static void deciding_from_a_lease_allocates_nothing(void **state)
{
    (void)state;
    struct world world;
    struct later_store later;
    struct caudal_store *store;
    static const struct cdl_loop_hooks hooks = {.alarm = no_alarm};
    const struct caudal_lease lease = CAUDAL_LEASE_INIT;
    const struct caudal_limit limit = bucket_of(1000, 1000, SECOND);
    uint32_t id;
    world_open(&world, "memory:?keys=100");
    later_open(&later, &world);
    const struct caudal_store_options options = {
        .size = sizeof options, .clock = caudal_fake_clock_clock(world.clock), .allocator = cdl_allocator_default()};
    assert_int_equal(cdl_lease_store_open(&later.head, &options, &store, NULL), CAUDAL_OK);
    assert_int_equal(caudal_add_limit(store, "leased", &limit, &id, NULL), CAUDAL_OK);
    assert_int_equal(caudal_lease_limit(store, id, &lease, NULL), CAUDAL_OK);
    struct cdl_store_client *client = cdl_store_client_open(store, &hooks);
    const struct caudal_request request = {id, "key", 3, 1};
    const struct cdl_question question = cdl_question_take(1);
    struct caudal_decision decision;
    unsigned decided[CAUDAL_SOURCE_DENY_CACHE + 1] = {0};
    for (unsigned i = 0; i < 20000; i++) {
        struct cdl_call call = {.requests = &request, .questions = &question, .decisions = &decision, .count = 1};
        call.done = no_matter;
        memset(&calls, 0, sizeof calls);
        if (cdl_store_client_try(client, &call)) {
            assert_int_equal(calls.allocated + calls.freed + calls.mapped, 0);
            decided[decision.source]++;
        } else if (!cdl_store_ask(store, client, &call)) {
            do {
                cdl_store_client_flush(client);
                later_answer_all(&later);
            } while (later.count > 0);
        }
        world_advance(&world, 300 * MICROSECOND);
    }
    assert_true(decided[CAUDAL_SOURCE_LEASE] > 1000 && decided[CAUDAL_SOURCE_DENY_CACHE] > 1000);
    cdl_store_client_close(client);
    caudal_store_close(store);
    world_close(&world);
}

/* ---- no system call ---- */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From here on this process may read the clock, write, and end. */
static bool forbid_system_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(__NR_clock_gettime), /* where the kernel does not let it be read without one */
        ALLOW(__NR_write),
        ALLOW(__NR_exit),
        ALLOW(__NR_exit_group),
        ALLOW(__NR_rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const struct sock_fprog program = {COUNT_OF(filter), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Runs `body` in a child that may make no system calls; what became of it. */
static int status_of_child(bool (*body)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!forbid_system_calls())
            _exit(2);
        _exit(body() ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool make_a_system_call(void)
{
    return syscall(__NR_getppid) > 0;
}

static void a_system_call_is_the_end_of_the_child(void **state)
{
    (void)state;
    const int status = status_of_child(make_a_system_call);
    assert_true(WIFSIGNALED(status));
}

static struct traffic child_traffic;

static bool decide_a_lot(void)
{
    for (uint64_t round = 0; round < 200000; round++)
        decide(&child_traffic, round);
    return child_traffic.failures == 0;
}

static void deciding_makes_no_system_call(void **state)
{
    (void)state;
    child_traffic = open_traffic();
    const int status = status_of_child(decide_a_lot);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    caudal_store_close(child_traffic.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counters_see_what_opening_allocates),
        cmocka_unit_test(deciding_allocates_nothing),
        cmocka_unit_test(deciding_at_any_time_and_after_any_change_allocates_nothing),
        cmocka_unit_test(deciding_from_a_lease_allocates_nothing),
        cmocka_unit_test(a_system_call_is_the_end_of_the_child),
        cmocka_unit_test(deciding_makes_no_system_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
