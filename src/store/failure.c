/* Names, words and codes of what can come of asking a store. The code of an error is its name in capitals, so that both stand in
 * one list. */
#include "store/failure.h"

static const struct {
    const char *name, *text;
} events[CDL_STORE_EVENTS] = {
    [CDL_STORE_NONE] = {"none", "nothing happened"},
    [CDL_STORE_RESOLVE] = {"resolve", "the store's host name was not found"},
    [CDL_STORE_CONNECT] = {"connect", "no connection to the store could be made"},
    [CDL_STORE_TLS] = {"tls", "the TLS handshake with the store failed"},
    [CDL_STORE_LOST] = {"lost", "the connection to the store broke"},
    [CDL_STORE_PROTOCOL] = {"protocol", "the store sent bytes that are no reply"},
    [CDL_STORE_TIMEOUT] = {"timeout", "no answer before the deadline"},
    [CDL_STORE_BREAKER] = {"breaker", "not asked, because the store is known to be away"},
    [CDL_STORE_OVERLOAD] = {"overload", "not asked, because too many calls are waiting already"},
    [CDL_STORE_CLOSED] = {"closed", "the store was closed before it answered"},
    [CDL_STORE_NO_PRIMARY] = {"no_primary", "no primary was found"},
    [CDL_STORE_NOSCRIPT] = {"noscript", "the store has forgotten the script"},
    [CDL_STORE_MOVED] = {"moved", "another node of the cluster has the key"},
    [CDL_STORE_ASK] = {"ask", "the key is on its way to another node of the cluster"},
    [CDL_STORE_TRYAGAIN] = {"tryagain", "the keys are on their way to another node of the cluster"},
    [CDL_STORE_CLUSTERDOWN] = {"clusterdown", "the cluster is down"},
    [CDL_STORE_LOADING] = {"loading", "the store is still loading its data"},
    [CDL_STORE_READONLY] = {"readonly", "the store is a replica, which cannot be written to"},
    [CDL_STORE_MASTERDOWN] = {"masterdown", "the store is a replica that has lost its primary"},
    [CDL_STORE_BUSY] = {"busy", "the store is busy running a script"},
    [CDL_STORE_OOM] = {"oom", "the store has no memory left"},
    [CDL_STORE_NOAUTH] = {"noauth", "the store wants a password"},
    [CDL_STORE_WRONGPASS] = {"wrongpass", "the store does not accept user and password"},
    [CDL_STORE_NOPERM] = {"noperm", "the store does not permit its user what we need"},
    [CDL_STORE_NOREPLICAS] = {"noreplicas", "the store has too few replicas to be written to"},
    [CDL_STORE_CROSSSLOT] = {"crossslot", "keys of one call belong to different nodes of the cluster"},
    [CDL_STORE_ERROR] = {"error",
                         "the store answered with an error: has it that database, and is it what its URL says?"},
    [CDL_STORE_ANSWER] = {"answer", "the store's answer is not understood"},
    [CDL_STORE_REPLICAS] = {"replicas", "too few replicas have confirmed the write"},
    [CDL_STORE_HEALED] = {"healed", "a key held something foreign, or had no expiry"},
    [CDL_STORE_GIVE_BACK] = {"give_back", "what a refused request had taken could not be given back"},
    [CDL_STORE_CONNECTED] = {"connected", "a connection to the store was made"},
};

const char *cdl_store_event_name(enum cdl_store_event event)
{
    return events[(unsigned)event < CDL_STORE_EVENTS ? event : CDL_STORE_NONE].name;
}

const char *cdl_store_event_text(enum cdl_store_event event)
{
    return events[(unsigned)event < CDL_STORE_EVENTS ? event : CDL_STORE_NONE].text;
}

static struct cdl_slice first_word(struct cdl_slice text)
{
    const char *blank = text.length > 0 ? memchr(text.bytes, ' ', text.length) : NULL;
    return blank != NULL ? cdl_slice_head(text, (size_t)(blank - text.bytes)) : text;
}

/* Whether `word` is the event's name in capitals. */
static bool is_code(struct cdl_slice word, enum cdl_store_event event)
{
    for (size_t i = 0; i < word.length; i++)
        if (word.bytes[i] < 'A' || word.bytes[i] > 'Z')
            return false;
    return cdl_slice_equal_nocase(word, cdl_slice_of(events[event].name));
}

static enum cdl_store_event event_of_code(struct cdl_slice word)
{
    for (enum cdl_store_event event = CDL_STORE_NOSCRIPT; event <= CDL_STORE_CROSSSLOT; event++)
        if (is_code(word, event))
            return event;
    return CDL_STORE_ERROR;
}

static bool begins_with(struct cdl_slice text, struct cdl_slice start)
{
    return text.length >= start.length && memcmp(text.bytes, start.bytes, start.length) == 0;
}

static struct cdl_slice behind(struct cdl_slice text, struct cdl_slice mark)
{
    const char *found = text.length > 0 ? memmem(text.bytes, text.length, mark.bytes, mark.length) : NULL;
    if (found == NULL)
        return (struct cdl_slice){NULL, 0};
    return cdl_slice_from(text, (size_t)(found - text.bytes) + mark.length);
}

/* Until Redis 6 an error within a script comes wrapped, from 7 on with its own code in front:
 *
 *     ERR Error running script (call to f_<sha>): @user_script:1: @user_script: 1: -OOM command not allowed when…
 *     OOM command not allowed when used memory > 'maxmemory'. script: <sha>, on @user_script:1.
 */
static enum cdl_store_event event_in_script(struct cdl_slice error)
{
    return event_of_code(first_word(behind(behind(error, CDL_SLICE("@user_script:")), CDL_SLICE(": -"))));
}

enum cdl_store_event cdl_store_event_of_error(struct cdl_slice error)
{
    if (begins_with(error, CDL_SLICE("ERR Error running script")))
        return event_in_script(error);
    /* What the user may not do within a script is said without a code: in Redis 7.0, and later. */
    if (begins_with(error, CDL_SLICE("ERR The user executing the script can't")) ||
        begins_with(error, CDL_SLICE("ERR ACL failure in script")))
        return CDL_STORE_NOPERM;
    /* How WRONGPASS was said until Redis 5. */
    if (begins_with(error, CDL_SLICE("ERR invalid password")))
        return CDL_STORE_WRONGPASS;
    return event_of_code(first_word(error));
}
