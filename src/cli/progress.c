#include "cli/progress.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/writer.h"
#include "caudal/clock.h"
#include "replay/report_numbers.h"

#define LOOK_EVERY 1024u
#define DRAW_EVERY_NS 200000000
#define CELLS 24u
#define ERASE "\r\033[K"

static int64_t now(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

void cdl_progress_begin(struct cdl_progress *progress, bool quiet)
{
    const int64_t now_ns = now();
    *progress = (struct cdl_progress){
        .shown = !quiet && isatty(STDERR_FILENO), .begin_ns = now_ns, .drawn_ns = now_ns, .next_count = LOOK_EVERY};
}

bool cdl_progress_is_due(struct cdl_progress *progress, uint64_t count)
{
    if (!progress->shown || count < progress->next_count)
        return false;
    progress->next_count = count + LOOK_EVERY;
    return now() - progress->drawn_ns >= DRAW_EVERY_NS;
}

static void write_bar(struct cdl_writer *line, double share)
{
    cdl_write(line, CDL_SLICE("["));
    for (unsigned cell = 0; cell < CELLS; cell++)
        cdl_write_text(line, cell < (unsigned)(share * CELLS) ? "#" : "-");
    cdl_writef(line, "]  %2.0f %%   ", share * 100);
}

static void write_left(struct cdl_writer *line, double passed_s, double share)
{
    if (share > 0)
        cdl_writef(line, "   %s left", cdl_show_duration((int64_t)(passed_s / share - passed_s) * 1000000000).text);
}

/* A line that is broken into two could not be erased: it ends before the terminal's edge. All in it is ASCII. */
static struct cdl_slice fitting(struct cdl_slice line)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return line;
    return cdl_slice_head(line, cdl_min_u64(line.length, size.ws_col - 1u));
}

void cdl_progress_draw(struct cdl_progress *progress, uint64_t count, const char *nouns, uint64_t done, uint64_t total)
{
    progress->drawn_ns = now();
    const double passed_s = (double)(progress->drawn_ns - progress->begin_ns) / 1e9;
    const double share = total == 0 ? 0 : done < total ? (double)done / (double)total : 1;
    char bytes[256];
    struct cdl_writer line = cdl_writer_on(bytes, sizeof bytes);
    if (total > 0) {
        write_bar(&line, share);
    } else {
        cdl_write_text(&line, cdl_show_number(count).text);
        cdl_writef(&line, " %s   ", nouns);
    }
    cdl_write_text(&line, cdl_show_short((double)count / passed_s).text);
    cdl_writef(&line, " %s/s", nouns);
    if (total > 0)
        write_left(&line, passed_s, share);
    fprintf(stderr, ERASE "%.*s", CDL_SLICE_ARG(fitting(cdl_written(&line))));
    fflush(stderr);
    progress->is_drawn = true;
}

void cdl_progress_erase(struct cdl_progress *progress)
{
    if (progress->is_drawn)
        fputs(ERASE, stderr);
    fflush(stderr);
    progress->is_drawn = false;
}
