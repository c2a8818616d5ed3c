// Package controllerinstallation installs extensions in the seed.
//
// Trigger: ControllerInstallations of the own seed, and their ManagedResources. Inputs: the ControllerRegistration, the
// ControllerDeployment with its Helm chart or its place in a registry, the Seed. Outputs: a namespace
// extension-<installation>, and a ManagedResource of class seed in namespace garden. Conditions: Valid, Installed,
// Healthy, Progressing, Required.
// Finalizer: core.gardener.cloud/controllerinstallation, removed when everything is deleted.
package controllerinstallation
