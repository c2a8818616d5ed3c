// Package webhook serves the admission webhooks of the resource-managers of seeds and Shoots. Package configuration has
// the list of webhooks and the objects that register them with the API server; [Register] adds their handlers.
//
// In a seed, the resource-manager issues and renews the serving certificate itself. The certificate for a Shoot is
// issued by the gardenlet.
package webhook
