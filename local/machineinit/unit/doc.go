// Package unit runs services described by unit files in systemd's syntax.
//
// Process 1 of machines of the local cloud uses it in place of systemd, and the landscape uses it on the host to keep
// containerd and the cloud daemon running. Only the part of the syntax that node software needs is understood: [Load]
// and [Spec] name it; other keys are ignored, as systemd ignores keys it does not know.
//
// A [Supervisor] starts, stops and restarts units. [Supervisor.Handler] offers that over HTTP with JSON, usually on a
// Unix socket, and [Client] is its counterpart. Processes come from a [Starter]: [Exec] for ordinary programs, and
// [Reaper] for process 1, which also has to collect orphans.
//
// Unit files are read whenever a unit starts, so changes take effect at the next start, and reloading only checks that
// all files can be read.
package unit
