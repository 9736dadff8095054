/* `caudal serve`: workers that answer requests, an admin listener, one policy in force, and a life from start to drain.
 *
 * Threads: each worker owns a loop, its connections, and a hold on the policy in force, which it renews when it is woken. The
 * main thread owns the admin listener, signals, reloading and the watch over the policy's file. They share the store (any
 * thread may ask it), the limiter (which counts who uses a policy), the counters (each worker has its own block) and the log. */
#ifndef CDL_SERVER_SERVER_H
#define CDL_SERVER_SERVER_H

#include "base/endpoint.h"
#include "caudal/status.h"
#include "policy/report.h"

/* What the command line says; empty and zero leave it to the policy. */
struct cdl_server_options {
    const char *policy_file;
    const char *store_url;
    const char *http, *admin, *resp, *grpc; /* endpoints, or "none" */
    uint32_t workers;
};

/* Runs until it is told to stop. Says on `stdout` where it listens and what to try, and everything else to the log. Returns the
 * exit code: 0 after a drain, 1 when it could not start. */
int cdl_server_run(const struct cdl_server_options *options);

#endif
