/* rate-limiter-flexible, by the protocol of bench/peers/PROTOCOL.md: in memory, or through a Redis with ioredis.
 *
 * JavaScript decides in one thread: --threads is how many promises are waited for at once, which is of use through a Redis only. */
"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");

// Packages lie in a folder of their own, which is not beside this file.
const modules = path.resolve(process.env.PEERS_NODE_MODULES || __dirname, "node_modules");
const { RateLimiterMemory, RateLimiterRedis } = require(path.join(modules, "rate-limiter-flexible"));

const DAY_S = 86400;

function readSettings(words) {
    const settings = { keys: 1, draws: 1 << 22, refused: 0, threads: 1, seconds: 1, distribution: "uniform", store: "" };
    for (let i = 0; i < words.length; i += 2) {
        const name = words[i].slice(2);
        if (!(name in settings)) {
            console.error(`peer.js: unknown option ${words[i]}`);
            process.exit(2);
        }
        settings[name] = typeof settings[name] === "number" ? Number(words[i + 1]) : words[i + 1];
    }
    return settings;
}

const keyName = (key) => `user:${String(key).padStart(8, "0")}`;

function weigh(settings) {
    const weights = new Float64Array(settings.keys);
    for (let key = 0; key < settings.keys; key++)
        weights[key] = settings.distribution === "zipf" ? Math.pow(key + 1, -1.1) : 1;
    return weights;
}

function chooseTight(settings, weights) {
    let all = 0, sum = 0;
    return Array.from(weights, (weight) => {
        all += weight;
        const tight = (sum + weight / 2) * 100 <= settings.refused * all;
        sum += tight ? weight : 0;
        return tight;
    });
}

/* The first whose sum is above the value. */
function find(sums, value) {
    let low = 0, high = sums.length - 1;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (sums[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

function drawKeys(settings, weights, tight) {
    let sum = 0, x = 2463534242 | 0;
    const sums = weights.map((weight) => (sum += weight));
    const drawn = new Array(settings.draws), drawnTight = new Array(settings.draws);
    for (let i = 0; i < settings.draws; i++) {
        x ^= x << 13;
        x ^= x >>> 17;
        x ^= x << 5;
        const part = (x >>> 0) / 4294967296;
        const key = settings.distribution === "zipf" ? find(sums, part * sum) : Math.floor(part * settings.keys);
        drawn[i] = keyName(key);
        drawnTight[i] = tight[key];
    }
    return { keys: drawn, tight: drawnTight };
}

function residentBytes() {
    if (global.gc)
        global.gc();
    return Number(fs.readFileSync("/proc/self/statm", "ascii").split(" ")[1]) * 4096;
}

/* A limiter for keys that are open, and one for those that are tight; and what to close. */
function openLimiters(settings) {
    const open = { points: 1e9, duration: DAY_S, keyPrefix: "open" }, tight = { points: 1, duration: DAY_S, keyPrefix: "tight" };
    if (settings.store === "")
        return { of: [new RateLimiterMemory(open), new RateLimiterMemory(tight)], close: () => {} };
    const redis = require(path.join(modules, "ioredis"));
    const Redis = redis.Redis || redis;
    const client = new Redis(settings.store);
    const through = (limit) => new RateLimiterRedis({ ...limit, storeClient: client });
    return { of: [through(open), through(tight)], close: () => client.disconnect() };
}

/* A refusal rejects with what is left of the window; anything else that rejects is an error. */
async function allow(limiter, key) {
    try {
        await limiter.consume(key, 1);
        return true;
    } catch (reason) {
        if (reason instanceof Error)
            throw reason;
        return false;
    }
}

async function run(settings, limiters, drawn, job, until) {
    const atOnce = settings.store === "" ? 256 : 16;
    do {
        for (let i = 0; i < atOnce; i++) {
            const at = job.next;
            job.next = at + 1 === settings.draws ? 0 : at + 1;
            const allowed = await allow(limiters.of[drawn.tight[at] ? 1 : 0], drawn.keys[at]);
            job.refused += allowed ? 0 : 1;
            job.wrong += allowed === drawn.tight[at] ? 1 : 0;
        }
        job.decisions += atOnce;
    } while (process.hrtime.bigint() < until);
}

async function part(settings, limiters, drawn, starts) {
    const jobs = starts.map((next) => ({ next, decisions: 0, refused: 0, wrong: 0 }));
    const before = process.cpuUsage(), began = process.hrtime.bigint();
    const until = began + BigInt(Math.round(settings.seconds * 1e9));
    await Promise.all(jobs.map((job) => run(settings, limiters, drawn, job, until)));
    const seconds = Number(process.hrtime.bigint() - began) / 1e9, spent = process.cpuUsage(before);
    const sum = (key) => jobs.reduce((total, job) => total + job[key], 0);
    console.log(JSON.stringify({ decisions: sum("decisions"), seconds, cpu_seconds: (spent.user + spent.system) / 1e6,
                                 refused: sum("refused"), wrong: sum("wrong") }));
    return jobs.map((job) => job.next);
}

async function main() {
    const settings = readSettings(process.argv.slice(3));
    const weights = weigh(settings), tight = chooseTight(settings, weights);
    const drawn = drawKeys(settings, weights, tight);
    const before = residentBytes();
    const limiters = openLimiters(settings);
    for (let key = 0; key < settings.keys; key++)
        await allow(limiters.of[tight[key] ? 1 : 0], keyName(key));
    const { version } = JSON.parse(fs.readFileSync(path.join(modules, "rate-limiter-flexible", "package.json"), "utf8"));
    console.log(JSON.stringify({ library: process.argv[2], version, rss_before: before, rss_after: residentBytes() }));
    let starts = Array.from({ length: settings.threads }, (_, i) => Math.floor(i * settings.draws / settings.threads));
    for await (const _ of readline.createInterface({ input: process.stdin }))
        starts = await part(settings, limiters, drawn, starts);
    limiters.close();
    process.exit(0); // each key in memory has a timer, which would be waited for
}

main().catch((error) => {
    console.error(`peer.js: ${error.stack}`);
    process.exit(1);
});
