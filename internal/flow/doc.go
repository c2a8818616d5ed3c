// Package flow runs graphs of steps that never block. It knows nothing of what the steps do.
//
// A Step ensures (or removes) one thing and returns an Outcome: done, or waiting with a reason that a user can read. Or
// it returns an error, which may carry codes. Run makes one pass over a Graph: it runs every step whose dependencies
// are done or skipped, independent branches in parallel, and the Result lists the steps that are done, waiting, failed
// and not reached yet. The caller makes another pass when something it watches has changed. Between passes only the
// time at which a step began to wait is kept, in [Timers]; losing it merely restarts the step's limit.
//
// A Graph is data: New orders the steps, Reverse orders them backwards with their Remove functions, Then appends one
// graph to another, and Plan prints the graph for golden files.
package flow
