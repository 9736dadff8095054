//! Limiters written in Rust, by the protocol of bench/peers/PROTOCOL.md:
//!
//!     governor      keyed, its state in the DashMap that comes with it
//!     throttlecrab  its store behind a lock takes one caller at a time, so there are 64 of them, each behind one
//!     limitador     its store in memory; each question is a context of variables, as its service makes one of a descriptor

mod draws;
mod libraries;

use draws::{Draw, Settings};
use libraries::Limiter;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a thread counts.
struct Job {
    next: usize,
    decisions: u64,
    refused: u64,
    wrong: u64,
    began: Instant,
    ended: Instant,
}

pub fn fail(what: &str, why: &dyn std::fmt::Display) -> ! {
    eprintln!("peers-rust: {what}: {why}");
    std::process::exit(1)
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_else(|error| fail("/proc/self/statm", &error));
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

/// The processor time of this thread; the libraries have no threads of their own.
fn thread_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_else(|error| fail("schedstat", &error));
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e9)
}

fn run(limiter: &dyn Limiter, draws: &[Draw], start: usize, seconds: f64) -> (Job, f64) {
    let now = Instant::now();
    let mut job = Job { next: start, decisions: 0, refused: 0, wrong: 0, began: now, ended: now };
    let length = Duration::from_secs_f64(seconds);
    while job.ended - job.began < length {
        for _ in 0..256 {
            let draw = &draws[job.next];
            job.next = if job.next + 1 == draws.len() { 0 } else { job.next + 1 };
            let allowed = limiter.allow(&draw.key, draw.tight);
            job.refused += u64::from(!allowed);
            job.wrong += u64::from(allowed == draw.tight);
        }
        job.decisions += 256;
        job.ended = Instant::now();
    }
    (job, thread_seconds())
}

fn part(limiter: &Arc<dyn Limiter>, draws: &Arc<Vec<Draw>>, next: &mut [usize], seconds: f64) {
    let threads: Vec<_> = next
        .iter()
        .map(|&start| {
            let (limiter, draws) = (Arc::clone(limiter), Arc::clone(draws));
            std::thread::spawn(move || run(&*limiter, &draws, start, seconds))
        })
        .collect();
    let jobs: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("a thread ends well")).collect();
    for (place, (job, _)) in next.iter_mut().zip(&jobs) {
        *place = job.next;
    }
    let sum = |count: fn(&Job) -> u64| jobs.iter().map(|(job, _)| count(job)).sum::<u64>();
    let began = jobs.iter().map(|(job, _)| job.began).min().expect("there is a thread");
    let ended = jobs.iter().map(|(job, _)| job.ended).max().expect("there is a thread");
    println!(
        "{{\"decisions\": {}, \"seconds\": {:.6}, \"cpu_seconds\": {:.6}, \"refused\": {}, \"wrong\": {}}}",
        sum(|job| job.decisions),
        (ended - began).as_secs_f64(),
        jobs.iter().map(|(_, cpu)| cpu).sum::<f64>(),
        sum(|job| job.refused),
        sum(|job| job.wrong)
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let library = arguments.next().unwrap_or_else(|| fail("usage", &"peers-rust LIBRARY --keys N ...; see PROTOCOL.md"));
    let settings = Settings::read(arguments);
    let tight = settings.choose_tight();
    let draws = Arc::new(settings.draw_keys(&tight));
    let before = resident_bytes();
    let (limiter, version) = libraries::open(&library, &settings);
    for (key, &is_tight) in tight.iter().enumerate() {
        limiter.allow(&draws::key_name(key), is_tight);
    }
    println!(
        "{{\"library\": \"{library}\", \"version\": \"{version}\", \"rss_before\": {before}, \"rss_after\": {}}}",
        resident_bytes()
    );
    let mut next: Vec<usize> = (0..settings.threads).map(|i| i * settings.draws / settings.threads).collect();
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            break;
        }
        part(&limiter, &draws, &mut next, settings.seconds);
    }
}
