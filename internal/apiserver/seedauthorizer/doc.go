// Package seedauthorizer confines each gardenlet to the objects of its own Seed, for reads and for writes.
//
// Graph knows what belongs to which Seed and what is needed for it: a Shoot belongs to its Seed, so its gardenlet needs
// the Shoot's binding and the Secret behind that. Of builds the nodes of the graph from objects, Feed keeps them up to
// date from watches. Decide is a pure function of a Request and the Graph; its table says which verbs on which kinds
// are allowed to whom, and why. What the table does not know is left to other authorizers.
//
// Authorizer puts these together for this API server's own kinds, Webhook for the kinds of Kubernetes, about which the
// kube-apiserver of the garden asks.
package seedauthorizer
