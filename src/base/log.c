#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arith.h"
#include "base/utf8.h"

#define REPEATS 64u
#define MESSAGE_MAX 128u
#define ABOUT_MAX 64u
#define SECRET_BYTES 64u                         /* the block of SHA-256: HMAC's own form of a key */
#define TAIL_BYTES 48u                           /* kept free for fields_dropped and the end of the line */
#define JSON_EXACT_MAX ((UINT64_C(1) << 53) - 1) /* RFC 7493: beyond, a number is not safe in every reader */

/* A message that was written lately. */
struct repeat {
    bool used;
    enum cdl_log_level level;
    uint64_t hash;
    int64_t since_ns; /* when it was written */
    uint64_t count;   /* how often it came again */
    size_t message_length, about_length;
    char message[MESSAGE_MAX], about[ABOUT_MAX];
};

struct cdl_log {
    int fd;
    enum cdl_log_format format;
    const struct caudal_clock *clock;
    int64_t window_ns;
    _Atomic int level;

    pthread_mutex_t lock; /* everything below; held while a line is written */
    uint8_t secret[SECRET_BYTES];
    struct repeat repeats[REPEATS];
    uint64_t suppressed;
    uint64_t lost;
    uint64_t lost_unsaid; /* of them, those that no line has told of yet */
    bool torn;            /* the last write ended within a line */
    char line[CDL_LOG_LINE_MAX];
};

static const char *const level_words[][2] = {
    {"debug", "DEBUG"}, {"info", "INFO "}, {"warn", "WARN "}, {"error", "ERROR"}};

/* ---- Opening, closing, settings ---- */

struct cdl_log *cdl_log_open(const struct cdl_log_options *options)
{
    struct cdl_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return NULL;
    log->fd = options->fd;
    log->format = options->format;
    log->clock = options->clock == NULL ? caudal_clock_system() : options->clock;
    log->window_ns = options->repeat_window_ns;
    atomic_init(&log->level, (int)options->level);
    if (getrandom(log->secret, sizeof log->secret, 0) != (ssize_t)sizeof log->secret) {
        free(log);
        return NULL;
    }
    pthread_mutex_init(&log->lock, NULL);
    return log;
}

void cdl_log_set_level(struct cdl_log *log, enum cdl_log_level level)
{
    if (log != NULL)
        atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

bool cdl_log_enabled(struct cdl_log *log, enum cdl_log_level level)
{
    return log != NULL && (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}

void cdl_log_set_secret(struct cdl_log *log, struct cdl_slice secret)
{
    if (log == NULL)
        return;
    pthread_mutex_lock(&log->lock);
    OPENSSL_cleanse(log->secret, sizeof log->secret);
    if (secret.length > sizeof log->secret)
        SHA256((const uint8_t *)secret.bytes, secret.length, log->secret);
    else if (secret.length > 0)
        memcpy(log->secret, secret.bytes, secret.length);
    pthread_mutex_unlock(&log->lock);
}

/* ---- Text within a line ---- */

static void write_json_character(struct cdl_writer *out, struct cdl_character c, struct cdl_slice bytes)
{
    if (c.code == '"' || c.code == '\\')
        cdl_write_text(out, "\\");
    if (c.kind == CDL_CHARACTER_HIDDEN)
        cdl_writef(out, "\\u%04x", c.code); /* all of them are below U+10000 */
    else if (c.kind == CDL_CHARACTER_PLAIN && c.code != CDL_UTF8_MARK)
        cdl_write(out, bytes);
    else
        cdl_write_marked(out, bytes);
}

static void write_text_character(struct cdl_writer *out, struct cdl_character c, struct cdl_slice bytes)
{
    if (c.code == '"' || c.code == '\\')
        cdl_write_text(out, "\\");
    if (c.kind == CDL_CHARACTER_PLAIN)
        cdl_write(out, bytes);
    else if (c.code == '\n')
        cdl_write_text(out, "\\n");
    else if (c.kind == CDL_CHARACTER_BROKEN || c.code < 0x80)
        cdl_writef(out, "\\x%02x", c.code);
    else
        cdl_writef(out, "\\u{%x}", c.code);
}

static void write_characters(struct cdl_writer *out, enum cdl_log_format format, struct cdl_slice text)
{
    while (text.length > 0) {
        const struct cdl_character c = cdl_utf8_first(text);
        const struct cdl_slice bytes = cdl_slice_head(text, c.length);
        if (format == CDL_LOG_AS_JSON)
            write_json_character(out, c, bytes);
        else
            write_text_character(out, c, bytes);
        text = cdl_slice_from(text, c.length);
    }
}

/* Readable without quotes, and told apart from what is quoted? */
static bool is_bare(struct cdl_slice text)
{
    if (text.length == 0 || text.length > CDL_LOG_VALUE_MAX)
        return false;
    while (text.length > 0) {
        const struct cdl_character c = cdl_utf8_first(text);
        if (c.kind != CDL_CHARACTER_PLAIN || c.code == ' ' || c.code == '"' || c.code == '=' || c.code == '\\')
            return false;
        text = cdl_slice_from(text, c.length);
    }
    return true;
}

static void write_string(struct cdl_writer *out, enum cdl_log_format format, struct cdl_slice text)
{
    const bool quoted = format == CDL_LOG_AS_JSON || !is_bare(text);
    const struct cdl_slice shown = cdl_utf8_head(text, CDL_LOG_VALUE_MAX);
    cdl_write_text(out, quoted ? "\"" : "");
    write_characters(out, format, shown);
    if (shown.length < text.length)
        cdl_writef(out, "…(+%zu bytes)", text.length - shown.length);
    cdl_write_text(out, quoted ? "\"" : "");
}

/* ---- Identities ---- */

static void write_keyed(struct cdl_log *log, struct cdl_writer *out, struct cdl_slice identity)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    const bool done = HMAC(EVP_sha256(), log->secret, sizeof log->secret, (const uint8_t *)identity.bytes,
                           identity.length, digest, &length) != NULL;
    if (!done || length < CDL_LOG_KEYED_BYTES) {
        write_string(out, log->format, CDL_SLICE("unavailable")); /* never the identity itself */
        return;
    }
    char text[2 * CDL_LOG_KEYED_BYTES];
    struct cdl_writer hex = cdl_writer_on(text, sizeof text);
    for (size_t i = 0; i < CDL_LOG_KEYED_BYTES; i++)
        cdl_writef(&hex, "%02x", digest[i]);
    write_string(out, log->format, cdl_written(&hex));
}

static void write_masked(struct cdl_log *log, struct cdl_writer *out, struct cdl_slice address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    uint8_t bytes[16] = {0};
    char text[INET6_ADDRSTRLEN] = "";
    if (address.length == 16 && memcmp(address.bytes, mapped, sizeof mapped) == 0)
        address = cdl_slice_from(address, sizeof mapped);
    if (address.length == 4) {
        memcpy(bytes, address.bytes, 3);
        inet_ntop(AF_INET, bytes, text, sizeof text);
    } else if (address.length == 16) {
        memcpy(bytes, address.bytes, 6);
        inet_ntop(AF_INET6, bytes, text, sizeof text);
    } else {
        write_keyed(log, out, address);
        return;
    }
    write_string(out, log->format, cdl_slice_of(text));
}

/* ---- Fields ---- */

static void write_number(struct cdl_log *log, struct cdl_writer *out, bool negative, uint64_t magnitude)
{
    const char *quote = log->format == CDL_LOG_AS_JSON && magnitude > JSON_EXACT_MAX ? "\"" : "";
    cdl_write_text(out, quote);
    cdl_write_text(out, negative ? "-" : "");
    cdl_write_u64(out, magnitude);
    cdl_write_text(out, quote);
}

static void write_value(struct cdl_log *log, struct cdl_writer *out, const struct cdl_log_field *field)
{
    switch (field->kind) {
    case CDL_LOG_KIND_TEXT:
        write_string(out, log->format, field->bytes);
        break;
    case CDL_LOG_KIND_U64:
        write_number(log, out, false, field->u64);
        break;
    case CDL_LOG_KIND_I64:
        write_number(log, out, field->i64 < 0, field->i64 < 0 ? -(uint64_t)field->i64 : (uint64_t)field->i64);
        break;
    case CDL_LOG_KIND_BOOL:
        cdl_write_text(out, field->truth ? "true" : "false");
        break;
    case CDL_LOG_KIND_KEYED:
        write_keyed(log, out, field->bytes);
        break;
    case CDL_LOG_KIND_MASKED:
        write_masked(log, out, field->bytes);
        break;
    }
}

static void write_field(struct cdl_log *log, struct cdl_writer *out, const struct cdl_log_field *field)
{
    const bool json = log->format == CDL_LOG_AS_JSON;
    cdl_write_text(out, json ? ",\"" : " ");
    write_characters(out, log->format, cdl_slice_of(field->name));
    cdl_write_text(out, json ? "\":" : "=");
    write_value(log, out, field);
}

/* ---- Lines ---- */

static void write_time(struct cdl_writer *out, int64_t realtime_ns)
{
    const time_t seconds = (time_t)cdl_floor_div(realtime_ns, CDL_NS_PER_S);
    const int64_t rest_ns = (int64_t)(realtime_ns - (cdl_i128)seconds * CDL_NS_PER_S);
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    cdl_writef(out, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
               utc.tm_min, utc.tm_sec, (int)(rest_ns / 1000));
}

static void write_head(struct cdl_log *log, struct cdl_writer *out, enum cdl_log_level level, struct cdl_slice message)
{
    if (log->torn)
        cdl_write_text(out, "\n");
    if (log->format == CDL_LOG_AS_JSON) {
        cdl_write_text(out, "{\"time\":\"");
        write_time(out, log->clock->realtime_ns(log->clock->context));
        cdl_writef(out, "\",\"level\":\"%s\",\"message\":", level_words[level][0]);
        write_string(out, log->format, message);
    } else {
        write_time(out, log->clock->realtime_ns(log->clock->context));
        cdl_writef(out, " %s ", level_words[level][1]);
        write_characters(out, log->format, cdl_utf8_head(message, CDL_LOG_VALUE_MAX));
    }
}

/* A whole line in log->line, of fields as many as fit. */
static struct cdl_slice compose(struct cdl_log *log, enum cdl_log_level level, struct cdl_slice message,
                                const struct cdl_log_field *fields, size_t count)
{
    struct cdl_writer out = cdl_writer_on(log->line, sizeof log->line - TAIL_BYTES);
    write_head(log, &out, level, message);
    uint64_t dropped = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t start = out.length;
        write_field(log, &out, &fields[i]);
        if (out.overflow) {
            out.length = start;
            out.overflow = false;
            dropped++;
        }
    }
    out.size = sizeof log->line;
    if (dropped > 0) {
        const struct cdl_log_field note = cdl_log_u64("fields_dropped", dropped);
        write_field(log, &out, &note);
    }
    cdl_write_text(&out, log->format == CDL_LOG_AS_JSON ? "}\n" : "\n");
    return cdl_written(&out);
}

/* Can a line be written now, and will it get there? A pipe that says yes takes PIPE_BUF bytes without waiting. */
static bool is_writable(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLOUT};
    return poll(&look, 1, 0) == 1 && look.revents == POLLOUT;
}

static bool send_line(struct cdl_log *log, struct cdl_slice line)
{
    if (!is_writable(log->fd))
        return false;
    ssize_t written;
    do
        written = write(log->fd, line.bytes, line.length);
    while (written < 0 && errno == EINTR);
    if (written <= 0)
        return false;
    log->torn = (size_t)written < line.length;
    return !log->torn;
}

static void put_line(struct cdl_log *log, enum cdl_log_level level, struct cdl_slice message,
                     const struct cdl_log_field *fields, size_t count)
{
    if (log->lost_unsaid > 0) {
        const struct cdl_log_field lines = cdl_log_u64("lines", log->lost_unsaid);
        if (send_line(log, compose(log, CDL_LOG_WARN, CDL_SLICE("log lines were lost"), &lines, 1)))
            log->lost_unsaid = 0;
    }
    /* A line that has news of lost ones to follow stays behind them. */
    if (log->lost_unsaid > 0 || !send_line(log, compose(log, level, message, fields, count))) {
        log->lost++;
        log->lost_unsaid++;
    }
}

/* ---- Repeats ---- */

/* Forgets a message, and says how often it came again. */
static void report(struct cdl_log *log, struct repeat *repeat, int64_t now_ns)
{
    repeat->used = false;
    if (repeat->count == 0)
        return;
    char text[MESSAGE_MAX + 64];
    struct cdl_writer message = cdl_writer_on(text, sizeof text);
    cdl_writef(&message, "repeated %llu times: ", (unsigned long long)repeat->count);
    cdl_write(&message, (struct cdl_slice){repeat->message, repeat->message_length});
    const struct cdl_log_field fields[] = {
        cdl_log_u64("repeated", repeat->count),
        cdl_log_i64("seconds", (now_ns - repeat->since_ns) / CDL_NS_PER_S),
        cdl_log_text("about", (struct cdl_slice){repeat->about, repeat->about_length}),
    };
    put_line(log, repeat->level, cdl_written(&message), fields, repeat->about_length > 0 ? 3 : 2);
}

static void report_due(struct cdl_log *log, int64_t now_ns)
{
    for (size_t i = 0; i < REPEATS; i++)
        if (log->repeats[i].used && now_ns - log->repeats[i].since_ns >= log->window_ns)
            report(log, &log->repeats[i], now_ns);
}

/* The place of a hash; without one a free place, or that of the message that was written first. */
static struct repeat *place_of(struct cdl_log *log, uint64_t hash)
{
    struct repeat *best = &log->repeats[0];
    for (size_t i = 0; i < REPEATS; i++) {
        struct repeat *repeat = &log->repeats[i];
        if (repeat->used && repeat->hash == hash)
            return repeat;
        if (best->used && (!repeat->used || repeat->since_ns < best->since_ns))
            best = repeat;
    }
    return best;
}

static void remember(struct repeat *repeat, const struct cdl_log_line *line, struct cdl_slice message,
                     struct cdl_slice about, uint64_t hash, int64_t now_ns)
{
    *repeat = (struct repeat){.used = true,
                              .level = line->level,
                              .hash = hash,
                              .since_ns = now_ns,
                              .message_length = message.length,
                              .about_length = about.length};
    memcpy(repeat->message, message.bytes, message.length);
    if (about.length > 0)
        memcpy(repeat->about, about.bytes, about.length);
}

/* Was the same written within the window? Then it is counted, else remembered. */
static bool is_repeat(struct cdl_log *log, const struct cdl_log_line *line, int64_t now_ns)
{
    const struct cdl_slice message = cdl_utf8_head(cdl_slice_of(line->message), MESSAGE_MAX);
    const struct cdl_slice about = cdl_utf8_head(line->about, ABOUT_MAX);
    const uint64_t seed = XXH3_64bits_withSeed(about.bytes, about.length, (uint64_t)line->level);
    const uint64_t hash = XXH3_64bits_withSeed(line->message, strlen(line->message), seed);
    struct repeat *repeat = place_of(log, hash);
    if (repeat->used && repeat->hash == hash) {
        repeat->count++;
        log->suppressed++;
        return true;
    }
    if (repeat->used)
        report(log, repeat, now_ns);
    remember(repeat, line, message, about, hash, now_ns);
    return false;
}

static int64_t now(struct cdl_log *log)
{
    return log->clock->monotonic_ns(log->clock->context);
}

void cdl_log_write(struct cdl_log *log, const struct cdl_log_line *line)
{
    if (!cdl_log_enabled(log, line->level))
        return;
    pthread_mutex_lock(&log->lock);
    const int64_t now_ns = now(log);
    report_due(log, now_ns);
    if (line->each || log->window_ns <= 0 || !is_repeat(log, line, now_ns))
        put_line(log, line->level, cdl_slice_of(line->message), line->fields, line->field_count);
    pthread_mutex_unlock(&log->lock);
}

void cdl_log_tick(struct cdl_log *log)
{
    if (log == NULL)
        return;
    pthread_mutex_lock(&log->lock);
    report_due(log, now(log));
    pthread_mutex_unlock(&log->lock);
}

void cdl_log_close(struct cdl_log *log)
{
    if (log == NULL)
        return;
    for (size_t i = 0; i < REPEATS; i++)
        if (log->repeats[i].used)
            report(log, &log->repeats[i], now(log));
    OPENSSL_cleanse(log->secret, sizeof log->secret);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

uint64_t cdl_log_lost(struct cdl_log *log)
{
    if (log == NULL)
        return 0;
    pthread_mutex_lock(&log->lock);
    const uint64_t lost = log->lost;
    pthread_mutex_unlock(&log->lock);
    return lost;
}

uint64_t cdl_log_suppressed(struct cdl_log *log)
{
    if (log == NULL)
        return 0;
    pthread_mutex_lock(&log->lock);
    const uint64_t suppressed = log->suppressed;
    pthread_mutex_unlock(&log->lock);
    return suppressed;
}
