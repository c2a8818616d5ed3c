// Package kinds maps the kinds that the gardenlet uses in Shoots to their resources without asking the Shoot for
// everything that it serves: a description of all kinds is as large as the owner of the Shoot makes it, so that a
// client that needs one can be locked out.
//
// The kinds of Kubernetes are known here. Others are the custom resources whose encryption the owner has configured; of
// those, only their own group is asked for.
package kinds
