// Package maintenance decides what happens to a Shoot in its maintenance time window. It has no client and no clock: a
// maintenance is a function of a Shoot, the profile with the available versions, and a time.
//
//   - Window: when a maintenance may run, and when the next one will. Jitter spreads the Shoots.
//   - Decider.Decide: the versions of Kubernetes and machine images, as a list of Items with their reasons. A Cluster
//     is the small part of a Shoot that this requires, so that a plan can simulate years of windows for thousands of
//     Shoots.
//   - Maintain: everything a maintenance does, as a changed copy of the Shoot: versions, removal of fields that a new
//     version does not support, due credentials rotations, deferred operations, tasks. Outcome describes it for status
//     and events.
//   - RefusedBy: whether the API server will refuse the result.
//   - Schedules: when hibernation schedules fire.
//   - DecideReconcile, StartDelay, NextReconcile: when a gardenlet reconciles, if rollouts are confined to windows.
//
// The controllers in internal/controllermanager/shoot apply these decisions; plan, lint and versions display them.
package maintenance
