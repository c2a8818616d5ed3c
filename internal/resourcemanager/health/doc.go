// Package health judges objects of a cluster: whether they are healthy and whether a rollout is still going on. All
// functions are pure; which objects to judge, and when, is the caller's business.
package health
