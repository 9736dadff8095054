/* Who Redis clients are. Without users in the policy nobody has to say, and may do all; but keys are not reset through a listener that
 * other machines reach. With users every command but those that say who one is waits for a password.
 *
 * Passwords are read when a policy comes into force, and only their digests are kept: neither the memory of the process nor the time that a
 * comparison takes tells anything of them. */
#include <errno.h>
#include <stdlib.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/problem.h"
#include "base/secret_file.h"
#include "server/resp.h"

#define PASSWORD_MAX 4096u

struct cdl_resp_passwords {
    unsigned char digests[CDL_RESP_USERS_MAX][SHA256_DIGEST_LENGTH]; /* in the order of the policy's users */
};

/* ---- passwords ---- */

static int read_password(const struct cdl_resp_user *user, unsigned char digest[SHA256_DIGEST_LENGTH],
                         struct caudal_problem *problem)
{
    char password[PASSWORD_MAX + 1];
    const ssize_t length = cdl_secret_file_read(user->password_file.bytes, password, sizeof password);
    int status = CAUDAL_OK;
    if (length < 0)
        status = cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%s, the password of user %s: %s",
                             user->password_file.bytes, user->name.bytes, strerrordesc_np(errno));
    else if (length == 0 || length > (ssize_t)PASSWORD_MAX)
        status = cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0,
                             "%s does not hold a password of 1 to %u bytes for user %s", user->password_file.bytes,
                             PASSWORD_MAX, user->name.bytes);
    else
        SHA256((const unsigned char *)password, (size_t)length, digest);
    OPENSSL_cleanse(password, sizeof password);
    return status;
}

struct cdl_resp_passwords *cdl_resp_passwords_read(const struct cdl_policy *policy, struct caudal_problem *problem)
{
    struct cdl_resp_passwords *passwords = calloc(1, sizeof *passwords);
    if (passwords == NULL) {
        cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for passwords");
        return NULL;
    }
    for (uint32_t i = 0; i < policy->resp.user_count; i++)
        if (read_password(&policy->resp.users[i], passwords->digests[i], problem) != CAUDAL_OK) {
            cdl_resp_passwords_free(passwords);
            return NULL;
        }
    return passwords;
}

void cdl_resp_passwords_free(struct cdl_resp_passwords *passwords)
{
    free(passwords);
}

/* ---- users ---- */

static uint32_t find_user(const struct cdl_policy *policy, struct cdl_slice name)
{
    for (uint32_t i = 0; i < policy->resp.user_count; i++)
        if (cdl_slice_equal(policy->resp.users[i].name, name))
            return i;
    return CDL_NONE;
}

static void be_user(struct cdl_resp_session *session, const struct cdl_policy *policy, uint32_t user)
{
    session->known = user != CDL_NONE;
    session->rights = user == CDL_NONE ? 0 : policy->resp.users[user].rights;
    session->user_length = 0;
    if (user == CDL_NONE)
        return;
    const struct cdl_slice name = policy->resp.users[user].name;
    session->user_length = (uint8_t)cdl_min_u64(name.length, sizeof session->user);
    memcpy(session->user, name.bytes, session->user_length);
}

void cdl_resp_user_revise(struct cdl_resp_session *session, const struct cdl_live_policy *live)
{
    const struct cdl_policy *policy = live->policy;
    if (session->protocol == 0)
        session->protocol = 2;
    session->generation = live->generation;
    be_user(session, policy, find_user(policy, (struct cdl_slice){session->user, session->user_length}));
    if (policy->resp.user_count > 0)
        return;
    session->known = true;
    session->rights = CDL_RESP_ALL;
}

/* Whether that is the password of a user of that index; CDL_NONE: of nobody, which takes as long to find out. */
static bool is_password(const struct cdl_live_policy *live, uint32_t user, struct cdl_slice password)
{
    static const unsigned char nobody[SHA256_DIGEST_LENGTH];
    const struct cdl_resp_passwords *passwords = cdl_slots_of(live)->passwords;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)password.bytes, password.length, digest);
    const bool same = CRYPTO_memcmp(digest, user == CDL_NONE ? nobody : passwords->digests[user], sizeof digest) == 0;
    return same && user != CDL_NONE;
}

bool cdl_resp_login(struct cdl_resp_call *call, struct cdl_slice user, struct cdl_slice password)
{
    const struct cdl_live_policy *live = call->worker->live;
    const uint32_t index = find_user(live->policy, user);
    if (live->policy->resp.user_count == 0) {
        /* Clients know it by Redis's words. */
        cdl_resp_error(call, "ERR AUTH <password> called without any password configured for the default user. "
                             "Are you sure your configuration is correct?");
        return false;
    }
    if (!is_password(live, index, password)) {
        cdl_resp_error(call, "WRONGPASS invalid username-password pair or user is disabled.");
        return false;
    }
    be_user(call->session, live->policy, index);
    return true;
}

void cdl_resp_auth(struct cdl_resp_call *call)
{
    const struct cdl_slice user = call->count == 3 ? call->arguments[1] : CDL_SLICE("default");
    if (call->count > 3)
        cdl_resp_error_arity(call);
    else if (cdl_resp_login(call, user, call->arguments[call->count - 1]))
        cdl_resp_write_simple(call->output, CDL_SLICE("OK"));
}
