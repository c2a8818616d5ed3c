// Package health decides whether objects of a cluster are healthy and whether a rollout is still in progress. All
// functions are pure; the caller chooses which objects to check, and when.
package health
