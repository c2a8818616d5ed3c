// Package selfupdate makes the gardenlet what the Gardenlet with the name of its Seed says: it renders the chart that
// the Gardenlet names and passes it to the seed's resource-manager, which replaces this gardenlet.
//
// The gardenlet's access to the garden stays what it is. While a new gardenlet does not become ready, this one
// continues, and takes the next change of the Gardenlet. Without a Gardenlet, or once the Seed is being deleted, the
// objects stay and belong to whoever installed them.
package selfupdate
