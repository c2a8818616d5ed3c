// Package webhook serves the admission webhooks of the resource-manager of a seed. Package configuration lists them,
// with the objects by which the API server reaches them; [Register] has what answers.
//
// [Certificates] makes and renews the certificate that they are served with, and gives its CA to the API server.
package webhook
