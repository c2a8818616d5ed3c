// Package bench measures what Hortus promises: the API server under load, the scheduler, and a whole landscape.
//
// Three benches share the summaries (Latency), the look at processes (Process, Usage) and the tables:
//   - API loads a running server with Shoots, through plain JSON requests, so that any two servers of this API compare.
//   - Scheduler lets the real scheduler place Shoots that it has made for the purpose.
//   - Landscape times a landscape and its Shoots, and weighs their processes.
//
// The first two make what they need under names of their own, let no real scheduler or gardenlet near it, and remove
// it.
package bench
