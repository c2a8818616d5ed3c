// Package care looks after the health of Shoots: every minute, and right after an operation, it observes control plane,
// nodes, system components, webhooks and certificates, and writes conditions and constraints.
//
// What is observed is one value (Observed); all judgements on it are pure: the checks (checks.go, nodes.go), the rule
// for problematic webhooks (webhooks.go) and its repair (remediate.go), certificates (constraints.go), and the way a
// condition moves to False only after its threshold (thresholds.go).
//
// Trigger: time, the end of an operation. Writes: status.conditions and status.constraints of the Shoot; webhook
// configurations in the Shoot if the remediator is on.
package care
