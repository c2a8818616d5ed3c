// Package bench measures the performance of Hortus: the API server under load, the scheduler, and a whole landscape.
//
// Three benches share the summaries (Latency), the measurement of processes (Process, Usage) and the tables:
//   - API loads a running server with Shoots, through plain JSON requests, so that any two servers of this API compare.
//   - Scheduler runs the real scheduler on Shoots that it has made for this purpose.
//   - Landscape times a landscape and its Shoots, and weighs their processes.
//
// The first two make their objects under names of their own, keep them away from real schedulers and gardenlets, and
// remove them.
package bench
