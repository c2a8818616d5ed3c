// Package care checks the health of Shoots: every minute by default, and right after an operation, it observes the
// control plane, nodes, system components, webhooks and certificates, and writes conditions and constraints.
//
// All observations are in one value (Observed); all decisions on it are pure: the checks (checks.go, nodes.go), the
// rule for problematic webhooks (webhooks.go) and their repair (remediate.go), certificates (constraints.go), and the
// transition of a condition to False only after its threshold (thresholds.go).
//
// Trigger: time, the end of an operation. Writes: status.conditions and status.constraints of the Shoot; webhook
// configurations in the Shoot if the remediator is enabled.
package care
