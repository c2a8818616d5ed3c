// Package certificate issues and renews the certificate that a process in a seed serves admission webhooks with, and
// makes its CA known to the API server of the seed.
package certificate
