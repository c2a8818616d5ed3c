// Package diff is the command that shows what an edit of a Shoot would do, before it is made: whether the API server
// refuses it, which fields change, which parts of the control plane get new pods, and which pools get other machines.
// The hashes that decide about machines are those of the gardenlet and of worker extensions.
//
// [Of] and [Restarts] are pure. The API server applies the edit in a dry run, so that defaults, admission and quotas
// are those of the real edit.
package diff
