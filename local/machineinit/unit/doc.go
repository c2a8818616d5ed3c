// Package unit runs services described by unit files in systemd's syntax.
//
// It is what process 1 of a machine of the local cloud uses in place of systemd, and what the landscape uses on the
// host to keep containerd and the cloud daemon alive. Only the part of the syntax that node software needs is
// understood: [Load] and [Spec] name it; other keys are ignored, as systemd ignores keys it does not know.
//
// A [Supervisor] starts, stops and restarts units. [Supervisor.Handler] offers that over HTTP with JSON, usually on a
// Unix socket, and [Client] is its counterpart. Processes come from a [Starter]: [Exec] for ordinary programs, and
// [Reaper] for process 1, which also has to collect orphans.
//
// Unit files are read whenever a unit starts, so a changed file counts from the next start on, and reloading only
// checks that all files can be read.
package unit
