// Package gardenaccess renews the tokens by which components in the seed reach the garden.
//
// Trigger: the Seed's annotation gardener.cloud/operation=renew-garden-access-secrets. Inputs: Secrets in the seed that
// request a token of the garden. Outputs: their renewal timestamps are removed, so that the token requestor replaces
// the tokens; then the annotation is removed.
package gardenaccess
