//! The command line, the keys that are drawn, and which limit each is under.

use crate::fail;
use std::time::Duration;

pub struct Settings {
    pub keys: usize,
    pub draws: usize,
    pub refused: u32,
    pub threads: usize,
    pub zipf: bool,
    pub seconds: f64,
    pub single: bool,
}

pub struct Draw {
    pub key: String,
    pub tight: bool,
}

pub fn key_name(key: usize) -> String {
    format!("user:{key:08}")
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> T {
    value.parse().unwrap_or_else(|_| fail(name, &format!("not a number: {value}")))
}

impl Settings {
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Settings {
        let mut settings =
            Settings { keys: 1, draws: 1 << 22, refused: 0, threads: 1, zipf: false, seconds: 1.0, single: false };
        while let Some(name) = arguments.next() {
            if name == "--single" {
                settings.single = true;
                continue;
            }
            let value = arguments.next().unwrap_or_else(|| fail(&name, &"needs a value"));
            match name.as_str() {
                "--keys" => settings.keys = number(&name, &value),
                "--draws" => settings.draws = number(&name, &value),
                "--refused" => settings.refused = number(&name, &value),
                "--threads" => settings.threads = number(&name, &value),
                "--seconds" => settings.seconds = number(&name, &value),
                "--distribution" => settings.zipf = value == "zipf",
                _ => {
                    eprintln!("peers-rust: unknown option {name}");
                    std::process::exit(2)
                }
            }
        }
        settings
    }

    fn weight(&self, key: usize) -> f64 {
        if self.zipf {
            (key as f64 + 1.0).powf(-1.1)
        } else {
            1.0
        }
    }

    /// The limit that is not reached: one token every so often, and as many at once.
    pub fn open(&self) -> (Duration, u32) {
        let every = (self.keys as u64 * 10_000).clamp(1_000_000, 10_000_000_000);
        (Duration::from_nanos(every), (1_000_000_000_000_000_000 / every).min(1_000_000_000) as u32)
    }

    pub fn choose_tight(&self) -> Vec<bool> {
        let (mut all, mut sum) = (0.0, 0.0);
        (0..self.keys)
            .map(|key| {
                let weight = self.weight(key);
                all += weight;
                let tight = (sum + weight / 2.0) * 100.0 <= f64::from(self.refused) * all;
                sum += if tight { weight } else { 0.0 };
                tight
            })
            .collect()
    }

    pub fn draw_keys(&self, tight: &[bool]) -> Vec<Draw> {
        let mut sum = 0.0;
        let sums: Vec<f64> = (0..if self.zipf { self.keys } else { 0 })
            .map(|key| {
                sum += self.weight(key);
                sum
            })
            .collect();
        let mut x = 2_463_534_242_u32;
        (0..self.draws)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 17;
                x ^= x << 5;
                let key = if self.zipf {
                    let value = f64::from(x) / 4_294_967_296.0 * sum;
                    sums.partition_point(|&one| one <= value).min(self.keys - 1)
                } else {
                    (u64::from(x) * self.keys as u64 >> 32) as usize
                };
                Draw { key: key_name(key), tight: tight[key] }
            })
            .collect()
    }
}
