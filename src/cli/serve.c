/* caudal serve: answer requests. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/policy_file.h"
#include "server/server.h"

enum {
    OPTION_STORE,
    OPTION_HTTP,
    OPTION_ADMIN,
    OPTION_RESP,
    OPTION_GRPC,
    OPTION_WORKERS,
    OPTION_CHECK_CONFIG,
};

static const struct cdl_option options[] = {
    [OPTION_STORE] = {"store", "URL", "where state lives, memory:?keys=N; default: the policy's, or a million keys"},
    [OPTION_HTTP] = {"http", "ADDR", "where to answer; default: the policy's, or 127.0.0.1:8080"},
    [OPTION_ADMIN] = {"admin", "ADDR", "where to administrate; default: the policy's, or 127.0.0.1:9080"},
    [OPTION_RESP] = {"resp", "ADDR", "where to answer Redis clients; default: the policy's, or 127.0.0.1:6380"},
    [OPTION_GRPC] = {"grpc", "ADDR", "where to answer Envoy; default: the policy's, or 127.0.0.1:8081"},
    [OPTION_WORKERS] = {"workers", "N", "threads that answer; default: the policy's, or one for each processor"},
    [OPTION_CHECK_CONFIG] = {"check-config", NULL, "read the policy, say whether it is good, and do not serve"},
};

static bool read_workers(const char *text, uint32_t *workers)
{
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || number < 1 || number > 256)
        return false;
    *workers = (uint32_t)number;
    return true;
}

static int run(struct cdl_arguments *arguments)
{
    struct cdl_server_options server = {0};
    bool check_only = false;
    const char *value;
    int kind;
    while ((kind = cdl_argument_next(arguments, &value)) != CDL_ARGUMENT_END) {
        switch (kind) {
        case CDL_ARGUMENT_BAD:
            return CDL_EXIT_USAGE;
        case CDL_ARGUMENT_OPERAND:
            if (server.policy_file != NULL)
                return cdl_usage_error(arguments->command, "one policy, not '%s' as well", value);
            server.policy_file = value;
            break;
        case OPTION_STORE:
            server.store_url = value;
            break;
        case OPTION_HTTP:
            server.http = value;
            break;
        case OPTION_ADMIN:
            server.admin = value;
            break;
        case OPTION_RESP:
            server.resp = value;
            break;
        case OPTION_GRPC:
            server.grpc = value;
            break;
        case OPTION_WORKERS:
            if (!read_workers(value, &server.workers))
                return cdl_usage_error(arguments->command, "--workers wants a number from 1 to 256, not '%s'", value);
            break;
        default:
            check_only = true;
            break;
        }
    }
    if (server.policy_file == NULL)
        return cdl_usage_error(arguments->command, "which policy? None was given");
    if (!check_only)
        return cdl_server_run(&server);
    static struct cdl_report report; /* large */
    struct cdl_policy *policy = cdl_cli_load_policy(server.policy_file, true, &report);
    if (policy == NULL)
        return CDL_EXIT_NO;
    printf("%s: ok, %u limits\n", server.policy_file, cdl_policy_named_limits(policy));
    cdl_policy_free(policy);
    return CDL_EXIT_YES;
}

const struct cdl_command cdl_command_serve = {
    .name = "serve",
    .operands = "POLICY",
    .summary = "answer requests by a policy",
    .details = "Answers nginx, Caddy, Traefik and applications: forward-auth on /check, JSON on\n"
               "/v1/take, /v1/peek and /v1/refund. On its own listener: /metrics, /healthz,\n"
               "/readyz, /v1/limits, /v1/keys/LIMIT/KEY, /v1/top, /v1/reload. Redis clients send\n"
               "CL.THROTTLE and CAUDAL.TAKE to resp; Envoy's rate limit filter asks grpc.\n"
               "ADDR is host:port, [v6]:port, :port (this machine only), unix:/path or none.\n"
               "SIGHUP, and any change of the file, loads the policy anew; a broken one is\n"
               "logged, and the old one stays. SIGTERM drains and ends; a second one ends at once.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
