// Package bastion has the provider make the machines of Bastions.
//
// Trigger: Bastions of the garden whose spec.seedName is the own seed; their Shoots; the extension Bastions that belong
// to them. Outputs: in the control plane namespace the extension Bastion of the same name, whose user data lets the key
// of the Bastion connect to SSH servers through the machine, and nothing else; in the garden the status: the address,
// the condition BastionReady and the observed generation. While the Shoot cannot have a bastion, for example because it
// is hibernated or moves to another seed, there is no extension Bastion, and the condition says why. Finalizer:
// gardener, until the extension Bastion is gone.
package bastion
