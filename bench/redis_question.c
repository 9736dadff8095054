/* Writes what bench/redis.py sends: redis_question LIMIT FOLDER writes the script that decides about the limit into script.lua and the
 * argument that asks for one token into question. */
#include <stdio.h>
#include <string.h>

#include "store/redis/question.h"

static int write_file(const char *folder, const char *name, struct cdl_slice bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes.bytes, 1, bytes.length, file) != bytes.length || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    struct caudal_problem problem = {.message = "usage: redis_question LIMIT FOLDER"};
    struct cdl_redis_limit made;
    if (argc != 3 || caudal_limit_parse(argv[1], &limit, &problem) != CAUDAL_OK ||
        cdl_redis_limit_make(&limit, &made, &problem) != CAUDAL_OK) {
        fprintf(stderr, "%s\n", problem.message);
        return 2;
    }
    char packed[CDL_REDIS_QUESTION_MAX];
    const struct cdl_question question = cdl_question_take(1);
    const struct cdl_slice bytes = {packed, cdl_redis_question_pack(&made, &question, packed)};
    return write_file(argv[2], "script.lua", cdl_redis_scripts()[cdl_redis_script_of(&made)].text) |
           write_file(argv[2], "question", bytes);
}
