// Package machinecontrollermanager renders the controller that makes, drains and deletes the machines of one Shoot, and
// its permissions in the seed and in the Shoot.
package machinecontrollermanager
