/* Asks by hiredis what test_resp_clients.py wants to know: hiredis PORT. Prints a line of JSON. (hiredis 0.14 knows RESP2 only.) */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

static redisContext *context;

static redisReply *expect(redisReply *reply)
{
    if (reply != NULL)
        return reply;
    fprintf(stderr, "hiredis: %s\n", context->errstr);
    exit(1);
}

static void print(const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        printf("%lld", reply->integer);
        break;
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < reply->elements; i++) {
            printf("%s", i == 0 ? "[" : ", ");
            print(reply->element[i]);
        }
        printf("]");
        break;
    case REDIS_REPLY_NIL:
        printf("null");
        break;
    default:
        printf("\"%s\"", reply->str);
        break;
    }
}

static void show(const char *name, redisReply *reply)
{
    printf("\"%s\": ", name);
    print(expect(reply));
    printf(", ");
    freeReplyObject(reply);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    context = redisConnect("127.0.0.1", atoi(argv[1]));
    if (context == NULL || context->err != 0)
        return 1;
    printf("{\"protocol\": 2, ");
    show("fresh", redisCommand(context, "CL.THROTTLE %s 4 1 10", "hiredis"));
    show("taken", redisCommand(context, "CAUDAL.TAKE per-key %b COST %d", "hiredis", (size_t)7, 2));
    show("unknown", redisCommand(context, "NOTHING"));
    show("wrong", redisCommand(context, "CL.THROTTLE hiredis 4 0 10"));
    for (int i = 0; i < 100; i++)
        redisAppendCommand(context, "CL.THROTTLE %s 99 1 86400", "hiredis many");
    printf("\"left\": [");
    for (int i = 0; i < 100; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(context, (void **)&reply) != REDIS_OK || reply->type != REDIS_REPLY_ARRAY ||
            reply->elements != 5)
            expect(NULL);
        printf("%s%lld", i == 0 ? "" : ", ", reply->element[2]->integer);
        freeReplyObject(reply);
    }
    printf("], ");
    show("ping", redisCommand(context, "PING"));
    printf("\"end\": 0}\n");
    redisFree(context);
    return 0;
}
