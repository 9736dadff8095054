/* Any bytes as a TZif file, read at the end of memory of exactly their size.
 *
 * A zone that is accepted has offsets within bounds at every instant; the instant at which its clock shows something is the first that
 * does, and windows of its calendar hold what they were asked for and follow one another. The end of the input is the instant. */
#include <stdlib.h>
#include <string.h>

#include "policy/calendar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_instant(const struct cdl_zone *zone, int64_t local_s)
{
    const int64_t first_s = cdl_zone_instant_s(zone, local_s);
    const int32_t offset_s = cdl_zone_offset_s(zone, first_s);
    require(offset_s > -CDL_ZONE_OFFSET_MAX_S && offset_s < CDL_ZONE_OFFSET_MAX_S);
    require(first_s + offset_s >= local_s);
    require(first_s - 1 + cdl_zone_offset_s(zone, first_s - 1) < local_s);
}

static void check_windows(const struct cdl_zone *zone, int64_t now_s)
{
    for (enum cdl_unit unit = CDL_UNIT_DAY; unit < CDL_UNITS; unit++) {
        const struct cdl_calendar calendar = {*zone, unit, 1};
        const struct cdl_calendar_window window = cdl_calendar_window(&calendar, now_s);
        require(window.begins_s <= now_s && now_s < window.ends_s);
        require(cdl_calendar_window(&calendar, window.ends_s).begins_s == window.ends_s);
        require(cdl_calendar_period_s(window) > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cdl_arena arena;
    struct cdl_zone zone;
    const char *why;
    int64_t instant_s = 0;
    if (size < sizeof instant_s)
        return 0;
    size -= sizeof instant_s;
    memcpy(&instant_s, data + size, sizeof instant_s);
    instant_s %= INT64_C(1) << 40;
    char *bytes = malloc(size + 1);
    require(bytes != NULL);
    memcpy(bytes + 1, data, size);
    cdl_arena_init(&arena, NULL);
    if (cdl_zone_read((struct cdl_slice){bytes + 1, size}, &arena, &zone, &why)) {
        check_instant(&zone, instant_s);
        check_windows(&zone, instant_s);
    }
    cdl_arena_free(&arena);
    free(bytes);
    return 0;
}
