// Package flow runs graphs of steps that never block. It knows nothing of what the steps do.
//
// A Step ensures (or removes) one thing and answers with an Outcome: done, or waiting with a reason that a user can
// read, or it returns an error, which may carry codes. Run makes one pass over a Graph: every step whose dependencies
// are done or skipped runs, independent branches in parallel, and the Result tells what is done, waiting, failed and
// not reached yet. The caller makes another pass when something it watches has changed. Nothing is remembered between
// passes but when a step began to wait, and losing that only restarts the clock of a limit.
//
// A Graph is data: New collects the steps in order, Reverse walks them backwards with their Remove functions, Then puts
// graphs behind each other, and String prints the plan for golden files.
package flow
