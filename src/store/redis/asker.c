/* From a call to the script calls that answer it, and back.
 *
 * A call becomes an errand: its subjects (a key and what is asked about it) and its trips (script calls, each about subjects that lie
 * in one slot). Questions that stand for themselves travel at once. Questions that are decided together need one trip, unless they
 * lie in several slots of a cluster; then, in order of the slots, one trip after the other:
 *
 *   every trip passes     charged; done
 *   trip k refuses        what trips 0 … k-1 have charged is undone, and trips k+1 … are only looked at; refused
 *   trip k fails          what trips 0 … k-1 have charged is undone; failed
 *
 * An undoing is nobody's to wait for: the call is answered, and the errand lives until it is done. One that fails is counted, and what
 * it should have given back stays spent: never more than the limits allow is admitted, and a key gets back by itself what it lost.
 *
 * Everything is written down when the call comes in: the limit as it is then, the key's name. Memory is one block an errand, and small
 * ones are used again. */
#include <endian.h>
#include <openssl/core_names.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm/per_call.h"
#include "base/writer.h"
#include "store/redis/redis_store.h"

#define NOBODY UINT8_MAX
#define SMALL 4u /* subjects of the errands that are kept for use again */
#define KEPT_MAX 1024u

/* A key, and what is asked about it. */
struct subject {
    struct cdl_redis_limit limit;
    struct cdl_question question;
    char key[CDL_REDIS_KEY_MAX];
    size_t key_length;
    uint16_t slot;
    bool answered;
    char packed[CDL_REDIS_QUESTION_MAX];
    size_t packed_length;
    double answer[CDL_REDIS_ANSWER_NUMBERS];
    int64_t now_us; /* of the answer */
};

enum purpose {
    TO_DECIDE,
    TO_LOOK, /* what is held by those that are not asked any more */
    TO_UNDO,
};

/* A script call about the subjects `first` … `first + count - 1`. */
struct trip {
    struct cdl_redis_call call; /* the first member */
    struct errand *errand;
    size_t first, count;
    enum purpose purpose;
    struct cdl_slice *words;
    char count_text[4];
};

struct errand {
    struct errand *next; /* among those that are kept */
    struct asker *asker;
    struct cdl_call *call; /* NULL: it is answered */
    struct subject *subjects;
    struct trip *trips;
    struct cdl_slice *words;
    size_t room; /* subjects that there is memory for */
    size_t subject_count, trip_count;
    size_t at;              /* of trips one after the other: which one travels */
    size_t waiting, behind; /* trips that travel: that the call waits for, and that undo */
    bool refused;
    enum cdl_store_event failure;
    int64_t deadline_ns; /* of the call, however many trips it takes */
    char now_text[24];
    uint8_t subject_of[CAUDAL_TAKE_ALL_MAX]; /* of each request; NOBODY: its limit is unlimited, or unknown */
};

struct asker {
    struct cdl_store_client head; /* the first member */
    struct cdl_redis_store *store;
    struct cdl_redis_client *client;
    EVP_MAC_CTX *hmac;
    struct errand *kept;
    size_t kept_count;
    struct cdl_call *ended; /* answered without asking anybody, and not yet told; linked by `work` */
    bool closing;
};

/* ---- errands ---- */

static size_t errand_bytes(size_t room)
{
    /* Words: a trip has three and two for each of its subjects, and there are at most as many trips as subjects. */
    return sizeof(struct errand) + room * (sizeof(struct subject) + sizeof(struct trip) + 5 * sizeof(struct cdl_slice));
}

static struct errand *new_errand(struct asker *asker, struct cdl_call *call)
{
    const struct caudal_allocator *allocator = asker->store->shared.allocator;
    const size_t room = call->count <= SMALL ? SMALL : call->count;
    struct errand *errand = room == SMALL ? asker->kept : NULL;
    if (errand != NULL) {
        asker->kept = errand->next;
        asker->kept_count--;
    } else {
        errand = cdl_allocate(allocator, 1, errand_bytes(room), _Alignof(max_align_t));
        if (errand == NULL)
            return NULL;
    }
    *errand = (struct errand){.asker = asker, .call = call, .room = room};
    errand->subjects = (struct subject *)(errand + 1);
    errand->trips = (struct trip *)(errand->subjects + room);
    errand->words = (struct cdl_slice *)(errand->trips + room);
    return errand;
}

static void free_errand(struct errand *errand)
{
    struct asker *asker = errand->asker;
    if (errand->room == SMALL && asker->kept_count < KEPT_MAX) {
        errand->next = asker->kept;
        asker->kept = errand;
        asker->kept_count++;
        return;
    }
    cdl_release(asker->store->shared.allocator, errand, 1, errand_bytes(errand->room));
}

/* ---- answers ---- */

static void no_verdict(struct caudal_decision *decision, int status)
{
    *decision = (struct caudal_decision){.status = status};
}

/* Tells the caller. The errand may go on for what has to be undone. */
static void finish(struct errand *errand)
{
    struct cdl_call *call = errand->call;
    errand->call = NULL;
    if (errand->behind == 0)
        free_errand(errand);
    call->done(call);
}

static void fail_call(struct errand *errand, int status)
{
    struct cdl_call *call = errand->call;
    call->status = status;
    call->failure = errand->failure;
    for (size_t i = 0; i < call->count; i++)
        no_verdict(&call->decisions[i], status);
    finish(errand);
}

static void decide_unlimited(const struct cdl_question *question, struct caudal_decision *decision)
{
    const bool takes = question->operation == CDL_TAKE;
    *decision = (struct caudal_decision){.verdict = CAUDAL_ALLOW,
                                         .capacity = UINT64_MAX,
                                         .granted = takes ? question->maximum : 0,
                                         .remaining = UINT64_MAX};
}

/* What is known of a key that was not asked because another slot had refused, and could not be looked at either. */
static void describe_unknown(const struct subject *subject, struct caudal_decision *decision)
{
    const uint64_t capacity = caudal_limit_capacity(&subject->limit.limit);
    *decision = (struct caudal_decision){.verdict = CAUDAL_ALLOW, .capacity = capacity, .error_bound = capacity};
}

static bool describe(const struct errand *errand, size_t request, bool spend, struct caudal_decision *decision)
{
    const struct cdl_call *call = errand->call;
    if (errand->subject_of[request] == NOBODY) {
        if (!spend)
            decision->granted = 0; /* the rest was answered when it came in */
        return true;
    }
    const struct subject *subject = &errand->subjects[errand->subject_of[request]];
    if (subject->question.operation == CDL_RESET) {
        *decision = (struct caudal_decision){.verdict = CAUDAL_ALLOW};
        return true;
    }
    if (!subject->answered) {
        describe_unknown(subject, decision);
        return true;
    }
    if (!cdl_redis_question_answer(&subject->limit, &subject->question, subject->answer, subject->now_us, spend,
                                   decision))
        return false;
    if (decision->granted > call->questions[request].maximum)
        decision->granted = call->questions[request].maximum; /* the same key was named twice */
    return true;
}

static void answer_together(struct errand *errand)
{
    struct cdl_call *call = errand->call;
    bool good = true;
    for (size_t i = 0; i < call->count && good; i++)
        good = describe(errand, i, !errand->refused, &call->decisions[i]);
    if (good) {
        finish(errand);
        return;
    }
    errand->failure = CDL_STORE_ANSWER;
    cdl_store_event_count(&errand->asker->store->events, CDL_STORE_ANSWER);
    fail_call(errand, CAUDAL_ERR_STORE);
}

static void note_status(struct cdl_call *call, int status, enum cdl_store_event failure)
{
    if (call->status == CAUDAL_OK) {
        call->status = status;
        call->failure = failure;
    }
}

/* One of those that stand for themselves: subject, trip and request have one number but for requests that nobody was asked about. */
static void answer_alone(struct errand *errand, size_t subject, enum cdl_store_event failure)
{
    struct cdl_call *call = errand->call;
    for (size_t i = 0; i < call->count; i++) {
        if (errand->subject_of[i] != subject)
            continue;
        if (failure == CDL_STORE_NONE && !describe(errand, i, true, &call->decisions[i])) {
            failure = CDL_STORE_ANSWER;
            cdl_store_event_count(&errand->asker->store->events, failure);
        }
        if (failure != CDL_STORE_NONE) {
            no_verdict(&call->decisions[i], CAUDAL_ERR_STORE);
            note_status(call, CAUDAL_ERR_STORE, failure);
        }
    }
}

/* ---- trips ---- */

static double read_double(const char *bytes)
{
    uint64_t bits;
    double number;
    memcpy(&bits, bytes, sizeof bits);
    bits = le64toh(bits);
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Reads the numbers of a reply into the subjects. False: it is of another shape. */
static bool read_reply(const struct trip *trip, const struct cdl_resp *reply)
{
    struct errand *errand = trip->errand;
    const bool resets = errand->subjects[trip->first].question.operation == CDL_RESET;
    const size_t numbers = 2 + (resets ? 0 : CDL_REDIS_ANSWER_NUMBERS * trip->count);
    if (reply->kind != CDL_RESP_STRING || reply->text.length != numbers * sizeof(double))
        return false;
    const char *at = reply->text.bytes;
    const double healed = read_double(at), now = read_double(at + sizeof(double));
    /* A key can be old, and without expiry. */
    if (!(now >= 0 && now < 9007199254740992.0) || !(healed >= 0 && healed <= 2.0 * (double)trip->count))
        return false;
    at += 2 * sizeof(double);
    if (healed > 0)
        atomic_fetch_add_explicit(&errand->asker->store->events.counts[CDL_STORE_HEALED], (uint64_t)healed,
                                  memory_order_relaxed);
    if (trip->purpose == TO_UNDO)
        return true; /* what is told of these keys is what they held before */
    for (size_t i = 0; i < trip->count; i++) {
        struct subject *subject = &errand->subjects[trip->first + i];
        subject->answered = true;
        subject->now_us = (int64_t)now;
        for (size_t k = 0; k < CDL_REDIS_ANSWER_NUMBERS && !resets; k++, at += sizeof(double))
            subject->answer[k] = read_double(at);
    }
    return true;
}

static void trip_done(struct cdl_redis_call *call, const struct cdl_resp *reply, enum cdl_store_event event);

static char operation_of(const struct trip *trip)
{
    if (trip->purpose == TO_LOOK)
        return 'p';
    if (trip->purpose == TO_UNDO)
        return 'u';
    switch (trip->errand->subjects[trip->first].question.operation) {
    case CDL_PEEK:
    case CDL_SETTLE:
        return 'p';
    case CDL_REFUND:
        return 'r';
    case CDL_UNDO:
        return 'u';
    case CDL_RESET:
        return 'x';
    case CDL_TAKE:
        break;
    }
    return 't';
}

static enum cdl_redis_script_kind script_of(const struct trip *trip)
{
    const struct subject *subjects = &trip->errand->subjects[trip->first];
    const enum cdl_redis_script_kind kind = cdl_redis_script_of(&subjects[0].limit);
    for (size_t i = 1; i < trip->count; i++)
        if (cdl_redis_script_of(&subjects[i].limit) != kind)
            return CDL_SCRIPT_MIXED;
    return kind;
}

static int64_t deadline_from_now(const struct asker *asker)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context) + asker->store->config.deadline_ns;
}

static void depart(struct trip *trip, enum purpose purpose)
{
    static const char operations[] = "tpurx";
    struct errand *errand = trip->errand;
    struct asker *asker = errand->asker;
    trip->purpose = purpose;
    snprintf(trip->count_text, sizeof trip->count_text, "%zu", trip->count);
    struct cdl_slice *words = trip->words;
    *words++ = cdl_slice_of(trip->count_text);
    for (size_t i = 0; i < trip->count; i++) {
        struct subject *subject = &errand->subjects[trip->first + i];
        *words++ = (struct cdl_slice){subject->key, subject->key_length};
    }
    *words++ = (struct cdl_slice){strchr(operations, operation_of(trip)), 1};
    *words++ = cdl_slice_of(errand->now_text);
    for (size_t i = 0; i < trip->count; i++) {
        struct subject *subject = &errand->subjects[trip->first + i];
        struct cdl_question question = subject->question;
        if (purpose == TO_UNDO)
            question = (struct cdl_question){
                .operation = CDL_UNDO, .maximum = question.maximum, .charged_realtime_ns = subject->now_us * 1000};
        subject->packed_length = cdl_redis_question_pack(&subject->limit, &question, subject->packed);
        *words++ = (struct cdl_slice){subject->packed, subject->packed_length};
    }
    trip->call = (struct cdl_redis_call){
        .key = trip->words[1],
        .script = &cdl_redis_scripts()[script_of(trip)],
        .words = trip->words,
        .word_count = (size_t)(words - trip->words),
        .deadline_ns = purpose == TO_UNDO ? deadline_from_now(asker) : errand->deadline_ns,
        .done = trip_done,
    };
    if (purpose == TO_UNDO)
        errand->behind++;
    else
        errand->waiting++;
    cdl_redis_client_call(asker->client, &trip->call);
}

/* Gives back what the trips before the present one have charged. */
static void undo(struct errand *errand)
{
    for (size_t i = 0; i < errand->at; i++) {
        if (errand->asker->closing)
            cdl_store_event_count(&errand->asker->store->events, CDL_STORE_GIVE_BACK);
        else
            depart(&errand->trips[i], TO_UNDO);
    }
}

static bool passes(const struct trip *trip)
{
    bool passes = true;
    for (size_t i = 0; i < trip->count; i++)
        passes &= cdl_redis_answer_passes(trip->errand->subjects[trip->first + i].answer);
    return passes;
}

/* A trip of a call whose keys are decided together has come back. */
static void go_on_together(struct errand *errand, const struct trip *trip, enum cdl_store_event failure)
{
    const bool takes = errand->subjects[0].question.operation == CDL_TAKE;
    if (trip->purpose == TO_DECIDE && failure != CDL_STORE_NONE) {
        if (errand->failure == CDL_STORE_NONE)
            errand->failure = failure;
        if (takes)
            undo(errand);
    } else if (trip->purpose == TO_DECIDE) {
        errand->refused |= !passes(trip);
        if (takes && errand->refused) {
            undo(errand);
            for (size_t i = errand->at + 1; i < errand->trip_count; i++)
                depart(&errand->trips[i], TO_LOOK);
        } else if (takes && ++errand->at < errand->trip_count) {
            depart(&errand->trips[errand->at], TO_DECIDE);
        }
    }
    if (errand->waiting > 0)
        return;
    if (errand->failure != CDL_STORE_NONE)
        fail_call(errand, CAUDAL_ERR_STORE);
    else
        answer_together(errand);
}

static void trip_done(struct cdl_redis_call *redis_call, const struct cdl_resp *reply, enum cdl_store_event event)
{
    struct trip *trip = (struct trip *)redis_call;
    struct errand *errand = trip->errand;
    if (event == CDL_STORE_NONE && (reply == NULL || !read_reply(trip, reply))) {
        event = CDL_STORE_ANSWER;
        cdl_store_event_count(&errand->asker->store->events, event);
    }
    if (trip->purpose == TO_UNDO) {
        errand->behind--;
        if (event != CDL_STORE_NONE)
            cdl_store_event_count(&errand->asker->store->events, CDL_STORE_GIVE_BACK);
        if (errand->behind == 0 && errand->call == NULL)
            free_errand(errand);
        return;
    }
    errand->waiting--;
    if (event == CDL_STORE_NONE)
        errand->call->decided_at_ns = errand->subjects[trip->first].now_us * 1000;
    if (errand->call->together) {
        go_on_together(errand, trip, event);
        return;
    }
    answer_alone(errand, trip->first, event);
    if (errand->waiting == 0)
        finish(errand);
}

/* ---- asking ---- */

/* The identity that was worked out last. Requests of one key follow one another, and share it. */
struct identity {
    const struct caudal_request *of; /* NULL: none yet */
    char tag[CDL_REDIS_TAG_LENGTH];
};

/* The identity of a request's key: see redis_store.h. */
static bool identify(struct asker *asker, const struct caudal_request *request, struct identity *identity)
{
    const struct caudal_request *of = identity->of;
    if (of != NULL && of->key == request->key && of->key_length == request->key_length)
        return true;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char hash[EVP_MAX_MD_SIZE + 2];
    size_t size;
    if (EVP_MAC_init(asker->hmac, NULL, 0, NULL) != 1 ||
        EVP_MAC_update(asker->hmac, request->key, request->key_length) != 1 ||
        EVP_MAC_final(asker->hmac, hash, &size, EVP_MAX_MD_SIZE) != 1)
        return false;
    uint32_t bits = 0, held = 0;
    for (size_t i = 0, at = 0; i < CDL_REDIS_TAG_LENGTH; i++) {
        if (held < 6) {
            bits = bits << 8 | hash[at++];
            held += 8;
        }
        held -= 6;
        identity->tag[i] = digits[bits >> held & 63];
    }
    identity->of = request;
    return true;
}

static void write_key(const struct asker *asker, const char tag[CDL_REDIS_TAG_LENGTH], const char *name,
                      struct subject *subject)
{
    struct cdl_writer key = cdl_writer_on(subject->key, sizeof subject->key);
    cdl_write_text(&key, asker->store->config.prefix);
    cdl_write_text(&key, ":1:{");
    cdl_write(&key, (struct cdl_slice){tag, CDL_REDIS_TAG_LENGTH});
    cdl_write_text(&key, "}:");
    cdl_write_text(&key, name);
    subject->key_length = key.length;
    subject->slot = asker->store->config.kind == CDL_REDIS_CLUSTER ? cdl_redis_slot(cdl_written(&key)) : 0;
}

/* A key that a call names twice is charged once for both: a script that asks before it charges must not meet it again. CAUDAL_OK, and
 * then `subject_of` tells whether it has a twin, or CAUDAL_ERR_ARGUMENT: the twin is asked by another limit. */
static int join_twin(struct errand *errand, const struct subject *subject, size_t request)
{
    for (size_t i = 0; i < errand->subject_count; i++) {
        struct subject *twin = &errand->subjects[i];
        if (twin->key_length != subject->key_length || memcmp(twin->key, subject->key, subject->key_length) != 0)
            continue;
        if (!cdl_per_call_is_same(&twin->limit.limit, &subject->limit.limit))
            return CAUDAL_ERR_ARGUMENT;
        if (__builtin_add_overflow(twin->question.minimum, subject->question.minimum, &twin->question.minimum))
            twin->question.minimum = UINT64_MAX;
        twin->question.maximum = twin->question.minimum;
        errand->subject_of[request] = (uint8_t)i;
        break;
    }
    return CAUDAL_OK;
}

/* The limit that comes with a question; to forget a key none is needed. */
static int bring_limit(const struct cdl_question *question, struct cdl_redis_limit *made)
{
    if (question->operation == CDL_RESET)
        return CAUDAL_OK;
    const int status = cdl_per_call_check(question->limit);
    return status == CAUDAL_OK ? cdl_redis_limit_make(question->limit, made, NULL) : status;
}

/* Writes a request down. CAUDAL_OK, or why it cannot be asked. */
static int write_down(struct errand *errand, size_t request, struct identity *identity)
{
    struct asker *asker = errand->asker;
    const struct cdl_call *call = errand->call;
    const struct caudal_request *asked = &call->requests[request];
    struct subject *subject = &errand->subjects[errand->subject_count];
    errand->subject_of[request] = NOBODY;
    const struct cdl_redis_limit *limit = cdl_redis_store_limit(asker->store, asked->limit);
    if (limit == NULL)
        return CAUDAL_ERR_UNKNOWN;
    if (limit->letter == 0 && !limit->per_call)
        return CAUDAL_OK;
    if (!identify(asker, asked, identity))
        return CAUDAL_ERR_MEMORY;
    *subject = (struct subject){.limit = *limit, .question = call->questions[request]};
    int status = limit->per_call ? bring_limit(&subject->question, &subject->limit) : CAUDAL_OK;
    write_key(asker, identity->tag, cdl_redis_store_limit_name(asker->store, asked->limit), subject);
    if (status == CAUDAL_OK && call->together)
        status = join_twin(errand, subject, request);
    if (status == CAUDAL_OK && errand->subject_of[request] == NOBODY)
        errand->subject_of[request] = (uint8_t)errand->subject_count++;
    return status;
}

static int write_all_down(struct errand *errand)
{
    struct cdl_call *call = errand->call;
    struct cdl_redis_store *store = errand->asker->store;
    struct identity identity = {.of = NULL};
    int status = CAUDAL_OK;
    pthread_rwlock_rdlock(&store->lock);
    for (size_t i = 0; i < call->count && status == CAUDAL_OK; i++) {
        status = write_down(errand, i, &identity);
        if (status == CAUDAL_OK || call->together)
            continue;
        no_verdict(&call->decisions[i], status);
        note_status(call, status, CDL_STORE_NONE);
        status = CAUDAL_OK;
    }
    pthread_rwlock_unlock(&store->lock);
    return status;
}

/* Subjects of one slot stand side by side: sorts them, by insertion, for there are few. */
static void sort_by_slot(struct errand *errand)
{
    for (size_t i = 1; i < errand->subject_count; i++)
        for (size_t k = i; k > 0 && errand->subjects[k].slot < errand->subjects[k - 1].slot; k--) {
            const struct subject moved = errand->subjects[k];
            errand->subjects[k] = errand->subjects[k - 1];
            errand->subjects[k - 1] = moved;
            for (size_t request = 0; request < errand->call->count; request++) {
                uint8_t *of = &errand->subject_of[request];
                *of = *of == k ? (uint8_t)(k - 1) : *of == k - 1 ? (uint8_t)k : *of;
            }
        }
}

static void make_trips(struct errand *errand)
{
    struct cdl_slice *words = errand->words;
    const bool together = errand->call->together;
    if (together && errand->asker->store->config.kind == CDL_REDIS_CLUSTER)
        sort_by_slot(errand);
    for (size_t i = 0; i < errand->subject_count; i++) {
        if (i == 0 || !together || errand->subjects[i - 1].slot != errand->subjects[i].slot)
            errand->trips[errand->trip_count++] = (struct trip){.errand = errand, .first = i};
        errand->trips[errand->trip_count - 1].count++;
    }
    for (size_t i = 0; i < errand->trip_count; i++) {
        errand->trips[i].words = words;
        words += 3 + 2 * errand->trips[i].count;
    }
}

static void send_out(struct errand *errand)
{
    /* Together, charges are made one after the other. */
    const bool in_order = errand->call->together && errand->subjects[0].question.operation == CDL_TAKE;
    for (size_t i = 0; i < (in_order ? 1 : errand->trip_count); i++)
        depart(&errand->trips[i], TO_DECIDE);
}

/* Nobody has to be asked. Told at the end of the turn, for `done` may not be called within the asking. */
static void end_at_once(struct asker *asker, struct cdl_call *call, int status)
{
    if (status != CAUDAL_OK) {
        call->status = status;
        for (size_t i = 0; i < call->count; i++)
            no_verdict(&call->decisions[i], status);
    }
    call->work = asker->ended;
    asker->ended = call;
}

/* Why a call is answered without a look at what it asks. CAUDAL_OK: it is not. */
static int refuse(struct asker *asker, struct cdl_call *call)
{
    /* An instant of the caller's is one that the scripts can count with. */
    if (call->now_ns != NULL && (*call->now_ns < 0 || *call->now_ns >= CDL_REDIS_NOW_MAX))
        return CAUDAL_ERR_ARGUMENT;
    if (!asker->closing)
        return CAUDAL_OK;
    call->failure = CDL_STORE_CLOSED;
    cdl_store_event_count(&asker->store->events, CDL_STORE_CLOSED);
    return CAUDAL_ERR_STORE;
}

static void ask(struct cdl_store_client *head, struct cdl_call *call)
{
    struct asker *asker = (struct asker *)head;
    call->status = CAUDAL_OK;
    call->failure = CDL_STORE_NONE;
    call->decided_at_ns = 0;
    for (size_t i = 0; i < call->count; i++)
        no_verdict(&call->decisions[i], CAUDAL_OK);
    int status = refuse(asker, call);
    struct errand *errand = status == CAUDAL_OK ? new_errand(asker, call) : NULL;
    if (errand == NULL) {
        end_at_once(asker, call, status == CAUDAL_OK ? CAUDAL_ERR_MEMORY : status);
        return;
    }
    if (call->now_ns != NULL)
        snprintf(errand->now_text, sizeof errand->now_text, "%lld", (long long)*call->now_ns / 1000);
    status = write_all_down(errand);
    /* Unlimited ones are answered by now; those that ask are answered when they come back. */
    for (size_t i = 0; i < call->count && status == CAUDAL_OK; i++)
        if (errand->subject_of[i] == NOBODY && call->decisions[i].status == CAUDAL_OK)
            decide_unlimited(&call->questions[i], &call->decisions[i]);
    if (status == CAUDAL_OK && errand->subject_count > 0) {
        errand->deadline_ns = deadline_from_now(asker);
        if (call->deadline_ns != 0 && call->deadline_ns < errand->deadline_ns)
            errand->deadline_ns = call->deadline_ns;
        make_trips(errand);
        send_out(errand);
        return;
    }
    free_errand(errand);
    end_at_once(asker, call, status);
}

/* ---- the client, as a loop sees it ---- */

static void flush(struct cdl_store_client *head)
{
    struct asker *asker = (struct asker *)head;
    while (asker->ended != NULL) {
        struct cdl_call *call = asker->ended;
        asker->ended = call->work;
        call->done(call);
    }
    cdl_redis_client_flush(asker->client);
}

static void ready(struct cdl_store_client *head, struct cdl_socket *socket, unsigned events)
{
    cdl_redis_client_ready(((struct asker *)head)->client, socket, events);
}

static void tell_time(struct cdl_store_client *head, int64_t now_ns)
{
    cdl_redis_client_time(((struct asker *)head)->client, now_ns);
}

static void found(struct cdl_store_client *head, struct cdl_lookup_request *request, const struct sockaddr *address,
                  socklen_t length)
{
    cdl_redis_client_found(((struct asker *)head)->client, request, address, length);
}

static bool is_up(const struct cdl_store_client *head)
{
    return cdl_redis_client_is_up(((const struct asker *)head)->client);
}

static void close_asker(struct cdl_store_client *head)
{
    struct asker *asker = (struct asker *)head;
    const struct caudal_allocator *allocator = asker->store->shared.allocator;
    asker->closing = true;
    if (asker->client != NULL)
        cdl_redis_client_close(asker->client);
    while (asker->ended != NULL) {
        struct cdl_call *call = asker->ended;
        asker->ended = call->work;
        call->done(call);
    }
    while (asker->kept != NULL) {
        struct errand *errand = asker->kept;
        asker->kept = errand->next;
        cdl_release(allocator, errand, 1, errand_bytes(SMALL));
    }
    EVP_MAC_CTX_free(asker->hmac);
    cdl_release(allocator, asker, 1, sizeof *asker);
}

static const struct cdl_client_ops asker_ops = {
    .close = close_asker,
    .ask = ask,
    .flush = flush,
    .ready = ready,
    .time = tell_time,
    .found = found,
    .is_up = is_up,
};

struct cdl_store_client *cdl_redis_asker_open(struct caudal_store *head, const struct cdl_loop_hooks *hooks)
{
    struct cdl_redis_store *store = cdl_redis_store(head);
    struct asker *asker = cdl_allocate(store->shared.allocator, 1, sizeof *asker, _Alignof(struct asker));
    if (asker == NULL)
        return NULL;
    asker->head = (struct cdl_store_client){&asker_ops, head};
    asker->store = store;
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                     OSSL_PARAM_construct_end()};
    asker->hmac = EVP_MAC_CTX_new(store->hmac);
    if (asker->hmac != NULL && EVP_MAC_init(asker->hmac, store->secret, sizeof store->secret, parameters) == 1)
        asker->client = cdl_redis_client_open(&store->shared, hooks);
    if (asker->client != NULL)
        return &asker->head;
    close_asker(&asker->head);
    return NULL;
}
