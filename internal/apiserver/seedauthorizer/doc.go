// Package seedauthorizer confines each gardenlet to the objects of its own Seed, for reads and writes.
//
// Graph records which objects belong to which Seed, and which objects these need: a Shoot belongs to its Seed, so its
// gardenlet needs the Shoot's binding and the binding's Secret. Of computes the nodes of the graph from objects, Feed
// updates them from watches. Decide is a pure function of a Request and the Graph; its table lists the verbs that
// gardenlets and extensions may use on each resource, and the condition. Resources that are not in the table are left
// to other authorizers.
//
// Authorizer combines these for this API server's own kinds. Webhook serves the kube-apiserver of the garden, for
// Kubernetes' own kinds.
package seedauthorizer
