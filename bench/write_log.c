/* Writes an access log in the combined format, of a site with a few busy clients and many quiet ones: write_log LINES CLIENTS > FILE
 *
 * Clients are drawn by Zipf's law (exponent 1.1), as a line is on average 190 bytes long; 2,000 requests come in each second, and a line stands
 * up to three seconds behind its place, for servers write when a request has ended. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PER_SECOND 2000u
#define FIRST_SECOND 1767225600 /* 2026-01-01 */

static uint64_t state = 88172645463325252u;

/* xorshift64* (Marsaglia 2003, Vigna 2016). */
static uint64_t draw(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
}

static double draw_part(void)
{
    return (double)(draw() >> 11) * 0x1p-53;
}

/* A rank of Zipf's law, by inverting the integral of x^-1.1: close enough for traffic. */
static uint32_t draw_client(uint32_t clients)
{
    const double most = pow(clients + 1.0, -0.1);
    return (uint32_t)pow(1 - draw_part() * (1 - most), -10) - 1;
}

static void write_line(uint64_t number, uint32_t clients)
{
    static const char *const agents[] = {
        "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
        "curl/8.11.0"};
    const uint32_t client = draw_client(clients), noise = (uint32_t)(draw() >> 40);
    const time_t second = FIRST_SECOND + (time_t)(number / PER_SECOND) - (time_t)(noise % 16 == 0 ? noise / 16 % 4 : 0);
    char stamp[40];
    struct tm parts;
    gmtime_r(&second, &parts);
    strftime(stamp, sizeof stamp, "%d/%b/%Y:%H:%M:%S +0000", &parts);
    /* The clients' numbers are spread over the addresses, so that neighbours in rank are none in the table. */
    const uint32_t address = client * 2654435761u;
    printf("%u.%u.%u.%u - - [%s] \"GET ", 1 + (address >> 24) % 223, address >> 16 & 255, address >> 8 & 255,
           address & 255, stamp);
    switch (noise % 5) {
    case 0:
        putchar('/');
        break;
    case 1:
        fputs("/v1/items", stdout);
        break;
    case 2:
        printf("/v1/items/%u", noise % 10007);
        break;
    case 3:
        printf("/static/site-%u.css", noise % 13);
        break;
    default:
        printf("/search?q=word%u&page=2", noise % 499);
    }
    printf(" HTTP/1.1\" 200 %u \"https://www.example.org/\" \"%s\"\n", noise % 60000, agents[noise % 3]);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: write_log LINES CLIENTS\n");
        return 2;
    }
    const uint64_t lines = strtoull(argv[1], NULL, 10);
    const uint32_t clients = (uint32_t)strtoul(argv[2], NULL, 10);
    for (uint64_t i = 0; i < lines; i++)
        write_line(i, clients);
    return 0;
}
