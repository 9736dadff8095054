/* What answers of Redis, Valkey and KeyDB mean for limits. The texts of INFO are those of the versions that they name, without the
 * fields that nobody reads here. */
#include "store/redis/checkup.h"

#include <stdlib.h>

#include "../../support.h"

static struct cdl_checkup checkup;

static int setup(void **state)
{
    (void)state;
    checkup.count = 0;
    return 0;
}

#define REDIS_5                                                                                                        \
    "# Server\r\nredis_version:5.0.14\r\nredis_git_sha1:00000000\r\nredis_mode:standalone\r\n"                         \
    "executable:/usr/bin/redis-server\r\n\r\n# Clients\r\nconnected_clients:1\r\n\r\n# "                               \
    "Memory\r\nused_memory:854000\r\n"                                                                                 \
    "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\n# "                                                             \
    "Persistence\r\nloading:0\r\nrdb_changes_since_last_save:12\r\n"                                                   \
    "rdb_last_bgsave_status:ok\r\naof_enabled:0\r\naof_last_write_status:ok\r\n\r\n# Stats\r\nevicted_keys:0\r\n\r\n"  \
    "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_repl_offset:0\r\n\r\n# "                             \
    "Cluster\r\ncluster_enabled:0\r\n"

#define REDIS_6_PRIMARY                                                                                                \
    "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\nexecutable:/data/redis-server\r\n\r\n# Memory\r\n"   \
    "used_memory:50000000\r\nmaxmemory:100000000\r\nmaxmemory_policy:allkeys-lru\r\n\r\n# "                            \
    "Persistence\r\nloading:0\r\n"                                                                                     \
    "rdb_changes_since_last_save:0\r\nrdb_last_bgsave_status:ok\r\naof_enabled:1\r\naof_last_write_status:ok\r\n\r\n"  \
    "# Stats\r\nevicted_keys:17\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"                         \
    "slave0:ip=10.0.0.2,port=6379,state=online,offset=42,lag=0\r\n"                                                    \
    "slave1:ip=10.0.0.3,port=6379,state=online,offset=42,lag=1\r\nmaster_repl_offset:42\r\n\r\n# Cluster\r\n"          \
    "cluster_enabled:0\r\n"

#define REDIS_7_REPLICA                                                                                                \
    "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nexecutable:/usr/bin/redis-server\r\n\r\n# "          \
    "Memory\r\n"                                                                                                       \
    "used_memory:1000000\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lfu\r\n\r\n# Persistence\r\nloading:0\r\n"         \
    "rdb_changes_since_last_save:3\r\nrdb_last_bgsave_status:err\r\naof_enabled:0\r\n\r\n# "                           \
    "Replication\r\nrole:slave\r\n"                                                                                    \
    "master_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:down\r\nconnected_slaves:0\r\n\r\n# Cluster\r\n"   \
    "cluster_enabled:0\r\n"

#define VALKEY_8_NODE                                                                                                  \
    "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nserver_mode:cluster\r\n"         \
    "executable:/usr/bin/valkey-server\r\n\r\n# Memory\r\nused_memory:90000000\r\nmaxmemory:100000000\r\n"             \
    "maxmemory_policy:volatile-ttl\r\n\r\n# Persistence\r\nloading:0\r\nrdb_changes_since_last_save:0\r\n"             \
    "rdb_last_bgsave_status:ok\r\naof_enabled:1\r\naof_last_write_status:ok\r\n\r\n# Replication\r\nrole:master\r\n"   \
    "connected_slaves:1\r\nmin_slaves_good_slaves:1\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=42,lag=0,"     \
    "type=replica\r\n\r\n# Cluster\r\ncluster_enabled:1\r\n"

#define KEYDB_6                                                                                                        \
    "# Server\r\nredis_version:6.3.4\r\nredis_mode:standalone\r\nexecutable:/usr/bin/keydb-server\r\n\r\n# Memory\r\n" \
    "used_memory:1000000\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\n# Persistence\r\nloading:0\r\n"          \
    "rdb_changes_since_last_save:0\r\nrdb_last_bgsave_status:ok\r\naof_enabled:1\r\naof_last_write_status:ok\r\n\r\n"  \
    "# Replication\r\nrole:active-replica\r\nmaster_link_status:up\r\nconnected_slaves:1\r\n\r\n# "                    \
    "KeyDB\r\nmvcc_depth:0\r\n"

static void look(const char *info, enum cdl_redis_kind kind)
{
    cdl_checkup_info(&checkup, "10.0.0.1:6379", cdl_slice_of(info), kind);
}

/* The first check on the subject from the `skip`-th on. */
static const struct cdl_check *find(const char *subject, unsigned skip)
{
    for (size_t i = 0; i < checkup.count; i++)
        if (strcmp(checkup.checks[i].subject, subject) == 0 && skip-- == 0)
            return &checkup.checks[i];
    fail_msg("no check of %s", subject);
    return NULL;
}

static void assert_check(const struct cdl_check *check, enum cdl_check_level level, const char *found,
                         const char *advice)
{
    const bool advised = advice == NULL ? check->advice == NULL
                                        : check->advice != NULL && strstr(check->advice, advice) != NULL;
    if (check->level != level || strstr(check->found, found) == NULL || !advised)
        fail_msg("%s: %s: %s (%s)", check->subject, cdl_check_level_name(check->level), check->found, check->advice);
}

static void assert_found(const char *subject, enum cdl_check_level level, const char *found, const char *advice)
{
    assert_check(find(subject, 0), level, found, advice);
}

static void redis_5_alone(void **state)
{
    (void)state;
    look(REDIS_5, CDL_REDIS_SINGLE);
    assert_int_equal(checkup.count, 4);
    assert_found("server", CDL_CHECK_OK, "Redis 5.0.14", NULL);
    assert_found("eviction", CDL_CHECK_OK, "noeviction, and no maxmemory", NULL);
    assert_found("persistence", CDL_CHECK_WARN, "the last snapshot, if there is one (12 changes)", "appendonly yes");
    assert_found("replication", CDL_CHECK_OK, "a primary without replicas", NULL);
    assert_string_equal(checkup.checks[0].place, "10.0.0.1:6379");
    assert_int_equal(cdl_checkup_worst(&checkup), CDL_CHECK_WARN);
}

static void C42_redis_6_that_evicts(void **state)
{
    (void)state;
    look(REDIS_6_PRIMARY, CDL_REDIS_SENTINEL);
    assert_found("server", CDL_CHECK_OK, "Redis 6.2.14", NULL);
    assert_found("eviction", CDL_CHECK_FAIL, "allkeys-lru; 49 % of maxmemory", "would forget buckets");
    assert_check(find("eviction", 1), CDL_CHECK_WARN, "17 keys have been evicted", "more memory");
    assert_found("persistence", CDL_CHECK_OK, "append-only file", NULL);
    assert_found("replication", CDL_CHECK_WARN, "2 replicas in step", "min-replicas-to-write 1");
    assert_int_equal(cdl_checkup_worst(&checkup), CDL_CHECK_FAIL);
}

static void redis_7_that_is_a_replica(void **state)
{
    (void)state;
    look(REDIS_7_REPLICA, CDL_REDIS_SINGLE);
    assert_found("server", CDL_CHECK_OK, "Redis 7.0.15", NULL);
    assert_found("eviction", CDL_CHECK_WARN, "allkeys-lfu, which has no effect", "before somebody sets maxmemory");
    assert_found("persistence", CDL_CHECK_FAIL, "snapshot could not be written", "stop-writes-on-bgsave-error");
    assert_found("replication", CDL_CHECK_FAIL, "cannot be written to; its link to the primary is down", "its primary");
}

static void valkey_8_in_a_cluster(void **state)
{
    (void)state;
    look(VALKEY_8_NODE, CDL_REDIS_CLUSTER);
    assert_int_equal(checkup.count, 4);
    assert_found("server", CDL_CHECK_OK, "Valkey 8.0.1", NULL);
    assert_found("eviction", CDL_CHECK_WARN, "volatile-ttl; 89 % of maxmemory", "with room to spare");
    assert_found("replication", CDL_CHECK_OK, "min-replicas-to-write is set", NULL);
}

static void keydb_whose_replicas_write(void **state)
{
    (void)state;
    look(KEYDB_6, CDL_REDIS_SINGLE);
    assert_found("server", CDL_CHECK_WARN, "KeyDB 6.3.4", "is tested with");
    assert_found("replication", CDL_CHECK_FAIL, "an active replica", "one of them only");
}

static void servers_that_are_too_old_or_unknown(void **state)
{
    (void)state;
    look("redis_version:4.0.9\r\nrole:master\r\n", CDL_REDIS_SINGLE);
    assert_found("server", CDL_CHECK_FAIL, "Redis 4.0.9", "Redis 5 or later");
    checkup.count = 0;
    look("redis_version:7.4.0\r\ndragonfly_version:df-v1.2\r\n", CDL_REDIS_SINGLE);
    assert_found("server", CDL_CHECK_WARN, "Dragonfly df-v1.2", "is tested with");
    checkup.count = 0;
    look("redis_version:10.1\r\n", CDL_REDIS_SINGLE);
    assert_found("server", CDL_CHECK_OK, "Redis 10.1", NULL);
}

static void what_is_not_said_is_not_taken_for_good(void **state)
{
    (void)state;
    look("", CDL_REDIS_SINGLE);
    assert_int_equal(checkup.count, 4);
    for (size_t i = 0; i < checkup.count; i++)
        assert_int_equal(checkup.checks[i].level, CDL_CHECK_WARN);
    checkup.count = 0;
    look("redis_version\r\n:\r\n\r\nrole:\nmaxmemory:x\nmaxmemory_policy:noeviction", CDL_REDIS_SINGLE);
    assert_found("server", CDL_CHECK_WARN, "does not say what it is", "is tested with");
    assert_found("eviction", CDL_CHECK_OK, "noeviction, and no maxmemory", NULL);
}

static void a_url_of_the_wrong_kind(void **state)
{
    (void)state;
    look(VALKEY_8_NODE, CDL_REDIS_SINGLE);
    assert_found("kind", CDL_CHECK_FAIL, "a node of a cluster", "redis-cluster://");
    checkup.count = 0;
    look(REDIS_5, CDL_REDIS_CLUSTER);
    assert_found("kind", CDL_CHECK_FAIL, "not a node of a cluster", "redis://");
    checkup.count = 0;
    look("redis_version:7.0.15\r\nredis_mode:sentinel\r\n", CDL_REDIS_SINGLE);
    assert_found("kind", CDL_CHECK_FAIL, "a sentinel", "redis-sentinel://");
}

static void assert_eviction(const char *policy, const char *used, enum cdl_check_level level)
{
    char info[200];
    snprintf(info, sizeof info, "maxmemory:1000000\r\nused_memory:%s\r\nmaxmemory_policy:%s\r\n", used, policy);
    checkup.count = 0;
    look(info, CDL_REDIS_SINGLE);
    if (find("eviction", 0)->level != level)
        fail_msg("%s, %s: %s", policy, used, find("eviction", 0)->found);
}

static void C42_policies_of_eviction(void **state)
{
    (void)state;
    assert_eviction("noeviction", "800000", CDL_CHECK_OK);
    assert_eviction("noeviction", "820000", CDL_CHECK_WARN);
    assert_eviction("noeviction", "2000000", CDL_CHECK_WARN);
    assert_eviction("volatile-ttl", "10", CDL_CHECK_OK);
    assert_eviction("volatile-ttl", "900000", CDL_CHECK_WARN);
    assert_eviction("volatile-lru", "10", CDL_CHECK_WARN);
    assert_eviction("volatile-random", "10", CDL_CHECK_WARN);
    assert_eviction("allkeys-random", "10", CDL_CHECK_FAIL);
    assert_eviction("something-new", "10", CDL_CHECK_WARN);
}

static void writes_that_fail_or_wait(void **state)
{
    (void)state;
    look("loading:1\r\naof_enabled:1\r\naof_last_write_status:err\r\n", CDL_REDIS_SINGLE);
    assert_found("persistence", CDL_CHECK_FAIL, "still loading", "wait");
    assert_check(find("persistence", 1), CDL_CHECK_FAIL, "append-only file could not be written", "refuses writes");
}

static void replicas_that_are_late_or_missing(void **state)
{
    (void)state;
    look("role:master\r\nconnected_slaves:3\r\nslave0:ip=a,port=1,state=online,offset=1,lag=11\r\n"
         "slave1:ip=b,port=1,state=wait_bgsave,offset=0,lag=0\r\nslave2:ip=c,port=1,state=online,offset=1,lag=10\r\n",
         CDL_REDIS_SINGLE);
    assert_found("replication", CDL_CHECK_WARN, "of 3 replicas 2 are not in step", "one full bucket");
    checkup.count = 0;
    look("role:master\r\nconnected_slaves:0\r\nmin_slaves_good_slaves:0\r\n", CDL_REDIS_SINGLE);
    assert_found("replication", CDL_CHECK_FAIL, "there is no replica", "min-replicas-to-write to 0");
}

/* The server's clock read `ahead_ns` ahead of ours, over a round trip of `trip_ns`. */
static const struct cdl_check *clock_check(int64_t ahead_ns, int64_t trip_ns)
{
    checkup.count = 0;
    cdl_checkup_clock(&checkup, "p", (EPOCH + trip_ns / 2 + ahead_ns) / MICROSECOND, EPOCH, EPOCH + trip_ns);
    return find("clock", 0);
}

static void clocks_are_compared_over_half_the_round_trip(void **state)
{
    (void)state;
    assert_check(clock_check(0, 200 * MICROSECOND), CDL_CHECK_OK, "0 us ahead of this machine's, give or take 100 us",
                 NULL);
    assert_check(clock_check(-5 * MILLISECOND, 2 * MILLISECOND), CDL_CHECK_OK, "5000 us behind", NULL);
    assert_check(clock_check(999 * MILLISECOND, 0), CDL_CHECK_OK, "999 ms ahead", NULL);
    assert_check(clock_check(1001 * MILLISECOND, 0), CDL_CHECK_WARN, "1001 ms ahead", "NTP");
    assert_check(clock_check(-1001 * MILLISECOND, 0), CDL_CHECK_WARN, "1001 ms behind", "NTP");
    assert_check(clock_check(1500 * MILLISECOND, 1200 * MILLISECOND), CDL_CHECK_OK, "1500 ms ahead", NULL);
    assert_check(clock_check(40 * YEAR, 0), CDL_CHECK_WARN, "s ahead", "NTP");
}

static void clocks_that_cannot_be_compared(void **state)
{
    (void)state;
    cdl_checkup_clock(&checkup, "", 1, EPOCH, EPOCH - 1);
    cdl_checkup_clock(&checkup, "", -1, EPOCH, EPOCH);
    cdl_checkup_clock(&checkup, "", INT64_MAX, EPOCH, EPOCH);
    for (unsigned i = 0; i < 3; i++)
        assert_check(find("clock", i), CDL_CHECK_WARN, "clock was set", "again");
}

static void assert_cluster(const char *info, enum cdl_check_level level, const char *found)
{
    checkup.count = 0;
    cdl_checkup_cluster(&checkup, "", cdl_slice_of(info));
    assert_int_equal(checkup.count, 1);
    if (checkup.checks[0].level != level || strstr(checkup.checks[0].found, found) == NULL)
        fail_msg("%s", checkup.checks[0].found);
}

static void a_cluster_serves_all_slots_or_fails(void **state)
{
    (void)state;
    assert_cluster(
        "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\n"
        "cluster_slots_fail:0\r\ncluster_known_nodes:6\r\ncluster_size:3\r\n",
        CDL_CHECK_OK, "by 3 primaries");
    assert_cluster("cluster_state:fail\r\ncluster_slots_assigned:16384\r\ncluster_slots_fail:5461\r\n", CDL_CHECK_FAIL,
                   "state is 'fail'; 10923 of 16384");
    assert_cluster("cluster_state:ok\r\ncluster_slots_assigned:16000\r\n", CDL_CHECK_FAIL, "16000 of 16384");
    assert_cluster("cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_fail:4\r\n", CDL_CHECK_FAIL,
                   "16380 of 16384");
    assert_cluster("cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_pfail:7\r\n", CDL_CHECK_WARN,
                   "7 are of nodes that do not answer");
    assert_cluster("", CDL_CHECK_FAIL, "state is ''");
}

static void primaries_of_a_cluster_are_found(void **state)
{
    (void)state;
    const char *text = "07c3 10.0.0.4:30004@31004,hostname4 slave e7d1 0 1426238317239 4 connected\n"
                       "67ed 10.0.0.2:30002@31002 master - 0 1426238316232 2 connected 5461-10922\n"
                       "292f 10.0.0.3:30003@31003 master,fail? - 0 1426238318243 3 connected 10923-16383\n"
                       "6ec2 10.0.0.5:30005@31005 master,fail - 0 1426238316232 5 disconnected\n"
                       "824f :0@0 master,noaddr - 1 0 0 disconnected\n"
                       "e7d1 2001:db8::1:30001@31001,,tls-port=0 myself,master - 0 0 1 connected 0-5460\n"
                       "junk\n\n1 x master\n2 :1@2 master\n3 10.0.0.6:99999@1 master -";
    struct cdl_slice nodes = cdl_slice_of(text);
    struct cdl_redis_place place;
    assert_true(cdl_checkup_next_primary(&nodes, &place));
    assert_string_equal(place.host, "10.0.0.2");
    assert_int_equal(place.port, 30002);
    assert_true(cdl_checkup_next_primary(&nodes, &place));
    assert_string_equal(place.host, "10.0.0.3");
    assert_true(cdl_checkup_next_primary(&nodes, &place));
    assert_string_equal(place.host, "2001:db8::1");
    assert_int_equal(place.port, 30001);
    assert_false(cdl_checkup_next_primary(&nodes, &place));
    char line[400] = "id ";
    memset(line + 3, 'h', 256);
    strcpy(line + 259, ":1@2 master\n");
    nodes = cdl_slice_of(line);
    assert_false(cdl_checkup_next_primary(&nodes, &place));
}

static void sentinels_have_a_quorum_or_not(void **state)
{
    (void)state;
    cdl_checkup_quorum(&checkup, "s1",
                       CDL_SLICE("OK 3 usable Sentinels. Quorum and failover authorization can be reached"), false);
    assert_check(find("sentinel", 0), CDL_CHECK_OK, "3 usable Sentinels", NULL);
    cdl_checkup_quorum(&checkup, "s2", CDL_SLICE("NOQUORUM 1 usable Sentinels."), true);
    assert_check(find("sentinel", 1), CDL_CHECK_FAIL, "NOQUORUM", "more sentinels");
    cdl_checkup_quorum(&checkup, "s3", CDL_SLICE("ERR No such master with that name"), true);
    assert_check(find("sentinel", 2), CDL_CHECK_FAIL, "No such master", "path of the URL");
}

static void the_script_is_slow_beside_the_deadline(void **state)
{
    (void)state;
    int64_t times[] = {9 * MILLISECOND, 50 * MICROSECOND, 60 * MICROSECOND, 40 * MICROSECOND, 70 * MICROSECOND};
    cdl_checkup_script(&checkup, times, COUNT_OF(times), 15 * MILLISECOND);
    assert_found("script", CDL_CHECK_OK, "5 calls: 40 us at least, 60 us in the middle; servers wait 15 ms", NULL);
    checkup.count = 0;
    cdl_checkup_script(&checkup, times, COUNT_OF(times), 150 * MICROSECOND);
    assert_found("script", CDL_CHECK_WARN, "servers wait 150 us", "raise the deadline");
}

static void what_is_not_answered_says_why(void **state)
{
    (void)state;
    const struct cdl_slice none = {"", 0};
    cdl_checkup_unanswered(&checkup, "p", "server", CDL_STORE_CONNECT, none);
    assert_check(find("server", 0), CDL_CHECK_FAIL, "no connection", NULL);
    cdl_checkup_unanswered(&checkup, "p", "server", CDL_STORE_NOPERM, CDL_SLICE("NOPERM no\r\npermission"));
    assert_check(find("server", 1), CDL_CHECK_FAIL, "it answers: NOPERM no??permission", "EVALSHA");
    for (enum cdl_store_event event = CDL_STORE_NONE; event < CDL_STORE_EVENTS; event++)
        cdl_checkup_unanswered(&checkup, "", "server", event, none);
    assert_int_equal(checkup.count, 2 + CDL_STORE_EVENTS);
}

static void assert_transport(const char *url, enum cdl_check_level level, const char *found)
{
    struct cdl_redis_config config;
    assert_int_equal(cdl_redis_config_read(url, cdl_allocator_default(), &config, NULL), CAUDAL_OK);
    checkup.count = 0;
    cdl_checkup_transport(&checkup, &config);
    cdl_redis_config_free(&config);
    if (checkup.checks[0].level != level || strstr(checkup.checks[0].found, found) == NULL)
        fail_msg("%s: %s", url, checkup.checks[0].found);
}

static void who_could_listen(void **state)
{
    (void)state;
    assert_transport("redis://", CDL_CHECK_OK, "nothing leaves this machine");
    assert_transport("redis://[::1]", CDL_CHECK_OK, "nothing leaves this machine");
    assert_transport("unix:/run/x", CDL_CHECK_OK, "nothing leaves this machine");
    assert_transport("redis-cluster://localhost,127.0.0.2", CDL_CHECK_OK, "nothing leaves this machine");
    assert_transport("redis-cluster://localhost,10.0.0.1", CDL_CHECK_WARN, "can be read on the way");
    assert_transport("rediss://h", CDL_CHECK_OK, "is verified");
    assert_transport("rediss://h?tls_verify=no", CDL_CHECK_WARN, "is not verified");
}

static void there_is_room_for_so_many_checks(void **state)
{
    (void)state;
    char place[1000];
    memset(place, 'x', sizeof place - 1);
    place[sizeof place - 1] = '\0';
    place[3] = '\x1b';
    for (unsigned i = 0; i < CDL_CHECKS_MAX + 10; i++)
        cdl_checkup_cluster(&checkup, place, (struct cdl_slice){"", 0});
    assert_int_equal(checkup.count, CDL_CHECKS_MAX);
    assert_int_equal(strlen(checkup.checks[0].place), sizeof checkup.checks[0].place - 1);
    assert_int_equal(checkup.checks[0].place[3], '?');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(redis_5_alone, setup),
        cmocka_unit_test_setup(C42_redis_6_that_evicts, setup),
        cmocka_unit_test_setup(redis_7_that_is_a_replica, setup),
        cmocka_unit_test_setup(valkey_8_in_a_cluster, setup),
        cmocka_unit_test_setup(keydb_whose_replicas_write, setup),
        cmocka_unit_test_setup(servers_that_are_too_old_or_unknown, setup),
        cmocka_unit_test_setup(what_is_not_said_is_not_taken_for_good, setup),
        cmocka_unit_test_setup(a_url_of_the_wrong_kind, setup),
        cmocka_unit_test_setup(C42_policies_of_eviction, setup),
        cmocka_unit_test_setup(writes_that_fail_or_wait, setup),
        cmocka_unit_test_setup(replicas_that_are_late_or_missing, setup),
        cmocka_unit_test_setup(clocks_are_compared_over_half_the_round_trip, setup),
        cmocka_unit_test_setup(clocks_that_cannot_be_compared, setup),
        cmocka_unit_test_setup(a_cluster_serves_all_slots_or_fails, setup),
        cmocka_unit_test_setup(primaries_of_a_cluster_are_found, setup),
        cmocka_unit_test_setup(sentinels_have_a_quorum_or_not, setup),
        cmocka_unit_test_setup(the_script_is_slow_beside_the_deadline, setup),
        cmocka_unit_test_setup(what_is_not_answered_says_why, setup),
        cmocka_unit_test_setup(who_could_listen, setup),
        cmocka_unit_test_setup(there_is_room_for_so_many_checks, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
