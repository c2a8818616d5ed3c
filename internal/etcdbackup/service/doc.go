// Package service serves status, requests for snapshots and metrics over HTTPS with client certificates.
package service
