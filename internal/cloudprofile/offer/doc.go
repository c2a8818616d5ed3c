// Package offer compares Shoots with what their CloudProfile offers besides versions, which are cloudprofile's:
// regions, zones, machine types, volumes, limits. All is pure; the API server's admission and hortus validate share it.
//
//   - Validate: what a new or changed Shoot requests and the profile does not offer.
//   - InUse: what a Shoot has from before and another profile does not offer.
package offer
