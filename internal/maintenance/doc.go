// Package maintenance decides what happens to a Shoot in its maintenance window. It has no client and no clock: a
// maintenance is a function of a Shoot, the profile of versions it may use, and a time.
//
//   - Window: when a maintenance may run, and when the next one will. Jitter spreads the Shoots.
//   - Decider.Decide: the versions of Kubernetes and machine images, as a list of Items with their reasons. A Cluster
//     is the small part of a Shoot that this needs, so that a plan can play years of windows for thousands of Shoots.
//   - Maintain: everything a maintenance does, as a changed copy of the Shoot: versions, fields that a new version does
//     not know, due rotations of credentials, deferred operations, tasks. Outcome describes it for status and events.
//   - RefusedBy: whether the API server will refuse that.
//   - Schedules: when hibernation schedules act.
//   - DecideReconcile, StartDelay, NextReconcile: when a gardenlet reconciles, if rollouts are confined to windows.
//
// The controllers in internal/controllermanager/shoot carry out what is decided here; plan, lint and versions show it.
package maintenance
