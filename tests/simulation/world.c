#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void world_begin(struct world *world, uint64_t seed, int64_t now_ns, bool tells)
{
    world->now_ns = world->began_ns = now_ns;
    world->random = seed * UINT64_C(0xD1342543DE82EF95) + 1;
    world->count = 0;
    world->planned = 0;
    world->tells = tells;
}

void world_free(struct world *world)
{
    free(world->events);
    *world = (struct world){0};
}

static bool is_before(const struct event *one, const struct event *other)
{
    return one->at_ns != other->at_ns ? one->at_ns < other->at_ns : one->order < other->order;
}

void world_plan(struct world *world, int64_t at_ns, void (*act)(void *subject, uint64_t detail), void *subject,
                uint64_t detail)
{
    if (world->count == world->room) {
        world->room = world->room == 0 ? 1024 : 2 * world->room;
        world->events = realloc(world->events, world->room * sizeof world->events[0]);
        if (world->events == NULL)
            abort();
    }
    const struct event event = {at_ns < world->now_ns ? world->now_ns : at_ns, world->planned++, act, subject, detail};
    size_t place = world->count++;
    while (place > 0 && is_before(&event, &world->events[(place - 1) / 2])) {
        world->events[place] = world->events[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    world->events[place] = event;
}

static struct event take_first(struct world *world)
{
    const struct event first = world->events[0];
    const struct event last = world->events[--world->count];
    size_t place = 0;
    for (size_t child; (child = 2 * place + 1) < world->count; place = child) {
        child += child + 1 < world->count && is_before(&world->events[child + 1], &world->events[child]);
        if (!is_before(&world->events[child], &last))
            break;
        world->events[place] = world->events[child];
    }
    world->events[place] = last;
    return first;
}

bool world_step(struct world *world, int64_t until_ns)
{
    if (world->count == 0 || world->events[0].at_ns > until_ns)
        return false;
    const struct event event = take_first(world);
    world->now_ns = event.at_ns;
    event.act(event.subject, event.detail);
    return true;
}

void world_tell(const struct world *world, const char *format, ...)
{
    if (!world->tells)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("# %14.6f ms  ", (double)(world->now_ns - world->began_ns) / 1e6);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

int64_t chance_magnitude(struct world *world, int64_t least, int64_t most)
{
    unsigned doublings = 0;
    while (least << (doublings + 1) <= most && doublings < 40)
        doublings++;
    const int64_t from = least << chance_below(world, doublings + 1u);
    const int64_t to = from > most / 2 ? most : 2 * from - 1;
    return chance_between(world, from, to < from ? from : to);
}
