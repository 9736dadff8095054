/* What answers of a Redis mean for limits. Names of fields are those of INFO in Redis 5 to 7 and Valkey 7 to 8; a field that is missing
 * is said to be missing, never taken for a good one. */
#include "store/redis/checkup.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/url.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define SLOTS 16384u
#define OLDEST 5u           /* major version of Redis */
#define LAG_MAX_S 10u       /* of a replica */
#define CLOCK_MAX NS_PER_S  /* of distance */
#define ROOM_MIN_PERCENT 20 /* of maxmemory */

/* ---- checks ---- */

const char *cdl_check_level_name(enum cdl_check_level level)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    return names[level];
}

enum cdl_check_level cdl_checkup_worst(const struct cdl_checkup *checkup)
{
    enum cdl_check_level worst = CDL_CHECK_OK;
    for (size_t i = 0; i < checkup->count; i++)
        if (checkup->checks[i].level > worst)
            worst = checkup->checks[i].level;
    return worst;
}

/* Control characters come from servers, and go to terminals. */
static void clean(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

/* Where the next check goes, and of whom it is. */
struct judge {
    struct cdl_checkup *checkup;
    const char *place, *subject;
};

__attribute__((format(printf, 4, 5))) static void say(const struct judge *judge, enum cdl_check_level level,
                                                      const char *advice, const char *format, ...)
{
    if (judge->checkup->count == CDL_CHECKS_MAX)
        return;
    struct cdl_check *check = &judge->checkup->checks[judge->checkup->count++];
    *check = (struct cdl_check){.level = level, .subject = judge->subject, .advice = advice};
    snprintf(check->place, sizeof check->place, "%s", judge->place);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->found, sizeof check->found, format, arguments);
    va_end(arguments);
    clean(check->place);
    clean(check->found);
}

/* ---- texts of lines "name:value" ---- */

static struct cdl_slice take_until(struct cdl_slice *rest, char end)
{
    const char *at = rest->length == 0 ? NULL : memchr(rest->bytes, end, rest->length);
    const size_t length = at == NULL ? rest->length : (size_t)(at - rest->bytes);
    const struct cdl_slice head = cdl_slice_head(*rest, length);
    *rest = cdl_slice_from(*rest, length + (at != NULL));
    return head;
}

static struct cdl_slice take_line(struct cdl_slice *rest)
{
    struct cdl_slice line = take_until(rest, '\n');
    if (line.length > 0 && line.bytes[line.length - 1] == '\r')
        line.length--;
    return line;
}

/* Empty when there is no such field. */
static struct cdl_slice field(struct cdl_slice info, const char *name)
{
    while (info.length > 0) {
        struct cdl_slice line = take_line(&info);
        if (cdl_slice_equal(take_until(&line, ':'), cdl_slice_of(name)))
            return line;
    }
    return (struct cdl_slice){"", 0};
}

static bool has(struct cdl_slice info, const char *name)
{
    return field(info, name).length > 0;
}

static bool is(struct cdl_slice info, const char *name, const char *value)
{
    return cdl_slice_equal(field(info, name), cdl_slice_of(value));
}

/* 0 when there is no such number. */
static uint64_t number(struct cdl_slice info, const char *name)
{
    uint64_t value;
    return cdl_url_read_number(field(info, name), &value) ? value : 0;
}

static bool begins_with(struct cdl_slice text, const char *start)
{
    const size_t length = strlen(start);
    return text.length >= length && memcmp(text.bytes, start, length) == 0;
}

/* ---- transport ---- */

static bool is_here(const struct cdl_redis_place *place)
{
    const struct cdl_slice host = cdl_slice_of(place->host);
    return begins_with(host, "/") || begins_with(host, "127.") || cdl_slice_equal(host, CDL_SLICE("::1")) ||
           cdl_slice_equal(host, CDL_SLICE("localhost"));
}

void cdl_checkup_transport(struct cdl_checkup *checkup, const struct cdl_redis_config *config)
{
    const struct judge judge = {checkup, "", "transport"};
    bool all_here = true;
    for (uint32_t i = 0; i < config->seed_count; i++)
        all_here = all_here && is_here(&config->seeds[i]);
    if (config->tls && config->tls_verify)
        say(&judge, CDL_CHECK_OK, NULL, "TLS, and the certificate is verified");
    else if (config->tls)
        say(&judge, CDL_CHECK_WARN, "leave out tls_verify=no, and name the authority with tls_ca",
            "TLS, and the certificate is not verified: whoever is on the way can be the server");
    else if (all_here)
        say(&judge, CDL_CHECK_OK, NULL, "no TLS, and nothing leaves this machine");
    else
        say(&judge, CDL_CHECK_WARN, "use rediss:// (or tls=yes) unless the network is trusted",
            "no TLS: the password and the keys can be read on the way");
}

/* ---- server ---- */

static unsigned major_of(struct cdl_slice version)
{
    uint64_t major;
    return cdl_url_read_number(take_until(&version, '.'), &major) && major < 1000 ? (unsigned)major : 0;
}

static bool is_keydb(struct cdl_slice info)
{
    const struct cdl_slice program = field(info, "executable");
    return has(info, "mvcc_depth") || (program.length > 0 && memmem(program.bytes, program.length, "keydb", 5) != NULL);
}

static void judge_server(const struct judge *judge, struct cdl_slice info)
{
    static const char untested[] = "caudal is tested with Redis and Valkey; try it out before you rely on it";
    const struct cdl_slice version = field(info, "redis_version");
    if (has(info, "valkey_version"))
        say(judge, CDL_CHECK_OK, NULL, "Valkey %.*s", CDL_SLICE_ARG(field(info, "valkey_version")));
    else if (has(info, "dragonfly_version"))
        say(judge, CDL_CHECK_WARN, untested, "Dragonfly %.*s", CDL_SLICE_ARG(field(info, "dragonfly_version")));
    else if (version.length == 0)
        say(judge, CDL_CHECK_WARN, untested, "it does not say what it is");
    else if (major_of(version) < OLDEST)
        say(judge, CDL_CHECK_FAIL,
            "use Redis 5 or later, or Valkey: older ones do not let a script read the time and write", "Redis %.*s",
            CDL_SLICE_ARG(version));
    else if (is_keydb(info))
        say(judge, CDL_CHECK_WARN, untested, "KeyDB %.*s", CDL_SLICE_ARG(version));
    else
        say(judge, CDL_CHECK_OK, NULL, "Redis %.*s", CDL_SLICE_ARG(version));
}

static void judge_kind(const struct judge *judge, struct cdl_slice info, enum cdl_redis_kind kind)
{
    const bool is_cluster = is(info, "cluster_enabled", "1");
    if (is(info, "redis_mode", "sentinel"))
        say(judge, CDL_CHECK_FAIL, "write redis-sentinel://HOST:PORT/NAME", "this is a sentinel, which holds no data");
    else if (is_cluster && kind != CDL_REDIS_CLUSTER)
        say(judge, CDL_CHECK_FAIL, "write redis-cluster:// instead", "this is a node of a cluster");
    else if (!is_cluster && kind == CDL_REDIS_CLUSTER)
        say(judge, CDL_CHECK_FAIL, "write redis:// instead", "this is not a node of a cluster");
}

/* ---- eviction ---- */

/* All our keys have an expiry, so that "volatile" policies choose among them, too. */
static void judge_full_memory(const struct judge *judge, struct cdl_slice policy, uint64_t used, uint64_t most)
{
    static const char use_another[] =
        "it would forget buckets, whose limits start anew: use noeviction, or volatile-ttl "
        "with room to spare";
    const uint64_t percent = used >= most ? 100 : used / (most / 100 + 1);
    const bool has_room = percent <= 100 - ROOM_MIN_PERCENT;
    enum cdl_check_level level = CDL_CHECK_OK;
    const char *advice = NULL;
    if (begins_with(policy, "allkeys-")) {
        level = CDL_CHECK_FAIL;
        advice = use_another;
    } else if (cdl_slice_equal(policy, CDL_SLICE("noeviction"))) {
        level = has_room ? CDL_CHECK_OK : CDL_CHECK_WARN;
        advice = has_room ? NULL
                          : "raise maxmemory: when it is reached nothing is decided, and the failure policy answers";
    } else if (!cdl_slice_equal(policy, CDL_SLICE("volatile-ttl")) || !has_room) {
        level = CDL_CHECK_WARN;
        advice = use_another;
    }
    say(judge, level, advice, "%.*s; %" PRIu64 " %% of maxmemory is used", CDL_SLICE_ARG(policy), percent);
}

static void judge_eviction(const struct judge *judge, struct cdl_slice info)
{
    const struct cdl_slice policy = field(info, "maxmemory_policy");
    const uint64_t most = number(info, "maxmemory"), evicted = number(info, "evicted_keys");
    if (policy.length == 0)
        say(judge, CDL_CHECK_WARN, "make sure that maxmemory-policy is noeviction or volatile-ttl",
            "it does not say what it forgets when its memory is full");
    else if (most > 0)
        judge_full_memory(judge, policy, number(info, "used_memory"), most);
    else if (begins_with(policy, "allkeys-"))
        say(judge, CDL_CHECK_WARN, "use noeviction, or volatile-ttl with room to spare, before somebody sets maxmemory",
            "%.*s, which has no effect without maxmemory", CDL_SLICE_ARG(policy));
    else
        say(judge, CDL_CHECK_OK, NULL, "%.*s, and no maxmemory", CDL_SLICE_ARG(policy));
    if (evicted > 0)
        say(judge, CDL_CHECK_WARN, "if buckets were among them, their limits started anew: give it more memory",
            "%" PRIu64 " keys have been evicted since it was started", evicted);
}

/* ---- persistence ---- */

static void judge_persistence(const struct judge *judge, struct cdl_slice info)
{
    static const char may_refuse[] =
        "unless stop-writes-on-bgsave-error is no, it refuses writes, and nothing is decided: look "
        "into its log";
    if (is(info, "loading", "1"))
        say(judge, CDL_CHECK_FAIL, "wait until it has loaded", "it is still loading its data");
    if (is(info, "rdb_last_bgsave_status", "err"))
        say(judge, CDL_CHECK_FAIL, may_refuse, "the last snapshot could not be written");
    if (is(info, "aof_enabled", "1") && is(info, "aof_last_write_status", "err"))
        say(judge, CDL_CHECK_FAIL, "it refuses writes, and nothing is decided: look into its log",
            "the append-only file could not be written");
    else if (is(info, "aof_enabled", "1"))
        say(judge, CDL_CHECK_OK, NULL,
            "append-only file: a restart forgets what was spent since its last fsync, a second "
            "with appendfsync everysec");
    else if (!has(info, "aof_enabled"))
        say(judge, CDL_CHECK_WARN, NULL, "it does not say what a restart forgets");
    else
        say(judge, CDL_CHECK_WARN,
            "that gives back at most one full bucket a key; where it matters, set appendonly yes",
            "no append-only file: a restart forgets what was spent since the last snapshot, if there is one (%" PRIu64
            " changes)",
            number(info, "rdb_changes_since_last_save"));
}

/* ---- replication ---- */

/* "ip=10.0.0.2,port=6379,state=online,offset=42,lag=0" */
static struct cdl_slice part_of(struct cdl_slice replica, const char *name)
{
    while (replica.length > 0) {
        struct cdl_slice part = take_until(&replica, ',');
        if (cdl_slice_equal(take_until(&part, '='), cdl_slice_of(name)))
            return part;
    }
    return (struct cdl_slice){"", 0};
}

/* How many replicas are not online, or have not been heard for long. */
static unsigned count_late(struct cdl_slice info, uint64_t replicas)
{
    unsigned late = 0;
    for (uint64_t i = 0; i < replicas && i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "slave%" PRIu64, i);
        const struct cdl_slice replica = field(info, name);
        uint64_t lag = 0;
        const bool says_lag = cdl_url_read_number(part_of(replica, "lag"), &lag);
        if (!cdl_slice_equal(part_of(replica, "state"), CDL_SLICE("online")) || !says_lag || lag > LAG_MAX_S)
            late++;
    }
    return late;
}

static void judge_primary(const struct judge *judge, struct cdl_slice info)
{
    const uint64_t replicas = number(info, "connected_slaves");
    const unsigned late = count_late(info, replicas);
    if (replicas == 0 && has(info, "min_slaves_good_slaves"))
        say(judge, CDL_CHECK_FAIL, "start its replicas, or set min-replicas-to-write to 0",
            "min-replicas-to-write is set and there is no replica: it refuses writes");
    else if (replicas == 0)
        say(judge, CDL_CHECK_OK, NULL, "a primary without replicas: nothing takes over when it is lost");
    else if (late > 0)
        say(judge, CDL_CHECK_WARN,
            "a failover to such a one gives back what was spent since: at most one full bucket a key",
            "a primary; of %" PRIu64 " replicas %u are not in step", replicas, late);
    else if (has(info, "min_slaves_good_slaves"))
        say(judge, CDL_CHECK_OK, NULL,
            "a primary with %" PRIu64
            " replicas in step; min-replicas-to-write is set. A failover gives back at most one "
            "full bucket a key",
            replicas);
    else
        say(judge, CDL_CHECK_WARN,
            "set min-replicas-to-write 1 and min-replicas-max-lag, so that a primary that is cut off stops deciding",
            "a primary with %" PRIu64
            " replicas in step, which is asynchronous: a failover gives back at most one full "
            "bucket a key",
            replicas);
}

static void judge_replication(const struct judge *judge, struct cdl_slice info)
{
    if (is(info, "role", "master"))
        judge_primary(judge, info);
    else if (is(info, "role", "slave"))
        say(judge, CDL_CHECK_FAIL, "name its primary, or use redis-sentinel://",
            "a replica, which cannot be written to%s",
            is(info, "master_link_status", "up") ? "" : "; its link to the primary is down");
    else if (is(info, "role", "active-replica"))
        say(judge, CDL_CHECK_FAIL, "name one of them only, and let nobody else write",
            "an active replica: two servers that both decide each grant the whole limit");
    else
        say(judge, CDL_CHECK_WARN, NULL, "it does not say whether it is a primary");
}

void cdl_checkup_info(struct cdl_checkup *checkup, const char *place, struct cdl_slice info, enum cdl_redis_kind kind)
{
    judge_server(&(struct judge){checkup, place, "server"}, info);
    judge_kind(&(struct judge){checkup, place, "kind"}, info, kind);
    judge_eviction(&(struct judge){checkup, place, "eviction"}, info);
    judge_persistence(&(struct judge){checkup, place, "persistence"}, info);
    judge_replication(&(struct judge){checkup, place, "replication"}, info);
}

/* ---- clock ---- */

/* "1.25 s", "340 us": three digits at least. */
static const char *duration(int64_t ns, char text[32])
{
    if (ns < 10 * MS)
        snprintf(text, 32, "%" PRId64 " us", ns / US);
    else if (ns < 10 * NS_PER_S)
        snprintf(text, 32, "%" PRId64 " ms", ns / MS);
    else
        snprintf(text, 32, "%" PRId64 " s", ns / NS_PER_S);
    return text;
}

void cdl_checkup_clock(struct cdl_checkup *checkup, const char *place, int64_t server_us, int64_t before_ns,
                       int64_t after_ns)
{
    const struct judge judge = {checkup, place, "clock"};
    const int64_t half_ns = (after_ns - before_ns) / 2;
    int64_t server_ns, ahead_ns;
    if (after_ns < before_ns || server_us < 0 || __builtin_mul_overflow(server_us, US, &server_ns) ||
        __builtin_sub_overflow(server_ns, before_ns + half_ns, &ahead_ns) || ahead_ns == INT64_MIN) {
        say(&judge, CDL_CHECK_WARN, "ask again", "this machine's clock was set while it was compared");
        return;
    }
    char distance[32], error[32];
    const int64_t distance_ns = ahead_ns < 0 ? -ahead_ns : ahead_ns;
    const bool near = distance_ns <= CLOCK_MAX || distance_ns - half_ns <= CLOCK_MAX;
    say(&judge, near ? CDL_CHECK_OK : CDL_CHECK_WARN,
        near ? NULL : "limits count by the server's clock; windows begin and end by it: let NTP set both",
        "%s %s this machine's, give or take %s", duration(distance_ns, distance), ahead_ns < 0 ? "behind" : "ahead of",
        duration(half_ns, error));
}

/* ---- cluster and sentinels ---- */

void cdl_checkup_cluster(struct cdl_checkup *checkup, const char *place, struct cdl_slice info)
{
    const struct judge judge = {checkup, place, "cluster"};
    const uint64_t assigned = number(info, "cluster_slots_assigned"), failed = number(info, "cluster_slots_fail"),
                   doubtful = number(info, "cluster_slots_pfail"), size = number(info, "cluster_size");
    if (!is(info, "cluster_state", "ok"))
        say(&judge, CDL_CHECK_FAIL, "redis-cli --cluster check says more",
            "its state is '%.*s'; %" PRIu64 " of %u slots are served", CDL_SLICE_ARG(field(info, "cluster_state")),
            assigned - (failed < assigned ? failed : assigned), SLOTS);
    else if (assigned < SLOTS || failed > 0)
        say(&judge, CDL_CHECK_FAIL, "keys of the others are not decided: redis-cli --cluster fix assigns them",
            "%" PRIu64 " of %u slots are served", assigned - (failed < assigned ? failed : assigned), SLOTS);
    else if (doubtful > 0)
        say(&judge, CDL_CHECK_WARN, "a node is about to be given up: look after it",
            "all slots are assigned; %" PRIu64 " are of nodes that do not answer", doubtful);
    else
        say(&judge, CDL_CHECK_OK, NULL, "all slots are served, by %" PRIu64 " primaries", size);
}

void cdl_checkup_quorum(struct cdl_checkup *checkup, const char *place, struct cdl_slice answer, bool is_error)
{
    const struct judge judge = {checkup, place, "sentinel"};
    if (!is_error)
        say(&judge, CDL_CHECK_OK, NULL, "%.*s",
            CDL_SLICE_ARG(begins_with(answer, "OK ") ? cdl_slice_from(answer, 3) : answer));
    else if (begins_with(answer, "NOQUORUM"))
        say(&judge, CDL_CHECK_FAIL, "nothing would take over from the primary: start more sentinels", "%.*s",
            CDL_SLICE_ARG(answer));
    else
        say(&judge, CDL_CHECK_FAIL, "the path of the URL is the name that sentinels monitor the primary by", "%.*s",
            CDL_SLICE_ARG(answer));
}

/* A line of CLUSTER NODES: id, address ("10.0.0.1:6379@16379,name"), flags ("myself,master"), ... */
static bool read_address(struct cdl_slice address, struct cdl_redis_place *place)
{
    struct cdl_slice bare = take_until(&address, '@');
    size_t colon = bare.length;
    while (colon > 0 && bare.bytes[colon - 1] != ':')
        colon--;
    uint64_t port;
    if (colon < 2 || colon - 1 >= sizeof place->host || !cdl_url_read_number(cdl_slice_from(bare, colon), &port) ||
        port < 1 || port > UINT16_MAX)
        return false;
    *place = (struct cdl_redis_place){.port = (uint16_t)port};
    memcpy(place->host, bare.bytes, colon - 1);
    return true;
}

static bool is_primary(struct cdl_slice flags)
{
    bool primary = false;
    while (flags.length > 0) {
        const struct cdl_slice flag = take_until(&flags, ',');
        if (cdl_slice_equal(flag, CDL_SLICE("master")))
            primary = true;
        else if (!cdl_slice_equal(flag, CDL_SLICE("myself")) && !cdl_slice_equal(flag, CDL_SLICE("fail?")))
            return false; /* slave, fail, handshake, noaddr */
    }
    return primary;
}

bool cdl_checkup_next_primary(struct cdl_slice *nodes, struct cdl_redis_place *place)
{
    while (nodes->length > 0) {
        struct cdl_slice line = take_line(nodes);
        take_until(&line, ' ');
        const struct cdl_slice address = take_until(&line, ' ');
        if (is_primary(take_until(&line, ' ')) && read_address(address, place))
            return true;
    }
    return false;
}

/* ---- the script ---- */

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void cdl_checkup_script(struct cdl_checkup *checkup, int64_t *times_ns, size_t count, int64_t deadline_ns)
{
    const struct judge judge = {checkup, "", "script"};
    qsort(times_ns, count, sizeof *times_ns, compare_times);
    const int64_t middle_ns = times_ns[count / 2];
    const bool fast = middle_ns <= deadline_ns / 3;
    char least[32], middle[32], deadline[32];
    say(&judge, fast ? CDL_CHECK_OK : CDL_CHECK_WARN,
        fast ? NULL
             : "decisions will come too late, and the failure policy will answer: raise the deadline, or move nearer",
        "%zu calls: %s at least, %s in the middle; servers wait %s", count, duration(times_ns[0], least),
        duration(middle_ns, middle), duration(deadline_ns, deadline));
}

/* ---- what was not answered ---- */

static const char *advice_for(enum cdl_store_event event)
{
    switch (event) {
    case CDL_STORE_NOAUTH:
    case CDL_STORE_WRONGPASS:
        return "give user and password in the URL, or name password_file or password_env";
    case CDL_STORE_NOPERM:
        return "its user needs the keys of the prefix (~caudal*), EVALSHA and EVAL with what the script calls; this "
               "command "
               "asks INFO, too";
    case CDL_STORE_TLS:
        return "tls_ca names the authority, tls_name the name that the certificate has";
    case CDL_STORE_READONLY:
        return "name its primary, or use redis-sentinel://";
    case CDL_STORE_BUSY:
        return "a script of somebody has run for longer than lua-time-limit: SCRIPT KILL ends it";
    case CDL_STORE_OOM:
        return "raise maxmemory";
    case CDL_STORE_MOVED:
        return "this is a node of a cluster: write redis-cluster://";
    default:
        return NULL;
    }
}

void cdl_checkup_unanswered(struct cdl_checkup *checkup, const char *place, const char *subject,
                            enum cdl_store_event event, struct cdl_slice error)
{
    const struct judge judge = {checkup, place, subject};
    if (error.length > 0)
        say(&judge, CDL_CHECK_FAIL, advice_for(event), "it answers: %.*s", CDL_SLICE_ARG(error));
    else
        say(&judge, CDL_CHECK_FAIL, advice_for(event), "%s", cdl_store_event_text(event));
}
