package main

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"
)

const day = 24 * time.Hour

type library struct {
	module string // whose version is told
	open   func(*settings) limiterOfKeys
}

var libraries = map[string]library{
	"x-time-rate": {"golang.org/x/time", openRate},
	"go-limiter":  {"github.com/sethvargo/go-limiter", openMemoryStore},
	"redis_rate":  {"github.com/go-redis/redis_rate/v10", openRedisRate},
}

// ---- golang.org/x/time/rate

const shards = 64

type shard struct {
	lock     sync.RWMutex
	limiters map[string]*rate.Limiter
	_        [64]byte
}

type shardedRates struct {
	seed   maphash.Seed
	rates  [2]rate.Limit // open, tight
	bursts [2]int
	shards [shards]shard
}

type singleRate struct {
	limiter *rate.Limiter
}

func openRate(s *settings) limiterOfKeys {
	every, burst := s.open()
	l := &shardedRates{seed: maphash.MakeSeed(), rates: [2]rate.Limit{rate.Every(every), rate.Every(day)}, bursts: [2]int{burst, 1}}
	if s.single {
		of := index(s.refused == 100)
		return singleRate{rate.NewLimiter(l.rates[of], l.bursts[of])}
	}
	for i := range l.shards {
		l.shards[i].limiters = make(map[string]*rate.Limiter)
	}
	return l
}

func index(tight bool) int {
	if tight {
		return 1
	}
	return 0
}

func (l *shardedRates) allow(key string, tight bool) bool {
	shard := &l.shards[maphash.String(l.seed, key)%shards]
	shard.lock.RLock()
	limiter := shard.limiters[key]
	shard.lock.RUnlock()
	if limiter == nil {
		limiter = l.insert(shard, key, index(tight))
	}
	return limiter.Allow()
}

func (l *shardedRates) insert(shard *shard, key string, of int) *rate.Limiter {
	shard.lock.Lock()
	defer shard.lock.Unlock()
	limiter := shard.limiters[key]
	if limiter == nil {
		limiter = rate.NewLimiter(l.rates[of], l.bursts[of])
		shard.limiters[key] = limiter
	}
	return limiter
}

func (l singleRate) allow(string, bool) bool {
	return l.limiter.Allow()
}

// ---- sethvargo/go-limiter: windows, one limit for each store

type memoryStores [2]limiter.Store

func openMemoryStore(*settings) limiterOfKeys {
	var stores memoryStores
	for i, tokens := range []uint64{1e9, 1} {
		store, err := memorystore.New(&memorystore.Config{Tokens: tokens, Interval: day, SweepInterval: day, SweepMinTTL: 2 * day})
		if err != nil {
			fail("go-limiter", err)
		}
		stores[i] = store
	}
	return stores
}

func (l memoryStores) allow(key string, tight bool) bool {
	_, _, _, allowed, err := l[index(tight)].Take(context.Background(), key)
	if err != nil {
		fail("go-limiter", err)
	}
	return allowed
}

// ---- go-redis/redis_rate

type redisRate struct {
	limiter *redis_rate.Limiter
	limits  [2]redis_rate.Limit
}

func openRedisRate(s *settings) limiterOfKeys {
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(s.store, "redis://"), PoolSize: s.threads})
	every, burst := s.open()
	return redisRate{redis_rate.NewLimiter(client), [2]redis_rate.Limit{
		{Rate: 1000, Burst: burst, Period: 1000 * every}, {Rate: 1, Burst: 1, Period: day}}}
}

func (l redisRate) allow(key string, tight bool) bool {
	result, err := l.limiter.Allow(context.Background(), key, l.limits[index(tight)])
	if err != nil {
		fail("redis_rate", err)
	}
	return result.Allowed > 0
}
