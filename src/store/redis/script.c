#include "store/redis/script.h"

#include <openssl/sha.h>
#include <pthread.h>

#include "base/writer.h"
#include <lua_text.h>

#define TEXT_BYTES 20480
#define SHA_DIGITS ((size_t)2 * SHA_DIGEST_LENGTH)

static char texts[CDL_SCRIPT_KINDS][TEXT_BYTES];
static char digits[CDL_SCRIPT_KINDS][SHA_DIGITS + 1];
static struct cdl_redis_script scripts[CDL_SCRIPT_KINDS];
static bool made;

/* What stands between head and tail. */
static const char *const parts[CDL_SCRIPT_KINDS][7] = {
    [CDL_SCRIPT_BUCKET] = {lua_quick, lua_common, lua_muldiv, lua_bucket, "\nlocal decide = bucket\n"},
    [CDL_SCRIPT_WINDOW] = {lua_common, lua_muldiv, lua_window, "\nlocal decide = window\n"},
    [CDL_SCRIPT_LOG] = {lua_common, lua_log, "\nlocal decide = log\n"},
    [CDL_SCRIPT_MIXED] = {lua_common, lua_muldiv, lua_bucket, lua_window, lua_log, lua_mixed},
};

static bool make_script(enum cdl_redis_script_kind kind)
{
    struct cdl_writer text = cdl_writer_on(texts[kind], TEXT_BYTES);
    cdl_write_text(&text, lua_head);
    for (size_t i = 0; parts[kind][i] != NULL; i++)
        cdl_write_text(&text, parts[kind][i]);
    cdl_write_text(&text, lua_tail);
    unsigned char sha[SHA_DIGEST_LENGTH];
    if (text.overflow || SHA1((const unsigned char *)text.bytes, text.length, sha) == NULL)
        return false;
    struct cdl_writer sha_text = cdl_writer_on(digits[kind], sizeof digits[kind]);
    for (size_t i = 0; i < sizeof sha; i++)
        cdl_writef(&sha_text, "%02x", sha[i]);
    scripts[kind] = (struct cdl_redis_script){cdl_written(&text), {digits[kind], SHA_DIGITS}};
    return true;
}

static void make_scripts(void)
{
    made = true;
    for (int kind = 0; kind < CDL_SCRIPT_KINDS; kind++)
        made = made && make_script((enum cdl_redis_script_kind)kind);
}

const struct cdl_redis_script *cdl_redis_scripts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_scripts);
    return made ? scripts : NULL;
}
