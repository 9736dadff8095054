#include "replay/log_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/memory.h"
#include "base/problem.h"

#define RAW_BYTES ((size_t)32768)
#define ZSTD_FRAME_BYTES 5u /* where a frame begins, so much tells how much more is needed */
#define TEXT_BYTES ((size_t)2 * CDL_ACCESS_LINE_MAX)

struct cdl_log_decoder {
    z_stream gzip;
    ZSTD_DStream *zstd;
    size_t wanted;      /* bytes that zstd asks for: up to the end of a block */
    bool in_part;       /* a compressed part has begun and not ended */
    const char *broken; /* why; NULL: it is not. What came before that has been given: now it must be told */
};

static const char damaged_gzip[] = "the gzip data are damaged", damaged_zstd[] = "the zstd data are damaged";

/* What a step of reading came to. */
enum step {
    STEP_MORE,
    STEP_END,
    STEP_STOPPED,
    STEP_FAILED,
};

static bool is_stopped(const struct cdl_log_source *source)
{
    return source->stop != NULL && *source->stop != 0;
}

/* For good: it will be told again. */
static enum step fail(struct cdl_log_source *source, const char *why)
{
    source->failed = true;
    cdl_problem(&source->failure, CAUDAL_ERR_ARGUMENT, 0, "%s: %s", source->path, why);
    return STEP_FAILED;
}

/* ---- bytes of the file ---- */

/* Waits until there is something to read, or a signal has come. Signals are held back between the look at the flag and the wait: one that
 * came there would be slept through. */
static void wait_for_bytes(const struct cdl_log_source *source)
{
    struct pollfd poll = {.fd = source->fd, .events = POLLIN};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (!is_stopped(source))
        (void)ppoll(&poll, 1, NULL, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Reads into `bytes`, which has room. */
static enum step read_file(struct cdl_log_source *source, char *bytes, size_t room, size_t *length)
{
    ssize_t got;
    *length = 0;
    if (source->raw_ended)
        return STEP_END;
    do {
        if (source->stop != NULL && !source->has_size)
            wait_for_bytes(source);
        if (is_stopped(source))
            return STEP_STOPPED;
        got = read(source->fd, bytes, room);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return fail(source, strerrordesc_np(errno));
    if (got == 0) {
        source->raw_ended = true;
        return STEP_END;
    }
    *length = (size_t)got;
    source->bytes += *length;
    return STEP_MORE;
}

/* More raw bytes, behind those that are there. */
static enum step read_raw(struct cdl_log_source *source)
{
    size_t length;
    if (source->raw_at == source->raw_length)
        source->raw_at = source->raw_length = 0;
    const enum step step = read_file(source, source->raw + source->raw_length, RAW_BYTES - source->raw_length, &length);
    source->raw_length += length;
    return step;
}

/* ---- decoding ---- */

static enum step decode_plain(struct cdl_log_source *source, char *bytes, size_t room, size_t *length)
{
    *length = source->raw_length - source->raw_at;
    if (*length == 0)
        return read_file(source, bytes, room, length);
    if (*length > room)
        *length = room;
    memcpy(bytes, source->raw + source->raw_at, *length);
    source->raw_at += *length;
    return STEP_MORE;
}

/* Between two parts of a gzip file: the next one, zeros that fill up a tape, or the end. */
static enum step begin_gzip_part(struct cdl_log_source *source, struct cdl_log_decoder *decoder)
{
    while (source->raw_at < source->raw_length && source->raw[source->raw_at] == '\0')
        source->raw_at++;
    if (source->raw_at == source->raw_length)
        return STEP_MORE;
    if (source->raw[source->raw_at] != '\x1f')
        return fail(source, "something that is no gzip follows the end of the compressed data");
    decoder->in_part = true;
    return inflateReset(&decoder->gzip) == Z_OK ? STEP_MORE : fail(source, "the decompressor is broken");
}

static enum step decode_gzip(struct cdl_log_source *source, struct cdl_log_decoder *decoder, char *bytes, size_t room,
                             size_t *length)
{
    z_stream *gzip = &decoder->gzip;
    if (!decoder->in_part) {
        const enum step step = begin_gzip_part(source, decoder);
        if (step != STEP_MORE || !decoder->in_part)
            return step;
    }
    gzip->next_in = (unsigned char *)source->raw + source->raw_at;
    gzip->avail_in = (unsigned)(source->raw_length - source->raw_at);
    gzip->next_out = (unsigned char *)bytes;
    gzip->avail_out = (unsigned)room;
    const int status = inflate(gzip, Z_NO_FLUSH);
    source->raw_at = source->raw_length - gzip->avail_in;
    *length = room - gzip->avail_out;
    if (status == Z_MEM_ERROR)
        return fail(source, "out of memory");
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        decoder->broken = damaged_gzip;
    decoder->in_part = status != Z_STREAM_END;
    return STEP_MORE;
}

static const char *why_zstd_failed(size_t status)
{
    switch (ZSTD_getErrorCode(status)) {
    case ZSTD_error_frameParameter_windowTooLarge:
        return "was packed by zstd with a window of more than 128 MB; decompress it first";
    case ZSTD_error_dictionary_wrong:
        return "was packed by zstd with a dictionary; decompress it first";
    case ZSTD_error_memory_allocation:
        return "out of memory";
    default:
        return damaged_zstd;
    }
}

static enum step decode_zstd(struct cdl_log_source *source, struct cdl_log_decoder *decoder, char *bytes, size_t room,
                             size_t *length)
{
    /* It forgets to give what it has when it meets an error: so a block at a time. */
    const size_t left = source->raw_length - source->raw_at, piece = left < decoder->wanted ? left : decoder->wanted;
    ZSTD_inBuffer in = {source->raw, source->raw_at + piece, source->raw_at};
    ZSTD_outBuffer out = {bytes, room, 0};
    const size_t status = ZSTD_decompressStream(decoder->zstd, &out, &in);
    const bool moved = in.pos != source->raw_at || out.pos > 0;
    source->raw_at = in.pos;
    *length = out.pos;
    if (ZSTD_isError(status) != 0)
        decoder->broken = why_zstd_failed(status);
    decoder->wanted = status > 0 ? status : ZSTD_FRAME_BYTES;
    if (moved)
        decoder->in_part = status != 0;
    return STEP_MORE;
}

static enum step decode_some(struct cdl_log_source *source, char *bytes, size_t room, size_t *length)
{
    struct cdl_log_decoder *decoder = source->decoder;
    *length = 0;
    if (decoder == NULL)
        return decode_plain(source, bytes, room, length);
    if (decoder->broken != NULL)
        return fail(source, decoder->broken);
    return source->coding == CDL_LOG_GZIP ? decode_gzip(source, decoder, bytes, room, length)
                                          : decode_zstd(source, decoder, bytes, room, length);
}

/* At least one byte, or why not. A decoder may hold text back even when all of the file has been read: so it is asked first. */
static enum step decode(struct cdl_log_source *source, char *bytes, size_t room, size_t *length)
{
    struct cdl_log_decoder *decoder = source->decoder;
    for (;;) {
        const size_t before = source->raw_at;
        enum step step = decode_some(source, bytes, room, length);
        if (step != STEP_MORE || *length > 0 || decoder == NULL)
            return step;
        if (source->raw_at == before && source->raw_at < source->raw_length && decoder->broken == NULL)
            decoder->broken = source->coding == CDL_LOG_GZIP ? damaged_gzip
                                                             : damaged_zstd; /* it makes nothing of them */
        if (source->raw_at < source->raw_length || decoder->broken != NULL)
            continue;
        step = read_raw(source);
        if (step == STEP_END)
            return decoder->in_part ? fail(source, "the compressed data are cut off") : STEP_END;
        if (step != STEP_MORE)
            return step;
    }
}

/* ---- lines ---- */

/* More text behind that which is there, which moves to the front for want of room. */
static enum step fill(struct cdl_log_source *source)
{
    size_t length;
    if (source->ended || source->failed)
        return source->failed ? STEP_FAILED : STEP_END;
    if (source->at == source->length || source->at > TEXT_BYTES / 2 || source->length == TEXT_BYTES) {
        memmove(source->text, source->text + source->at, source->length - source->at);
        source->length -= source->at;
        source->at = 0;
    }
    const enum step step = decode(source, source->text + source->length, TEXT_BYTES - source->length, &length);
    source->length += length;
    source->ended = step == STEP_END;
    return step;
}

static struct cdl_slice without_mark(struct cdl_slice line)
{
    const bool has_mark = line.length >= 3 && memcmp(line.bytes, "\xef\xbb\xbf", 3) == 0;
    return cdl_slice_from(line, has_mark ? 3 : 0);
}

/* The text up to a line feed, or up to the end of the file when that has been reached; `looked` bytes have none. */
static bool take_line(struct cdl_log_source *source, size_t *looked, struct cdl_slice *line)
{
    const char *begin = source->text + source->at;
    const size_t length = source->length - source->at;
    const char *feed = memchr(begin + *looked, '\n', length - *looked);
    *looked = length;
    if (feed == NULL && !(source->ended && length > 0))
        return false;
    *line = (struct cdl_slice){begin, feed != NULL ? (size_t)(feed - begin) : length};
    source->at += line->length + (feed != NULL);
    if (source->line++ == 0)
        *line = without_mark(*line);
    return true;
}

static enum cdl_log_source_result end_long_line(struct cdl_log_source *source)
{
    source->passing_over = false;
    return CDL_LOG_SOURCE_LONG;
}

/* What is to be said when there is no more text. */
static enum cdl_log_source_result end(struct cdl_log_source *source)
{
    if (!source->passing_over)
        return CDL_LOG_SOURCE_END;
    source->line++;
    return end_long_line(source);
}

enum cdl_log_source_result cdl_log_source_line(struct cdl_log_source *source, struct cdl_slice *line,
                                               struct caudal_problem *problem)
{
    size_t looked = 0;
    for (;;) {
        if (take_line(source, &looked, line))
            return source->passing_over || line->length > CDL_ACCESS_LINE_MAX ? end_long_line(source)
                                                                              : CDL_LOG_SOURCE_LINE;
        if (source->length - source->at > CDL_ACCESS_LINE_MAX) {
            source->passing_over = true;
            source->at = source->length = looked = 0;
        }
        switch (fill(source)) {
        case STEP_MORE:
            break;
        case STEP_STOPPED:
            return CDL_LOG_SOURCE_STOPPED;
        case STEP_FAILED:
            cdl_problem(problem, source->failure.code, 0, "%s", source->failure.message);
            return CDL_LOG_SOURCE_FAILED;
        case STEP_END:
            if (source->at == source->length)
                return end(source);
            break; /* what is left is the last line */
        }
    }
}

/* The lines that are whole, out of the text that is there. */
static size_t split(const struct cdl_log_source *source, struct cdl_slice *lines, size_t most)
{
    const char *at = source->text + source->at, *end = source->text + source->length, *feed;
    size_t count = 0;
    while (count < most && at < end && (feed = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        lines[count++] = (struct cdl_slice){at, (size_t)(feed - at)};
        at = feed + 1;
    }
    if (count < most && at < end && source->ended)
        lines[count++] = (struct cdl_slice){at, (size_t)(end - at)};
    if (count > 0)
        lines[0] = without_mark(lines[0]);
    return count;
}

size_t cdl_log_source_sample(struct cdl_log_source *source, struct cdl_slice *lines, size_t most)
{
    size_t count = split(source, lines, most);
    while (count < most && source->length < TEXT_BYTES && fill(source) == STEP_MORE)
        count = split(source, lines, most);
    return split(source, lines, most);
}

/* ---- opening ---- */

static bool begins_with(const struct cdl_log_source *source, const char *bytes, size_t length)
{
    return source->raw_length >= length && memcmp(source->raw, bytes, length) == 0;
}

static bool is_zstd(const struct cdl_log_source *source)
{
    /* A frame, or one that is to be skipped. */
    return begins_with(source, "\x28\xb5\x2f\xfd", 4) || (source->raw_length >= 4 && (source->raw[0] & 0xf0) == 0x50 &&
                                                          memcmp(source->raw + 1, "\x2a\x4d\x18", 3) == 0);
}

/* What a file is, by its first bytes. */
static enum step tell_coding(struct cdl_log_source *source)
{
    source->coding = CDL_LOG_PLAIN;
    if (begins_with(source, "\x1f\x8b", 2))
        source->coding = CDL_LOG_GZIP;
    else if (is_zstd(source))
        source->coding = CDL_LOG_ZSTD;
    else if (begins_with(source, "BZh", 3))
        return fail(source, "is compressed with bzip2; decompress it first");
    else if (begins_with(source,
                         "\xfd"
                         "7zXZ",
                         5))
        return fail(source, "is compressed with xz; decompress it first");
    else if (begins_with(source, "\xff\xfe", 2) || begins_with(source, "\xfe\xff", 2))
        return fail(source, "is in UTF-16; convert it to UTF-8 first");
    return STEP_MORE;
}

static bool make_decoder(struct cdl_log_source *source)
{
    if (source->coding == CDL_LOG_PLAIN)
        return true;
    struct cdl_log_decoder *decoder = cdl_allocate(source->allocator, 1, sizeof *decoder, sizeof(void *));
    if (decoder == NULL)
        return false;
    source->decoder = decoder;
    decoder->wanted = ZSTD_FRAME_BYTES;
    if (source->coding == CDL_LOG_ZSTD)
        return (decoder->zstd = ZSTD_createDStream()) != NULL;
    return inflateInit2(&decoder->gzip, 16 + MAX_WBITS) == Z_OK;
}

static int open_file(struct cdl_log_source *source, struct caudal_problem *problem)
{
    struct stat stat;
    const bool is_input = strcmp(source->path, "-") == 0;
    if (is_input)
        source->path = "standard input";
    source->fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(source->path, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0 || fstat(source->fd, &stat) != 0)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%s: %s", source->path, strerrordesc_np(errno));
    if (S_ISDIR(stat.st_mode))
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%s: is a directory", source->path);
    source->has_size = S_ISREG(stat.st_mode);
    source->size = source->has_size ? (uint64_t)stat.st_size : 0;
    return CAUDAL_OK;
}

/* Enough to tell what it is. A pipe gives its bytes as they come. */
static enum step read_first_bytes(struct cdl_log_source *source)
{
    enum step step = STEP_MORE;
    while (step == STEP_MORE && source->raw_length < 8)
        step = read_raw(source);
    return step == STEP_FAILED ? step : tell_coding(source);
}

/* A file that has its buffers. */
static int open_buffered(struct cdl_log_source *source, struct caudal_problem *problem)
{
    const int status = open_file(source, problem);
    if (status != CAUDAL_OK)
        return status;
    if (read_first_bytes(source) == STEP_FAILED)
        return cdl_problem(problem, source->failure.code, 0, "%s", source->failure.message);
    return make_decoder(source) ? CAUDAL_OK : cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
}

int cdl_log_source_open(struct cdl_log_source *source, const char *path, const volatile sig_atomic_t *stop,
                        const struct caudal_allocator *allocator, struct caudal_problem *problem)
{
    *source = (struct cdl_log_source){.path = path, .stop = stop, .allocator = allocator, .fd = -1};
    source->raw = cdl_allocate(allocator, RAW_BYTES, 1, 64);
    source->text = cdl_allocate(allocator, TEXT_BYTES, 1, 64);
    const int status = source->raw != NULL && source->text != NULL
                           ? open_buffered(source, problem)
                           : cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    if (status != CAUDAL_OK)
        cdl_log_source_close(source);
    return status;
}

void cdl_log_source_close(struct cdl_log_source *source)
{
    struct cdl_log_decoder *decoder = source->decoder;
    if (decoder != NULL) {
        ZSTD_freeDStream(decoder->zstd);
        if (source->coding == CDL_LOG_GZIP)
            inflateEnd(&decoder->gzip);
        cdl_release(source->allocator, decoder, 1, sizeof *decoder);
    }
    if (source->fd >= 0)
        close(source->fd);
    cdl_release(source->allocator, source->raw, RAW_BYTES, 1);
    cdl_release(source->allocator, source->text, TEXT_BYTES, 1);
    source->decoder = NULL;
    source->raw = source->text = NULL;
    source->raw_at = source->raw_length = source->at = source->length = 0;
    source->fd = -1;
    source->ended = true;
}
