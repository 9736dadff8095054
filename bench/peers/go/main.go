// Limiters written in Go, by the protocol of bench/peers/PROTOCOL.md:
//
//	x-time-rate   golang.org/x/time/rate, a Limiter for each key in a map of 64 shards, as applications write it
//	go-limiter    github.com/sethvargo/go-limiter, its store in memory
//	redis_rate    github.com/go-redis/redis_rate, through a Redis
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Decides on one token of a key.
type limiterOfKeys interface {
	allow(key string, tight bool) bool
}

// What is asked for on the command line.
type settings struct {
	keys, draws, refused, threads, batch int
	distribution, store                  string
	seconds                              float64
	single                               bool
}

type draw struct {
	key   string
	tight bool
}

// What a thread counts, in cache lines of its own.
type job struct {
	next, decisions, refused, wrong int
	began, ended                    time.Time
	_                               [128]byte
}

func fail(what string, why any) {
	fmt.Fprintf(os.Stderr, "peers-go: %s: %v\n", what, why)
	os.Exit(1)
}

func keyName(key int) string {
	return fmt.Sprintf("user:%08d", key)
}

func (s *settings) weight(key int) float64 {
	if s.distribution == "zipf" {
		return math.Pow(float64(key)+1, -1.1)
	}
	return 1
}

// The limit that is not reached: one token every so often, and as many at once.
func (s *settings) open() (every time.Duration, burst int) {
	every = min(max(time.Duration(s.keys)*10*time.Microsecond, time.Millisecond), 10*time.Second)
	return every, min(int(int64(1e18)/int64(every)), 1e9)
}

func (s *settings) chooseTight() []bool {
	tight, all, sum := make([]bool, s.keys), 0.0, 0.0
	for key := range tight {
		weight := s.weight(key)
		all += weight
		if (sum+weight/2)*100 <= float64(s.refused)*all {
			tight[key] = true
			sum += weight
		}
	}
	return tight
}

func (s *settings) drawKeys(tight []bool) []draw {
	var sums []float64
	if s.distribution == "zipf" {
		sums = make([]float64, s.keys)
		sum := 0.0
		for key := range sums {
			sum += s.weight(key)
			sums[key] = sum
		}
	}
	var bytes strings.Builder // of all keys, so that they lie side by side
	bytes.Grow(s.draws * 13)
	draws := make([]draw, s.draws)
	x := uint32(2463534242)
	for i := range draws {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		key := int(uint64(x) * uint64(s.keys) >> 32)
		if sums != nil {
			value := float64(x) / 4294967296 * sums[s.keys-1]
			key = min(sort.Search(s.keys, func(at int) bool { return sums[at] > value }), s.keys-1)
		}
		bytes.WriteString(keyName(key))
		draws[i].tight = tight[key]
	}
	for i := range draws {
		draws[i].key = bytes.String()[i*13 : (i+1)*13]
	}
	return draws
}

func residentBytes() int {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail("/proc/self/statm", err)
	}
	var size, resident int
	fmt.Sscan(string(text), &size, &resident)
	return resident * os.Getpagesize()
}

func processorTime() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail("getrusage", err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func (j *job) run(s *settings, limiter limiterOfKeys, draws []draw) {
	atOnce := 256
	if s.store != "" {
		atOnce = 16
	}
	j.began = time.Now()
	j.ended = j.began
	for length := time.Duration(s.seconds * 1e9); j.ended.Sub(j.began) < length; j.ended = time.Now() {
		for range atOnce {
			drawn := &draws[j.next]
			j.next++
			if j.next == len(draws) {
				j.next = 0
			}
			allowed := limiter.allow(drawn.key, drawn.tight)
			if !allowed {
				j.refused++
			}
			if allowed == drawn.tight {
				j.wrong++
			}
		}
		j.decisions += atOnce
	}
}

func part(s *settings, limiter limiterOfKeys, draws []draw, next []int) {
	jobs := make([]job, s.threads)
	before := processorTime()
	var waiting sync.WaitGroup
	for i := range jobs {
		jobs[i].next = next[i]
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			jobs[i].run(s, limiter, draws)
		}()
	}
	waiting.Wait()
	spent := processorTime() - before
	var sum job
	for i := range jobs {
		one := &jobs[i]
		next[i] = one.next
		sum.decisions += one.decisions
		sum.refused += one.refused
		sum.wrong += one.wrong
		if i == 0 || one.began.Before(sum.began) {
			sum.began = one.began
		}
		if one.ended.After(sum.ended) {
			sum.ended = one.ended
		}
	}
	fmt.Printf("{\"decisions\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"refused\": %d, \"wrong\": %d}\n",
		sum.decisions, sum.ended.Sub(sum.began).Seconds(), spent, sum.refused, sum.wrong)
}

func readSettings(arguments []string) *settings {
	s := new(settings)
	flags := flag.NewFlagSet("peers-go", flag.ExitOnError)
	flags.IntVar(&s.keys, "keys", 1, "")
	flags.IntVar(&s.draws, "draws", 1<<22, "")
	flags.IntVar(&s.refused, "refused", 0, "percent")
	flags.IntVar(&s.threads, "threads", 1, "")
	flags.StringVar(&s.distribution, "distribution", "uniform", "or zipf")
	flags.Float64Var(&s.seconds, "seconds", 1, "of a part")
	flags.BoolVar(&s.single, "single", false, "one limiter, no keys")
	flags.StringVar(&s.store, "store", "", "URL of a Redis")
	flags.Parse(arguments)
	return s
}

func main() {
	if len(os.Args) < 2 {
		fail("usage", "peers-go LIBRARY --keys N ...; see bench/peers/PROTOCOL.md")
	}
	s := readSettings(os.Args[2:])
	library, known := libraries[os.Args[1]]
	if !known {
		fail(os.Args[1], "not a library that this program knows")
	}
	tight := s.chooseTight()
	draws := s.drawKeys(tight)
	before := residentBytes()
	limiter := library.open(s)
	for key := range tight {
		limiter.allow(keyName(key), tight[key])
	}
	fmt.Printf("{\"library\": \"%s\", \"version\": \"%s\", \"rss_before\": %d, \"rss_after\": %d}\n",
		os.Args[1], versionOf(library.module), before, residentBytes())
	next := starts(s)
	for input := bufio.NewReader(os.Stdin); ; {
		if _, err := input.ReadString('\n'); err != nil {
			break
		}
		part(s, limiter, draws, next)
	}
	runtime.KeepAlive(limiter)
}

// The draw that each thread starts at.
func starts(s *settings) []int {
	next := make([]int, s.threads)
	for i := range next {
		next[i] = i * s.draws / s.threads
	}
	return next
}

func versionOf(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, one := range info.Deps {
			if one.Path == module {
				return one.Version
			}
		}
	}
	return "unknown"
}
