//! The libraries. Each has an open limit and a tight one.

use crate::draws::Settings;
use crate::fail;
use ahash::RandomState;
use governor::clock::DefaultClock;
use governor::state::{InMemoryState, NotKeyed};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use limitador::limit::{Context, Limit, Namespace};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use throttlecrab::AdaptiveStore;

const DAY: Duration = Duration::from_secs(86400);

pub trait Limiter: Send + Sync {
    /// Decides on one token of a key.
    fn allow(&self, key: &String, tight: bool) -> bool;
}

pub fn open(library: &str, settings: &Settings) -> (Arc<dyn Limiter>, &'static str) {
    match library {
        "governor" if settings.single => (Arc::new(Single::open(settings)), "0.10.4"),
        "governor" => (Arc::new(Governor::open(settings)), "0.10.4"),
        "throttlecrab" => (Arc::new(Throttlecrab::open(settings)), "0.4.40"),
        "limitador" => (Arc::new(Limitador::open(settings)), "0.14.0"),
        _ => fail(library, &"not a library that this program knows"),
    }
}

// ---- governor

struct Governor {
    open: DefaultKeyedRateLimiter<String>,
    tight: DefaultKeyedRateLimiter<String>,
}

struct Single(RateLimiter<NotKeyed, InMemoryState, DefaultClock>);

fn quota(every: Duration, burst: u32) -> Quota {
    let burst = NonZeroU32::new(burst).expect("a burst is not 0");
    Quota::with_period(every).expect("a period is not 0").allow_burst(burst)
}

impl Governor {
    fn open(settings: &Settings) -> Governor {
        let (every, burst) = settings.open();
        Governor { open: RateLimiter::keyed(quota(every, burst)), tight: RateLimiter::keyed(quota(DAY, 1)) }
    }
}

impl Limiter for Governor {
    fn allow(&self, key: &String, tight: bool) -> bool {
        let limiter = if tight { &self.tight } else { &self.open };
        limiter.check_key(key).is_ok()
    }
}

impl Single {
    fn open(settings: &Settings) -> Single {
        let (every, burst) = settings.open();
        Single(RateLimiter::direct(if settings.refused == 100 { quota(DAY, 1) } else { quota(every, burst) }))
    }
}

impl Limiter for Single {
    fn allow(&self, _: &String, _: bool) -> bool {
        self.0.check().is_ok()
    }
}

// ---- throttlecrab

const SHARDS: usize = 64;

struct Throttlecrab {
    hash: RandomState,
    shards: Vec<Mutex<throttlecrab::RateLimiter<AdaptiveStore>>>,
    /// Burst, tokens and the seconds that they come in: of open and tight.
    limits: [(i64, i64, i64); 2],
}

impl Throttlecrab {
    fn open(settings: &Settings) -> Throttlecrab {
        let (every, burst) = settings.open();
        let store = || AdaptiveStore::with_capacity(settings.keys / SHARDS + 1);
        Throttlecrab {
            hash: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::new(throttlecrab::RateLimiter::new(store()))).collect(),
            limits: [(i64::from(burst), 1_000_000, (every * 1_000_000).as_secs() as i64), (1, 1, DAY.as_secs() as i64)],
        }
    }
}

impl Limiter for Throttlecrab {
    fn allow(&self, key: &String, tight: bool) -> bool {
        let (burst, count, seconds) = self.limits[usize::from(tight)];
        let shard = &self.shards[self.hash.hash_one(key) as usize % SHARDS];
        let mut limiter = shard.lock().expect("no thread panics");
        match limiter.rate_limit(key, burst, count, seconds, 1, SystemTime::now()) {
            Ok((allowed, _)) => allowed,
            Err(error) => fail("throttlecrab", &error),
        }
    }
}

// ---- limitador: windows

struct Limitador {
    limiter: limitador::RateLimiter,
    namespaces: [Namespace; 2],
}

impl Limitador {
    fn open(settings: &Settings) -> Limitador {
        let limiter = limitador::RateLimiter::new(settings.keys as u64 * 2);
        for (namespace, count) in [("open", 1_000_000_000), ("tight", 1)] {
            let variable = "key".try_into().unwrap_or_else(|error| fail("limitador", &error));
            limiter.add_limit(Limit::new(namespace, count, DAY.as_secs(), Vec::new(), vec![variable]));
        }
        Limitador { limiter, namespaces: ["open".into(), "tight".into()] }
    }
}

impl Limiter for Limitador {
    fn allow(&self, key: &String, tight: bool) -> bool {
        let context: Context = HashMap::from([("key".to_string(), key.clone())]).into();
        match self.limiter.check_rate_limited_and_update(&self.namespaces[usize::from(tight)], &context, 1) {
            Ok(result) => !result.limited,
            Err(error) => fail("limitador", &error),
        }
    }
}
