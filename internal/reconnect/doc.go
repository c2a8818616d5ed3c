// Package reconnect bounds the time in which a process resumes its work after an outage of an API server, or of the
// network in between: how long one attempt may hang, and the pauses between attempts.
//
// The defaults of client-go and controller-runtime suit short outages: after a long one, a controller pauses for up to
// 17 minutes, a cache for up to a minute, and a process that does not reach its API servers at its start ends and is
// restarted up to 5 minutes later. [RateLimiter], [NewInformer] and [Wait] replace them; [Bound] makes attempts to
// connect end early, so that none of them lasts far into the time in which the next one would succeed.
package reconnect
