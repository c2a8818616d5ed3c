// Package kinds maps the kinds that the gardenlet uses in Shoots to their resources without reading the complete
// discovery information of the Shoot: its size depends on what the Shoot's owner installs, so that a client that reads
// it can be locked out.
//
// The kinds of Kubernetes are known here. The others are custom resources for which the owner has configured
// encryption; for these, only their own group is discovered.
package kinds
